"""The rows that a command is about: of a data set with a name, or of the user's own file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlgm.cli.errors import UsageError
from dlgm.cli.options import load_data, schema_of, settings_mistakes, split_of, users_mistakes
from dlgm.cli.tables import is_file, load_table, refuse_for_named

if TYPE_CHECKING:
    import numpy as np

    from dlgm.artifact import SavedModel
    from dlgm.data import Schema, Table
    from dlgm.model import AbstractObservation

SHARE = "0.1"  # of a user's rows, held out for validation


@dataclass(frozen=True)
class Part:
    """Rows as a model sees them, and the schema that they were encoded with, if any."""

    values: "np.ndarray"
    mask: "np.ndarray | None" = None
    schema: "Schema | None" = None
    notes: tuple[str, ...] = ()  # what the user should know about the file

    def __len__(self) -> int:
        return len(self.values)

    def first(self, number: int | None) -> "Part":
        """So many rows at most."""
        mask = None if self.mask is None else self.mask[:number]
        return Part(self.values[:number], mask, self.schema, self.notes)

    def log_jacobian(self) -> "np.ndarray":
        """For each row, what to add to its log density for one in the user's own units."""
        import numpy as np

        return np.zeros(len(self)) if self.schema is None else self.schema.log_jacobian(self.values, self.mask)

    def shift(self) -> float:
        """The mean of that over rows."""
        return float(self.log_jacobian().mean())


@dataclass(frozen=True)
class Rows:
    """What `dlgm fit` needs of its data."""

    train: Part
    valid: Part
    observation: "AbstractObservation"
    described: dict[str, Any]  # for the model file
    table: "Table | None"  # None: a data set with a name


def rows_to_fit(
    data: str,
    *,
    family: str | None,
    valid: str | None,
    seed: int,
    schema: Path | None,
    types: list[str] | None,
    ordinal: list[str] | None,
    drop: list[str] | None,
    **reading: Any,
) -> Rows:
    """Rows to train on and to validate with, and the family that describes them; or a message."""
    from dlgm.model import make_observation

    if not is_file(data):
        refuse_for_named(data, valid=valid, schema=schema, type=types, ordinal=ordinal, drop=drop, **reading)
        dataset = load_data(data)
        with settings_mistakes():
            observation = make_observation(family or dataset.family, columns=dataset.train.shape[1])
        return Rows(Part(dataset.train), Part(dataset.valid), observation, dataset.described(), None)

    from dataclasses import replace

    table = load_table(data, schema=schema, types=types, ordinal=ordinal, drop=drop, **reading)
    if family is not None:
        with users_mistakes():
            table = replace(table, schema=table.schema.with_family(family))
    train, held_out = _divide(table, valid or SHARE, seed, reading)
    observation = table.schema.observation()
    return Rows(_part(train), _part(held_out), observation, table.described(), table)


def _divide(table: "Table", valid: str, seed: int, reading: dict[str, Any]) -> "tuple[Table, Table]":
    """The table in two by a share, or the table and another file."""
    from dlgm.data.splits import split_at_random

    try:
        share = float(valid)
    except ValueError:
        if not is_file(valid):
            raise UsageError(f"--valid: expected a share of the rows, such as 0.1, or a file; got {valid!r}.") from None
        return table, load_table(valid, schema=table.schema, **reading)
    try:
        train, held_out = split_at_random(len(table), share, seed)
    except ValueError as error:
        raise UsageError(f"--valid: {error}") from None
    return table.take(train), table.take(held_out)


def rows_to_score(data: str, saved: "SavedModel", split: str | None, limit: int | None, **reading: Any) -> Part:
    """Rows to ask a model about, in the coding that it was trained with; or a message."""
    schema = schema_of(saved)
    if not is_file(data):
        refuse_for_named(data, **reading)
        rows = split_of(load_data(data), split or "test", limit, saved)
        if schema is None:
            return Part(rows)
        with users_mistakes():
            return Part(*schema.encode(rows), schema)
    if split is not None:
        raise UsageError(f"--split: only for data sets with a name; all rows of {data} are scored.")
    # What meant a hole in the training file means one here.
    reading["missing"] = [*saved.data.get("missing", []), *(reading.get("missing") or [])]
    return _part(load_table(data, schema=schema or _schema_of(saved), **reading)).first(limit)


def _schema_of(saved: "SavedModel") -> "Schema":
    """The schema of a model that was trained on a data set with a name: bits or pixels."""
    from dlgm.data.schema import schema_of_kind

    observation = saved.model.generative.observation
    kind = {"bernoulli": "binary", "discretised-logistic": "pixel"}.get(observation.name)
    if kind is None:
        raise UsageError(f"The model's file does not say how its {observation.name} columns are read from a file.")
    return schema_of_kind(kind, observation.columns)


def _part(table: "Table") -> Part:
    return Part(table.values, table.mask, table.schema, table.notes)

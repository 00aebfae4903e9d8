"""The rows that a command is about: of a data set with a name, or of the user's own file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlgm.cli.errors import UsageError
from dlgm.cli.options import load_data, schema_of, settings_mistakes, split_of, users_mistakes
from dlgm.cli.tables import is_file, is_large, load_large, load_table, refuse_for_named

if TYPE_CHECKING:
    import numpy as np

    from dlgm.artifact import SavedModel
    from dlgm.data import RowSource, Schema, Table
    from dlgm.data.stream import LargeTable
    from dlgm.model import AbstractObservation

SHARE = "0.1"  # of a user's rows, held out for validation
MOST_HELD_OUT = 10_000  # of rows that stay on the disk
_MADE_BINARY = "{} is grey and the model knows black and white, so pixels brighter than half count as white"


@dataclass(frozen=True)
class Part:
    """Rows as a model sees them, and the schema that they were encoded with, if any."""

    values: "np.ndarray | RowSource"  # a source, if they are read as they are needed
    mask: "np.ndarray | None" = None
    schema: "Schema | None" = None
    notes: tuple[str, ...] = ()  # what the user should know about the file

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def first(self, number: int | None) -> "Part":
        """So many rows at most, in memory; without a number, all, where they are."""
        if number is None:
            return self
        return self._taken(slice(0, number))

    def _taken(self, rows: slice) -> "Part":
        import numpy as np

        if not isinstance(self.values, np.ndarray):
            with users_mistakes():
                return Part(*self.values.read(np.arange(*rows.indices(len(self)))), self.schema, self.notes)
        return Part(self.values[rows], None if self.mask is None else self.mask[rows], self.schema, self.notes)

    def log_jacobian(self) -> "np.ndarray":
        """For each row, what to add to its log density for one in the user's own units."""
        import numpy as np

        if self.schema is None:
            return np.zeros(len(self))
        parts = [self] if isinstance(self.values, np.ndarray) else map(self._taken, _slices(len(self)))
        return np.concatenate([self.schema.log_jacobian(part.values, part.mask) for part in parts])

    def shift(self) -> float:
        """The mean of that over rows; over some thousand, evenly spaced, of a source."""
        import numpy as np

        if isinstance(self.values, np.ndarray):
            return float(self.log_jacobian().mean())
        return self._taken(slice(0, None, -(-len(self) // 5_000))).shift()

    def check(self, observation: "AbstractObservation") -> None:
        """Refuse rows that the family does not take. Those of a source are looked at when they are read."""
        import numpy as np

        if isinstance(self.values, np.ndarray):
            observation.check(self.values, self.mask)


def _slices(number: int, size: int = 4096) -> "list[slice]":
    return [slice(start, min(start + size, number)) for start in range(0, number, size)]


@dataclass(frozen=True)
class Rows:
    """What `dlgm fit` needs of its data."""

    train: Part
    valid: Part
    observation: "AbstractObservation"
    described: dict[str, Any]  # for the model file
    table: "Table | LargeTable | None"  # None: a data set with a name


def rows_to_fit(
    data: str,
    *,
    family: str | None,
    valid: str | None,
    seed: int,
    offline: bool,
    quiet: bool,
    schema: Path | None,
    types: list[str] | None,
    ordinal: list[str] | None,
    drop: list[str] | None,
    chunk_rows: int | None,
    **reading: Any,
) -> Rows:
    """Rows to train on and to validate with, and the family that describes them; or a message."""
    from dlgm.model import make_observation

    if not is_file(data):
        asked = {"valid": valid, "schema": schema, "type": types, "ordinal": ordinal, "drop": drop}
        refuse_for_named(data, **asked, **{"chunk-rows": chunk_rows}, **reading)
        dataset = load_data(data, offline=offline, quiet=quiet)
        with settings_mistakes():
            observation = make_observation(family or dataset.family, columns=dataset.train.shape[1])
        return Rows(Part(dataset.train), Part(dataset.valid), observation, dataset.described(), None)

    from dataclasses import replace

    if is_large(data, chunk_rows):
        large = load_large(data, schema=schema, types=types, ordinal=ordinal, drop=drop, **reading)
        if family is not None:
            with users_mistakes():
                large = replace(large, schema=large.schema.with_family(family))
        train_part, valid_part = _divide_large(large, valid or SHARE, seed, reading)
        return Rows(train_part, valid_part, large.schema.observation(), large.described(), large)
    table = load_table(data, schema=schema, types=types, ordinal=ordinal, drop=drop, **reading)
    if schema is None and any(column.power is not None for column in table.schema.columns):
        from dlgm.sizing import straightened_if_better

        better = straightened_if_better(table.schema, table.frame(), seed=seed)
        if better != table.schema:
            table = replace(load_table(data, schema=better, drop=drop, **reading), notes=table.notes)
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
        return table, _other_table(valid, table.schema, reading)
    try:
        train, held_out = split_at_random(len(table), share, seed)
    except ValueError as error:
        raise UsageError(f"--valid: {error}") from None
    return table.take(train), table.take(held_out)


def _divide_large(table: "LargeTable", valid: str, seed: int, reading: dict[str, Any]) -> tuple[Part, Part]:
    """The same for rows that stay on the disk. Those held out are read: a share of them, but not too many."""
    import numpy as np

    from dlgm.data.stream import WithoutRows

    try:
        share = float(valid)
    except ValueError:
        return Part(table.source, None, table.schema, table.notes), _part(_other_table(valid, table.schema, reading))
    if not 0 < share < 1 or len(table) < 2:
        raise UsageError(f"--valid: expected a share of the rows between 0 and 1, or a file; got {valid}.")
    number = min(MOST_HELD_OUT, max(1, int(share * len(table))))
    held_out = np.sort(np.random.default_rng(seed).choice(len(table), number, replace=False))
    train = Part(WithoutRows(table.source, held_out), None, table.schema, table.notes)
    with users_mistakes():
        return train, Part(*table.source.read(held_out), table.schema)


def _other_table(valid: str, schema: "Schema", reading: dict[str, Any]) -> "Table":
    if not is_file(valid):
        raise UsageError(f"--valid: expected a share of the rows, such as 0.1, or a file; got {valid!r}.") from None
    return load_table(valid, schema=schema, **reading)


def rows_to_ask(
    data: str,
    saved: "SavedModel",
    split: str | None,
    limit: int | None,
    *,
    offline: bool = False,
    quiet: bool = False,
    **reading: Any,
) -> Part:
    """Rows to ask a model about, in the coding that it was trained with; or a message."""
    from dlgm.data.dataset import binarised

    if not is_file(data):
        refuse_for_named(data, **reading)
        loaded, schema = load_data(data, offline=offline, quiet=quiet), schema_of(saved)
        notes: tuple[str, ...] = ()
        if schema is None and loaded.family != "bernoulli" and saved.model.generative.observation.name == "bernoulli":
            loaded, notes = binarised(loaded), (_MADE_BINARY.format(data),)
        rows = split_of(loaded, split or "test", limit, saved)
        if schema is None:
            return Part(rows, notes=notes)
        with users_mistakes():
            return Part(*schema.encode(rows), schema)
    if split is not None:
        raise UsageError(f"--split: only for data sets with a name; all rows of {data} are taken.")
    schema = schema_of(saved) or _schema_of(saved)
    # What meant a hole in the training file means one here.
    reading["missing"] = [*saved.data.get("missing", []), *(reading.get("missing") or [])]
    if is_large(data, None):
        large = load_large(data, schema=schema, **reading)
        return Part(large.source, None, schema, large.notes).first(limit)
    return _part(load_table(data, schema=schema, **reading)).first(limit)


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

"""From rows to a schema: the kinds that the user has given, the rest by rule, and what is learnt of each column."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from dlgm.data.errors import SchemaError, listed
from dlgm.data.schema.arrays import BITS, kind_of_array, learn_array, observed_in
from dlgm.data.schema.cells import Cells, plain
from dlgm.data.schema.column import BY_COLUMN, Category, Column
from dlgm.data.schema.entries import generated_names
from dlgm.data.schema.rules import is_all_but_constant, kind_of, learn
from dlgm.data.schema.schema import Schema, as_frame, refuse_other_width, refuse_twins
from dlgm.names import closest

EVERY = "*"  # in place of a column's name: all of them

Given = dict[str, Column | None]  # what is known of each column before its cells are looked at


def infer_schema(
    rows: Any,
    *,
    schema: Schema | None = None,
    types: Mapping[str, str] | None = None,
    ordinal: Mapping[str, Sequence[Category]] | None = None,
    missing: Sequence[str] = (),
    is_image: bool = False,
) -> Schema:
    """The schema of a DataFrame or an array: kinds, categories, units.

    The kind of a DataFrame's column follows from its cells (`dlgm.data.schema.rules.kind_of`); the columns of an array
    all have one kind (`dlgm.data.schema.arrays.kind_of_array`). A column without a single observed cell is refused.

    **Arguments**

    - `rows`: a DataFrame, or an array of shape `(n, x)`, whose columns are called v0, v1, ..
    - `schema`: what is known already, and which columns to keep; the rest is learnt.
    - `types`: kinds by column name, in place of what the rules say; `"*"` stands for every column.
    - `ordinal`: the categories of ordinal columns, lowest first, by column name.
    - `missing`: values to be taken as holes.
    - `is_image`: whether an array's rows are images, so that whole numbers are pixels.

    >>> import numpy as np
    >>> [column.kind for column in infer_schema(np.array([[0, 200], [3, 255]], np.uint8)).columns]
    ['pixel', 'pixel']
    """
    if isinstance(rows, np.ndarray):
        refuse_other_width(rows, len(schema.columns) if schema else rows.shape[-1])
        names = schema.names if schema else generated_names(rows.shape[1])
    else:
        names = schema.names if schema else [str(name) for name in rows.columns]
        refuse_twins(names)
    if not names or not len(rows):
        raise SchemaError("Expected at least one row and one column; got none.")
    given = _given(names, schema, types or {}, ordinal or {})
    if isinstance(rows, np.ndarray):
        return Schema(_of_array(rows, given, missing, is_image))
    return Schema(_of_frame(as_frame(rows, names), given, missing))


def schema_of_kind(kind: str, columns: int) -> Schema:
    """The schema of arrays of bits or 8-bit pixels, about which nothing has to be learnt."""
    categories = BITS if kind == "binary" else None
    return Schema(tuple(Column(name, kind, None, categories, dtype="uint8") for name in generated_names(columns)))


def _given(
    names: Sequence[str],
    schema: Schema | None,
    types: Mapping[str, str],
    ordinal: Mapping[str, Sequence[Category]],
) -> Given:
    given: Given = dict.fromkeys(names) if schema is None else {column.name: column for column in schema.columns}
    for name in (*types, *ordinal):
        if name not in given and name != EVERY:
            raise SchemaError(f"Expected the name of a column; got {name!r}.{closest(name, names)} {_there_are(names)}")
    for name, kind in sorted(types.items(), key=lambda pair: pair[0] != EVERY):  # a single column's word comes last
        given |= {own: Column(own, kind) for own in (names if name == EVERY else [name])}
    return given | {name: Column(name, "ordinal", categories=tuple(order)) for name, order in ordinal.items()}


def _of_frame(frame: Any, given: Given, missing: Sequence[str]) -> tuple[Column, ...]:
    every = [plain(name, frame[name], missing) for name in given]
    _refuse_unseen([cells.name for cells in every if not cells.observed.any()])
    return tuple(learn(given[cells.name] or _by_rule(cells), cells) for cells in every)


def _by_rule(cells: Cells) -> Column:
    cells.refuse_infinite()
    kind = kind_of(cells)
    return Column(cells.name, kind, "student-t" if kind == "real" and is_all_but_constant(cells.seen) else None)


def _of_array(
    values: Shaped[np.ndarray, "n x"], given: Given, missing: Sequence[str], is_image: bool
) -> tuple[Column, ...]:
    mask = observed_in(values, missing)
    if mask is not None:
        _refuse_unseen([list(given)[i] for i in np.flatnonzero(~mask.any(axis=0))])
    kind = kind_of_array(values, mask, is_image)
    told = [column or Column(name, kind) for name, column in given.items()]
    first = told[0]
    whole = first.kind == kind if first.kind == "binary" else first.kind not in BY_COLUMN
    if whole and all(column == Column(column.name, first.kind, first.family) for column in told):
        return learn_array(list(given), first.kind, first.family, values, mask)
    return _of_frame(as_frame(values, list(given)), {column.name: column for column in told}, missing)


def _refuse_unseen(names: Sequence[str]) -> None:
    if names:
        raise SchemaError(
            f"column {names[0]!r}: expected at least one observed cell; all are missing"
            + (f" (and in {len(names) - 1:,} more: {listed(list(names[1:]))})" if len(names) > 1 else "")
            + ". There is nothing to learn from it: leave it out (drop, --drop)."
        )


def _there_are(names: Sequence[str]) -> str:
    return f"There are: {listed(list(names))}."

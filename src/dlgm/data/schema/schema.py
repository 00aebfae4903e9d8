"""A table's schema: its columns, and rows in and out of the numbers that a model sees."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from dlgm.data.errors import SchemaError, first_twin, listed
from dlgm.data.schema.arrays import BITS, encode_array, observed_in
from dlgm.data.schema.cells import plain
from dlgm.data.schema.coding import as_cells, decode_column, encode_column, in_units, log_slopes
from dlgm.data.schema.column import BY_COLUMN, CODED, KINDS, Column
from dlgm.data.schema.entries import columns_from_entries, entries_of
from dlgm.names import closest

_MARGIN = 0.001  # of a column's range: what lies this far outside is brought back to its end


@dataclass(frozen=True)
class Schema:
    r"""The columns of a table, each with its kind, family, categories and units.

    A model sees numbers $y$ (`encode`), the user cells $v$ (`decode`); see `Column` for how the one becomes the other.
    A model's log density is one of $y$. `log_jacobian` is what takes it to the user's units:
    $\log p(v) = \log p(y) + \sum_i \log |dy_i / dv_i|$, over the observed cells of real, positive and heaped columns
    (of these, where they are not at the heap, which has a probability in any units).

    >>> import pandas as pd
    >>> from dlgm.data import infer_schema
    >>> frame = pd.DataFrame({"city": ["Rome", None, "Oslo"], "height": [1.5, 2.5, -0.5]})
    >>> schema = infer_schema(frame)
    >>> [(column.name, column.kind, column.family) for column in schema.columns]
    [('city', 'binary', 'bernoulli'), ('height', 'real', 'gaussian')]
    >>> values, mask = schema.encode(frame)
    >>> values[:, 0].tolist(), mask[:, 0].tolist()
    ([1.0, 0.0, 0.0], [True, False, True])
    >>> schema.decode(values, mask)["city"].tolist()
    ['Rome', nan, 'Oslo']
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("A schema needs at least one column; got none.")
        refuse_twins(self.names)

    @cached_property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be learnt from rows."""
        return all(column.complete for column in self.columns)

    @cached_property
    def kind(self) -> str | None:
        """The kind that all columns share, where an array of them can be handled as a whole; otherwise None."""
        kinds = {(column.kind, column.categories or BITS) for column in self.columns}
        kind = self.columns[0].kind
        if any(column.power is not None for column in self.columns):
            return None
        return kind if kinds == {(kind, BITS)} and kind not in BY_COLUMN else None

    def encode(
        self, rows: Any, *, missing: Sequence[str] = ()
    ) -> tuple[Shaped[np.ndarray, "n x"], Bool[np.ndarray, "n x"] | None]:
        """Rows as a model's numbers, and which cells were observed (None if all were).

        **Arguments**

        - `rows`: a DataFrame, whose columns are found by name (their order does not matter, others are left out), or
          an array with the schema's columns in order.
        - `missing`: values to be taken as holes, beside NaN and pandas' own.

        **Returns** values of shape `(n, x)`, zero in holes: uint8 if all are codes or pixels, else float32.
        """
        if not self.complete:
            name = next(column.name for column in self.columns if not column.complete)
            raise SchemaError(f"column {name!r}: something has still to be learnt from rows; see infer_schema.")
        array = rows if isinstance(rows, np.ndarray) else self._as_array(rows)
        if isinstance(rows, np.ndarray):
            refuse_other_width(rows, len(self.columns))
        if array is not None and self.kind is not None:
            mask = observed_in(array, missing)
            return encode_array(self.columns, array, mask), mask
        frame = as_frame(rows, self.names)
        small = all(
            column.kind == "pixel" or (column.kind in CODED and len(column.categories or ()) <= 256)
            for column in self.columns
        )
        values = np.empty((len(frame), len(self.columns)), np.uint8 if small else np.float32)
        mask = np.ones(values.shape, bool)
        for i, column in enumerate(self.columns):
            cells = plain(column.name, frame[column.name], missing)
            values[:, i], mask[:, i] = encode_column(column, cells), cells.observed
        return values, None if mask.all() else mask

    def decode(self, values: Any, mask: Any = None, *, rounded: bool = True, limited: bool = False) -> Any:
        """A model's numbers as a DataFrame in the user's columns, categories, dtypes and units.

        Holes (where `mask` is false) are missing values. With `rounded` false, numbers are left between the values that
        a cell can have, as means are; the mean of a column of texts is its nearest category. With `limited`, numbers
        stay in the range that each column had where its schema was learnt, which is for draws.
        """
        import pandas as pd

        y = np.asarray(values)
        refuse_other_width(y, len(self.columns))
        mask = None if mask is None else np.asarray(mask, bool)
        decoded = {
            column.name: decode_column(column, y[:, i], None if mask is None else mask[:, i], rounded, limited)
            for i, column in enumerate(self.columns)
        }
        return pd.DataFrame(decoded, copy=False)

    def to_frame(self, units: Any, mask: Any = None, *, rounded: bool = True) -> Any:
        """Numbers in the user's units, as `in_units` gives them, as a DataFrame; see `decode`."""
        import pandas as pd

        v = np.asarray(units, np.float64)
        refuse_other_width(v, len(self.columns))
        mask = None if mask is None else np.asarray(mask, bool)
        cells = {
            column.name: as_cells(column, v[:, i], None if mask is None else mask[:, i], rounded)
            for i, column in enumerate(self.columns)
        }
        return pd.DataFrame(cells, copy=False)

    def log_jacobian(self, values: Any, mask: Any = None) -> Float[np.ndarray, " n"]:
        r"""$\sum_i \log |dy_i / dv_i|$ over each row's observed cells: what to add to a log density of encoded rows."""
        y = np.asarray(values)
        total = np.zeros(len(y))
        for i, column in enumerate(self.columns):
            own = log_slopes(column, y[:, i])
            total += own if mask is None else np.where(np.asarray(mask, bool)[:, i], own, 0.0)
        return total

    def in_units(self, values: Any, *, limited: bool = True) -> Float[np.ndarray, "*lead x"]:
        """A model's numbers as numbers in the user's units, codes as they are: what means are taken of.

        With `limited`, they stay in the columns' ranges.
        """
        y = np.asarray(values)
        return np.stack([self.in_units_of(i, y[..., i], limited=limited) for i in range(len(self.columns))], axis=-1)

    def in_units_of(self, index: int, values: Any, *, limited: bool = True) -> Float[np.ndarray, "..."]:
        """`in_units` of one column; without `limited`, wherever the column's range ends."""
        return in_units(self.columns[index], np.asarray(values), limited)

    def beyond(self, index: int, units: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Whether numbers of a column in the user's units lie outside its range, by more than a thousandth of it.

        What is less far out is brought back to the end: the column may well have been cut off there.
        """
        column = self.columns[index]
        if column.low is None or column.high is None:
            return np.zeros(np.shape(units), bool)
        margin = _MARGIN * (column.high - column.low)
        return (column.high > column.low) & ((units < column.low - margin) | (units > column.high + margin))

    def observation(self) -> Any:
        """The observation family for these columns: one if they share it, else a `Composite` by column."""
        from dlgm.model import Composite, make_observation  # data is read without the rest; only this needs it

        # Columns of one family are together, ordered codes of all lengths too; categories by their number. A column
        # with a single category has room for a second: the families need two.
        places: dict[tuple[str | None, int], list[int]] = {}
        for i, column in enumerate(self.columns):
            kinds = len(column.categories or ()) if column.kind == "categorical" else 0
            places.setdefault((column.family, kinds), []).append(i)
        parts = []
        for (family, _), at in places.items():
            each = [max(2, len(self.columns[i].categories or ())) for i in at]
            classes: Any = each[0] if len(set(each)) == 1 else each
            codes = {"num_classes": classes} if family in ("categorical", "ordinal") else {}
            parts.append((make_observation(family, len(at), **codes), at))
        return parts[0][0] if len(parts) == 1 else Composite(parts)

    def with_family(self, family: str) -> "Schema":
        """The schema with this family in all columns that can have it; refused if none can.

        A heaped column with cells below its heap stays as it is when the others become heaped-log-normal.
        """
        if family not in (known := [name for names in KINDS.values() for name in names]):
            raise SchemaError(f"Expected a family: {', '.join(known)}; got {family!r}.{closest(family, known)}")
        if not any(family in KINDS[column.kind] for column in self.columns):
            kinds = sorted({column.kind for column in self.columns})
            raise SchemaError(f"No column can have the family {family}: their kinds are {', '.join(kinds)}.")
        return Schema(
            tuple(
                dataclasses.replace(column, family=family) if column.can_have(family) else column
                for column in self.columns
            )
        )

    def without_units(self) -> "Schema":
        """The schema without units, shapes and ranges, which are learnt anew from the rows it is next used with."""
        return Schema(tuple(column.without_units() for column in self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"version": 1, "columns": entries_of(self.columns)}

    @classmethod
    def from_dict(cls, described: Any) -> "Schema":
        """The schema that `to_dict` described. Unknown entries and wrong values are refused by name."""
        return cls(columns_from_entries(described))

    def _as_array(self, rows: Any) -> Shaped[np.ndarray, "n x"] | None:
        """A frame as one array, if that costs nothing in meaning: all columns are here, and plain numbers."""
        names = [str(name) for name in rows.columns]
        if self.kind is None or names != self.names or any(not isinstance(t, np.dtype) for t in rows.dtypes):
            return None
        array = rows.to_numpy()
        return array if array.dtype.kind in "biuf" else None


def as_frame(rows: Any, names: Sequence[str]) -> Any:
    """Rows as a DataFrame with text names that has all of the columns `names`, each once."""
    import pandas as pd

    if isinstance(rows, np.ndarray):
        return pd.DataFrame(rows, columns=list(names))
    found = [str(name) for name in rows.columns]
    refuse_twins(found)
    known = set(found)
    if absent := [name for name in names if name not in known]:
        raise SchemaError(
            f"Expected a column {absent[0]!r}; got {listed(found)}.{closest(absent[0], found)}"
            + (f" ({len(absent):,} columns are missing.)" if len(absent) > 1 else "")
        )
    return rows.set_axis(found, axis=1)


def refuse_twins(names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    for name in first_twin(names):
        raise SchemaError(f"column {name!r}: expected every column name once; got it twice. Rename one of them.")


def refuse_other_width(rows: Shaped[np.ndarray, "..."], width: int) -> None:
    """Refuse an array that has not one value for each column."""
    if rows.ndim != 2 or rows.shape[1] != width:
        raise SchemaError(f"Expected rows of {width:,} values, shape (n, {width}); got shape {rows.shape}.")

"""A user's column as plain numpy: numbers or texts, and which of its cells were observed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from dlgm.data.errors import CellError, SchemaError
from dlgm.data.schema.column import Category

LARGEST = 1e100  # a float64 can hold the squares of many such numbers, and nobody has measured a larger one
FINITE = "finite numbers (up to 1e100)"
# What text files say for a truth value; the cells of such a column are 0 and 1.
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column. `values` are float64 or, if `is_text`, strings; what stands in holes means nothing."""

    name: str
    values: Shaped[np.ndarray, " n"]
    observed: Bool[np.ndarray, " n"]
    dtype: str  # pandas' name for the type they came in
    declared: tuple[Category, ...] | None = None  # the categories of a pandas categorical
    ordered: bool = False  # whether those have an order

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return self.values.dtype == object

    @property
    def is_truth(self) -> bool:
        """Whether they are truth values."""
        return self.dtype.startswith("bool")

    @property
    def seen(self) -> Shaped[np.ndarray, " m"]:
        """The observed values."""
        return self.values[self.observed]

    def as_numbers(self, expected: str = "numbers") -> "Cells":
        """The same cells with texts read as numbers; one that is none is refused."""
        if not self.is_text:
            return self
        numbers = to_numbers(self.values)
        self.refuse(np.isnan(numbers), expected)
        seen = numbers[self.observed]
        return Cells(self.name, numbers, self.observed, "int64" if (seen == np.floor(seen)).all() else "float64")

    def refuse_infinite(self) -> None:
        """Refuse infinity, and what is as good as that."""
        if not self.is_text:
            self.refuse(~is_finite(self.values), FINITE)

    def refuse(self, bad: Bool[np.ndarray, " n"], expected: str, advice: str = "Mend it or mark it missing.") -> None:
        """A `SchemaError` about the first observed cell that is bad, if there is one."""
        bad = bad & self.observed
        if bad.any():
            row = int(np.argmax(bad))
            raise CellError(self.name, expected, shown(self.values[row]), row, advice)


def is_finite(values: Num[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Where a number is neither NaN nor beyond what can be computed with."""
    return np.abs(values) <= LARGEST if values.dtype.itemsize >= 8 else np.isfinite(values)


def to_numbers(texts: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Texts as numbers, truth values as 0 and 1; NaN for everything else."""
    import pandas as pd

    words = pd.Series(texts, dtype=object)
    numbers = pd.to_numeric(words, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    truths = words.map(lambda word: _TRUTH.get(word.lower(), np.nan) if isinstance(word, str) else np.nan)
    return np.where(np.isnan(numbers), truths.to_numpy(np.float64), numbers)


def shown(value: Any) -> str:
    """A cell as the user would write it."""
    if isinstance(value, str):
        return repr(value)
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def plain(name: str, column: Any, missing: Sequence[str] = ()) -> Cells:
    """A pandas column as `Cells`; `missing` are further values to be taken as holes.

    Columns of anything but numbers, truth values and texts are refused by name.
    """
    import pandas as pd

    dtype, declared, ordered = str(column.dtype), None, False
    if isinstance(column.dtype, pd.CategoricalDtype):
        declared = tuple(to_python(value) for value in column.cat.categories)
        ordered = bool(column.cat.ordered)
        column = column.astype(object)
    observed = column.notna().to_numpy(bool)
    content = pd.api.types.infer_dtype(column, skipna=True)
    if content in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        values = np.full(len(column), np.nan)
        values[observed] = column[observed].to_numpy(np.float64)
        if content == "boolean" and dtype == "object":
            dtype = "boolean"
    elif content in ("string", "empty"):
        values = np.where(observed, column.to_numpy(object), "")
    else:
        raise SchemaError(
            f"column {name!r}: expected numbers, truth values or texts; got {content} ({dtype}). "
            "Turn it into one of these, or leave the column out (drop, --drop)."
        )
    cells = Cells(name, values, observed, dtype, declared, ordered)
    return without(cells, missing)


def without(cells: Cells, missing: Sequence[str]) -> Cells:
    """The same cells, with those that hold one of the values `missing` no longer observed."""
    if not missing:
        return cells
    tokens: Any = list(missing) if cells.is_text else [number for number in map(as_number, missing) if number == number]
    observed = cells.observed & ~np.isin(cells.values, tokens)
    return Cells(cells.name, cells.values, observed, cells.dtype, cells.declared, cells.ordered)


def as_number(text: str) -> float:
    """A text as a number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def to_python(value: Any) -> Category:
    """A numpy value as Python's own, for JSON."""
    return value.item() if isinstance(value, np.generic) else value

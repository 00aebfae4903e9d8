"""One column in and out: the user's cells to the numbers that a model sees, and back."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from dlgm.data.schema.cells import Cells, shown, to_numbers
from dlgm.data.schema.column import CODED, Column, is_at
from dlgm.data.schema.shape import bend, log_slope, straighten

# Beyond this, float32 no longer holds every whole number.
MOST_COUNTS = 2**24
_SUPPORTS = {  # what is expected of cells beside being finite, and what to do where they are not
    "positive": ("numbers above zero in a positive column", "Mend it, or type the column as real."),
    "heaped": (
        "numbers not below the heap in a heaped-log-normal column",
        "Mend it, or give the column the family heaped-gaussian in a schema file.",
    ),
    "count": (f"counts 0, 1, 2, .. up to {MOST_COUNTS:,}", "Type the column as real, or mend it."),
    "pixel": ("8-bit pixels, whole numbers from 0 to 255", "Mend it or mark it missing."),
}
_NULLABLE = {"bool": "boolean"} | {
    name: name.replace("int", "Int").replace("uI", "UI") for n in (8, 16, 32, 64) for name in (f"int{n}", f"uint{n}")
}


def encode_column(column: Column, cells: Cells) -> Float[np.ndarray, " n"]:
    """The numbers for a model, zero in holes. A cell that the column cannot hold is refused with its row."""
    y = _codes(column, cells) if column.kind in CODED else _numbers(column, cells)
    return np.where(cells.observed, y, 0.0)


def _numbers(column: Column, cells: Cells) -> Float[np.ndarray, " n"]:
    cells = cells.as_numbers(f"numbers in a {column.kind} column")
    v = cells.values
    cells.refuse_infinite()
    if column.kind == "real":
        return _shaped(column, (v - (column.center or 0.0)) / (column.scale or 1.0))
    cells.refuse(unknown_in(column, cells), *_SUPPORTS[column.kind])
    if column.kind == "heaped":
        heap = column.center or 0.0
        return np.where(is_at(heap, v), 0.0, (v - heap) / (column.scale or 1.0))
    if column.kind != "positive":
        return v
    share = v / (column.scale or 1.0)
    return share if column.power is None else np.exp(_shaped(column, np.log(np.maximum(share, 1e-300))))


def unknown_in(column: Column, cells: Cells) -> Bool[np.ndarray, " n"]:
    """The observed cells that a model has no number for: none of the column's categories, or none of its kind."""
    if column.kind in CODED:
        return cells.observed & (codes_of(column, cells) < 0)
    v = cells.as_numbers(f"numbers in a {column.kind} column").values
    if column.kind == "positive":
        return cells.observed & (v <= 0)
    if column.kind == "heaped" and column.family == "heaped-log-normal":
        heap = column.center or 0.0
        return cells.observed & (v < heap) & ~is_at(heap, v)
    if column.kind in ("real", "heaped"):
        return np.zeros(len(v), bool)
    most = MOST_COUNTS if column.kind == "count" else 255
    return cells.observed & ((v < 0) | (v != np.floor(v)) | (v > most))


def codes_of(column: Column, cells: Cells) -> Int[np.ndarray, " n"]:
    """The place of each cell among the column's categories, -1 for what is none of them."""
    import pandas as pd

    categories = column.categories or ()
    if any(isinstance(value, str) for value in categories):
        keys = pd.Index(categories, dtype=object)
        values = cells.values if cells.is_text else np.array([_text(v, cells.is_truth) for v in cells.values], object)
    else:
        keys = pd.Index([float(value) for value in categories])
        values = to_numbers(cells.values) if cells.is_text else cells.values
    return np.asarray(keys.get_indexer(values))


def _codes(column: Column, cells: Cells) -> Float[np.ndarray, " n"]:
    codes, categories = codes_of(column, cells), column.categories or ()
    names = [value if isinstance(value, str) else shown(value) for value in categories]
    few = ", ".join(names[:8]) + (f", .. ({len(names)} in all)" if len(names) > 8 else "")
    if column.is_fractional:
        expected = f"one of the values {few}"
        advice = "Mend it or mark it missing; if other numbers may come, fit anew with the column typed as real."
    else:
        expected = f"one of the categories {few}"
        advice = "Mend it or mark it missing; a new category needs a schema that has it, and a new fit."
    cells.refuse(codes < 0, expected, advice)
    return codes.astype(np.float64)


def _text(value: float, truth: bool) -> str:
    """A number as the text it was probably written as."""
    return str(bool(value)) if truth and value == value else shown(value) if value == value else ""


def decode_column(
    column: Column, y: Num[np.ndarray, " n"], observed: Bool[np.ndarray, " n"] | None, rounded: bool, limited: bool
) -> Any:
    """`as_cells` of a model's numbers; with `limited`, in the column's range."""
    return as_cells(column, in_units(column, y, limited), observed, rounded)


def as_cells(column: Column, v: Float[np.ndarray, " n"], observed: Bool[np.ndarray, " n"] | None, rounded: bool) -> Any:
    """Numbers in the user's units (codes, where `in_units` has left them) as a pandas column of the user's dtype.

    There are holes where `observed` is false. With `rounded` false, numbers stay between the values the column can
    hold: means, say.
    """
    import pandas as pd

    holes = np.zeros(len(v), bool) if observed is None else ~observed
    dtype, categories = column.dtype or "float64", None if column.is_fractional else column.categories
    if categories is not None and not (rounded or isinstance(categories[0], str) or column.kind == "categorical"):
        v = np.interp(v, np.arange(len(categories)), np.asarray(categories, np.float64))
    elif categories is not None:
        codes = np.clip(np.rint(np.where(holes, 0, v)), 0, len(categories) - 1).astype(int)
        if dtype == "category":
            ordered = column.kind == "ordinal"
            return pd.Series(pd.Categorical.from_codes(np.where(holes, -1, codes), list(categories), ordered=ordered))
        cells = np.array([*categories, None], object)[np.where(holes, -1, codes)]
        return pd.Series(cells, dtype=object).astype(nullable(dtype) if holes.any() else dtype)
    return _cast(v, holes, dtype, rounded, bool(column.whole))


def in_units(column: Column, y: Num[np.ndarray, "..."], limited: bool) -> Float[np.ndarray, "..."]:
    """A model's numbers in the user's units; codes as they are, unless they stand for numbers that are not whole."""
    y = y.astype(np.float64)
    if column.is_fractional:
        return np.interp(y, np.arange(len(column.categories or ())), np.asarray(column.categories, np.float64))
    if column.kind in CODED:
        return y
    if column.power is not None:
        z = np.log(np.maximum(y, 1e-300)) if column.kind == "positive" else y
        z = bend(z * (column.spread or 1.0) + (column.shift or 0.0), column.power)
        y = np.exp(np.minimum(z, 700.0)) if column.kind == "positive" else z
    v = y * (column.scale or 1.0) + (column.center or 0.0)
    return np.clip(v, column.low, column.high) if limited else v


def from_inputs(column: Column, inputs: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """A model's numbers, from what a recognition model sees of a column that it sees as one number."""
    if column.kind == "positive":
        return np.exp(inputs)
    if column.kind == "count":
        return np.expm1(inputs)
    if column.family == "heaped-log-normal":
        return np.expm1(np.maximum(inputs, 0.0))
    if column.kind in ("ordinal", "pixel"):  # seen from -1 to 1
        return (inputs + 1) * (max(2, len(column.categories or range(256))) - 1) / 2
    return inputs


def log_slopes(column: Column, y: Num[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    r"""$\log |dy / dv|$ at each of a model's numbers."""
    if column.kind in CODED or column.scale is None:
        return np.zeros(len(y))
    flat = np.full(len(y), -np.log(column.scale))
    if column.kind == "heaped":  # the heap has a probability, whatever the units
        return np.where(y == 0, 0.0, flat)
    if column.power is None:
        return flat
    y = y.astype(np.float64)
    own = np.log(np.maximum(y, 1e-300)) if column.kind == "positive" else y
    spread = column.spread or 1.0
    z = bend(own * spread + (column.shift or 0.0), column.power)
    # For positive numbers dy/dv = y / v times the slope on the log axis, and v = scale e^z.
    return flat + log_slope(z, column.power) - np.log(spread) + (own - z if column.kind == "positive" else 0.0)


def _shaped(column: Column, z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    if column.power is None:
        return z
    return (straighten(z, column.power) - (column.shift or 0.0)) / (column.spread or 1.0)


def _cast(v: Float[np.ndarray, " n"], holes: Bool[np.ndarray, " n"], dtype: str, rounded: bool, whole: bool) -> Any:
    import pandas as pd

    v = np.where(holes, np.nan, np.rint(v) if whole and rounded else v)
    base = dtype.split("[")[0].lower()
    if not rounded or base in ("object", "category", "str", "string"):
        return pd.Series(v)
    if base.startswith("bool"):
        v = np.where(holes, v, v >= 0.5)
    elif "int" in base:
        limits = np.iinfo(base)
        # The largest 64-bit integers are no float64: one step down is.
        v = np.clip(np.rint(v), float(limits.min), np.nextafter(float(limits.max), 0) if "64" in base else limits.max)
    if holes.any():
        return pd.Series(v).astype(nullable(dtype))
    return pd.Series(v.astype(base) if base == dtype else v).astype(dtype)


def nullable(dtype: str) -> str:
    """The nearest dtype that can have missing values."""
    return _NULLABLE.get(dtype, dtype)

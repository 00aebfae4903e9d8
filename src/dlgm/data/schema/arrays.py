"""Arrays whose columns are all one kind of thing, handled as a whole: no column is looked at by itself.

Rows are taken a block at a time, so that nothing of the array's size is held beside it and its code.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped

from dlgm.data.errors import CellError
from dlgm.data.schema.cells import FINITE, as_number, is_finite, shown
from dlgm.data.schema.coding import MOST_COUNTS
from dlgm.data.schema.column import Column
from dlgm.data.schema.rules import CONSTANT, WIDE, is_positive

_CELLS = 1_000_000  # in a block
BITS = (0, 1)
# What every observed cell must be, and the test of it, by kind.
_SUPPORTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "real": (FINITE, is_finite),
    "positive": ("numbers above zero (up to 1e100)", lambda v: (v > 0) & is_finite(v)),
    "count": (f"counts 0, 1, 2, .. up to {MOST_COUNTS:,}", lambda v: (v >= 0) & (v <= MOST_COUNTS) & (v % 1 == 0)),
    "binary": ("0 or 1", lambda v: (v == 0) | (v == 1)),
    "pixel": ("8-bit pixels, whole numbers from 0 to 255", lambda v: (v >= 0) & (v <= 255) & (v % 1 == 0)),
}

Array = Shaped[np.ndarray, "n x"]
Mask = Bool[np.ndarray, "n x"]


def blocks(values: Array) -> Iterator[slice]:
    """Slices of rows of about a million cells."""
    step = max(1, _CELLS // max(1, values.shape[1]))
    return (slice(start, start + step) for start in range(0, len(values), step))


def observed_in(values: Array, missing: Sequence[str] = ()) -> Mask | None:
    """Where a cell is neither NaN nor one of the values `missing`; None if that is everywhere."""
    tokens = [number for number in map(as_number, missing) if number == number]
    mask = None
    for rows in blocks(values) if tokens or values.dtype.kind == "f" else ():
        block = values[rows]
        holes = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, bool)
        for token in tokens:
            holes |= block == token
        if holes.any():
            mask = np.ones(values.shape, bool) if mask is None else mask
            mask[rows] = ~holes
    return mask


def kind_of_array(values: Array, mask: Mask | None, is_image: bool) -> str:
    """The kind that all columns of an array share: an array is one kind of thing, where a table is not.

    1. Nothing but 0 and 1: binary.
    2. Bytes (uint8), and whole numbers from 0 to 255 in images: pixel.
    3. Other integers: count, if none is below zero.
    4. The rest: positive if all are above zero and the largest is at least twice the smallest, else real.
    """
    integers = values.dtype.kind != "f"
    lowest, highest, bits, whole = np.inf, -np.inf, True, True
    for rows in blocks(values):
        seen = values[rows] if mask is None else values[rows][mask[rows]]
        if seen.size:
            lowest, highest = min(lowest, float(seen.min())), max(highest, float(seen.max()))
            bits = bits and lowest >= 0 and highest <= 1 and (integers or bool(((seen == 0) | (seen == 1)).all()))
            whole = whole and (integers or (is_image and bool((seen % 1 == 0).all())))
    if bits:
        return "binary"
    if values.dtype == np.uint8 or (is_image and whole and lowest >= 0 and highest <= 255):
        return "pixel"
    if integers and lowest >= 0 and highest <= MOST_COUNTS:
        return "count"
    return "positive" if is_positive(lowest, highest) else "real"


def learn_array(
    names: Sequence[str], kind: str, family: str | None, values: Array, mask: Mask | None
) -> tuple[Column, ...]:
    """Columns of one kind, each with its center and scale."""
    check_array(names, kind, values, mask)
    dtype = values.dtype.name  # whatever the order of its bytes
    if kind == "real":
        center, spread = _moments(values, mask)
        scale = np.where(spread > CONSTANT * np.abs(center), spread, 1.0)
        units = zip(names, center.tolist(), scale.tolist(), strict=True)
        return tuple(Column(name, kind, family, center=c, scale=s, dtype=dtype) for name, c, s in units)
    if kind == "positive":
        scales = np.exp(_moments(values, mask, np.log)[0]).tolist()
        return tuple(Column(name, kind, family, scale=s, dtype=dtype) for name, s in zip(names, scales, strict=True))
    if kind == "count" and family is None:
        mean, spread = _moments(values, mask)
        family = "negative-binomial" if np.mean(spread**2 > WIDE * mean) > 0.5 else "poisson"
    categories = BITS if kind == "binary" else None
    return tuple(Column(name, kind, family, categories, dtype=dtype) for name in names)


def encode_array(columns: Sequence[Column], values: Array, mask: Mask | None) -> Array:
    """The numbers for a model, zero in holes; `values` itself where they are the same."""
    kind = columns[0].kind
    check_array([column.name for column in columns], kind, values, mask)
    if kind in ("binary", "pixel") and values.dtype in (np.uint8, np.bool_) and mask is None:
        return values.view(np.uint8)
    code = np.empty(values.shape, np.uint8 if kind in ("binary", "pixel") else np.float32)
    center = np.array([column.center or 0.0 for column in columns])
    scale = np.array([column.scale or 1.0 for column in columns])
    for rows in blocks(values):
        v = values[rows] if mask is None else np.where(mask[rows], values[rows], center)  # which has the code zero
        code[rows] = (v - center) / scale if kind in ("real", "positive") else v
    return code


def check_array(names: Sequence[str], kind: str, values: Array, mask: Mask | None) -> None:
    """Refuse an array with an observed cell that its kind cannot have, naming the first."""
    expected, allowed = _SUPPORTS[kind]
    if values.dtype == np.bool_ or (values.dtype == np.uint8 and kind in ("real", "count", "pixel")):
        return
    for rows in blocks(values):
        bad = ~allowed(values[rows])
        bad = bad if mask is None else bad & mask[rows]
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            got = shown(values[rows][row, column])
            advice = "Mend it, mark it missing, or type the columns otherwise."
            raise CellError(names[column], expected, got, rows.start + row, advice)


def constant_columns(values: Array, mask: Mask | None) -> Bool[np.ndarray, " x"]:
    """Which columns have but one value among their observed cells."""
    first = values[0] if mask is None else values[np.argmax(mask, axis=0), np.arange(values.shape[1])]
    constant = np.ones(values.shape[1], bool)
    for rows in blocks(values):
        same = values[rows] == first
        constant &= (same if mask is None else same | ~mask[rows]).all(axis=0)
    return constant


def _moments(
    values: Array, mask: Mask | None, change: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
    """Mean and standard deviation by column, of the observed cells after `change`: in two passes, for accuracy."""
    count = np.full(values.shape[1], len(values)) if mask is None else np.maximum(mask.sum(axis=0), 1)

    def total(f: Callable[[np.ndarray], np.ndarray]) -> Float[np.ndarray, " x"]:
        summed = np.zeros(values.shape[1])
        for rows in blocks(values):
            seen = values[rows] if mask is None else np.where(mask[rows], values[rows], 1)
            terms = f(change(seen.astype(np.float64)))
            summed += terms.sum(axis=0) if mask is None else np.sum(terms, axis=0, where=mask[rows])
        return summed

    mean = total(np.asarray) / count
    return mean, np.sqrt(total(lambda v: (v - mean) ** 2) / count)

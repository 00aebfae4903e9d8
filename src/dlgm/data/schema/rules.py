"""What kind of thing a column holds, told from its cells: the rules, and what is learnt once the kind is known."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from dlgm.data.errors import SchemaError
from dlgm.data.schema.cells import Cells, shown, to_numbers
from dlgm.data.schema.column import CODED, Category, Column, is_at
from dlgm.data.schema.shape import best_power, straighten

FEW_NUMBERS = 20  # as many different whole numbers, at most, are an ordinal column
TIMES_SEEN = 5  # if each is seen as often as that on average
TIMES_SEEN_FRACTION = 20  # the same of numbers that are not whole: what lies between them is a number as well
MANY_TEXTS = 100  # more different texts than that are no categories
LARGEST_COUNT = 10_000  # float32 has no digits left for the likelihood of larger ones: they are real numbers
WIDE = 1.5  # counts whose variance is so many times their mean vary more than a Poisson law has it
FEW_OTHERS = 10  # cells besides those of a single value, below which a column is all but constant
CONSTANT = 1e-12  # a spread, as a share of the mean, that is but rounding
APART = 1e30  # positive numbers further apart than this do not share a scale that float32 can hold
HEAP = 0.25  # share of the cells that are a heap if they have one value
CLIFF = 4  # times as often as any other is what a heap is seen
EXCESS = 2.0  # times the odds of zero that counts of the same mean and variance have are a heap at zero
ALIKE = 2.0  # positive numbers whose largest is less than twice the smallest are far from zero: real


def kind_of(cells: Cells) -> str:
    """The kind of a column, by the first rule that fits its observed cells.

    1. Truth values: binary. A pandas categorical: ordinal if it has an order, else binary (two categories) or
       categorical.
    2. Texts: binary if there are two different ones, categorical up to 100. With more, or with a different one in
       every row (from 20 rows on), the column is refused: it is an identifier, or numbers with a slip among them.
    3. Whole numbers (1.0 is one), and
       - nothing but 0 and 1: binary;
       - 2 to 20 different ones, each seen 5 times on average: binary (two), else ordinal. Numbers that are but labels
         should be typed as categorical by the user;
    4. Other numbers of 2 to 20 different values, each seen 20 times on average: binary or ordinal as well. (Counts that
       were divided by something; ratings that were averaged.)
    5. Numbers of which a quarter or more have one value, four times as often as any other is seen, and the rest more
       than 20 different ones: heaped. (Capital gains, of which most people have none.) But not counts (6) with zeros
       as there are in counts that vary so much.
    6. Other whole numbers, none below zero, none above 10,000, with a variance of at least half the mean: count. (A
       year, say, varies less.)
    7. The rest: positive if all are above zero and the largest is at least twice the smallest, else real (and
       Student's t, with its heavy tails, if they are all but constant).
    """
    seen = cells.seen
    if cells.declared is not None:
        return "ordinal" if cells.ordered else "binary" if len(cells.declared) == 2 else "categorical"
    if cells.is_truth:
        return "binary"
    if cells.is_text:
        return _kind_of_texts(cells)
    if ((seen == 0) | (seen == 1)).all():
        return "binary"
    distinct, is_whole = len(np.unique(seen)), bool((seen == np.floor(seen)).all())
    often = TIMES_SEEN if is_whole else TIMES_SEEN_FRACTION
    if 2 <= distinct <= FEW_NUMBERS and len(seen) >= often * distinct:
        return "binary" if distinct == 2 else "ordinal"
    in_range = is_whole and seen.min() >= 0 and seen.max() <= LARGEST_COUNT
    is_count = in_range and distinct > 1 and seen.var() >= seen.mean() / 2
    if is_heaped(seen) and not (is_count and _zeros_are_of_counts(seen)):
        return "heaped"
    return "count" if is_count else _kind_of_numbers(seen)


def _kind_of_numbers(seen: Float[np.ndarray, " m"]) -> str:
    return "positive" if is_positive(float(seen.min()), float(seen.max())) else "real"


def is_positive(lowest: float, highest: float) -> bool:
    """Whether numbers in this range should never fall below zero when they are drawn anew."""
    return lowest > 0 and ALIKE * lowest <= highest < min(APART * lowest, np.inf)


def is_heaped(seen: Float[np.ndarray, " m"]) -> bool:
    """Whether one value stands out that many cells have, among others that are spread out."""
    values, counts = np.unique(seen, return_counts=True)
    if len(counts) <= FEW_NUMBERS + 1 or counts.max() < max(HEAP * len(seen), CLIFF * np.sort(counts)[-2]):
        return False
    away = np.abs(np.delete(values, counts.argmax()) - values[counts.argmax()])
    return bool(away.max() < APART * away.min())  # or no scale holds them all beside the heap


def _zeros_are_of_counts(seen: Float[np.ndarray, " m"]) -> bool:
    """Whether a negative binomial of the cells' mean and variance has about as many zeros as there are."""
    share, mean, variance = float(np.mean(seen == 0)), float(seen.mean()), float(seen.var())
    if share == 0 or variance <= mean:
        return False
    alpha = mean**2 / (variance - mean)
    expected = (alpha / (alpha + mean)) ** alpha
    return share * (1 - expected) < EXCESS * expected * (1 - share)


def is_all_but_constant(seen: Float[np.ndarray, " m"]) -> bool:
    """Whether all cells but a few are the same number: too few to learn from when the others come.

    Some of those may be dozens of standard deviations away. A Gaussian column would learn the rows they are in by heart
    and expect the like elsewhere; a law with heavy tails leaves them as the accidents they are.
    """
    others = len(seen) - int(np.unique(seen, return_counts=True)[1].max())
    return 0 < others < min(FEW_OTHERS, len(seen) / 10)


def _kind_of_texts(cells: Cells) -> str:
    import pandas as pd

    seen = cells.seen
    distinct = len(pd.unique(seen))
    if distinct <= MANY_TEXTS and not (distinct == len(seen) > FEW_NUMBERS):
        return "binary" if distinct == 2 else "categorical"
    is_number = ~np.isnan(to_numbers(cells.values))
    if is_number[cells.observed].mean() > 0.5:
        cells.refuse(~is_number, "numbers, as in most of its rows", "Mend it, or name it as missing.")
    raise SchemaError(
        f"column {cells.name!r}: expected numbers, or at most {MANY_TEXTS} different texts; got {distinct:,} different "
        f"ones in {len(seen):,} rows, such as {shown(seen[0])}. Leave the column out (drop, --drop), or "
        "type it as categorical."
    )


def learn(column: Column, cells: Cells) -> Column:
    """The column with everything that it still lacks learnt from its cells."""
    if column.kind not in CODED:
        cells = cells.as_numbers(f"numbers in a {column.kind} column")
        cells.refuse_infinite()
    known = {name: value for name, value in vars(column).items() if value is not None}
    if column.categories is not None:
        known["categories"] = _own_values(column.categories, cells)
    return dataclasses.replace(column, **{"dtype": cells.dtype, **_learnt(column, cells), **known})


def _own_values(categories: tuple[Category, ...], cells: Cells) -> tuple[Category, ...]:
    """Categories that were written as texts, as what they are in a column of numbers or truth values."""
    if cells.is_text or not isinstance(categories[0], str):
        return categories
    numbers = to_numbers(np.array(categories, object)).tolist()
    if any(number != number for number in numbers):
        return categories
    if cells.is_truth:
        return tuple(number == 1 for number in numbers)
    return tuple(int(number) if number.is_integer() else number for number in numbers)


def _learnt(column: Column, cells: Cells) -> dict[str, Any]:
    if column.kind in CODED:
        return {} if column.categories else {"categories": _categories(column, cells)}
    seen = cells.seen
    limits: dict[str, Any] = {"low": float(seen.min()), "high": float(seen.max())}
    if column.kind == "real":
        center, scale = float(seen.mean()), float(seen.std())
        limits |= _whole(cells)
        if not scale > CONSTANT * abs(center):
            return {"center": center, "scale": 1.0, **limits}
        own = {"center": center if column.center is None else column.center, "scale": column.scale or scale}
        return {**own, **limits, **_shape(column, (seen - own["center"]) / own["scale"])}
    if column.kind == "positive":
        above = seen[seen > 0]  # the others are refused when they are encoded, with their row
        if not above.size:
            return {"scale": 1.0}
        scale = column.scale or float(np.exp(np.log(above).mean()))
        return {"scale": scale, **limits, **_whole(cells), **_shape(column, np.log(above / scale))}
    if column.kind == "heaped":
        found = _heap(column, seen)
        limits = {"low": min(limits["low"], found["center"]), "high": max(limits["high"], found["center"])}
        return {**found, **limits, **_whole(cells)}
    if column.kind == "count":
        return {"family": "negative-binomial" if seen.var() > WIDE * seen.mean() else "poisson", **limits}
    return {}


def _heap(column: Column, seen: Float[np.ndarray, " m"]) -> dict[str, Any]:
    """Where most cells are, how far the others are from there, and whether they are all above."""
    values, counts = np.unique(seen, return_counts=True)
    heap = float(values[counts.argmax()]) if column.center is None else column.center
    away = seen[~is_at(heap, seen)] - heap
    above = away[away > 0]
    # On the log axis of their distance, others that are far from the heap, and near to each other, have no spread.
    is_above = len(above) == len(away) > 0 and is_positive(float(above.min()), float(above.max()))
    family = column.family or ("heaped-log-normal" if is_above else "heaped-gaussian")
    if family == "heaped-log-normal":  # cells below are refused when they are encoded, with their row
        scale = float(np.exp(np.log(above).mean())) if above.size else 1.0
    else:
        scale = float(away.std()) if away.size else 0.0
        scale = scale if scale > CONSTANT * float(np.abs(away).max(initial=0.0)) else 1.0
    return {"center": heap, "scale": scale, "family": family}


def _whole(cells: Cells) -> dict[str, Any]:
    """Whether a column of floats is one of whole numbers: pandas keeps these as floats once there are holes."""
    return {"whole": True} if "float" in cells.dtype.lower() and bool((cells.seen % 1 == 0).all()) else {}


def _shape(column: Column, z: Float[np.ndarray, " m"]) -> dict[str, float]:
    """The power of a skewed column, and the mean and standard deviation of its straightened cells."""
    power = column.power if column.power is not None else best_power(z)
    if power is None:
        return {}
    straight = straighten(z, power)
    return {"power": power, "shift": float(straight.mean()), "spread": float(straight.std()) or 1.0}


def _categories(column: Column, cells: Cells) -> tuple[Category, ...]:
    """The observed values in order; for whole numbers of a small range, those between as well if their order counts."""
    if cells.declared is not None:
        return cells.declared
    if cells.is_truth:
        return (False, True)
    if cells.is_text and column.kind == "ordinal":
        raise column.wrong("texts have an order only if you give it; name the categories, lowest first.")
    distinct: list[Category] = sorted(set(cells.seen.tolist()))
    if not cells.is_text and all(float(value).is_integer() for value in distinct):
        whole = [int(value) for value in distinct]
        if column.kind == "binary" and set(whole) <= {0, 1}:
            whole = [0, 1]
        if column.kind == "ordinal" and whole[-1] - whole[0] < FEW_NUMBERS:
            whole = list(range(whole[0], whole[-1] + 1))
        distinct = list(whole)
    if column.kind == "binary" and len(distinct) != 2:
        raise column.wrong(f"expected two different values in a binary column; got {len(distinct):,}.")
    return tuple(distinct)

"""What is known of one column: what kind of thing it holds, and how that becomes a number and back."""

import math
import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dlgm.data.errors import SchemaError, first_twin
from dlgm.data.schema.shape import HIGHEST, LOWEST
from dlgm.names import closest

# The observation families that can describe each kind of column, the default first.
KINDS: dict[str, tuple[str, ...]] = {
    "real": ("gaussian", "student-t", "logistic"),
    "positive": ("log-normal",),
    "heaped": ("heaped-log-normal", "heaped-gaussian"),
    "count": ("poisson", "negative-binomial"),
    "binary": ("bernoulli",),
    "categorical": ("categorical",),
    "ordinal": ("ordinal",),
    "pixel": ("discretised-logistic",),
}
# Kinds whose cells are one of a list of values, kept as its place in the list.
CODED = ("binary", "categorical", "ordinal")
# Kinds whose columns are looked at one by one, in arrays too.
BY_COLUMN = ("categorical", "ordinal", "heaped")

Category = str | bool | int | float

# The kinds that have each of the numbers which a column may have.
UNITS: dict[str, tuple[str, ...]] = {
    "center": ("real", "heaped"),
    "scale": ("real", "positive", "heaped"),
    "power": ("real", "positive"),
    "shift": ("real", "positive"),
    "spread": ("real", "positive"),
    "low": ("real", "positive", "heaped", "count"),
    "high": ("real", "positive", "heaped", "count"),
    "whole": ("real", "positive", "heaped"),
}

# Of a heap's size: cells so near to it are at it, as it was read from single precision, or from printed digits.
_NEAR = 1e-6
# Positive numbers whose largest is so many times the smallest.
_WIDE = 1e4

_DTYPE = re.compile(r"(u?int|U?Int)(8|16|32|64)|(f|F)loat(16|32|64)?|double|bool|boolean|str|string|object|category")


@dataclass(frozen=True)
class Column:
    r"""A column's name, kind and family, and how a cell $v$ becomes the number $y$ that a model sees.

    | kind | cells | $y$ | families |
    | --- | --- | --- | --- |
    | `real` | any number | shape((v - `center`) / `scale`) | gaussian, student-t, logistic |
    | `positive` | above zero | exp(shape(log(v / `scale`))) | log-normal |
    | `heaped` | often `center` | (v - `center`) / `scale` | heaped-log-normal, heaped-gaussian |
    | `count` | 0, 1, 2, .. | v | poisson, negative-binomial |
    | `binary`, `categorical`, `ordinal` | one of `categories` | its place there | bernoulli, categorical, ordinal |
    | `pixel` | 0 to 255 | v | discretised-logistic |

    An entry that is None has still to be learnt from rows; `complete` says whether there is one. For a real column
    `center` and `scale` are the mean and the standard deviation; for a positive one `scale` is the geometric mean, so
    that log y has mean zero. Of a heaped column `center` is the value that many cells have, and `scale` the typical
    distance of the others from it; with heaped-log-normal all of those are above it. A skewed real or positive column
    also has a `power`, and its shape is Yeo and Johnson's transform with it, less `shift`, over `spread`; others have
    none, and keep their shape. New cells of a column lie between `low` and `high`.

    >>> Column("height", "real", center=170.0, scale=10.0).complete
    False
    >>> Column("height", "real", family="cauchy")
    Traceback (most recent call last):
    dlgm.data.errors.SchemaError: column 'height': expected a family for real columns: gaussian, student-t, ...
    """

    name: str
    kind: str
    family: str | None = None
    categories: tuple[Category, ...] | None = None  # the user's own values; for ordinal ones, lowest first
    center: float | None = None
    scale: float | None = None
    power: float | None = None  # see dlgm.data.schema.shape; None: the cells keep their shape
    shift: float | None = None  # mean and standard deviation of the straightened cells
    spread: float | None = None
    low: float | None = None  # the range in which fills and samples are kept; None: no limit
    high: float | None = None
    whole: bool | None = None  # whether all cells were whole numbers, though their dtype can hold others: so are fills
    dtype: str | None = None  # pandas' name for the type of the user's cells, which `decode` gives back

    @property
    def complete(self) -> bool:
        """Whether everything is known that its kind needs."""
        return None not in (
            self.family,
            self.dtype,
            self.categories if self.kind in CODED else 0,
            self.center if self.kind in UNITS["center"] else 0,
            self.scale if self.kind in UNITS["scale"] else 0,
        )

    @property
    def is_fractional(self) -> bool:
        """Whether the categories are but the few values of a column of numbers, not all whole.

        It is a column of numbers to the user: its mean is a fill, where the mean of two categories is not.
        """
        if self.kind not in ("binary", "ordinal") or not re.match(r"(f|F)loat|double", self.dtype or ""):
            return False
        numbers = [value for value in self.categories or () if not isinstance(value, str)]
        return any(value % 1 for value in numbers) and numbers == sorted(numbers)

    def can_have(self, family: str) -> bool:
        """Whether a family describes columns of this kind, and all of this one's range."""
        below = None not in (self.low, self.center) and self.low < self.center  # type: ignore[operator]
        return family in KINDS[self.kind] and not (family == "heaped-log-normal" and below)

    @property
    def is_filled_by_draws(self) -> bool:
        """Whether the mean of draws, which keep to the column's range, is a better fill than the mean of their law.

        It is of a column that was straightened, and where a law's long tail has a mean far beyond all cells.
        """
        is_wide = self.family == "log-normal" and None not in (self.low, self.high) and self.high > _WIDE * self.low  # type: ignore[operator]
        return self.power is not None or self.family == "heaped-log-normal" or is_wide

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise self.wrong(f"expected a kind: {', '.join(KINDS)}; got {self.kind!r}.{closest(self.kind, KINDS)}")
        families = KINDS[self.kind]
        if self.family is None and self.kind not in ("count", "heaped"):  # which of their families, the rows say
            object.__setattr__(self, "family", families[0])
        if self.family is not None and self.family not in families:
            raise self.wrong(f"expected a family for {self.kind} columns: {', '.join(families)}; got {self.family!r}.")
        if self.dtype is not None and not _DTYPE.fullmatch(re.sub(r"\[\w+\]$", "", self.dtype)):
            raise self.wrong(f"expected a dtype of numbers, truth values or texts; got {self.dtype!r}.")
        self._check_units()
        self._check_categories()

    def _check_units(self) -> None:
        for name, kinds in UNITS.items():
            value = getattr(self, name)
            if value is not None and self.kind not in kinds:
                raise self.wrong(f"a {self.kind} column has no {name}; leave that entry out.")
            if value is not None and not math.isfinite(value):
                raise self.wrong(f"expected {name} to be a finite number; got {value}.")
        for name in ("scale", "spread"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise self.wrong(f"expected {name} to be above zero; got {value}.")
        if self.power is not None and not LOWEST <= self.power <= HIGHEST:
            raise self.wrong(f"expected a power from {LOWEST:g} to {HIGHEST:g}; got {self.power}.")
        if None not in (self.low, self.high) and self.low > self.high:  # type: ignore[operator]
            raise self.wrong(f"expected low to be at most high; got {self.low} and {self.high}.")

    def _check_categories(self) -> None:
        if self.categories is None:
            return
        if self.kind not in CODED:
            raise self.wrong(f"a {self.kind} column has no categories; leave that entry out.")
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.categories):
            raise self.wrong("expected finite numbers or texts as categories.")
        if len({isinstance(value, str) for value in self.categories}) > 1:
            raise self.wrong("expected categories that are all texts or all numbers; got both.")
        if twin := first_twin(self.categories):
            raise self.wrong(f"expected every category once; got {twin[0]!r} twice.")
        if self.kind == "binary" and len(self.categories) != 2:
            raise self.wrong(f"expected two categories of a binary column; got {len(self.categories)}.")
        if not self.categories:
            raise self.wrong("expected at least one category; got none.")

    def without_units(self) -> "Column":
        """The column without what would be learnt anew from other rows: units, shape and range."""
        values = {name: value for name, value in vars(self).items() if name not in UNITS}
        return Column(**values)

    def wrong(self, words: str) -> SchemaError:
        """The error to raise about this column."""
        return SchemaError(f"column {self.name!r}: {words}")


def is_at(heap: float, v: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which numbers are at a heap, but for rounding."""
    return np.abs(v - heap) <= _NEAR * abs(heap)

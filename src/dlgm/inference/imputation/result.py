"""What imputing gives: draws of every hole, and everything that they say."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from dlgm.inference.imputation.pooling import Pooled, pool
from dlgm.model import AbstractObservation

if TYPE_CHECKING:
    from dlgm.data.schema import Schema

_UNMIXED = 1.1  # R-hat that says a cell has not mixed, if there are draws enough
_NUMBERS = 5_000_000  # draws that are looked at together


def least_draws(level: float) -> int:
    """How many draws an interval of this level needs; a `ValueError` for what is no level."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a probability between 0 and 1; got {level}.")
    return int(np.ceil(2 / (1 - level) - 1 - 1e-9))


@dataclass(frozen=True, eq=False)
class Imputation:
    """Draws of the holes. `imputation[i]` is the i-th completed data set, and `len(imputation)` how many there are.

    Answers have the shape `(n, x)` of the rows, with what was observed in its place. Cells are in the model's own
    numbers; `in_units` turns all of them into the user's.
    """

    rows: Float[np.ndarray, "n x"] = field(repr=False)  # NaN in holes
    mask: Bool[np.ndarray, "n x"] = field(repr=False)  # true where observed
    values: Float[np.ndarray, "h s"] = field(repr=False)  # draws of each hole, row by row; chain after chain
    means: Float[np.ndarray, " h"] = field(repr=False)  # of the laws behind the draws, which vary less than these
    class_probabilities: Float[np.ndarray, "h c"] = field(repr=False)
    observation: AbstractObservation = field(repr=False)
    method: str
    num_chains: int
    acceptance: Float[np.ndarray, " n"] = field(repr=False)  # share of proposals taken, by row; metropolis only
    effective_sample_size: Float[np.ndarray, " n"] = field(repr=False)  # of the weights, by row; resample only
    log_p: Float[np.ndarray, " n"] = field(repr=False)  # log p(v_o), by row; resample only
    numbers: Bool[np.ndarray, " x"] | None = field(default=None, repr=False)  # codes that `in_units` made numbers of

    def __len__(self) -> int:
        return self.values.shape[1]

    def __getitem__(self, i: int) -> Float[np.ndarray, "n x"]:
        return self._completed(self.values[:, i])

    def __iter__(self) -> Iterator[Float[np.ndarray, "n x"]]:
        return (self[i] for i in range(len(self)))

    def mean(self) -> Float[np.ndarray, "n x"]:
        """Each cell's mean. That of a Bernoulli cell is its probability; that of a category means nothing."""
        means = np.where(np.isfinite(self.means), self.means, self.values.mean(axis=1))  # where the law has none
        return self._completed(means)

    def standard_deviation(self) -> Float[np.ndarray, "n x"]:
        """Each cell's standard deviation, zero where it was observed."""
        return self._completed(self.values.std(axis=1, ddof=1 if len(self) > 1 else 0), observed=0.0)

    def median(self) -> Float[np.ndarray, "n x"]:
        """Each cell's median, a value that the cell can have; of a column of categories, the most probable one."""
        middle = np.median(self._ordered, axis=1)
        whole = self._of_column("whole")
        middle[whole] = self._ordered[whole, (len(self) - 1) // 2]
        unordered = self._of_column("unordered")
        middle[unordered] = self._modes()[unordered]
        return self._completed(middle)

    def interval(self, level: float = 0.9) -> tuple[Float[np.ndarray, "n x"], Float[np.ndarray, "n x"]]:
        """The ends of each cell's interval, which an observed value falls into with probability `level`.

        Between order statistics, chosen so that this holds for any number of draws: the true value is one more draw.
        Whole numbers are rounded outwards. In columns of categories, which have no order, NaN: see `probabilities`.
        """
        if len(self) < (least := least_draws(level)):
            raise ValueError(f"level: {level:g} needs at least {least} draws; there are {len(self)}.")
        whole, unordered = self._of_column("whole"), self._of_column("unordered")
        ends = []
        for share, outwards in (((1 - level) / 2, np.floor), ((1 + level) / 2, np.ceil)):
            at = np.clip(round(share * (len(self) + 1) - 1, 9), 0, len(self) - 1)  # 1, not 0.999..
            low, part = int(at), at - int(at)
            end = (1 - part) * self._ordered[:, low] + part * self._ordered[:, min(low + 1, len(self) - 1)]
            end[whole] = outwards(end[whole])
            end[unordered] = np.nan
            ends.append(self._completed(end))
        return ends[0], ends[1]

    def probabilities(self, column: int) -> Float[np.ndarray, "n c"]:
        """The probability of each code of a column; for cells that were observed, one and zeros."""
        levels = self.levels[column]
        if not levels:
            raise ValueError(f"probabilities: column {column} holds numbers; expected a column of codes.")
        here = self.holes[:, 1] == column
        if self.class_probabilities.shape[1]:
            p = self.class_probabilities[here, :levels]
        else:
            p = np.stack([1 - self.means[here], self.means[here]], axis=1)
        full = (self.rows[:, column, None] == np.arange(levels)).astype(np.float32)
        full[~self.mask[:, column]] = p
        return full

    def best(self) -> Float[np.ndarray, "n x"]:
        """One fill a hole: the mean of numbers, the most probable code, the median of counts and ordered codes."""
        kinds = self.best_fills
        means = np.where(self.whole, np.rint(self.mean()), self.mean())
        modes = self._completed(self._modes())
        return np.select([kinds == "mode", kinds == "median"], [modes, self.median()], means)

    def in_units(self, schema: "Schema") -> "Imputation":
        """The same imputation with cells in the user's units, what means are to be taken of; other codes as they are.

        Where a law's mean would not do (`Column.is_filled_by_draws`), the mean of the draws takes its place.
        """
        values, means = self.values.astype(np.float64), self.means.astype(np.float64)
        for i, column in enumerate(schema.columns):
            here = self.holes[:, 1] == i
            values[here] = schema.in_units_of(i, self.values[here])
            if column.is_fractional:
                shares = self.probabilities(i)[~self.mask[:, i]]
                means[here] = shares @ schema.in_units_of(i, np.arange(shares.shape[1]))
            elif column.is_filled_by_draws:
                means[here] = values[here].mean(axis=1)
            else:
                means[here] = schema.in_units_of(i, means[here])
        known = np.stack([schema.in_units_of(i, self.rows[:, i], limited=False) for i in range(len(schema.columns))], 1)
        numbers = np.array([column.is_fractional for column in schema.columns])
        return dataclasses.replace(self, rows=known, values=values, means=means, numbers=numbers)

    def pool(
        self,
        estimate: Callable[[Any], tuple[Any, Any]],
        *,
        complete_degrees_of_freedom: float | int | None = None,
        decode: Callable[[Float[np.ndarray, "n x"]], Any] = lambda rows: rows,
    ) -> Pooled:
        """Any estimate, by Rubin's rules: `estimate` of a completed data set returns a value and its variance.

        `decode`, such as `Schema.decode`, is applied to the data set first. The degrees of freedom that the estimate
        would have without holes make intervals right for small data.
        """
        return pool(map(decode, self), estimate, complete_degrees_of_freedom)

    def trace(self, row: int, column: int) -> Float[np.ndarray, "c t"]:
        """The draws of a hole, chain by chain, in the order they were made."""
        if self.mask[row, column]:
            raise ValueError(f"trace: row {row}, column {column} was observed, and has no draws.")
        at = int(np.count_nonzero(~self.mask[:row])) + int(np.count_nonzero(~self.mask[row, :column]))
        return self.values[at].reshape(self.num_chains, -1)

    def plot_trace(self, row: int, column: int, *, truth: float | None = None, ax: Any = None) -> Any:
        """The trace as a picture, a line a chain, on matplotlib axes `ax` or new ones, which are returned."""
        from dlgm.plots import trace

        return trace(self.trace(row, column), f"row {row}, column {column}", truth=truth, ax=ax)

    def r_hat(self) -> Float[np.ndarray, "n x"]:
        """Split R-hat of each hole: near 1 if the chains agree. NaN for a single chain, or fewer than 4 draws each."""
        from numpyro.diagnostics import split_gelman_rubin

        return self._completed(self._by_chain(split_gelman_rubin, constant=1.0), observed=np.nan)

    def r_hat_limit(self) -> float:
        """What R-hat exceeds by chance in one cell of a thousand whose chains have mixed; at least 1.1.

        Of h half chains of n independent normal draws, n times the variance of their means, over their mean variance,
        has an F law with h - 1 and h (n - 1) degrees of freedom.
        """
        halves, n = 2 * self.num_chains, len(self) // self.num_chains // 2
        if n < 2 or halves < 4:
            return _UNMIXED
        from scipy.stats import f

        return max(_UNMIXED, float(np.sqrt((n - 1 + f.ppf(0.999, halves - 1, halves * (n - 1))) / n)))

    def effective_draws(self) -> Float[np.ndarray, "n x"]:
        """How many independent draws those of each hole are worth, at most all of them. NaN where R-hat is."""
        from numpyro.diagnostics import effective_sample_size

        found = self._by_chain(effective_sample_size, constant=float(len(self)))
        return self._completed(np.minimum(found, len(self)), observed=np.nan)

    @cached_property
    def holes(self) -> Int[np.ndarray, "h 2"]:
        """Row and column of each hole."""
        return np.argwhere(~self.mask)

    @cached_property
    def levels(self) -> Int[np.ndarray, " x"]:
        """How many codes each column has; 0 for numbers."""
        return self._unless_numbers(self.observation.levels, 0)

    @cached_property
    def best_fills(self) -> Shaped[np.ndarray, " x"]:
        """Which fill is best for each column: mean, mode or median."""
        return self._unless_numbers(self.observation.best_fills, "mean")

    @cached_property
    def whole(self) -> Bool[np.ndarray, " x"]:
        """Which columns hold whole numbers."""
        return self._unless_numbers(self.observation.whole, False)

    @cached_property
    def unordered(self) -> Bool[np.ndarray, " x"]:
        """Which columns hold categories without an order; two have one, for all that can be said of them."""
        return (self.best_fills == "mode") & (self.levels > 2)

    def _unless_numbers(self, values: Sequence[Any], otherwise: Any) -> np.ndarray:
        return np.asarray(values) if self.numbers is None else np.where(self.numbers, otherwise, np.asarray(values))

    @cached_property
    def _ordered(self) -> Float[np.ndarray, "h s"]:
        return np.sort(self.values, axis=1)

    def _completed(self, values: Float[np.ndarray, " h"], observed: float | None = None) -> Float[np.ndarray, "n x"]:
        full = self.rows.copy() if observed is None else np.full(self.rows.shape, observed, self.rows.dtype)
        full[~self.mask] = values
        return full

    def _of_column(self, kind: str) -> Bool[np.ndarray, " h"]:
        """Which holes are in columns of whole numbers, or of categories without an order."""
        return (self.whole if kind == "whole" else self.unordered)[self.holes[:, 1]]

    def _modes(self) -> Float[np.ndarray, " h"]:
        if self.class_probabilities.shape[1]:
            return np.argmax(self.class_probabilities, axis=1).astype(np.float32)
        return (self.means > 0.5).astype(np.float32)

    def _by_chain(self, f: Callable[..., np.ndarray], constant: float) -> Float[np.ndarray, " h"]:
        """`f` of the traces, shape (chains, draws, holes), and `constant` for a hole that has always the same value."""
        h, s = self.values.shape
        if self.method == "resample" or self.num_chains < 2 or s // self.num_chains < 4:
            return np.full(h, np.nan)
        found = np.empty(h)
        cells = max(1, _NUMBERS // s)
        for start in range(0, h, cells):
            part = self.values[start : start + cells].astype(np.float64)
            traces = part.reshape(len(part), self.num_chains, -1).transpose(1, 2, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.asarray(f(traces))
            found[start : start + cells] = np.where(np.ptp(part, axis=1) == 0, constant, values)
        return found

"""Are the intervals honest? Observed cells are hidden, imputed, and compared with what they were."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key

from dlgm.inference.imputation.impute import impute
from dlgm.inference.imputation.result import Imputation, least_draws
from dlgm.inference.rows import as_rows, row_hashes, row_key
from dlgm.model import Model


@dataclass(frozen=True, eq=False)
class OverImputation:
    """What was hidden, what came in its place, and how often the one lay within the other."""

    imputation: Imputation = field(repr=False)
    hidden: Bool[np.ndarray, "n x"] = field(repr=False)  # the cells that were observed and hidden
    truth: Float[np.ndarray, "n x"] = field(repr=False)
    level: float

    def covered(self) -> Bool[np.ndarray, "n x"]:
        """Whether the interval of a hidden cell holds its value; of a category, whether it is among the most probable
        codes that together have the level.
        """
        low, high = self.imputation.interval(self.level)
        # What differs from an interval's end by rounding is inside: many a column has cells at the ends of its range.
        known = np.where(self.hidden, self.truth, np.nan)
        slack = np.zeros(known.shape[1])
        some = self.hidden.any(axis=0)
        slack[some] = 1e-6 * np.nanmax(np.abs(known[:, some]), axis=0)
        inside = (low - slack <= self.truth) & (self.truth <= high + slack)
        for column in np.flatnonzero(self.imputation.unordered):
            likely = self.imputation.probabilities(int(column))
            inside[:, column] = _among_the_likely(likely, self.truth[:, column], self.level)
        return inside & self.hidden

    def coverage(self) -> tuple[float, float]:
        """The share of hidden cells that were covered, and its standard error with rows taken as drawn at random.

        Exact intervals of real columns are to cover as many as the level says; whole numbers are rounded outwards and
        codes come in whole, so that theirs cover more.
        """
        return _share(self.covered(), self.hidden)

    def coverage_by_column(self) -> Float[np.ndarray, "x 2"]:
        """The same for each column; NaN for one of which nothing was hidden."""
        inside = self.covered()
        columns = range(self.hidden.shape[1])
        return np.array([_share(inside[:, i : i + 1], self.hidden[:, i : i + 1]) for i in columns])

    def errors(self) -> Float[np.ndarray, " h"]:
        """The best fill less the truth, for each hidden cell in turn."""
        return (self.imputation.best() - self.truth)[self.hidden]


def over_impute(
    model: Model,
    rows: Any,
    mask: Any = None,
    *,
    share: float = 0.1,
    level: float = 0.9,
    key: Key[Array, ""],
    **settings: Any,
) -> OverImputation:
    """Hide a share of the observed cells, at random, and impute them. `settings` are those of `impute`.

    Rows that the model has been trained on flatter it: take others.
    """
    if not 0 < share < 1:
        raise ValueError(f"share: expected a share of the cells between 0 and 1; got {share}.")
    if (draws := settings.get("draws", 100)) < (least := least_draws(level)):
        raise ValueError(f"level: {level:g} needs at least {least} draws; got {draws}.")
    rows, mask = as_rows(model, rows, mask)
    mask = np.ones(rows.shape, bool) if mask is None else mask
    key_hide, key_impute = jax.random.split(key)
    own = jax.vmap(lambda h: row_key(key_hide, h))(row_hashes(rows, mask))
    chosen = np.asarray(jax.vmap(lambda k: jax.random.bernoulli(k, share, (rows.shape[1],)))(own))
    hidden = mask & chosen.reshape(rows.shape)
    imputation = impute(model, rows, mask & ~hidden, key=key_impute, **settings)
    return OverImputation(imputation, hidden, np.where(mask, rows, np.nan).astype(np.float32), level)


def _among_the_likely(
    p: Float[np.ndarray, "n c"], truth: Float[np.ndarray, " n"], level: float
) -> Bool[np.ndarray, " n"]:
    """Whether a code is needed before the most probable ones together reach the level."""
    own = np.take_along_axis(p, np.nan_to_num(truth).astype(int)[:, None], axis=1)
    return np.sum(np.where(p > own, p, 0), axis=1) < level


def _share(inside: Bool[np.ndarray, "n x"], hidden: Bool[np.ndarray, "n x"]) -> tuple[float, float]:
    """A ratio of sums over rows, and its error by the delta method."""
    k, n = inside.sum(axis=1), hidden.sum(axis=1)
    if not n.any():
        return float("nan"), float("nan")
    ratio = k.sum() / n.sum()
    return float(ratio), float(np.sqrt(np.sum((k - ratio * n) ** 2)) / n.sum())

"""Rubin's rules: one estimate, with an honest error, from estimates on several completed data sets."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np


class Pooled(NamedTuple):
    """An estimate over completed data sets. Each entry has the estimate's shape."""

    estimate: Any  # the mean over data sets
    standard_error: Any  # the root of within + (1 + 1/m) between
    within: Any  # the mean of the estimates' own variances
    between: Any  # the variance of the estimates over data sets: what the holes cost
    degrees_of_freedom: Any  # of the t law that estimate / standard_error has
    missing_information: Any  # the fraction of the information that is lost with the holes

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """A confidence interval from the t law."""
        from scipy.stats import t

        half = t.ppf(0.5 + level / 2, self.degrees_of_freedom) * self.standard_error
        return self.estimate - half, self.estimate + half


def pool(
    data_sets: Iterable[Any],
    estimate: Callable[[Any], tuple[Any, Any]],
    complete_degrees_of_freedom: float | int | None = None,
) -> Pooled:
    """Rubin's rules (1987), with Barnard and Rubin's degrees of freedom (1999) if those of complete data are given.

    `estimate` returns, for a completed data set, an estimate and its sampling variance: numbers, or arrays alike.
    """
    pairs = [estimate(data) for data in data_sets]
    if len(pairs) < 2:
        raise ValueError(f"pool: expected at least two completed data sets; got {len(pairs)}.")
    if not isinstance(pairs[0], tuple | list) or len(pairs[0]) != 2:
        raise ValueError(f"pool: expected `estimate` to return an estimate and its variance; got {pairs[0]!r}.")
    values, variances = (np.asarray(column, float) for column in zip(*pairs, strict=True))
    if values.shape != variances.shape:
        raise ValueError(
            f"pool: expected a variance for every estimate; got shapes {values.shape[1:]} and {variances.shape[1:]}."
        )
    if not np.isfinite(values).all() or not (variances >= 0).all() or not np.isfinite(variances).all():
        raise ValueError("pool: expected finite estimates, and variances of at least zero.")
    m = len(pairs)
    mean, within, between = values.mean(0), variances.mean(0), values.var(0, ddof=1)
    extra = (1 + 1 / m) * between
    total = within + extra
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, extra / total, 0.0)
        freedom = (m - 1) / share**2
        if complete_degrees_of_freedom is not None:
            nu = complete_degrees_of_freedom
            observed = (nu + 1) / (nu + 3) * nu * (1 - share)
            # Where the data sets' own variance is zero, nothing is known of what complete data would have left.
            freedom = np.where(observed > 0, 1 / (1 / freedom + 1 / observed), freedom)
        ratio = share / (1 - share)
        missing = np.where(share < 1, (ratio + 2 / (freedom + 3)) / (ratio + 1), 1.0)
    return Pooled(mean, np.sqrt(total), within, between, freedom, np.where(share > 0, missing, 0.0))

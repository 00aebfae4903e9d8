"""One row a covariance structure: adding a class is adding a row. Everything dense here is float64 numpy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.gaussians import AbstractGaussian, DiagonalGaussian, FullGaussian, LowRankGaussian, RankOneGaussian


@dataclass(frozen=True)
class Case:
    name: str
    cls: Any  # the class, an AbstractGaussian
    # (rng, batch shape, K, log_d scale, |u|^2) -> numpy parameters by name
    parameters: Callable[..., dict[str, np.ndarray]]
    # numpy parameters -> dense precision matrix
    precision: Callable[[dict[str, np.ndarray]], np.ndarray]

    def build(self, parameters, dtype=None) -> AbstractGaussian:
        return self.cls(**{name: jnp.asarray(value, dtype) for name, value in parameters.items()})

    def covariance(self, parameters) -> np.ndarray:
        return np.linalg.inv(self.precision(parameters))


@cache
def members(cls: Any) -> Callable[..., dict[str, Any]]:
    """Every member at once, compiled: one compilation for each shape, however many examples."""

    @jax.jit
    def all_of(parameters, x, eps):
        q = cls(**parameters)
        return {
            "factor": q.factor(),
            "covariance": q.covariance(),
            "factor_times": q.factor_times(eps),
            "factor_transpose_times": q.factor_transpose_times(eps),
            "solve_factor": q.solve_factor(x),
            "round_trip": q.factor_times(q.solve_factor(x)),
            "variance": q.variance,
            "trace": q.trace,
            "log_det": q.log_det,
            "log_prob": q.log_prob(x),
            "entropy": q.entropy(),
            "kl_to_standard": q.kl_to_standard(),
        }

    return lambda parameters, x, eps: jax.device_get(all_of(parameters, x, eps))


def diag(d):
    return d[..., :, None] * np.eye(d.shape[-1])


def outer(U):
    return U @ np.swapaxes(U, -1, -2)


def _base(rng, batch, K, spread):
    return {"mean": rng.normal(size=(*batch, K)), "log_d": spread * rng.uniform(-1, 1, size=(*batch, K))}


def _columns(rng, batch, K, r, size2):
    U = rng.normal(size=(*batch, K, r))
    return U * np.sqrt(size2) / np.linalg.norm(U, axis=-2, keepdims=True)


def _diagonal(rng, batch=(), K=4, spread=1.0, size2=1.0):
    return _base(rng, batch, K, spread)


def _rank_one(rng, batch=(), K=4, spread=1.0, size2=1.0):
    return _base(rng, batch, K, spread) | {"u": _columns(rng, batch, K, 1, size2)[..., 0]}


def _low_rank(rng, batch=(), K=4, spread=1.0, size2=1.0, r=3):
    return _base(rng, batch, K, spread) | {"U": _columns(rng, batch, K, r, size2)}


def _full(rng, batch=(), K=4, spread=1.0, size2=1.0):
    lower = np.tril(rng.normal(size=(*batch, K, K)), -1)
    return {
        "mean": rng.normal(size=(*batch, K)),
        "scale_tril": lower + diag(np.exp(0.5 * spread * rng.uniform(-1, 1, (*batch, K)))),
    }


DIAGONAL = Case("diagonal", DiagonalGaussian, _diagonal, lambda p: diag(np.exp(p["log_d"])))
RANK_ONE = Case(
    "rank-one", RankOneGaussian, _rank_one, lambda p: diag(np.exp(p["log_d"])) + outer(p["u"][..., :, None])
)
LOW_RANK = Case("rank-3", LowRankGaussian, _low_rank, lambda p: diag(np.exp(p["log_d"])) + outer(p["U"]))
FULL = Case("full", FullGaussian, _full, lambda p: np.linalg.inv(outer(p["scale_tril"])))

CASES = [DIAGONAL, RANK_ONE, LOW_RANK, FULL]
STRUCTURED = [DIAGONAL, RANK_ONE, LOW_RANK]

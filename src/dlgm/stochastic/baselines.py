r"""Baselines for REINFORCE: what is subtracted from $f$ to lower the variance.

A baseline is a control variate: a number with mean zero, taken off the estimate. The score has mean zero, so $b$
times the score does, for any $b$ that does not depend on the same draw.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, PyTree

Scores = Callable[[], dict[str, Array]]


class AbstractBaseline(eqx.Module):
    """How the control variate is made from the values of `f`, and how it enters the surrogate."""

    @abstractmethod
    def prepare(self, values: Float[Array, "s *batch"], scores: Scores) -> PyTree[Array]:
        """What each sample's control variate needs, samples first. `scores()` gives each sample's gradient of log q."""

    @abstractmethod
    def control(
        self, prepared: PyTree[Array], box: Float[Array, "s *batch"], args: dict[str, Array]
    ) -> Float[Array, "s *batch"]:
        """The control variate: zero in value, of mean zero in gradient. `box` is 1, with the score as its gradient."""


class _AbstractNumber(AbstractBaseline):
    """Baselines that are one number a sample."""

    def control(self, prepared: PyTree[Array], box: Array, args: dict[str, Array]) -> Array:
        return prepared * (box - 1)


class NoBaseline(_AbstractNumber):
    """Subtracts nothing."""

    def prepare(self, values: Array, scores: Scores) -> Array:
        """Zero."""
        return jnp.zeros_like(values)


class ConstantBaseline(_AbstractNumber):
    """Subtracts a number known beforehand."""

    value: Float[ArrayLike, "*#batch"]

    def prepare(self, values: Array, scores: Scores) -> Array:
        """The number, for every sample."""
        return jnp.broadcast_to(jnp.asarray(self.value, values.dtype), values.shape)


class RunningMean(_AbstractNumber):
    r"""Subtracts a decaying average of the values seen so far.

    It is a value, not a variable: `update` returns the next one, to be carried along with the rest of the state.

    >>> b = RunningMean(decay=0.9)
    >>> b = b.update(10.0).update(10.0)
    >>> round(float(b.mean), 6)
    10.0
    """

    total: Float[ArrayLike, "*#batch"] = 0.0
    weight: Float[ArrayLike, ""] = 0.0
    decay: float = eqx.field(static=True, default=0.9)

    def __check_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ValueError(f"RunningMean: expected 0 <= `decay` < 1; got {self.decay}.")

    @property
    def mean(self) -> Array:
        """The average, corrected for its start at zero; zero before the first update."""
        return jnp.where(jnp.asarray(self.weight) > 0, self.total / jnp.maximum(self.weight, 1e-30), 0.0)

    def update(self, value: ArrayLike) -> "RunningMean":
        """The baseline after seeing `value`, the result of `expect`."""
        value = jax.lax.stop_gradient(jnp.asarray(value))
        keep, take = self.decay, 1 - self.decay
        return RunningMean(keep * self.total + take * value, keep * self.weight + take, self.decay)

    def prepare(self, values: Array, scores: Scores) -> Array:
        """The average, for every sample."""
        return jnp.broadcast_to(self.mean.astype(values.dtype), values.shape)


class LeaveOneOut(_AbstractNumber):
    r"""Subtracts from each sample the mean of the others, $b_s = \frac{1}{S-1} \sum_{t \ne s} f(\xi_t)$."""

    def prepare(self, values: Array, scores: Scores) -> Array:
        """The mean of the other samples."""
        S = _at_least_two(values, "LeaveOneOut")
        return (jnp.sum(values, axis=0) - values) / (S - 1)


class OptimalCoefficient(AbstractBaseline):
    r"""The variance-minimising coefficient for every parameter by itself.

    With $h_j = \partial \log q / \partial\theta_j$, the variance of $(f - b_j) h_j$ is least at
    $$b_j^* = \frac{\mathrm{Cov}(f h_j, h_j)}{\mathrm{Var}(h_j)} = \frac{E[f h_j^2]}{E[h_j^2]},$$
    estimated for each sample from the others, so that no bias comes in. It keeps one number a sample and a parameter.
    """

    def prepare(self, values: Array, scores: Scores) -> dict[str, Array]:
        r"""$b_{j,s} h_{j,s}$ for every parameter."""
        _at_least_two(values, "OptimalCoefficient")

        def weighted(h: Array) -> Array:
            f = values.reshape(values.shape + (1,) * (h.ndim - values.ndim))
            h2 = h * h
            above, below = (jnp.sum(a, axis=0) - a for a in (f * h2, h2))
            return jnp.where(below > 0, above / jnp.where(below > 0, below, 1), 0) * h

        return jax.tree.map(weighted, scores())

    def control(self, prepared: PyTree[Array], box: Array, args: dict[str, Any]) -> Array:
        r"""$\sum_j b_j h_j (\theta_j - \bar\theta_j)$, which is zero with gradient $b_j h_j$."""
        total = jnp.zeros_like(box)
        for name, theta in args.items():
            term = prepared[name] * (theta - jax.lax.stop_gradient(theta))
            total = total + jnp.sum(term, axis=tuple(range(box.ndim, term.ndim)))
        return total


def _at_least_two(values: Array, owner: str) -> int:
    S = values.shape[0]
    if S < 2:
        raise ValueError(f"{owner}: expected `num_samples` of at least 2, to have others to average; got {S}.")
    return S

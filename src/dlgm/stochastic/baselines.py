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

Values = Callable[[], Float[Array, "s *batch"]]
Scores = Callable[[], dict[str, Array]]


class AbstractBaseline(eqx.Module):
    """How the control variate is made from the values of `f`, and how it enters the surrogate."""

    @abstractmethod
    def prepare(self, values: Values, scores: Scores) -> PyTree[Array]:
        """What each sample's control variate needs, samples first, or `None`.

        `values()` gives `f` at every sample, `scores()` each sample's gradient of log q. They cost something, and so
        are functions.
        """

    @abstractmethod
    def control(
        self, prepared: PyTree[Array], box: Float[Array, "s *batch"], args: dict[str, Array]
    ) -> Float[Array, "s *batch"]:
        """The control variate: zero in value, of mean zero in gradient. `box` is 1, with the score as its gradient."""


class NoBaseline(AbstractBaseline):
    """Subtracts nothing."""

    def prepare(self, values: Values, scores: Scores) -> None:
        """Nothing."""

    def control(self, prepared: None, box: Array, args: dict[str, Array]) -> Array:
        """Zero."""
        return jnp.zeros_like(box)


class ConstantBaseline(AbstractBaseline):
    """Subtracts a number known beforehand, or one for each of the law's batch entries."""

    value: Float[ArrayLike, "*batch"]

    def prepare(self, values: Values, scores: Scores) -> None:
        """Nothing."""

    def control(self, prepared: None, box: Array, args: dict[str, Array]) -> Array:
        r"""$b\,(\square - 1)$."""
        return _for_batch("ConstantBaseline", self.value, box) * (box - 1)


class RunningMean(AbstractBaseline):
    r"""Subtracts a decaying average of the values seen so far.

    It is a value, not a variable: `update` returns the next one, to be carried along with the rest of the state.

    >>> b = RunningMean(decay=0.9)
    >>> b = b.update(10.0).update(10.0)
    >>> round(float(b.mean), 6)
    10.0
    """

    total: Float[ArrayLike, "*batch"] = eqx.field(default=0.0, kw_only=True)
    weight: Float[ArrayLike, ""] = eqx.field(default=0.0, kw_only=True)
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
        return RunningMean(self.decay, total=keep * self.total + take * value, weight=keep * self.weight + take)

    def prepare(self, values: Values, scores: Scores) -> None:
        """Nothing: the average is known already."""

    def control(self, prepared: None, box: Array, args: dict[str, Array]) -> Array:
        r"""$b\,(\square - 1)$."""
        return _for_batch("RunningMean", self.mean, box) * (box - 1)


class LeaveOneOut(AbstractBaseline):
    r"""Subtracts from each sample the mean of the others, $b_s = \frac{1}{S-1} \sum_{t \ne s} f(\xi_t)$."""

    def prepare(self, values: Values, scores: Scores) -> Array:
        """The mean of the other samples."""
        f = _at_least_two(values(), "LeaveOneOut")
        return (jnp.sum(f, axis=0) - f) / (f.shape[0] - 1)

    def control(self, prepared: PyTree[Array], box: Array, args: dict[str, Array]) -> Array:
        r"""$b_s\,(\square_s - 1)$."""
        return prepared * (box - 1)


class OptimalCoefficient(AbstractBaseline):
    r"""The variance-minimising coefficient for every parameter by itself.

    With $h_j = \partial \log q / \partial\theta_j$, the variance of $(f - b_j) h_j$ is least at
    $$b_j^* = \frac{\mathrm{Cov}(f h_j, h_j)}{\mathrm{Var}(h_j)} = \frac{E[f h_j^2]}{E[h_j^2]},$$
    estimated for each sample from the others, so that no bias comes in. It keeps one number a sample and a parameter.
    """

    def prepare(self, values: Values, scores: Scores) -> dict[str, Array]:
        r"""$b_{j,s} h_{j,s}$ for every parameter."""
        all_f = _at_least_two(values(), "OptimalCoefficient")

        def weighted(h: Array) -> Array:
            f = all_f.reshape(all_f.shape + (1,) * (h.ndim - all_f.ndim))
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


def _at_least_two(values: Array, owner: str) -> Array:
    S = values.shape[0]
    if S < 2:
        raise ValueError(f"{owner}: expected `num_samples` of at least 2, to have others to average; got {S}.")
    return values


def _for_batch(owner: str, value: ArrayLike, box: Array) -> Array:
    batch = box.shape[1:]
    try:
        return jnp.broadcast_to(jnp.asarray(value, box.dtype), batch)
    except ValueError as error:
        raise ValueError(
            f"{owner}: expected one number, or one for each entry of the law's batch shape {batch}; "
            f"got shape {jnp.shape(value)}."
        ) from error

"""Integer pixels: a logistic variable rounded to the nearest level."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Key
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.location_scale import AbstractLocationScale
from dlgm.model.observations.logistic_bins import log_above, log_below, log_between
from dlgm.names import require_whole


class DiscretisedLogisticLaw(dist.Distribution):
    r"""A level $v \in \{0, \dots, L - 1\}$: a logistic variable $\mu + s \epsilon$, rounded to the nearest one.

    Levels lie evenly on $[-1, 1]$, at $y_v = 2v / (L - 1) - 1$, each in the middle of a bin of half width
    $h = 1 / (L - 1)$; the first and the last bin reach to infinity. So
    $P(v) = \sigma((y_v + h - \mu)/s) - \sigma((y_v - h - \mu)/s)$, without the term that has no edge.

    **Arguments**

    - `loc`: $\mu$.
    - `scale`: $s > 0$, on the axis of $y$.
    - `num_levels`: $L$.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    pytree_aux_fields = ("num_levels",)

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, num_levels: int = 256, *, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = promote_shapes(jnp.asarray(loc), jnp.asarray(scale))
        self.num_levels = num_levels
        batch = jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale))
        super().__init__(batch, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Whole numbers from 0 to `num_levels - 1`."""
        return constraints.integer_interval(0, self.num_levels - 1)

    @property
    def _half_width(self) -> float:
        return 1 / (self.num_levels - 1)

    def log_prob(self, value: ArrayLike) -> Float[Array, "*out"]:
        r"""$\log P(v)$, as the sum of what each edge and the gap between them contribute."""
        v, h = jnp.asarray(value, jnp.result_type(float, self.loc)), self._half_width
        y = 2 * h * v - 1
        upper = log_below((y + h - self.loc) / self.scale)
        lower = log_above((y - h - self.loc) / self.scale)
        has_upper, has_lower = v < self.num_levels - 1, v > 0
        inner = jnp.where(has_upper & has_lower, log_between(2 * h / self.scale), 0.0)
        return jnp.where(has_upper, upper, 0.0) + jnp.where(has_lower, lower, 0.0) + inner

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out"]:
        """A logistic draw, rounded to the nearest level."""
        dtype = jnp.result_type(float, self.loc, self.scale)
        y = self.loc + self.scale * jax.random.logistic(key, self.shape(tuple(sample_shape)), dtype)
        return jnp.clip(jnp.round((y + 1) / (2 * self._half_width)), 0, self.num_levels - 1)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        r"""$E[v] = \sum_{j=0}^{L-2} P(v > j)$."""
        h = self._half_width
        edges = 2 * h * jnp.arange(self.num_levels - 1) - 1 + h
        z = (jnp.asarray(self.loc)[..., None] - edges) / jnp.asarray(self.scale)[..., None]
        return jnp.sum(jax.nn.sigmoid(z), axis=-1)


class DiscretisedLogistic(AbstractLocationScale):
    r"""Pixels $0, \dots, L - 1$ (8 bits: `num_levels = 256`), each by its own `DiscretisedLogisticLaw`.

    Location, scale and `floor` are on the axis where black is -1 and white is 1. No density can grow without bound
    here, so that the floor only has to keep the arithmetic safe, and is lower than in the other families.
    """

    name: ClassVar[str] = "discretised-logistic"
    placeholder: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (0.0, np.inf)
    advice: ClassVar[str] = "Scale the pixels to these levels and round them."
    is_whole: ClassVar[bool] = True
    num_levels: int = eqx.field(static=True)

    def __init__(self, columns: int, num_levels: int = 256, variance: str = "per-column", floor: float = 1e-6) -> None:
        self._start(columns, variance, floor)
        require_whole(self.name, "num_levels", num_levels, 2)
        self.num_levels = num_levels

    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> DiscretisedLogisticLaw:
        return DiscretisedLogisticLaw(loc, scale, self.num_levels)

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return 2 * v / (self.num_levels - 1) - 1

    def _expected(self) -> str:
        return f"whole levels 0 to {self.num_levels - 1}"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return (values >= 0) & (values <= self.num_levels - 1) & (values == np.floor(values))

    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        y = 2 * cells.values / (self.num_levels - 1) - 1
        mean, variance = Cells(y, cells.observed).moments()
        return mean, variance * 3 / np.pi**2  # a standard logistic has variance pi^2 / 3

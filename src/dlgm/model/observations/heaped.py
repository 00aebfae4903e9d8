r"""Columns of numbers that pile up at zero: no claim, no gain, no rain, and otherwise anything.

$$\pi(v_i \mid o) = \sigma(l_i)\, 1[v_i = 0] + (1 - \sigma(l_i))\, f_i(v_i)\, 1[v_i \ne 0]$$

with a density $f_i$ for the other cells. It is a density with respect to lengths and a mass of one at zero: a cell at
the heap counts with its probability, any other with its density.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.nn import log_sigmoid, sigmoid
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Key

from dlgm.model.observations.bernoulli import Bernoulli
from dlgm.model.observations.cells import Cells
from dlgm.model.observations.location_scale import AbstractLocationScale
from dlgm.model.observations.observation import AbstractFamily
from dlgm.model.observations.real import Gaussian, LogNormal

_ELSEWHERE = 1.0  # in the support of every law for the other cells: it stands in for the heap, where none is asked
_TINY = 1e-30  # in place of a draw of the others that underflows: it is not the heap


class HeapedLaw(dist.Distribution):
    """Zero with the probability of a logit, else a draw of another law."""

    pytree_data_fields = ("logits", "others")

    def __init__(self, logits: Float[Array, " x"], others: dist.Distribution) -> None:
        self.logits, self.others = logits, others
        super().__init__(jnp.shape(logits))

    def log_prob(self, value: ArrayLike) -> Float[Array, "..."]:
        """The log-probability of zeros, and the log-density of other values."""
        v = jnp.asarray(value)
        elsewhere = self.others.log_prob(jnp.where(v == 0, _ELSEWHERE, v))
        return jnp.where(v == 0, log_sigmoid(self.logits), log_sigmoid(-self.logits) + elsewhere)

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Zeros and draws of the other law."""
        key_heap, key_others = jax.random.split(key)
        is_heap = jax.random.bernoulli(key_heap, sigmoid(self.logits), sample_shape + self.batch_shape)
        elsewhere = self.others.sample(key_others, sample_shape)
        return jnp.where(is_heap, 0.0, jnp.where(elsewhere == 0, _TINY, elsewhere))

    @property
    def mean(self) -> Float[Array, " x"]:
        """Of zeros and the others together."""
        return sigmoid(-self.logits) * self.others.mean


class AbstractHeaped(AbstractFamily):
    r"""A logit of the heap for each column, then the outputs of the family of the other cells."""

    placeholder: ClassVar[float] = 0.0
    columns: int = eqx.field(static=True)
    others: eqx.AbstractVar[AbstractLocationScale]

    @property
    def num_outputs(self) -> int:
        """A logit a column beside what the other cells need."""
        return self.columns + self.others.num_outputs

    @property
    def input_widths(self) -> tuple[int, ...]:
        """One number, zero at the heap."""
        return (1,) * self.columns

    def config(self) -> dict[str, Any]:
        """Of the other cells' family, under this one's name."""
        return {**self.others.config(), "family": self.name}

    def _law(self, outputs: Float[Array, " p"]) -> HeapedLaw:
        return HeapedLaw(outputs[: self.columns], self.others.law(outputs[self.columns :]))

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        # Of the others first, whose mean may be too large for a float.
        return sigmoid(-outputs[: self.columns]) * self.others.mean(outputs[self.columns :])

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        at_heap = cells.values == 0
        _, logits = Bernoulli(self.columns)._fit(cells._replace(values=at_heap))
        others, bias = self.others.initialise(cells.values, cells.observed & ~at_heap)
        return {"others": others}, jnp.concatenate([logits, bias])


class HeapedGaussian(AbstractHeaped):
    """Zero, or else Gaussian: cells on both sides of the heap, or far from it.

    >>> import numpy as np
    >>> family, bias = HeapedGaussian(1).initialise(np.array([[0.0], [0], [0], [2], [4]]))
    >>> [round(float(o), 2) for o in bias]  # log(3.5 / 2.5), and the mean of the others
    [0.34, 3.0]
    """

    name: ClassVar[str] = "heaped-gaussian"
    limits: ClassVar[tuple[float, float]] = Gaussian.limits
    advice: ClassVar[str] = ""
    others: Gaussian

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self.columns, self.others = columns, Gaussian(columns, variance, floor)

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return v

    def _expected(self) -> str:
        return "real numbers"

    def _allowed(self, values: np.ndarray) -> Bool[np.ndarray, "n x"]:
        return np.ones(values.shape, bool)


class HeapedLogNormal(AbstractHeaped):
    """Zero, or else positive and log-Normal; a recognition network sees log(1 + v)."""

    name: ClassVar[str] = "heaped-log-normal"
    limits: ClassVar[tuple[float, float]] = (0.0, LogNormal.limits[1])
    advice: ClassVar[str] = "Use heaped-gaussian for numbers on both sides of the heap."
    others: LogNormal

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self.columns, self.others = columns, LogNormal(columns, variance, floor)

    def _that_start(self, outputs: ArrayLike) -> Float[Array, " p"]:
        # What a number that is zero at the heap says to factor analysis is above all whether it is there. How large
        # the others are may well go the other way.
        o = super()._that_start(outputs)
        return jnp.concatenate([o[: self.columns], jax.lax.stop_gradient(o[self.columns :])])

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return jnp.log1p(v)

    def _expected(self) -> str:
        return "zero or positive numbers"

    def _allowed(self, values: np.ndarray) -> Bool[np.ndarray, "n x"]:
        return values >= 0

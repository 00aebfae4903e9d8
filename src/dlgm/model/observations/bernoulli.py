"""Binary columns."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Bool, Float

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.observation import AbstractFamily


class Bernoulli(AbstractFamily):
    r"""$v_i \in \{0, 1\}$ with $P(v_i = 1) = \sigma(o_i)$.

    >>> import numpy as np
    >>> family, bias = Bernoulli(2).initialise(np.array([[0, 1], [1, 1], [0, 1]]))
    >>> [round(float(p), 3) for p in family.mean(bias)]
    [0.375, 0.875]
    """

    name: ClassVar[str] = "bernoulli"
    placeholder: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    advice: ClassVar[str] = "Binarise the column first."
    best_fill: ClassVar[str] = "mode"
    is_whole: ClassVar[bool] = True
    columns: int = eqx.field(static=True)

    @property
    def levels(self) -> tuple[int, ...]:
        """Two codes."""
        return (2,) * self.columns

    @property
    def num_outputs(self) -> int:
        """A logit a column."""
        return self.columns

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The cell itself."""
        return (1,) * self.columns

    def _law(self, outputs: Float[Array, " p"]) -> dist.BernoulliLogits:
        return dist.BernoulliLogits(outputs)

    def _log_prob(
        self, v: Float[Array, " x"], outputs: Float[Array, " p"], mask: Bool[Array, " x"]
    ) -> Float[Array, " x"]:
        # The law's own formula, without its provision for infinite logits, in half the time.
        seen = jnp.where(mask, v, self.placeholder)
        log_p = seen * outputs - jnp.maximum(outputs, 0) - jnp.log1p(jnp.exp(-jnp.abs(outputs)))
        return jnp.where(mask, log_p, 0.0)

    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        return jax.nn.sigmoid(jnp.stack([-outputs, outputs], axis=1))

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return v

    def _expected(self) -> str:
        return "0 or 1"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return (values == 0) | (values == 1)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        # Half a success and half a failure are added, so that a constant column has a finite logit.
        ones = cells.total(cells.values)
        return {}, jnp.asarray(np.log(ones + 0.5) - np.log(cells.sizes - ones + 0.5))

"""Columns of counts: Poisson, and negative binomial where they vary more than that."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key

from dlgm.keys import plain_key
from dlgm.model.observations.cells import Cells
from dlgm.model.observations.observation import AbstractFamily
from dlgm.model.observations.tame import tame
from dlgm.names import require_whole

# The mean is exp(o) between e^-20 and e^20, and grows like |o| beyond.
_LOG_MEAN_LIMIT = 20.0
# Above e^7 a negative binomial is a Poisson law to all intents, and float32 has few digits left for the difference.
_LOG_CONCENTRATION_LIMIT = 7.0


class AbstractCounts(AbstractFamily):
    """A family over 0, 1, 2, .. whose mean is the exponential of the output."""

    placeholder: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (0.0, np.inf)
    advice: ClassVar[str] = "Use a family for real numbers if these are not counts."
    best_fill: ClassVar[str] = "median"
    is_whole: ClassVar[bool] = True
    columns: eqx.AbstractVar[int]

    @property
    def num_outputs(self) -> int:
        """The log of the mean, one a column."""
        return self.columns

    @property
    def input_widths(self) -> tuple[int, ...]:
        r"""$\log(1 + v)$."""
        return (1,) * self.columns

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return jnp.log1p(v)

    def _sample(self, outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        return super()._sample(outputs, plain_key(key))  # JAX draws Poisson numbers with its own kind of key only

    def _expected(self) -> str:
        return "counts 0, 1, 2, .."

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return (values >= 0) & (values == np.floor(values))

    def _log_means(self, cells: Cells) -> Float[np.ndarray, " x"]:
        """The log of each column's mean; half a count in one cell more where all are zero."""
        mean, _ = cells.moments()
        return np.log(np.where(mean > 0, mean, 0.5 / (cells.sizes + 1)))


class Poisson(AbstractCounts):
    r"""$v_i \sim \mathrm{Poisson}(e^{o_i})$.

    In float32 `log_prob` is good to about $10^{-6} v \log v$: to 0.01 for counts of ten thousand.
    """

    name: ClassVar[str] = "poisson"
    columns: int = eqx.field(static=True)

    def _law(self, outputs: Float[Array, " p"]) -> dist.Poisson:
        return dist.Poisson(jnp.exp(tame(outputs, _LOG_MEAN_LIMIT)))

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        return {}, jnp.asarray(self._log_means(cells))


class NegativeBinomial(AbstractCounts):
    r"""Counts of mean $m_i = e^{o_i}$ and variance $m_i + m_i^2 / \alpha_i$.

    It is a Poisson law whose rate is Gamma distributed; the concentration $\alpha_i$ is trained, one for each column.
    """

    name: ClassVar[str] = "negative-binomial"
    columns: int = eqx.field(static=True)
    log_concentration: Float[Array, " x"]  # log(alpha)

    def __init__(self, columns: int) -> None:
        require_whole(self.name, "columns", columns, 1)
        self.columns = columns
        self.log_concentration = jnp.zeros(columns)

    def _law(self, outputs: Float[Array, " p"]) -> dist.GammaPoisson:
        log_alpha = tame(self.log_concentration, _LOG_CONCENTRATION_LIMIT)
        rate = jnp.exp(log_alpha - tame(outputs, _LOG_MEAN_LIMIT))
        return dist.GammaPoisson(jnp.exp(log_alpha), rate)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        # Moments: alpha = m^2 / (variance - m).
        limit = _LOG_CONCENTRATION_LIMIT
        mean, variance = cells.moments()
        excess = np.maximum(variance - mean, 1e-30)
        log_alpha = np.clip(2 * np.log(np.maximum(mean, 1e-6)) - np.log(excess), -limit, limit)
        log_alpha = np.where((cells.sizes < 2) | (mean == 0), 0.0, log_alpha)
        return {"log_concentration": jnp.asarray(log_alpha)}, jnp.asarray(self._log_means(cells))

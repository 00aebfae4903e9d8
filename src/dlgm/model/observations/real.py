"""Columns of real numbers: Gaussian, Student's t, logistic, and the log-Normal for positive ones."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.location_scale import AbstractLocationScale

_START_DF = 5.0


class AbstractReal(AbstractLocationScale):
    """A location-scale family on the whole real line: the cell is its own coordinate."""

    placeholder: ClassVar[float] = 0.0
    limits: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    advice: ClassVar[str] = ""

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return v

    def _expected(self) -> str:
        return "real numbers"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return np.ones(values.shape, bool)


class Gaussian(AbstractReal):
    r"""$v_i \sim N(\mu_i, s_i^2)$. With one latent layer and a linear $T_0$ this is factor analysis."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self._start(columns, variance, floor)

    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> dist.Normal:
        return dist.Normal(loc, scale)

    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        return cells.moments()


class Logistic(AbstractReal):
    r"""$v_i = \mu_i + s_i \epsilon_i$ with $\epsilon_i$ standard logistic: tails a little heavier than Gaussian."""

    name: ClassVar[str] = "logistic"

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self._start(columns, variance, floor)

    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> dist.Logistic:
        return dist.Logistic(loc, scale)

    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = cells.moments()
        return mean, variance * 3 / np.pi**2  # a standard logistic has variance pi^2 / 3


class StudentT(AbstractReal):
    r"""$v_i \sim t_{\nu_i}(\mu_i, s_i^2)$, $\nu_i = 2 + \log(1 + e^{r_i})$: heavy tails, with a mean and a variance.

    $\nu_i$ is trained, one for each column, and starts at 5.
    """

    name: ClassVar[str] = "student-t"
    raw_df: Float[Array, " x"]  # r

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self._start(columns, variance, floor)
        self.raw_df = jnp.full(columns, np.log(np.expm1(_START_DF - 2)))

    @property
    def df(self) -> Float[Array, " x"]:
        r"""$\nu$."""
        return 2 + jax.nn.softplus(self.raw_df)

    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> dist.StudentT:
        return dist.StudentT(self.df, loc, scale)

    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        # Expectation maximisation at the df it has now: w is the expected precision of each cell's Gaussian.
        cells, nu = cells.thinned(), np.asarray(self.df, np.float64)
        v, count = np.where(cells.observed, cells.values, 0), np.maximum(cells.sizes, 1)
        start, spread = cells.moments()
        loc, var = start, np.maximum(spread, self.floor)
        for _ in range(30):
            w = (nu + 1) / (nu + (v - loc) ** 2 / var)
            loc = cells.total(w * v) / np.maximum(cells.total(w), 1e-30)
            var = np.maximum(cells.total(w * (v - loc) ** 2) / count, self.floor)
        few = cells.sizes < 2
        return np.where(few, start, loc), np.where(few, spread, var)


class LogNormal(AbstractLocationScale):
    r"""Positive columns: $\log v_i \sim N(\mu_i, s_i^2)$, with location, scale and `floor` on the log axis."""

    name: ClassVar[str] = "log-normal"
    placeholder: ClassVar[float] = 1.0
    limits: ClassVar[tuple[float, float]] = (1e-30, 1e30)
    advice: ClassVar[str] = "Shift the column, or use a family for real numbers."

    def __init__(self, columns: int, variance: str = "per-column", floor: float = 1e-4) -> None:
        self._start(columns, variance, floor)

    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> dist.LogNormal:
        return dist.LogNormal(loc, scale)

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        # Held within the limits before the exponential: the slope of one that overflows is NaN.
        law = self._law(outputs)
        return jnp.exp(jnp.clip(law.loc + law.scale**2 / 2, *np.log(self.limits)))

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return jnp.log(v)

    def _expected(self) -> str:
        return "positive numbers"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return values > 0

    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        return Cells(np.log(np.where(cells.observed, cells.values, 1.0)), cells.observed).moments()

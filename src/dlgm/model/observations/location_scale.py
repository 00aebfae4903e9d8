r"""Columns described by a location from the network and a scale: what the families on the real line share."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.observation import AbstractFamily
from dlgm.model.observations.tame import tame
from dlgm.names import closest, require_whole

VARIANCES = ("global", "per-column", "predicted")


class AbstractLocationScale(AbstractFamily):
    r"""$v_i = g(\mu_i + s_i \epsilon_i)$ with $s_i^2 = \text{floor} + e^{\rho_i}$ and $\mu = o_{1..x}$.

    **Arguments**

    - `columns`: $x$.
    - `variance`: where $\rho$ comes from. `"global"`: one trainable number; `"per-column"`: one for each column;
      `"predicted"`: the network, $\rho = o_{x+1..2x}$.
    - `floor`: keeps a column that the network learns by heart from an infinite density.
    """

    columns: int = eqx.field(static=True)
    variance: str = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    log_var: Float[Array, "..."] | None  # rho; None when predicted

    def _start(self, columns: int, variance: str, floor: float) -> None:
        require_whole(self.name, "columns", columns, 1)
        if variance not in VARIANCES:
            raise ValueError(
                f"{self.name}: expected `variance` to be one of {', '.join(VARIANCES)}; "
                f"got {variance!r}.{closest(variance, VARIANCES)}"
            )
        if not 0 < floor < np.inf:
            raise ValueError(f"{self.name}: expected a positive `floor`; got {floor}.")
        self.columns, self.variance, self.floor = columns, variance, float(floor)
        shapes: dict[str, tuple[int, ...]] = {"global": (), "per-column": (columns,)}
        self.log_var = jnp.zeros(shapes[variance]) if variance in shapes else None

    @abstractmethod
    def _standard(self, loc: Float[Array, " x"], scale: Float[Array, " x"]) -> dist.Distribution:
        r"""The law of $v$ given $\mu$ and $s$."""

    @abstractmethod
    def _marginals(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        r"""$\mu$ and $s^2$ that fit each column by itself."""

    @property
    def num_outputs(self) -> int:
        r"""$x$, or $2x$ when the variance is predicted too."""
        return 2 * self.columns if self.variance == "predicted" else self.columns

    @property
    def input_widths(self) -> tuple[int, ...]:
        r"""The coordinate in which $\mu$ and $s$ are measured."""
        return (1,) * self.columns

    def _law(self, outputs: Float[Array, " p"]) -> dist.Distribution:
        rho = outputs[self.columns :] if self.log_var is None else jnp.broadcast_to(self.log_var, (self.columns,))
        return self._standard(outputs[: self.columns], jnp.sqrt(self.floor + jnp.exp(tame(rho, 60.0))))

    def with_noise(self, share: Float[Array, " i"]) -> "AbstractLocationScale":
        r"""With $\rho$ lowered to what is left; a predicted one is left to the network."""
        if self.log_var is None:
            return self
        less = jnp.log(share).mean() if self.log_var.ndim == 0 else jnp.log(share)
        return eqx.tree_at(lambda own: own.log_var, self, self.log_var + less)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        loc, var = self._marginals(cells)
        if self.variance == "global":
            known = np.where(cells.sizes < 2, 0.0, cells.sizes)
            var = np.average(var, weights=known if known.any() else None)
        rho = jnp.asarray(np.log(np.maximum(var - self.floor, 0.1 * self.floor)))
        if self.variance == "predicted":
            return {}, jnp.concatenate([jnp.asarray(loc), rho])
        return {"log_var": rho}, jnp.asarray(loc)

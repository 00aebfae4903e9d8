r"""A recognition model that knows what holes do: every observed cell adds its own term of precision.

If a row's cells were Gaussian and linear in the latents, the posterior would be

$$C^{-1} = I + \sum_{i \in o} w_i w_i^\top, \qquad \mu = C \sum_{i \in o} w_i\, g_i (x_i - c_i),$$

a rank-one term for each observed cell, exact for every one of the $2^x$ patterns of holes: no network has to learn them
one by one. A network adds what is not linear: to $C^{-1}$ on its diagonal, and to the sum in $\mu$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Key

from dlgm.gaussians import PrecisionGaussian, precision_factors
from dlgm.model.networks import MLP, Affine
from dlgm.model.observations.tame import tame
from dlgm.model.posterior import AbstractPosterior, GaussianPosterior

_LARGEST = 8.0  # |log| of the prior's own precision


class CellRecognition(eqx.Module):
    r"""$q(\xi \mid v) = N(\mu, C)$, with a rank-one term of precision for each observed cell.

    $C^{-1} = \mathrm{diag}(e^\rho) + \sum_{i \in o} w_i w_i^\top$ and
    $\mu = C\,(\eta + \sum_{i \in o} w_i\, g_i (x_i - c_i))$, where $\eta$ and $\rho$ come from a
    network and start at zero. An encoded cell may be several numbers, which are seen or missing together.

    **Fields**

    - `weights`: $w$, a row for each number of an encoded row. `gain`: $g$. `center`: $c$.
    - `trunk`, `head`: the network, which sees the row and its holes; none, if there are no hidden layers.
    """

    weights: Float[Array, "i k"]
    gain: Float[Array, " i"]
    center: Float[Array, " i"]
    trunk: MLP | None
    head: Affine | None
    input_widths: tuple[int, ...] = eqx.field(static=True)
    sees_mask: bool = eqx.field(static=True)

    def __init__(
        self, input_widths: tuple[int, ...], K: int, trunk: MLP | None, num_features: int, *, key: Key[Array, ""]
    ) -> None:
        i = sum(input_widths)
        self.weights = jax.random.normal(key, (i, K)) * (0.2 / K**0.5)
        self.gain, self.center = jnp.ones(i), jnp.zeros(i)
        self.trunk = trunk
        self.head = None if trunk is None else Affine(num_features, 2 * K, gain=0.0, key=key)
        self.input_widths, self.sees_mask = input_widths, True

    @property
    def num_groups(self) -> int:
        """How many KL terms a row has."""
        return 1

    def __call__(self, x: Float[Array, " j"]) -> AbstractPosterior:
        """The posterior for one encoded row, with a number a column after it: one for a hole."""
        i, K = self.weights.shape
        seen = 1 - jnp.repeat(x[i:], np.array(self.input_widths), total_repeat_length=i)
        # One product of matrices for all rows, where a sum of outer products would be one for each.
        outer = (self.weights[:, :, None] * self.weights[:, None, :]).reshape(i, K * K)
        precision = (seen @ outer).reshape(K, K)
        information = (seen * self.gain * (x[:i] - self.center)) @ self.weights
        own = jnp.zeros(K)
        if self.trunk is not None and self.head is not None:
            eta, own = jnp.split(self.head(self.trunk.features(x)), 2)
            information = information + eta
        precision = precision + jnp.diag(jnp.exp(tame(own, _LARGEST)))
        J, inverse = precision_factors(precision)
        mean = (inverse @ information) @ inverse
        return GaussianPosterior(PrecisionGaussian(mean, J, inverse, validate_args=False))

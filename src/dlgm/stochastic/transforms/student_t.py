"""Student's t law, with a CDF that can be differentiated."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Float

# Gauss-Legendre nodes and weights, moved to [0, 1].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


class StudentT(dist.StudentT):
    r"""numpyro's Student's t, with its CDF computed so that `Implicit()` can use it for all three parameters.

    numpyro's own goes through the incomplete beta function, which JAX cannot differentiate in `df` and whose derivative
    in $x$ is $0 \cdot \infty$ at the centre. With $t = \sqrt{\nu} \tan\varphi$ the density becomes a power of a cosine,
    $$F(t) = \frac12 + \frac{\Gamma(\frac{\nu + 1}{2})}{\sqrt\pi\, \Gamma(\frac{\nu}{2})}
      \int_0^{\varphi(t)} \cos^{\nu - 1}\varphi\; d\varphi,$$
    which Gauss-Legendre quadrature integrates to rounding.

    **Arguments**: `df` $\nu > 0$, `loc`, `scale`.
    """

    def cdf(self, value: ArrayLike) -> Float[Array, "*out"]:
        """The class's equation."""
        angle = jnp.arctan((value - self.loc) / (self.scale * jnp.sqrt(self.df)))
        nodes, weights = (jnp.asarray(a, angle.dtype) for a in (_NODES, _WEIGHTS))
        powers = jnp.cos(angle[..., None] * nodes) ** (jnp.asarray(self.df)[..., None] - 1)
        integral = angle * jnp.sum(weights * powers, axis=-1)
        log_front = gammaln(0.5 * (self.df + 1)) - gammaln(0.5 * self.df) - 0.5 * jnp.log(jnp.pi)
        return 0.5 + jnp.exp(log_front) * integral

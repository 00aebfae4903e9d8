"""Student's t law, with a CDF that can be differentiated."""

import jax
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
    r"""numpyro's Student's t, with the derivatives of its CDF written out so that `Implicit()` can use all three.

    numpyro's own goes through the incomplete beta function, which JAX cannot differentiate in `df` and whose derivative
    in $x$ is $0 \cdot \infty$ at the centre. Here $\partial F / \partial x$ is the density. For `df`, with
    $t = \sqrt{\nu} \sinh y$ the density becomes a power of a hyperbolic cosine,
    $$F(t) = \frac12 + \frac{\Gamma(\frac{\nu + 1}{2})}{\sqrt\pi\, \Gamma(\frac{\nu}{2})}
      \int_0^{y(t)} \cosh^{-\nu} y\; dy,$$
    which is integrated, and differentiated, by Gauss-Legendre quadrature. In float32 the derivative in `df` has an
    absolute error of about 1e-6: above `df` = 100 or so little is left of it, for it falls like $1/\nu^2$.

    **Arguments**: `df` $\nu > 0$, `loc`, `scale`.
    """

    def cdf(self, value: ArrayLike) -> Float[Array, "*out"]:
        """The CDF: the value is numpyro's, the derivatives are not."""
        z = (value - self.loc) / self.scale
        df, z = jnp.broadcast_arrays(jnp.asarray(self.df, z.dtype), z)
        return _standard_cdf(df, z)


@jax.custom_jvp
def _standard_cdf(df: Array, z: Array) -> Array:
    return dist.StudentT(df, validate_args=False).cdf(z)


@_standard_cdf.defjvp
def _standard_cdf_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (df, z), (d_df, d_z) = primals, tangents
    density = jnp.exp(dist.StudentT(df, validate_args=False).log_prob(z))
    _, in_df = jax.jvp(lambda nu: _quadrature(nu, z), (df,), (d_df,))
    return _standard_cdf(df, z), density * d_z + in_df


def _quadrature(df: Array, z: Array) -> Array:
    """$F - 1/2$, by the class's equation."""
    y = jnp.arcsinh(z / jnp.sqrt(df))
    nodes, weights = (jnp.asarray(a, z.dtype) for a in (_NODES, _WEIGHTS))
    integral = y * jnp.sum(weights * jnp.cosh(y[..., None] * nodes) ** -df[..., None], axis=-1)
    log_front = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * jnp.log(jnp.pi)
    return jnp.exp(log_front) * integral

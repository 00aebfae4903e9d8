"""The generalised extreme value law."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Float, Key
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

from dlgm.stochastic.transforms.series import expm1_ratio, log1p_ratio


class GEV(dist.Distribution):
    r"""Generalised extreme value law, for every real shape: Weibull ($\xi<0$), Gumbel ($\xi=0$), Frechet ($\xi>0$).

    $$x = \mu + \sigma \frac{E^{-\xi} - 1}{\xi}, \quad E \sim \mathrm{Exp}(1), \qquad
      F(x) = \exp\left(-(1 + \xi z)^{-1/\xi}\right), \quad z = \frac{x - \mu}{\sigma}$$
    Both are written with quotients that pass smoothly through $\xi = 0$, so that the derivative in $\xi$ is right
    there too.

    **Arguments**

    - `loc`: $\mu$.
    - `scale`: $\sigma > 0$.
    - `shape_xi`: $\xi$. (scipy's `genextreme` has the opposite sign.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "shape_xi": constraints.real}
    reparametrized_params = ["loc", "scale", "shape_xi"]
    support = constraints.real

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, shape_xi: ArrayLike, *, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.shape_xi = promote_shapes(*map(jnp.asarray, (loc, scale, shape_xi)))
        batch = jnp.broadcast_shapes(*map(jnp.shape, (self.loc, self.scale, self.shape_xi)))
        super().__init__(batch, validate_args=validate_args)

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out"]:
        r"""$\mu + \sigma\, y\, \frac{e^{\xi y} - 1}{\xi y}$ with $y = -\log E$ a standard Gumbel draw."""
        dtype = jnp.result_type(float, self.loc, self.scale, self.shape_xi)
        y = jax.random.gumbel(key, self.shape(tuple(sample_shape)), dtype)
        return self.loc + self.scale * y * expm1_ratio(self.shape_xi * y)

    def _gumbel(self, value: ArrayLike) -> tuple[Array, Array]:
        """The standard Gumbel coordinate of `value`, and whether it lies inside the support."""
        z = (value - self.loc) / self.scale
        inside = 1 + self.shape_xi * z > 0
        z = jnp.where(inside, z, 0.0)
        return z * log1p_ratio(self.shape_xi * z), inside

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> Float[Array, "*out"]:
        r"""$-\log\sigma - (1 + \xi) y - e^{-y}$, with $y = \log(1 + \xi z) / \xi$; $-\infty$ outside the support."""
        y, inside = self._gumbel(value)
        return jnp.where(inside, -jnp.log(self.scale) - (1 + self.shape_xi) * y - jnp.exp(-y), -jnp.inf)

    def cdf(self, value: ArrayLike) -> Float[Array, "*out"]:
        r"""$\exp(-e^{-y})$."""
        y, inside = self._gumbel(value)
        outside = jnp.where(self.shape_xi > 0, 0.0, 1.0)  # below the lower end, or above the upper one
        return jnp.where(inside, jnp.exp(-jnp.exp(-y)), outside)

    def icdf(self, q: ArrayLike) -> Float[Array, "*out"]:
        r"""$\mu + \sigma (e^{\xi y} - 1) / \xi$ with $y = -\log(-\log q)$."""
        y = -jnp.log(-jnp.log(q))
        return self.loc + self.scale * y * expm1_ratio(self.shape_xi * y)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        r"""$\mu + \sigma (\Gamma(1 - \xi) - 1) / \xi$; infinite for $\xi \ge 1$."""
        xi = jnp.where(jnp.abs(self.shape_xi) < 1e-3, 1.0, self.shape_xi)
        away = (jnp.exp(gammaln(1 - jnp.minimum(xi, 0.999))) - 1) / xi
        # Gamma(1 - xi) = 1 + g xi + (g^2 + pi^2/6) xi^2 / 2 + ..
        near = jnp.euler_gamma + 0.5 * self.shape_xi * (jnp.euler_gamma**2 + jnp.pi**2 / 6)
        standard = jnp.where(jnp.abs(self.shape_xi) < 1e-3, near, away)
        return jnp.where(self.shape_xi < 1, self.loc + self.scale * standard, jnp.inf)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        r"""$\sigma^2 (\Gamma(1 - 2\xi) - \Gamma(1 - \xi)^2) / \xi^2$; infinite for $\xi \ge 1/2$."""
        small = jnp.abs(self.shape_xi) < 1e-2
        xi = jnp.minimum(jnp.where(small, 0.1, self.shape_xi), 0.499)
        away = (jnp.exp(gammaln(1 - 2 * xi)) - jnp.exp(2 * gammaln(1 - xi))) / xi**2
        zeta3 = 1.2020569031595942
        near = jnp.pi**2 / 6 + self.shape_xi * (2 * zeta3 + jnp.euler_gamma * jnp.pi**2 / 3)
        return jnp.where(self.shape_xi < 0.5, self.scale**2 * jnp.where(small, near, away), jnp.inf)

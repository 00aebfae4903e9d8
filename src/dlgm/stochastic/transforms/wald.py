"""The Wald (inverse Gaussian) law."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import log_ndtr, ndtr
from jax.typing import ArrayLike
from jaxtyping import Float, Key
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

from dlgm.stochastic.implicit import attach


class Wald(dist.Distribution):
    r"""The inverse Gaussian law with mean $\mu$ and concentration $\lambda$.

    $$p(x) = \sqrt{\frac{\lambda}{2\pi x^3}} \exp\left(-\frac{\lambda (x - \mu)^2}{2 \mu^2 x}\right), \quad x > 0$$

    A draw is one of the two roots of a quadratic in a squared normal draw (Michael, Schucany and Haas), chosen by a
    coin whose bias depends on the parameters. Differentiating that recipe would leave the coin out and be biased; the
    draw therefore takes its derivative from the CDF, as in `Implicit`.

    **Arguments**: `loc` $\mu > 0$, `concentration` $\lambda > 0$.
    """

    arg_constraints = {"loc": constraints.positive, "concentration": constraints.positive}
    reparametrized_params = ["loc", "concentration"]
    support = constraints.positive

    def __init__(self, loc: ArrayLike, concentration: ArrayLike, *, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = promote_shapes(jnp.asarray(loc), jnp.asarray(concentration))
        batch = jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.concentration))
        super().__init__(batch, validate_args=validate_args)

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out"]:
        """A draw, differentiable in both parameters."""
        normal_key, coin_key = jax.random.split(key)
        dtype = jnp.result_type(float, self.loc, self.concentration)
        shape = self.shape(tuple(sample_shape))
        mu, lam = jax.lax.stop_gradient((self.loc, self.concentration))
        t = mu * jax.random.normal(normal_key, shape, dtype) ** 2 / (2 * lam)
        smaller = mu / (1 + t + jnp.sqrt(t * (t + 2)))
        take_smaller = jax.random.uniform(coin_key, shape, dtype) * (mu + smaller) <= mu
        return attach(self, jnp.where(take_smaller, smaller, mu**2 / smaller))

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> Float[Array, "*out"]:
        """The class's equation, in logs; minus infinity where `value` is not positive."""
        mu, lam = self.loc, self.concentration
        inside = jnp.asarray(value) > 0
        x = jnp.where(inside, value, 1.0)
        deviation = lam * (x - mu) ** 2 / (2 * mu**2 * x)
        log_p = 0.5 * (jnp.log(lam) - jnp.log(2 * jnp.pi)) - 1.5 * jnp.log(x) - deviation
        return jnp.where(inside, log_p, -jnp.inf)

    def cdf(self, value: ArrayLike) -> Float[Array, "*out"]:
        r"""$\Phi(r (x/\mu - 1)) + e^{2\lambda/\mu}\, \Phi(-r (x/\mu + 1))$ with $r = \sqrt{\lambda / x}$."""
        inside = jnp.asarray(value) > 0
        x = jnp.where(inside, value, 1.0)
        args = jnp.broadcast_arrays(*(jnp.asarray(a, x.dtype) for a in (self.loc, self.concentration, x)))
        return jnp.where(inside, _cdf(*args), 0.0)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        r"""$\mu$."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        r"""$\mu^3 / \lambda$."""
        return jnp.broadcast_to(self.loc**3 / self.concentration, self.batch_shape)


@jax.custom_jvp
def _cdf(mu: Array, lam: Array, x: Array) -> Array:
    r, scaled = jnp.sqrt(lam / x), x / mu
    # the second term is a huge number times a tiny one, so it is multiplied in logs
    return ndtr(r * (scaled - 1)) + jnp.exp(2 * lam / mu + log_ndtr(-r * (scaled + 1)))


@_cdf.defjvp
def _cdf_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    r"""The second term is $\varphi(a)\, m$, with $m = (1 - \Phi(y)) / \varphi(y)$ at $y = r(x/\mu + 1)$.

    Here $a = r(x/\mu - 1)$. The derivatives of the two terms cancel but for
    $$\frac{\partial F}{\partial\mu} = -\frac{2\lambda}{\mu^2} \varphi(a)\, m, \qquad
      \frac{\partial F}{\partial\lambda} = \varphi(a) \left(\frac{2 m}{\mu} - \frac{r}{\lambda}\right), \qquad
      \frac{\partial F}{\partial x} = \varphi(a) \frac{r}{x},$$
    and automatic differentiation in float32 would leave rounding in place of what remains.
    """
    (mu, lam, x), (d_mu, d_lam, d_x) = primals, tangents
    r = jnp.sqrt(lam / x)
    a, y = r * (x - mu) / mu, r * (x + mu) / mu
    density = jnp.exp(-0.5 * a**2) / jnp.sqrt(2 * jnp.pi)
    m = _mills(y)
    # 2 m / mu - r / lam, with 2 / (mu y) - r / lam = (x - mu) / (r x (x + mu)) taken together
    in_lam = (x - mu) / (r * x * (x + mu)) + 2 / mu * (m - 1 / y)
    return _cdf(mu, lam, x), density * (-2 * lam / mu**2 * m * d_mu + in_lam * d_lam + r / x * d_x)


def _mills(y: Array) -> Array:
    r"""$(1 - \Phi(y)) / \varphi(y)$, from $y = 3$ on by its continued fraction $1/(y + 1/(y + 2/(y + ..)))$."""
    near = jnp.minimum(y, 3.0)
    direct = jnp.exp(log_ndtr(-near) + 0.5 * near**2) * jnp.sqrt(2 * jnp.pi)
    far = jnp.maximum(y, 3.0)
    tail = far
    for k in range(60, 0, -1):
        tail = far + k / tail
    return jnp.where(y < 3, direct, 1 / tail)

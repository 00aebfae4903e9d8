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
        """The class's equation, in logs."""
        mu, lam = self.loc, self.concentration
        deviation = lam * (value - mu) ** 2 / (2 * mu**2 * value)
        return 0.5 * (jnp.log(lam) - jnp.log(2 * jnp.pi)) - 1.5 * jnp.log(value) - deviation

    def cdf(self, value: ArrayLike) -> Float[Array, "*out"]:
        r"""$\Phi(r (x/\mu - 1)) + e^{2\lambda/\mu}\, \Phi(-r (x/\mu + 1))$ with $r = \sqrt{\lambda / x}$."""
        r, scaled = jnp.sqrt(self.concentration / value), value / self.loc
        # the second term is a huge number times a tiny one, so it is multiplied in logs
        return ndtr(r * (scaled - 1)) + jnp.exp(2 * self.concentration / self.loc + log_ndtr(-r * (scaled + 1)))

    @property
    def mean(self) -> Float[Array, "*batch"]:
        r"""$\mu$."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        r"""$\mu^3 / \lambda$."""
        return jnp.broadcast_to(self.loc**3 / self.concentration, self.batch_shape)

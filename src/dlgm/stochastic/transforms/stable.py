"""Alpha-stable laws by the method of Chambers, Mallows and Stuck."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Key
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

from dlgm.stochastic.transforms.series import expm1_ratio


class Stable(dist.Distribution):
    r"""The stable law $S(\alpha, \beta, \gamma, \delta; 0)$, in Nolan's 0-parametrisation.

    Its characteristic function is, for $\alpha \ne 1$,
    $$\log E\, e^{itX} = i \delta t - |\gamma t|^\alpha
      \left(1 + i \beta \tan\tfrac{\pi\alpha}{2}\, \mathrm{sign}(t) \left(|\gamma t|^{1-\alpha} - 1\right)\right)$$
    and its limit at $\alpha = 1$: this parametrisation, unlike the older one, is continuous there, so that the
    derivative in $\alpha$ exists for all $0 < \alpha \le 2$. $\alpha = 2$ is the Gaussian of variance $2\gamma^2$;
    $\alpha = 1, \beta = 0$ the Cauchy; $\alpha = \frac12, \beta = 1$ a Levy law.

    With $U$ uniform on $(-\pi/2, \pi/2)$, $W \sim \mathrm{Exp}(1)$, $\epsilon = 1 - \alpha$ and $\zeta =
    -\beta\cot(\pi\epsilon/2)$,
    $$X = \frac{\sin\alpha U - \zeta\cos\alpha U}{\cos U} Z^{\epsilon/\alpha} + \zeta, \qquad
      Z = \frac{\cos\epsilon U - \zeta \sin\epsilon U}{W \cos U}$$
    is the standard draw. The two terms in $\zeta$ grow without bound as $\alpha \to 1$ and cancel; the code collects
    them into a quotient that is finite, so that one formula serves every $\alpha$.

    There is no `log_prob`: the density has no closed form. Use `Pathwise()`.

    **Arguments**: `alpha` in $[0.001, 2]$, `beta` in $[-1, 1]$, `loc` $\delta$, `scale` $\gamma > 0$.
    """

    arg_constraints = {
        "alpha": constraints.interval(1e-3, 2.0),
        "beta": constraints.interval(-1.0, 1.0),
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    reparametrized_params = ["alpha", "beta", "loc", "scale"]
    support = constraints.real

    def __init__(
        self,
        alpha: ArrayLike,
        beta: ArrayLike,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.alpha, self.beta, self.loc, self.scale = promote_shapes(*map(jnp.asarray, (alpha, beta, loc, scale)))
        batch = jnp.broadcast_shapes(*map(jnp.shape, (self.alpha, self.beta, self.loc, self.scale)))
        super().__init__(batch, validate_args=validate_args)

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out"]:
        """A draw, differentiable in all four parameters."""
        u_key, w_key = jax.random.split(key)
        dtype = jnp.result_type(float, self.alpha, self.beta, self.loc, self.scale)
        shape = self.shape(tuple(sample_shape))
        # Both base draws are rounded, and may fall on the ends, where the transformation is infinite.
        end = 0.5 * jnp.pi * (1 - 2 * jnp.finfo(dtype).eps)
        U = jnp.clip(jax.random.uniform(u_key, shape, dtype, minval=-end, maxval=end), -end, end)
        W = jnp.maximum(jax.random.exponential(w_key, shape, dtype), 0.5 * jnp.finfo(dtype).eps)
        return self.loc + self.scale * standard_draw(self.alpha, self.beta, U, W)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        r"""$\delta - \beta\gamma\tan(\pi\alpha/2)$ for $\alpha > 1$; undefined (NaN) otherwise."""
        inside = self.alpha > 1
        shift = self.beta * self.scale * jnp.tan(0.5 * jnp.pi * jnp.where(inside, self.alpha, 1.5))
        return jnp.where(inside, self.loc - shift, jnp.nan)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        r"""$2\gamma^2$ at $\alpha = 2$, infinite below."""
        return jnp.where(self.alpha >= 2, 2 * self.scale**2, jnp.inf) * jnp.ones(self.batch_shape)


def standard_draw(alpha: Array, beta: Array, U: Array, W: Array) -> Array:
    """The transformation of the class's docstring."""
    e = 1 - alpha

    def sin_over_e(v: Array) -> Array:  # sin(e v) / e
        return v * jnp.sinc(e * v / jnp.pi)

    # e cot(pi e / 2), which is 2 / pi at e = 0: so zeta = -beta e_cot / e
    e_cot = (2 / jnp.pi) * jnp.cos(0.5 * jnp.pi * e) / jnp.sinc(0.5 * e)
    log_Z = jnp.log(jnp.cos(e * U) + beta * e_cot * sin_over_e(U)) - jnp.log(W) - jnp.log(jnp.cos(U))
    p = log_Z / alpha  # Z^(e / alpha) = exp(e p)
    # cos(alpha U) / cos U = 1 + e q
    q = jnp.tan(U) * sin_over_e(U) - 0.5 * e * sin_over_e_squared(e, U)
    # -zeta (cos(alpha U) / cos U * Z^(e / alpha) - 1) = beta e_cot ((1 + e q) (exp(e p) - 1) + e q) / e
    skewed = beta * e_cot * ((1 + e * q) * p * expm1_ratio(e * p) + q)
    return jnp.sin(alpha * U) / jnp.cos(U) * jnp.exp(e * p) + skewed


def sin_over_e_squared(e: Array, U: Array) -> Array:
    r"""$4 \sin^2(e U / 2) / e^2$, which is $U^2$ at $e = 0$."""
    return (U * jnp.sinc(0.5 * e * U / jnp.pi)) ** 2

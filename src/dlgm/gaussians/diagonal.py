"""The diagonal Gaussian."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian


class DiagonalGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C^{-1} = D = \mathrm{diag}(d)$.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `log_d`: $\log d$, the log *precision* of each latent, shape `(..., K)`. A variance $v$ is `log_d = -log(v)`.

    >>> import jax.numpy as jnp
    >>> q = DiagonalGaussian(mean=jnp.zeros(2), log_d=jnp.log(jnp.array([1.0, 4.0])))
    >>> [round(float(v), 4) for v in q.variance]
    [1.0, 0.25]
    """

    arg_constraints = {"mean": constraints.real_vector, "log_d": constraints.real_vector}
    reparametrized_params = ["mean", "log_d"]
    _events = {"mean": "K", "log_d": "K"}
    log_d: Float[Array, "*batch k"]

    def __init__(self, mean: RealLike, log_d: RealLike, *, validate_args: bool | None = None) -> None:
        self._store(validate_args, mean=mean, log_d=log_d)

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$R \epsilon = D^{-1/2} \epsilon$."""
        return jnp.exp(-0.5 * self.log_d) * self._as_event("eps", eps)

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^\top x = D^{-1/2} x$."""
        return self.factor_times(x)

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^{-1} x = D^{1/2} x$."""
        return jnp.exp(0.5 * self.log_d) * self._as_event("x", x)

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = -\sum_i \log d_i$."""
        return -jnp.sum(self.log_d, axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$1 / d_i$."""
        return jnp.exp(-self.log_d)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}(D\,C') - K = \sum_i (d_i C'_{ii} - 1)$."""
        return jnp.sum(jnp.exp(self.log_d) * other.variance - 1, axis=-1)

"""The Gaussian of the paper's section 4.3: a diagonal precision plus one outer product."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian
from dlgm.gaussians.shrinkage import log1p_square, shrink, shrunk_diagonal, stretch


class RankOneGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C^{-1} = D + u u^\top$, $D = \mathrm{diag}(d)$ (paper, eqs. 20-22).

    With $w = D^{-1/2} u$ the precision is $D^{1/2} (I + w w^\top) D^{1/2}$, so that
    $$R = D^{-1/2} (I + w w^\top)^{-1/2} = D^{-1/2} - a\, D^{-1} u u^\top D^{-1/2}$$
    is the paper's factor. Every member costs $O(K)$ time and memory, and so does its gradient.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `log_d`: $\log d$, the log precision before `u` is added, shape `(..., K)`.
    - `u`: the direction along which the posterior is narrower, shape `(..., K)`. `u` and `-u` are the same Gaussian.

    >>> import jax.numpy as jnp
    >>> q = RankOneGaussian(mean=jnp.zeros(2), log_d=jnp.zeros(2), u=jnp.array([1.0, 1.0]))
    >>> [[round(float(c), 3) for c in row] for row in q.covariance()]
    [[0.667, -0.333], [-0.333, 0.667]]
    """

    arg_constraints = {
        "mean": constraints.real_vector,
        "log_d": constraints.real_vector,
        "u": constraints.real_vector,
    }
    reparametrized_params = ["mean", "log_d", "u"]
    _events = {"mean": "K", "log_d": "K", "u": "K"}
    log_d: Float[Array, "*batch k"]
    u: Float[Array, "*batch k"]

    def __init__(self, mean: RealLike, log_d: RealLike, u: RealLike, *, validate_args: bool | None = None) -> None:
        self._store(validate_args, mean=mean, log_d=log_d, u=u)

    @property
    def _w(self) -> Float[Array, "*batch k"]:
        return jnp.exp(-0.5 * self.log_d) * self.u

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$R \epsilon = D^{-1/2} (I + w w^\top)^{-1/2} \epsilon$."""
        return jnp.exp(-0.5 * self.log_d) * shrink(self._w, self._as_event("eps", eps))

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^\top x = (I + w w^\top)^{-1/2} D^{-1/2} x$."""
        return shrink(self._w, jnp.exp(-0.5 * self.log_d) * self._as_event("x", x))

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^{-1} x = (I + w w^\top)^{1/2} D^{1/2} x$."""
        return stretch(self._w, jnp.exp(0.5 * self.log_d) * self._as_event("x", x))

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = \log\eta - \sum_i \log d_i$, $\eta = 1 / (1 + u^\top D^{-1} u)$."""
        return -log1p_square(self._w) - jnp.sum(self.log_d, axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$C_{ii} = \frac{1}{d_i} \left(1 - \eta u_i^2 / d_i\right)$."""
        return jnp.exp(-self.log_d) * shrunk_diagonal(self._w)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}((D + u u^\top) C') - K = \sum_i (d_i C'_{ii} - 1) + |R'^\top u|^2$."""
        along_u = jnp.sum(other.factor_transpose_times(self.u) ** 2, axis=-1)
        return jnp.sum(jnp.exp(self.log_d) * other.variance - 1, axis=-1) + along_u

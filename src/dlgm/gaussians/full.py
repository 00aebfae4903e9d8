"""The unrestricted Gaussian, for checks and small K."""

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians import checks
from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian, columns_first


class FullGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C = L L^\top$ and $R = L$ its lower Cholesky factor: $O(K^2)$ a draw.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `scale_tril`: $L$, shape `(..., K, K)`, with a positive diagonal. Entries above the diagonal are not read.

    >>> import jax.numpy as jnp
    >>> q = FullGaussian(mean=jnp.zeros(2), scale_tril=jnp.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> q.covariance().tolist()
    [[4.0, 2.0], [2.0, 2.0]]
    """

    arg_constraints = {"mean": constraints.real_vector, "scale_tril": constraints.lower_cholesky}
    reparametrized_params = ["mean", "scale_tril"]
    _events = {"mean": "K", "scale_tril": "K, K"}
    scale_tril: Float[Array, "*batch k k"]

    def __init__(self, mean: RealLike, scale_tril: RealLike, *, validate_args: bool | None = None) -> None:
        self._store(validate_args, mean=mean, scale_tril=scale_tril)
        if self._validate_args:
            diagonal = jnp.diagonal(self.scale_tril, axis1=-2, axis2=-1)
            checks.check_positive("FullGaussian", "scale_tril's diagonal", diagonal)

    @property
    def _L(self) -> Float[Array, "*batch k k"]:
        return jnp.tril(self.scale_tril)

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$L \epsilon$."""
        return jnp.einsum("...ij,...j->...i", self._L, self._as_event("eps", eps))

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$L^\top x$."""
        return jnp.einsum("...ji,...j->...i", self._L, self._as_event("x", x))

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$L^{-1} x$, by substitution."""
        x = self._as_event("x", x)
        shape = jnp.broadcast_shapes(x.shape, self.mean.shape)
        L = jnp.broadcast_to(self._L, shape[:-1] + self._L.shape[-2:])
        return solve_triangular(L, jnp.broadcast_to(x, shape)[..., None], lower=True)[..., 0]

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = 2 \sum_i \log L_{ii}$."""
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.scale_tril, axis1=-2, axis2=-1)), axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$C_{ii} = \sum_j L_{ij}^2$."""
        return jnp.sum(self._L**2, axis=-1)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}(C^{-1} C') - K = |L^{-1} R'|_F^2 - K$, a column at a time."""
        columns = columns_first(other.factor(), len(self.batch_shape))
        return jnp.sum(jnp.sum(self.solve_factor(columns) ** 2, axis=-1) - 1, axis=0)

"""The Gaussian of a dense precision matrix, for a few dozen latents, in plain arithmetic."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians import checks
from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian, columns_first

Matrix = Float[Array, "*batch k k"]


class PrecisionGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C^{-1} = J J^\top$, $J$ lower triangular, and $R = J^{-\top}$: $O(K^2)$ a draw.

    It is given $J$ and $J^{-1}$, both of which `precision_factors` finds, and never solves anything.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `tril`: $J$, shape `(..., K, K)`, with a positive diagonal. `inverse_tril`: $J^{-1}$.

    >>> import jax.numpy as jnp
    >>> J, inverse = precision_factors(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
    >>> PrecisionGaussian(jnp.zeros(2), J, inverse).covariance().round(4).tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    """

    arg_constraints = {
        "mean": constraints.real_vector,
        "tril": constraints.lower_cholesky,
        "inverse_tril": constraints.lower_cholesky,
    }
    reparametrized_params = ["mean", "tril", "inverse_tril"]
    _events = {"mean": "K", "tril": "K, K", "inverse_tril": "K, K"}
    tril: Matrix
    inverse_tril: Matrix

    def __init__(
        self, mean: RealLike, tril: RealLike, inverse_tril: RealLike, *, validate_args: bool | None = None
    ) -> None:
        self._store(validate_args, mean=mean, tril=tril, inverse_tril=inverse_tril)
        if self._validate_args:
            diagonal = jnp.diagonal(self.tril, axis1=-2, axis2=-1)
            checks.check_positive("PrecisionGaussian", "tril's diagonal", diagonal)

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$J^{-\top} \epsilon$."""
        return jnp.einsum("...ji,...j->...i", self.inverse_tril, self._as_event("eps", eps))

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$J^{-1} x$."""
        return jnp.einsum("...ij,...j->...i", self.inverse_tril, self._as_event("x", x))

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$J^\top x$."""
        return jnp.einsum("...ji,...j->...i", self.tril, self._as_event("x", x))

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = -2 \sum_i \log J_{ii}$."""
        return -2 * jnp.sum(jnp.log(jnp.diagonal(self.tril, axis1=-2, axis2=-1)), axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$C_{ii} = \sum_j (J^{-1})_{ji}^2$."""
        return jnp.sum(self.inverse_tril**2, axis=-2)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}(C^{-1} C') - K = |J^\top R'|_F^2 - K$, a column at a time."""
        columns = columns_first(other.factor(), len(self.batch_shape))
        return jnp.sum(jnp.sum(self.solve_factor(columns) ** 2, axis=-1) - 1, axis=0)


@jax.custom_jvp
def precision_factors(P: Matrix) -> tuple[Matrix, Matrix]:
    r"""$J$ and $J^{-1}$ with $J J^\top = P$, $J$ lower triangular, by elimination: $O(K^3)$.

    In JAX's own operations, where `jnp.linalg.cholesky` calls LAPACK: a training step with that call hung once on two
    cores, all threads waiting. It could not be made to happen again, so that the call is the cause is a suspicion.
    """
    K = P.shape[-1]

    def eliminate(j: Array, state: tuple[Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        left, right = state  # E P and E, where E so far has made zeros below the diagonal of the first j columns
        own = jnp.arange(K)[:, None] > j
        row = jax.lax.dynamic_slice_in_dim(left, j, 1, axis=-2)
        multiple = jax.lax.dynamic_slice_in_dim(left, j, 1, axis=-1)
        multiple = jnp.where(own, multiple, 0) / jax.lax.dynamic_slice_in_dim(row, j, 1, axis=-1)
        return left - multiple * row, right - multiple * jax.lax.dynamic_slice_in_dim(right, j, 1, axis=-2)

    eye = jnp.broadcast_to(jnp.eye(K, dtype=P.dtype), P.shape)
    upper, inverse = jax.lax.fori_loop(0, K, eliminate, (P, eye))
    root = jnp.sqrt(jnp.diagonal(upper, axis1=-2, axis2=-1))[..., None]
    # E P = D L' with P = L D L', so J = L sqrt(D), and E = L^-1.
    return jnp.tril((upper / root).mT), inverse / root


@precision_factors.defjvp
def _precision_factors_jvp(
    primals: tuple[Matrix], tangents: tuple[Matrix]
) -> tuple[tuple[Matrix, Matrix], tuple[Matrix, Matrix]]:
    J, inverse = precision_factors(*primals)
    change = inverse @ tangents[0] @ inverse.mT
    # J^-1 dJ is lower triangular, and with its transpose makes up J^-1 dP J^-T.
    half = jnp.tril(change, -1) + 0.5 * change * jnp.eye(J.shape[-1], dtype=J.dtype)
    return (J, inverse), (J @ half, -half @ inverse)

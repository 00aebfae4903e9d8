"""A diagonal precision plus r outer products."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian, columns_first
from dlgm.gaussians.shrinkage import log1p_square, shrink, shrunk_diagonal, sqrt_eta, stretch


class LowRankGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C^{-1} = D + U U^\top$, $D = \mathrm{diag}(d)$, $U$ of $r$ columns.

    The columns are taken one at a time, each a rank-one update in the coordinates that the ones before it have
    whitened: with $R_0 = D^{-1/2}$ and $w_j = R_{j-1}^\top u_j$,
    $$R_j = R_{j-1} (I + w_j w_j^\top)^{-1/2}, \quad R = R_r, \quad
      \log|C| = -\sum_i \log d_i - \sum_j \log(1 + w_j^\top w_j).$$
    This costs $O(K r^2)$, as the usual Cholesky factor of $I_r + U^\top D^{-1} U$ does, but has no matrix to become
    indefinite, and so never fails. With $r = 1$ it is `RankOneGaussian`.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `log_d`: $\log d$, the log precision before `U` is added, shape `(..., K)`.
    - `U`: shape `(..., K, r)`. Replacing `U` by `U Q` with `Q` orthogonal is the same Gaussian.

    Where columns are long and leave little freedom (nearly parallel, or as many as there are latents), about as many
    digits are lost as $|D^{-1/2} U|$ has: 1e4 leaves three in float32. More columns than latents gain nothing: use
    `FullGaussian` there.

    >>> import jax.numpy as jnp
    >>> q = LowRankGaussian(mean=jnp.zeros(3), log_d=jnp.zeros(3), U=jnp.eye(3)[:, :2])
    >>> [round(float(v), 3) for v in q.variance]
    [0.5, 0.5, 1.0]
    """

    arg_constraints = {
        "mean": constraints.real_vector,
        "log_d": constraints.real_vector,
        "U": constraints.independent(constraints.real, 2),
    }
    reparametrized_params = ["mean", "log_d", "U"]
    _events = {"mean": "K", "log_d": "K", "U": "K, r"}
    log_d: Float[Array, "*batch k"]
    U: Float[Array, "*batch k r"]

    def __init__(self, mean: RealLike, log_d: RealLike, U: RealLike, *, validate_args: bool | None = None) -> None:
        self._store(validate_args, mean=mean, log_d=log_d, U=U)
        if self.U.shape[-1] == 0:
            raise ValueError(
                f"LowRankGaussian: expected `U` to have at least one column; got shape {self.U.shape}. "
                "Use DiagonalGaussian for r = 0."
            )

    @property
    def _ws(self) -> Float[Array, "r *batch k"]:
        """The columns $w_1, .., w_r$ of the class's equation."""
        columns = jnp.moveaxis(jnp.exp(-0.5 * self.log_d)[..., None] * self.U, -1, 0)

        def take(columns: Array, j: Array) -> tuple[Array, None]:
            return jnp.where(_rows(columns) > j, shrink(columns[j], columns), columns), None

        return lax.scan(take, columns, jnp.arange(columns.shape[0]))[0]

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$R \epsilon = D^{-1/2} S_1 \cdots S_r\, \epsilon$ with $S_j = (I + w_j w_j^\top)^{-1/2}$."""
        x = _apply(shrink, self._ws, self._as_event("eps", eps), reverse=True)
        return jnp.exp(-0.5 * self.log_d) * x

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^\top x = S_r \cdots S_1 D^{-1/2} x$."""
        return _apply(shrink, self._ws, jnp.exp(-0.5 * self.log_d) * self._as_event("x", x))

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^{-1} x = S_r^{-1} \cdots S_1^{-1} D^{1/2} x$."""
        return _apply(stretch, self._ws, jnp.exp(0.5 * self.log_d) * self._as_event("x", x))

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = -\sum_i \log d_i - \sum_j \log(1 + w_j^\top w_j)$."""
        return -jnp.sum(log1p_square(self._ws), axis=0) - jnp.sum(self.log_d, axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$C_{ii} = \frac{1}{d_i} \left(1 - \sum_j \eta_j t_{ji}^2\right)$, $t_j = S_1 \cdots S_{j-1} w_j$."""
        ws = self._ws

        def unwhiten(ts: Array, i_and_w: tuple[Array, Array]) -> tuple[Array, None]:
            i, w = i_and_w
            return jnp.where(_rows(ts) > i, shrink(w, ts), ts), None

        ts, _ = lax.scan(unwhiten, ws, (jnp.arange(ws.shape[0]), ws), reverse=True)
        later = jnp.sum((sqrt_eta(ws) * ts)[1:] ** 2, axis=0)
        kept = shrunk_diagonal(ws[0]) - later
        # The columns take away at most r in all, so that at most r latents keep less than 1 / (r + 1), where the
        # subtraction cancels. Those have their variance computed as |R' e_i|^2, which costs a product with R' each.
        K, r = self.event_shape[0], ws.shape[0]
        least = lax.top_k(-kept, min(r, K))[1]
        unit = jnp.moveaxis(jax.nn.one_hot(least, K, dtype=kept.dtype), -2, 0)
        directly = jnp.sum(_apply(shrink, ws, jnp.exp(-0.5 * self.log_d) * unit) ** 2, axis=-1, keepdims=True)
        subtracted = jnp.exp(-self.log_d) * kept
        return jnp.where(jnp.any(unit > 0, axis=0), jnp.sum(unit * directly, axis=0), subtracted)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}((D + U U^\top) C') - K = \sum_i (d_i C'_{ii} - 1) + \sum_j |R'^\top u_j|^2$."""
        columns = columns_first(self.U, len(other.batch_shape))
        along_U = jnp.sum(other.factor_transpose_times(columns) ** 2, axis=(0, -1))
        return jnp.sum(jnp.exp(self.log_d) * other.variance - 1, axis=-1) + along_U


def _apply(operation: Callable[..., Array], ws: Array, x: Array, *, reverse: bool = False) -> Array:
    """One `shrink` or `stretch` after another: a loop, so that compiling takes no longer for a larger r."""
    x = jnp.broadcast_to(x, jnp.broadcast_shapes(x.shape, ws.shape[1:]))
    return lax.scan(lambda y, w: (operation(w, y), None), x, ws, reverse=reverse)[0]


def _rows(stack: Array) -> Array:
    return jnp.arange(stack.shape[0]).reshape((-1,) + (1,) * (stack.ndim - 1))

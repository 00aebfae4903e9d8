"""A diagonal precision plus r outer products."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float
from numpyro.distributions import constraints

from dlgm.gaussians.gaussian import AbstractGaussian
from dlgm.gaussians.shrinkage import shrink, shrunk_diagonal, sqrt_eta, stretch


class LowRankGaussian(AbstractGaussian):
    r"""$N(\mu, C)$ with $C^{-1} = D + U U^\top$, $D = \mathrm{diag}(d)$, $U$ of $r$ columns.

    The columns are taken one at a time, each a rank-one update in the coordinates that the ones before it have whitened:
    with $R_0 = D^{-1/2}$ and $w_j = R_{j-1}^\top u_j$,
    $$R_j = R_{j-1} (I + w_j w_j^\top)^{-1/2}, \qquad R = R_r, \qquad \log|C| = -\sum_i \log d_i - \sum_j \log(1 + w_j^\top w_j).$$
    This costs $O(K r^2)$, as the usual Cholesky factor of $I_r + U^\top D^{-1} U$ does, but has no matrix to become
    indefinite: columns that are long and nearly parallel are as safe as any. With $r = 1$ it is `RankOneGaussian`.

    **Arguments**

    - `mean`: $\mu$, shape `(..., K)`.
    - `log_d`: $\log d$, the log precision before `U` is added, shape `(..., K)`.
    - `U`: shape `(..., K, r)`. Replacing `U` by `U Q` with `Q` orthogonal is the same Gaussian.

    `variance` (and so `trace` and the KL divergences) is accurate to rounding relative to $1/d_i$, not relative to
    itself, when $r > 1$.

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

    def __init__(self, mean: ArrayLike, log_d: ArrayLike, U: ArrayLike, *, validate_args: bool | None = None) -> None:
        self._store(validate_args, mean=mean, log_d=log_d, U=U)
        if self.U.shape[-1] == 0:
            raise ValueError(
                f"LowRankGaussian: expected `U` to have at least one column; got shape {self.U.shape}. "
                "Use DiagonalGaussian for r = 0."
            )

    @property
    def _ws(self) -> list[Float[Array, "*batch k"]]:
        """The columns $w_1, .., w_r$ of the class's equation."""
        columns = jnp.moveaxis(jnp.exp(-0.5 * self.log_d)[..., None] * self.U, -1, 0)
        ws = []
        while columns.shape[0] > 0:
            w, columns = columns[0], columns[1:]
            ws.append(w)
            columns = shrink(w, columns)
        return ws

    def factor_times(self, eps: ArrayLike) -> Float[Array, "*out k"]:
        r"""$R \epsilon = D^{-1/2} S_1 \cdots S_r\, \epsilon$ with $S_j = (I + w_j w_j^\top)^{-1/2}$."""
        x = self._as_event("eps", eps)
        for w in reversed(self._ws):
            x = shrink(w, x)
        return jnp.exp(-0.5 * self.log_d) * x

    def factor_transpose_times(self, x: ArrayLike) -> Float[Array, "*out k"]:
        r"""$R^\top x = S_r \cdots S_1 D^{-1/2} x$."""
        y = jnp.exp(-0.5 * self.log_d) * self._as_event("x", x)
        for w in self._ws:
            y = shrink(w, y)
        return y

    def solve_factor(self, x: ArrayLike) -> Float[Array, "*out k"]:
        r"""$R^{-1} x = S_r^{-1} \cdots S_1^{-1} D^{1/2} x$."""
        y = jnp.exp(0.5 * self.log_d) * self._as_event("x", x)
        for w in self._ws:
            y = stretch(w, y)
        return y

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log|C| = -\sum_i \log d_i - \sum_j \log(1 + w_j^\top w_j)$."""
        return -sum((jnp.log1p(jnp.sum(w * w, axis=-1)) for w in self._ws), jnp.sum(self.log_d, axis=-1))

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        r"""$C_{ii} = \frac{1}{d_i} \left(1 - \sum_j \eta_j (S_1 \cdots S_{j-1} w_j)_i^2\right)$."""
        first, *later = ws = self._ws
        kept = shrunk_diagonal(first)
        for j, w in enumerate(later, start=1):
            t = w
            for before in reversed(ws[:j]):
                t = shrink(before, t)
            kept = kept - (sqrt_eta(w) * t) ** 2
        # C_ii >= 1 / (C^-1)_ii holds for every covariance, and keeps rounding from making a variance negative.
        least = 1 / (1 + jnp.exp(-self.log_d) * jnp.sum(self.U**2, axis=-1))
        return jnp.exp(-self.log_d) * jnp.maximum(kept, least)

    def precision_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}((D + U U^\top) C') = \sum_i d_i C'_{ii} + \sum_j |R'^\top u_j|^2$."""
        columns = jnp.moveaxis(self.U, -1, 0)
        along_U = jnp.sum(other.factor_transpose_times(columns) ** 2, axis=(0, -1))
        return jnp.sum(jnp.exp(self.log_d) * other.variance, axis=-1) + along_U

"""Independent Gaussians side by side: one Gaussian whose covariance is block diagonal."""

from itertools import accumulate
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dlgm.gaussians.checks import RealLike
from dlgm.gaussians.gaussian import AbstractGaussian, columns_first


class BlockGaussian(AbstractGaussian):
    r"""$\prod_l N(\xi_l \mid \mu_l, C_l)$ as one Gaussian over $\xi = (\xi_1, \dots, \xi_L)$.

    This is the paper's posterior over the latents of several layers, factorised over the layers (eq. 12). Each block
    keeps its own structure, so the costs add.

    **Arguments**

    - `blocks`: the Gaussians, in order, with the same batch shape.

    >>> import jax.numpy as jnp
    >>> from dlgm.gaussians import DiagonalGaussian, RankOneGaussian
    >>> one = DiagonalGaussian(mean=jnp.zeros(2), log_d=jnp.zeros(2))
    >>> two = RankOneGaussian(mean=jnp.ones(3), log_d=jnp.zeros(3), u=jnp.ones(3))
    >>> q = BlockGaussian(one, two)
    >>> q.event_shape, bool(jnp.isclose(q.kl_to_standard(), one.kl_to_standard() + two.kl_to_standard()))
    ((5,), True)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    blocks: tuple[AbstractGaussian, ...]

    def __init__(self, *blocks: AbstractGaussian, validate_args: bool | None = None) -> None:
        if not blocks:
            raise ValueError("BlockGaussian: expected at least one Gaussian; got none.")
        shapes = [q.batch_shape for q in blocks]
        if len(set(shapes)) > 1:
            raise ValueError(f"BlockGaussian: expected blocks of one batch shape; got {shapes}.")
        self.blocks = blocks
        super(AbstractGaussian, self).__init__(shapes[0], self.event_shape, validate_args=False)

    @property
    def mean(self) -> Float[Array, "*batch k"]:  # type: ignore[override]
        """The blocks' means, one after the other."""
        return jnp.concatenate([q.mean for q in self.blocks], axis=-1)

    def _each(self, method: str, x: RealLike) -> Float[Array, "*out k"]:
        ends = list(accumulate(q.event_shape[0] for q in self.blocks))
        pieces = jnp.split(self._as_event("x", x), ends[:-1], axis=-1)
        return jnp.concatenate([getattr(q, method)(p) for q, p in zip(self.blocks, pieces, strict=True)], axis=-1)

    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$R_l \epsilon_l$ for each block."""
        return self._each("factor_times", eps)

    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R_l^\top x_l$ for each block."""
        return self._each("factor_transpose_times", x)

    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R_l^{-1} x_l$ for each block."""
        return self._each("solve_factor", x)

    @property
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\sum_l \log|C_l|$."""
        return sum((q.log_det for q in self.blocks[1:]), start=self.blocks[0].log_det)

    @property
    def variance(self) -> Float[Array, "*batch k"]:
        """The blocks' variances, one after the other."""
        return jnp.concatenate([q.variance for q in self.blocks], axis=-1)

    def excess_trace(self, other: AbstractGaussian) -> Float[Array, "*batch"]:
        r"""$\sum_l \mathrm{Tr}(C_l^{-1} C'_{ll}) - K$."""
        sizes = [q.event_shape for q in self.blocks]
        if isinstance(other, BlockGaussian) and [q.event_shape for q in other.blocks] == sizes:
            pairs = zip(self.blocks, other.blocks, strict=True)
            return sum((q.excess_trace(p) for q, p in pairs), start=jnp.zeros(()))
        # Otherwise Tr(C^-1 C') = |R^-1 R'|^2, summed over the columns of the other's dense factor.
        whitened = self.solve_factor(columns_first(other.factor(), len(self.batch_shape)))
        return jnp.sum(jnp.sum(whitened**2, axis=0) - 1, axis=-1)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The blocks are the leaves."""
        return self.blocks, (self._validate_args,)

    @classmethod
    def tree_unflatten(cls, aux_data: tuple[Any, ...], params: tuple[Any, ...]) -> "BlockGaussian":
        """Rebuild without checks: JAX passes placeholders here."""
        q = cls.__new__(cls)
        q.__dict__.update(blocks=tuple(params), _validate_args=aux_data[0])
        return q

    def __repr__(self) -> str:
        if any(not isinstance(q, AbstractGaussian) for q in jax.tree.leaves(self.blocks, is_leaf=_is_gaussian)):
            return "BlockGaussian(...)"
        return f"BlockGaussian({', '.join(map(repr, self.blocks))})"


def _is_gaussian(x: object) -> bool:
    return isinstance(x, AbstractGaussian)

r"""The matrices $G_l$ that scale a layer's Gaussian noise: full, diagonal, or a number times the identity."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


class AbstractScale(eqx.Module):
    r"""An invertible $G$, with $\log|\det G|$ for the change of variables of app. A. Starts at the identity."""

    @abstractmethod
    def times(self, xi: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G \xi$."""

    @abstractmethod
    def solve(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G^{-1} x$."""

    @property
    @abstractmethod
    def log_abs_det(self) -> Float[Array, ""]:
        r"""$\log|\det G|$."""


class FullScale(AbstractScale):
    """Any K-by-K matrix."""

    matrix: Float[Array, "k k"]

    def __init__(self, K: int) -> None:
        self.matrix = jnp.eye(K)

    def times(self, xi: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G \xi$."""
        return xi @ self.matrix.T  # the vector first, as in Affine

    def solve(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G^{-1} x$."""
        return jnp.linalg.solve(self.matrix, x)

    @property
    def log_abs_det(self) -> Float[Array, ""]:
        r"""$\log|\det G|$, by LU."""
        return jnp.linalg.slogdet(self.matrix)[1]


class DiagonalScale(AbstractScale):
    """A diagonal matrix."""

    diagonal: Float[Array, " k"]

    def __init__(self, K: int) -> None:
        self.diagonal = jnp.ones(K)

    def times(self, xi: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G \xi$."""
        return self.diagonal * xi

    def solve(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G^{-1} x$."""
        return x / self.diagonal

    @property
    def log_abs_det(self) -> Float[Array, ""]:
        r"""$\sum_i \log|g_i|$."""
        return jnp.sum(jnp.log(jnp.abs(self.diagonal)))


class ScalarScale(AbstractScale):
    """One number times the identity."""

    scalar: Float[Array, ""]
    K: int = eqx.field(static=True)

    def __init__(self, K: int) -> None:
        self.scalar = jnp.ones(())
        self.K = K

    def times(self, xi: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G \xi$."""
        return self.scalar * xi

    def solve(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$G^{-1} x$."""
        return x / self.scalar

    @property
    def log_abs_det(self) -> Float[Array, ""]:
        r"""$K \log|g|$."""
        return self.K * jnp.log(jnp.abs(self.scalar))


SCALES: dict[str, type[AbstractScale]] = {"full": FullScale, "diagonal": DiagonalScale, "scalar": ScalarScale}

"""From features of a row to the parameters of a structured Gaussian: one head a covariance."""

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dlgm.gaussians import AbstractGaussian, DiagonalGaussian, FullGaussian, LowRankGaussian, RankOneGaussian
from dlgm.model.networks import MLP


class AbstractHead(eqx.Module):
    r"""Maps features to $N(\mu, C)$ over `K` latents through one network with a small last layer.

    Small, so that the posterior starts near the prior; not zero, since $u = 0$ is a stationary point of the rank-one
    form ($u$ and $-u$ are the same Gaussian) that gradients alone would not leave.
    """

    network: MLP
    K: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(
        self, num_in: int, hidden: Sequence[int], K: int, *, nonlinearity: str, rank: int = 1, key: Key[Array, ""]
    ) -> None:
        self.K, self.rank = K, rank
        size = self.num_parameters(K, rank)
        self.network = MLP(num_in, hidden, size, nonlinearity=nonlinearity, output_gain=0.2, key=key)

    @staticmethod
    @abstractmethod
    def num_parameters(K: int, rank: int) -> int:
        """How many numbers the network has to produce."""

    @abstractmethod
    def gaussian(self, parameters: Float[Array, " p"]) -> AbstractGaussian:
        """The Gaussian those numbers stand for."""

    def __call__(self, features: Float[Array, " f"]) -> AbstractGaussian:
        """The Gaussian for one row's features."""
        return self.gaussian(self.network(features))


class DiagonalHead(AbstractHead):
    r"""$C^{-1} = \mathrm{diag}(d)$."""

    @staticmethod
    def num_parameters(K: int, rank: int) -> int:
        """A mean and a log precision each."""
        return 2 * K

    def gaussian(self, parameters: Float[Array, " p"]) -> AbstractGaussian:
        """`(mean, log_d)`."""
        mean, log_d = jnp.split(parameters, 2)
        return DiagonalGaussian(mean, log_d, validate_args=False)


class RankOneHead(AbstractHead):
    r"""$C^{-1} = \mathrm{diag}(d) + u u^\top$."""

    @staticmethod
    def num_parameters(K: int, rank: int) -> int:
        """A mean, a log precision and an entry of u each."""
        return 3 * K

    def gaussian(self, parameters: Float[Array, " p"]) -> AbstractGaussian:
        """`(mean, log_d, u)`."""
        mean, log_d, u = jnp.split(parameters, 3)
        return RankOneGaussian(mean, log_d, u, validate_args=False)


class LowRankHead(AbstractHead):
    r"""$C^{-1} = \mathrm{diag}(d) + U U^\top$, $U$ of `rank` columns."""

    @staticmethod
    def num_parameters(K: int, rank: int) -> int:
        """A mean, a log precision and `rank` entries of U each."""
        return (2 + rank) * K

    def gaussian(self, parameters: Float[Array, " p"]) -> AbstractGaussian:
        """`(mean, log_d, U)`."""
        mean, log_d, U = jnp.split(parameters, [self.K, 2 * self.K])
        return LowRankGaussian(mean, log_d, U.reshape(self.K, self.rank), validate_args=False)


class FullHead(AbstractHead):
    r"""$C = L L^\top$ with $L$ lower triangular and a positive diagonal: for checks and small K."""

    @staticmethod
    def num_parameters(K: int, rank: int) -> int:
        """A mean each, and a triangle."""
        return K + K * (K + 1) // 2

    def gaussian(self, parameters: Float[Array, " p"]) -> AbstractGaussian:
        """`(mean, log of the diagonal, what is below it)`."""
        mean, log_diagonal, below = jnp.split(parameters, [self.K, 2 * self.K])
        scale_tril = jnp.zeros((self.K, self.K), parameters.dtype).at[jnp.tril_indices(self.K, -1)].set(below)
        return FullGaussian(mean, scale_tril + jnp.diag(jnp.exp(log_diagonal)), validate_args=False)


HEADS: dict[str, type[AbstractHead]] = {
    "diagonal": DiagonalHead,
    "rank-one": RankOneHead,
    "rank-r": LowRankHead,
    "full": FullHead,
}


def make_heads(
    covariance: str,
    num_in: Sequence[int],
    latent: Sequence[int],
    *,
    hidden: Sequence[int] = (),
    nonlinearity: str = "relu",
    rank: int = 1,
    key: Key[Array, ""],
) -> tuple[AbstractHead, ...]:
    """One head a layer, from `num_in[l]` features to `latent[l]` latents."""
    keys = jax.random.split(key, len(latent))
    return tuple(
        HEADS[covariance](i, hidden, K, nonlinearity=nonlinearity, rank=rank, key=k)
        for i, K, k in zip(num_in, latent, keys, strict=True)
    )

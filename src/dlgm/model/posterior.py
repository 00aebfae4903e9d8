r"""What the recognition model says of one row: the distribution $q(\xi \mid v)$ over all layers' latents."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dlgm.gaussians import AbstractGaussian, BlockGaussian
from dlgm.model.heads import AbstractHead
from dlgm.stochastic import AbstractEstimator, expect


class AbstractPosterior(eqx.Module):
    r"""$q(\xi \mid v)$ for one row, $\xi$ the latents of all layers as one vector.

    Its KL divergence from the prior comes in groups: one for each layer, or a single one where the layers are tied
    together in a joint Gaussian.
    """

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> tuple[Float[Array, " k"], Float[Array, " g"]]:
        r"""A draw $\xi$, differentiable in the parameters, and the KL divergence of each group.

        The KL is analytic; where a layer's Gaussian depends on the draws above it, it is the KL given those draws.
        """

    @abstractmethod
    def move(self, xi: Float[Array, " k"], angle: Float[Array, ""], key: Key[Array, ""]) -> Float[Array, " k"]:
        r"""A step from $\xi$ that leaves $q$ as it is and can be reversed: with $\xi = \mu + R \epsilon$, to
        $\mu + R (\epsilon \cos\alpha + \eta \sin\alpha)$ for a new $\eta \sim N(0, I)$. At a right angle, a new draw.
        """

    @abstractmethod
    def log_prob(self, xi: Float[Array, " k"]) -> Float[Array, ""]:
        r"""$\log q(\xi \mid v)$."""

    @abstractmethod
    def free_energy(
        self,
        log_likelihood: Callable[[Float[Array, " k"]], Float[Array, ""]],
        beta: Float[Array, ""],
        *,
        key: Key[Array, ""],
        estimator: AbstractEstimator,
        num_samples: int,
    ) -> Float[Array, ""]:
        r"""$-E_q[\log p(v \mid \xi)] + \beta\, KL$, with the gradient that `estimator` gives."""

    @abstractmethod
    def gaussian(self, key: Key[Array, ""]) -> AbstractGaussian:
        """The Gaussian over all latents; where it depends on the draws above, the one for a draw made with `key`."""


class GaussianPosterior(AbstractPosterior):
    """One Gaussian over all latents: a block a layer (factorised), or a single one (joint)."""

    q: AbstractGaussian

    def sample(self, key: Key[Array, ""]) -> tuple[Float[Array, " k"], Float[Array, " g"]]:
        """A draw, and the KL divergence of each block."""
        return self.q.sample(key), self._kl()

    def move(self, xi: Float[Array, " k"], angle: Float[Array, ""], key: Key[Array, ""]) -> Float[Array, " k"]:
        """Part of the way to a new draw."""
        mean = self.q.mean
        return mean + jnp.cos(angle) * (xi - mean) + jnp.sin(angle) * (self.q.sample(key) - mean)

    def _kl(self) -> Float[Array, " g"]:
        blocks = self.q.blocks if isinstance(self.q, BlockGaussian) else (self.q,)
        return jnp.stack([block.kl_to_standard() for block in blocks])

    def log_prob(self, xi: Float[Array, " k"]) -> Float[Array, ""]:
        """The Gaussian's log density."""
        return self.q.log_prob(xi)

    def free_energy(
        self,
        log_likelihood: Callable[[Float[Array, " k"]], Float[Array, ""]],
        beta: Float[Array, ""],
        *,
        key: Key[Array, ""],
        estimator: AbstractEstimator,
        num_samples: int,
    ) -> Float[Array, ""]:
        """One expectation, and the analytic KL."""
        expected = expect(log_likelihood, self.q, key=key, estimator=estimator, num_samples=num_samples)
        return -expected + beta * jnp.sum(self._kl())

    def gaussian(self, key: Key[Array, ""]) -> AbstractGaussian:
        """The Gaussian."""
        return self.q


class DirectedPosterior(AbstractPosterior):
    r"""$q(\xi \mid v) = \prod_l q(\xi_l \mid v, \xi_{l+1}, \dots, \xi_L)$: each layer sees the draws above it."""

    features: Float[Array, " f"]
    heads: tuple[AbstractHead, ...]  # layer 1 first; the top layer, which sees the features alone, last

    def _conditional(self, l: int, above: Float[Array, " a"]) -> AbstractGaussian:
        return self.heads[l](jnp.concatenate([self.features, above]))

    def _descend(self, key: Key[Array, ""]) -> tuple[list[AbstractGaussian], Float[Array, " k"]]:
        """The layers' Gaussians from 1 to L, and a draw."""
        xi, gaussians = jnp.zeros(0, self.features.dtype), []
        for l in reversed(range(len(self.heads))):
            q = self._conditional(l, xi)
            xi = jnp.concatenate([q.sample(jax.random.fold_in(key, l)), xi])
            gaussians.append(q)
        return gaussians[::-1], xi

    def sample(self, key: Key[Array, ""]) -> tuple[Float[Array, " k"], Float[Array, " g"]]:
        """A draw from the top down, and each layer's KL divergence given the draws above it."""
        gaussians, xi = self._descend(key)
        return xi, jnp.stack([q.kl_to_standard() for q in gaussians])

    def move(self, xi: Float[Array, " k"], angle: Float[Array, ""], key: Key[Array, ""]) -> Float[Array, " k"]:
        """The same from the top down, in the coordinates in which each layer is standard normal."""
        moved, end = jnp.zeros(0, self.features.dtype), xi.shape[0]
        for l in reversed(range(len(self.heads))):
            start = end - self.heads[l].K
            before, after = self._conditional(l, xi[end:]), self._conditional(l, moved)
            epsilon = before.solve_factor(xi[start:end] - before.mean)
            eta = jax.random.normal(jax.random.fold_in(key, l), epsilon.shape, epsilon.dtype)
            step = after.factor_times(jnp.cos(angle) * epsilon + jnp.sin(angle) * eta)
            moved, end = jnp.concatenate([after.mean + step, moved]), start
        return moved

    def log_prob(self, xi: Float[Array, " k"]) -> Float[Array, ""]:
        """The sum of the conditionals' log densities."""
        total, start = jnp.zeros((), xi.dtype), 0
        for l, head in enumerate(self.heads):
            end = start + head.K
            total += self._conditional(l, xi[end:]).log_prob(xi[start:end])
            start = end
        return total

    def free_energy(
        self,
        log_likelihood: Callable[[Float[Array, " k"]], Float[Array, ""]],
        beta: Float[Array, ""],
        *,
        key: Key[Array, ""],
        estimator: AbstractEstimator,
        num_samples: int,
    ) -> Float[Array, ""]:
        """An expectation inside an expectation, from the top layer down, `num_samples` draws at each level."""

        def below(l: int, above: Float[Array, " a"]) -> Float[Array, ""]:
            if l < 0:
                return -log_likelihood(above)
            q = self._conditional(l, above)
            rest = expect(
                lambda xi: below(l - 1, jnp.concatenate([xi, above])),
                q,
                key=jax.random.fold_in(key, l),
                estimator=estimator,
                num_samples=num_samples,
            )
            return beta * q.kl_to_standard() + rest

        return below(len(self.heads) - 1, jnp.zeros(0, self.features.dtype))

    def gaussian(self, key: Key[Array, ""]) -> AbstractGaussian:
        """The layers' Gaussians for one draw of the layers above."""
        return BlockGaussian(*self._descend(key)[0])

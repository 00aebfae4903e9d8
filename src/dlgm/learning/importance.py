"""The importance-weighted bound as an objective."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float, Key

from dlgm.learning.noise import Noise
from dlgm.learning.objective import AbstractObjective, Terms, check_num_samples, noisy_inputs
from dlgm.model import Model
from dlgm.model.generative import log_standard_normal
from dlgm.model.posterior import AbstractPosterior

GRADIENTS = ("pathwise", "doubly-reparameterised")


class ImportanceWeighted(AbstractObjective):
    r"""$-E\left[\log \frac1S \sum_s w_s\right]$, $\log w_s = \log p(v, \xi_s) - \log q(\xi_s \mid v)$, $\xi_s \sim q$.

    One sample gives the free energy, with the KL sampled; more give a tighter bound on $-\log p(v)$ (Burda, Grosse and
    Salakhutdinov, 2016).

    **Arguments**

    - `num_samples`: $S$.
    - `gradient`: `"pathwise"` differentiates the bound through the draws. Its signal-to-noise ratio in the recognition
      model falls as $S$ grows; `"doubly-reparameterised"` (Tucker et al., 2019) has the same expectation and does not
      suffer so, at the same cost.

    With $\tilde w_s = w_s / \sum w$, the doubly reparameterised gradient in the recognition parameters is
    $\sum_s \tilde w_s^2 \frac{\partial \log w_s}{\partial \xi_s} \frac{\partial \xi_s}{\partial \theta^r}$.
    """

    num_samples: int = eqx.field(static=True, default=5)
    gradient: str = eqx.field(static=True, default="doubly-reparameterised")

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, at_least=1)
        if self.gradient not in GRADIENTS:
            raise ValueError(f"gradient: expected one of {', '.join(GRADIENTS)}; got {self.gradient!r}.")

    def __call__(
        self,
        model: Model,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The importance-weighted bound of one row."""
        key_inputs, key_latents, key_draws = jax.random.split(key, 3)
        x = noisy_inputs(model, v, mask, noise, key_inputs)
        posterior = model.recognition(x)
        xi, kl = jax.vmap(posterior.sample)(jax.random.split(key_draws, self.num_samples))
        keys_latents = jax.random.split(key_latents, self.num_samples)

        def log_weights(q: AbstractPosterior, xi: Float[Array, "s k"]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
            def one(xi_s: Float[Array, " k"], k: Key[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
                log_v = model.generative.log_likelihood(v, noise.corrupt_latents(xi_s, k), mask)
                return log_v + beta * (log_standard_normal(xi_s) - q.log_prob(xi_s)), log_v

            return jax.vmap(one)(xi, keys_latents)

        log_w, log_v = log_weights(posterior, xi)
        bound = logsumexp(log_w) - math.log(self.num_samples)
        if self.gradient == "doubly-reparameterised":
            weights = jax.lax.stop_gradient(jax.nn.softmax(log_w))
            # The recognition model acts through the draws alone, and the gradient that comes back through a draw is
            # multiplied once more by its weight. beta scales the score term, whose reparameterisation turns w into
            # w - w^2: with beta = 1, w^2 is left. One pass through the generative model serves both gradients, and the
            # compiler sees that the values are those of `log_w`.
            xi = _scale_gradient(xi, (1 - beta + beta * weights)[:, None])
            weighted = jnp.sum(weights * log_weights(_frozen(posterior), xi)[0])
            bound = jax.lax.stop_gradient(bound - weighted) + weighted
        return Terms(-bound, *jax.lax.stop_gradient((-jnp.mean(log_v), jnp.mean(kl, axis=0))))


def _frozen(posterior: AbstractPosterior) -> AbstractPosterior:
    """The same posterior, which lets no gradient through to its parameters."""
    arrays, rest = eqx.partition(posterior, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


@jax.custom_vjp
def _scale_gradient(x: Float[Array, "s k"], factor: Float[Array, "s 1"]) -> Float[Array, "s k"]:
    """`x`, whose gradient comes back multiplied by `factor`."""
    return x


def _scale_gradient_forward(
    x: Float[Array, "s k"], factor: Float[Array, "s 1"]
) -> tuple[Float[Array, "s k"], Float[Array, "s 1"]]:
    return x, factor


def _scale_gradient_backward(
    factor: Float[Array, "s 1"], gradient: Float[Array, "s k"]
) -> tuple[Float[Array, "s k"], Float[Array, "s 1"]]:
    return factor * gradient, jnp.zeros_like(factor)


_scale_gradient.defvjp(_scale_gradient_forward, _scale_gradient_backward)

r"""Self-normalised importance sampling of the latents behind one row with holes."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float, Int, Key

from dlgm.inference.laplace import laplace
from dlgm.model import GenerativeModel, Model
from dlgm.model.generative import log_standard_normal
from dlgm.model.posterior import AbstractPosterior

_ROUND = 50  # proposals that are made together
_NO_WEIGHT = -1e30  # the logarithm of nothing, with which one can still count


class Resampled(NamedTuple):
    """Draws by weight, weighted means, and what the weights say."""

    draws: Float[Array, "s x"]
    mean: Float[Array, " x"]
    probabilities: Float[Array, "x c"]
    effective_sample_size: Float[Array, ""]
    log_p: Float[Array, ""]


class _Sums(NamedTuple):
    """Running sums of weights, each divided by exp(`largest`), and the proposals with their log weights."""

    largest: Array
    weights: Array
    squares: Array
    mean: Array
    probabilities: Array
    xi: Array
    log_w: Array


def resample_row(
    model: Model,
    generative: GenerativeModel,
    v: Float[Array, " x"],
    mask: Bool[Array, " x"],
    fills: Float[Array, "f x"],
    class_probabilities: Callable[[Float[Array, " p"]], Float[Array, "x c"]],
    key: Key[Array, ""],
    *,
    num_draws: int,
    num_proposals: int,
    newton: int = 0,
) -> Resampled:
    r"""Draws from $p(v_m \mid v_o)$ by way of $p(\xi \mid v_o) \propto p(v_o \mid \xi)\, p(\xi)$.

    Proposals come in rounds, as many from each part of a mixture: from $q(\xi \mid v_o)$, the recognition model with
    the holes, and from $q(\xi \mid v)$ at each of some completed rows `fills`; with `newton`, also from a Gaussian at
    the peak of $p(\xi \mid v_o)$ that so many steps find. Weights are with respect to the whole mixture, so that no
    part has to be good by itself.
    """
    posteriors: list[AbstractPosterior] = [model.posterior(v, mask), *(model.posterior(fill) for fill in fills)]
    if newton:
        start = posteriors[0].gaussian(jax.random.fold_in(key, 0)).mean
        posteriors.append(laplace(generative, v, mask, start, newton))
    J = len(posteriors)
    each = -(-min(_ROUND, num_proposals) // J)
    num_rounds = -(-num_proposals // (J * each))
    observation = generative.observation
    key_rounds, key_choice, key_v = jax.random.split(key, 3)

    def add(i: Int[Array, ""], sums: _Sums) -> _Sums:
        keys = jax.random.split(jax.random.fold_in(key_rounds, i), J)
        xi = jnp.concatenate(
            [
                jax.vmap(lambda k, q=q: q.sample(k)[0])(jax.random.split(own, each))
                for q, own in zip(posteriors, keys, strict=True)
            ]
        )
        log_q = logsumexp(jnp.stack([jax.vmap(q.log_prob)(xi) for q in posteriors]), axis=0) - jnp.log(J)
        outputs = jax.vmap(generative.outputs)(xi)
        log_v = jax.vmap(lambda o: jnp.sum(observation.log_prob(v, o, mask)))(outputs)
        log_w = log_v + log_standard_normal(xi) - log_q
        log_w = jnp.where(jnp.isfinite(log_w), log_w, _NO_WEIGHT)
        largest = jnp.maximum(sums.largest, jnp.max(log_w))
        old, w = jnp.exp(sums.largest - largest), jnp.where(log_w > _NO_WEIGHT, jnp.exp(log_w - largest), 0.0)
        return _Sums(
            largest,
            sums.weights * old + jnp.sum(w),
            sums.squares * old**2 + jnp.sum(w**2),
            sums.mean * old + w @ jax.vmap(observation.mean)(outputs),
            sums.probabilities * old + jnp.einsum("j,jxc->xc", w, jax.vmap(class_probabilities)(outputs)),
            jax.lax.dynamic_update_slice(sums.xi, xi, (i * J * each, 0)),
            jax.lax.dynamic_update_slice(sums.log_w, log_w, (i * J * each,)),
        )

    size, K = num_rounds * J * each, sum(generative.latent)
    nothing = _Sums(
        jnp.asarray(_NO_WEIGHT),
        jnp.zeros(()),
        jnp.zeros(()),
        jnp.zeros(v.shape),
        jnp.zeros(jax.eval_shape(class_probabilities, jnp.zeros(observation.num_outputs)).shape),
        jnp.zeros((size, K)),
        jnp.full(size, -jnp.inf),
    )
    sums = jax.lax.fori_loop(0, num_rounds, add, nothing)
    # By the weights' distribution function: a Gumbel number for each pair of draw and proposal would take far longer.
    below = jnp.cumsum(jnp.exp(sums.log_w - sums.largest))
    chosen = jnp.searchsorted(below, below[-1] * jax.random.uniform(key_choice, (num_draws,)), side="right")
    chosen = jnp.minimum(chosen, size - 1)  # rounding

    def fill(xi: Float[Array, " k"], k: Key[Array, ""]) -> Float[Array, " x"]:
        return jnp.where(mask, v, observation.sample(generative.outputs(xi), k))

    return Resampled(
        jax.vmap(fill)(sums.xi[chosen], jax.random.split(key_v, num_draws)),
        sums.mean / sums.weights,
        sums.probabilities / sums.weights,
        sums.weights**2 / sums.squares,
        sums.largest + jnp.log(sums.weights / size),
    )


def pooled(parts: Resampled) -> Resampled:
    r"""What several draws of the parameters say together, each with the same weight: $\theta \sim q(\theta)$."""
    return Resampled(
        parts.draws.reshape(-1, parts.draws.shape[-1]),
        jnp.mean(parts.mean, axis=0),
        jnp.mean(parts.probabilities, axis=0),
        jnp.sum(parts.effective_sample_size),
        logsumexp(parts.log_p) - jnp.log(parts.log_p.shape[0]),
    )

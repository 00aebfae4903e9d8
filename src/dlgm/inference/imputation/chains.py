r"""Markov chains over $(\xi, v_m)$ for one row: the paper's (section 5.4, app. F, eq. 26), and its correction."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from dlgm.model import GenerativeModel, Model
from dlgm.model.generative import log_standard_normal


class ChainState(eqx.Module):
    """A completed row, the latents that its fills were drawn with, and what those were decoded to."""

    v: Float[Array, " x"]
    xi: Float[Array, " k"]
    outputs: Float[Array, " p"]
    accepted: Int[Array, ""]  # proposals taken so far


Draw = Callable[[Float[Array, " p"], Key[Array, ""]], Float[Array, " x"]]
Step = Callable[[ChainState, Key[Array, ""]], ChainState]


def holes_from(generative: GenerativeModel, v: Float[Array, " x"], mask: Bool[Array, " x"]) -> Draw:
    r"""$v_m \sim p(v_m \mid \xi)$, what was observed held fixed."""

    def draw(outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        return jnp.where(mask, v, generative.observation.sample(outputs, key))

    return draw


def chain_step(model: Model, generative: GenerativeModel, draw: Draw) -> Step:
    r"""$\xi \sim q(\xi \mid v)$, then the holes from $p(v_m \mid \xi)$."""

    def step(state: ChainState, key: Key[Array, ""]) -> ChainState:
        key_xi, key_v = jax.random.split(key)
        xi, _ = model.posterior(state.v).sample(key_xi)
        outputs = generative.outputs(xi)
        return ChainState(draw(outputs, key_v), xi, outputs, state.accepted + 1)

    return step


def metropolis_step(model: Model, generative: GenerativeModel, draw: Draw) -> Step:
    r"""Metropolis within Gibbs (Mattei and Frellsen, 2018): $p(v_m \mid v_o)$ exactly, whatever q is.

    A proposal $\xi^*$ is taken with probability
    $\min(1, \frac{p(v, \xi^*)\, q(\xi \mid v)}{p(v, \xi)\, q(\xi^* \mid v)})$; then the holes from $p(v_m \mid \xi)$.
    It is a draw from $q(\xi \mid v)$, or lies part of the way to one (`AbstractPosterior.move`), by an angle that is
    itself drawn: with many latents, a whole new draw is hardly ever better than what was tuned to the row, and a small
    step often is. Such steps leave q as it is, so that the ratio is the same for all of them.
    """

    def step(state: ChainState, key: Key[Array, ""]) -> ChainState:
        key_xi, key_angle, key_accept, key_v = jax.random.split(key, 4)
        posterior = model.posterior(state.v)

        def log_weight(xi: Float[Array, " k"], outputs: Float[Array, " p"]) -> Float[Array, ""]:
            log_v = jnp.sum(generative.observation.log_prob(state.v, outputs))
            return log_v + log_standard_normal(xi) - posterior.log_prob(xi)

        angle = jnp.pi / 2 * jax.random.uniform(key_angle) ** 2  # mostly small ones
        proposed = posterior.move(state.xi, angle, key_xi)
        decoded = generative.outputs(proposed)
        log_ratio = log_weight(proposed, decoded) - log_weight(state.xi, state.outputs)
        # 1 - u lies in (0, 1]. A proposal of no weight is never taken, nor is one that cannot be compared.
        taken = jnp.log1p(-jax.random.uniform(key_accept)) < log_ratio
        xi, outputs = jnp.where(taken, proposed, state.xi), jnp.where(taken, decoded, state.outputs)
        return ChainState(draw(outputs, key_v), xi, outputs, state.accepted + taken)

    return step


def start_chain(generative: GenerativeModel, draw: Draw, key: Key[Array, ""]) -> ChainState:
    """Holes filled at random, with a row of the generative model."""
    key_xi, key_v = jax.random.split(key)
    xi = generative.sample_latents(key_xi)
    outputs = generative.outputs(xi)
    return ChainState(draw(outputs, key_v), xi, outputs, jnp.zeros((), jnp.int32))


def advance(step: Step, state: ChainState, num: Int[Array, ""] | int, key: Key[Array, ""]) -> ChainState:
    """`num` steps."""
    return jax.lax.fori_loop(0, num, lambda i, state: step(state, jax.random.fold_in(key, i)), state)

"""Rows without their noise: the chains of imputation, with every cell in doubt rather than some unknown."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, UInt32

from dlgm.inference.imputation.chains import ChainState, Draw, advance, chain_step, metropolis_step
from dlgm.inference.rows import map_rows, row_key
from dlgm.model import GenerativeModel, Model

_BLOCK = 200


def denoise(
    model: Model,
    rows: Any,
    mask: Any = None,
    *,
    noise: float | None = None,
    draws: int = 100,
    warm_up: int = 50,
    key: Key[Array, ""],
) -> Float[np.ndarray, "n x"]:
    r"""$E[v \mid c]$, the means of the clean rows behind corrupted ones.

    **Arguments**

    - `rows`, `mask`: corrupted rows $c$, and which cells there are; holes (NaN, by default) are filled in too.
    - `noise`: how they were corrupted. For binary rows, the probability that a bit was turned over; for Gaussian ones,
      the standard deviation of what was added. The answer is then exact as `draws` grows: Metropolis within Gibbs on
      $p(\xi, v \mid c) \propto p(\xi)\, p(v \mid \xi)\, p(c \mid v)$. Without it, and for other families, each row is
      taken to the nearest that the model knows: the mean of reconstructions $E[v \mid \xi]$, $\xi \sim q(\xi \mid c)$.
    - `draws`, `warm_up`: steps of the chain that are averaged, and those of the plain chain before.

    A Bayesian model is taken at the means of its parameters.
    """
    for name, value, least in (("draws", draws, 1), ("warm_up", warm_up, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}: expected a whole number of at least {least}; got {value!r}.")
    family = model.generative.observation.name
    if noise is not None:
        if family not in ("bernoulli", "gaussian"):
            raise ValueError(f"noise: known for bernoulli and gaussian rows; the family is {family}. Leave it out.")
        if not 0 < noise < (0.5 if family == "bernoulli" else np.inf):
            expected = "a probability between 0 and 0.5" if family == "bernoulli" else "a positive standard deviation"
            raise ValueError(f"noise: expected {expected}; got {noise}.")
    block = partial(_denoise_block, known=noise is not None)
    return map_rows(model, lambda v, m, h: block(model, v, m, h, key, noise or 0.0, draws, warm_up), rows, mask, _BLOCK)


@partial(jax.jit, static_argnames="known")
def _denoise_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"] | None,
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    noise: Float[Array, ""] | float,
    draws: Int[Array, ""] | int,
    warm_up: Int[Array, ""] | int,
    *,
    known: bool,
) -> Float[Array, "b x"]:
    generative = model.generative.folded()

    def one(c: Float[Array, " x"], m: Bool[Array, " x"] | None, h: UInt32[Array, "2"]) -> Float[Array, " x"]:
        own = row_key(key, h)
        if not known:
            posterior = model.posterior(c, m)

            def add(i: Int[Array, ""], total: Float[Array, " x"]) -> Float[Array, " x"]:
                xi, _ = posterior.sample(jax.random.fold_in(own, i))
                return total + generative.observation.mean(generative.outputs(xi))

            return jax.lax.fori_loop(0, draws, add, jnp.zeros(c.shape)) / draws

        key_start, key_first, key_warm, key_run = jax.random.split(own, 4)
        clean, draw = _given_noise(generative, c, m, noise)
        xi, _ = model.posterior(c, m).sample(key_start)
        outputs = generative.outputs(xi)
        state = ChainState(draw(outputs, key_first), xi, outputs, jnp.zeros((), jnp.int32))
        state = advance(chain_step(model, generative, draw), state, warm_up, key_warm)
        step = metropolis_step(model, generative, draw)

        def average(i: Int[Array, ""], carry: tuple[ChainState, Array]) -> tuple[ChainState, Array]:
            state = step(carry[0], jax.random.fold_in(key_run, i))
            return state, carry[1] + clean(state.outputs)

        return jax.lax.fori_loop(0, draws, average, (state, jnp.zeros(c.shape)))[1] / draws

    return jax.vmap(one)(rows, mask, hashes)


def _given_noise(
    generative: GenerativeModel, c: Float[Array, " x"], mask: Bool[Array, " x"] | None, noise: Float[Array, ""] | float
) -> tuple[Any, Draw]:
    r"""$E[v \mid \xi, c]$ and draws from $p(v \mid \xi, c)$, as functions of what $\xi$ is decoded to."""
    observation = generative.observation
    seen = jnp.ones(c.shape, bool) if mask is None else mask
    c = jnp.where(seen, c, 0)
    if observation.name == "bernoulli":
        # A bit that was seen as 1 is (1 - noise) / noise times as likely to have been 1.
        evidence = jnp.where(seen, (2 * c - 1) * jnp.log((1 - noise) / noise), 0)

        def mean(outputs: Float[Array, " p"]) -> Float[Array, " x"]:
            return jax.nn.sigmoid(outputs + evidence)

        def draw(outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
            return jax.random.bernoulli(key, mean(outputs)).astype(c.dtype)

        return mean, draw

    def moments(outputs: Float[Array, " p"]) -> tuple[Float[Array, " x"], Float[Array, " x"]]:
        law = observation.law(outputs)
        gain = jnp.where(seen, law.variance / (law.variance + noise**2), 0)
        return law.mean + gain * (c - law.mean), law.variance * (1 - gain)

    def draw_real(outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        loc, variance = moments(outputs)
        return loc + jnp.sqrt(variance) * jax.random.normal(key, c.shape, c.dtype)

    return lambda outputs: moments(outputs)[0], draw_real

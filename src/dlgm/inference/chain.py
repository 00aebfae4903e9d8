"""Filling holes by the paper's Markov chain (section 5.4, app. F, eq. 26)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, UInt32

from dlgm.inference.rows import map_rows, row_key
from dlgm.model import Model

_BLOCK = 200


def fill(
    model: Model, rows: Any, mask: Any, *, iterations: int = 15, key: Key[Array, ""]
) -> tuple[Float[np.ndarray, "n x"], Float[np.ndarray, "n x"]]:
    r"""Draws for the holes, and the conditional means behind the last draw; observed cells are kept.

    The chain starts from a row of the generative model in the holes, then alternates $\xi \sim q(\xi \mid v)$ and
    $v_m \sim p(v_m \mid \xi)$, with what was observed held fixed. Its limit is close to $p(v_m \mid v_o)$ as far as the
    recognition model is close to the true posterior.
    """
    if mask is None:
        raise ValueError("mask: expected which cells were observed; got None, and so nothing to fill.")
    if not isinstance(iterations, int) or isinstance(iterations, bool) or iterations < 1:
        raise ValueError(f"iterations: expected a whole number of at least 1; got {iterations!r}.")
    return map_rows(model, lambda v, m, h: _fill_block(model, v, m, h, key, iterations), rows, mask, _BLOCK)


@jax.jit
def _fill_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"],
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    iterations: Int[Array, ""] | int,
) -> tuple[Float[Array, "b x"], Float[Array, "b x"]]:
    generative = model.generative.folded()

    def one(v: Float[Array, " x"], m: Bool[Array, " x"], h: UInt32[Array, "2"]) -> tuple[Array, Array]:
        own = row_key(key, h)
        key_start, key_steps = jax.random.split(own)
        start = jnp.where(m, v, generative.sample(key_start))

        def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            key_xi, key_v = jax.random.split(jax.random.fold_in(key_steps, i))
            xi, _ = model.posterior(state[0]).sample(key_xi)
            outputs = generative.outputs(xi)
            return (
                jnp.where(m, v, generative.observation.sample(outputs, key_v)),
                jnp.where(m, v, generative.observation.mean(outputs)),
            )

        return jax.lax.fori_loop(0, iterations, step, (start, start))

    return jax.vmap(one)(rows, mask, hashes)

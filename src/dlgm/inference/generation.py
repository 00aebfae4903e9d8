"""What the model makes: new rows, reconstructions, and the latents behind a row."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key, UInt32

from dlgm.inference.rows import map_rows, row_key
from dlgm.keys import quick_key
from dlgm.model import Model

_BLOCK = 500


class Samples(NamedTuple):
    """New rows, and the means of the observation family they were drawn from (pixel probabilities, for images)."""

    rows: Float[Array | np.ndarray, "n x"]
    means: Float[Array | np.ndarray, "n x"]


def sample(model: Model, num: int, *, key: Key[Array, ""]) -> Samples:
    r"""`num` new rows by ancestral sampling: $\xi \sim N(0, I)$, then $v \sim \pi(v \mid T_0(h_1(\xi)))$.

    The i-th row depends on `key` and i alone: asking for more leaves the first ones as they were. A Bayesian model's
    parameters are drawn anew for each row.
    """
    if not isinstance(num, int) or isinstance(num, bool) or num < 1:
        raise ValueError(f"num: expected a whole number of at least 1; got {num!r}.")
    pieces = [_sample_block(model, key, np.uint32(start)) for start in range(0, num, _BLOCK)]
    return Samples(*(np.concatenate([np.asarray(p) for p in leaves])[:num] for leaves in zip(*pieces, strict=True)))


@jax.jit
def _sample_block(model: Model, key: Key[Array, ""], start: UInt32[Array, ""]) -> Samples:
    def one(i: UInt32[Array, ""]) -> Samples:
        own = jax.random.fold_in(quick_key(key), i)
        key_xi, key_v = jax.random.split(own)
        generative = point if model.parameters is None else model.drawn(jax.random.fold_in(own, 2)).generative
        outputs = generative.outputs(generative.sample_latents(key_xi))
        return Samples(generative.observation.sample(outputs, key_v), generative.observation.mean(outputs))

    numbers = start + jax.numpy.arange(_BLOCK, dtype=jax.numpy.uint32)
    if model.parameters is not None:
        return jax.lax.map(one, numbers)  # one after another: a draw of all parameters for each would not fit
    point = model.generative.folded()
    return jax.vmap(one)(numbers)


def conditional_means(model: Model, xi: Float[Array, "n k"]) -> Float[Array, "n x"]:
    r"""$E[v \mid \xi]$ for each row of latents; of a Bayesian model, at the means of its parameters."""
    return _conditional_means(model, xi)


@jax.jit
def _conditional_means(model: Model, xi: Float[Array, "n k"]) -> Float[Array, "n x"]:
    return jax.vmap(lambda x: model.generative.observation.mean(model.generative.outputs(x)))(xi)


class Latents(NamedTuple):
    """The posterior of each row: its mean and the variance of each latent."""

    mean: Float[Array | np.ndarray, "n k"]
    variance: Float[Array | np.ndarray, "n k"]


def posterior_moments(model: Model, rows: Any, mask: Any = None, *, key: Key[Array, ""]) -> Latents:
    r"""Mean and variances of $q(\xi \mid v)$. (For a directed posterior: given one draw of the layers above.)"""
    return map_rows(model, lambda v, m, h: _moments_block(model, v, m, h, key), rows, mask, _BLOCK)


@jax.jit
def _moments_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"] | None,
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
) -> Latents:
    def one(v: Float[Array, " x"], m: Bool[Array, " x"] | None, h: UInt32[Array, "2"]) -> Latents:
        q = model.posterior(v, m).gaussian(row_key(key, h))
        return Latents(q.mean, q.variance)

    return jax.vmap(one)(rows, mask, hashes)


def reconstruct(model: Model, rows: Any, mask: Any = None, *, key: Key[Array, ""]) -> Float[np.ndarray, "n x"]:
    r"""$E[v' \mid \xi]$ at one draw $\xi \sim q(\xi \mid v)$ for every row: holes are filled with their means.

    Of a Bayesian model, at the means of its parameters.
    """
    return map_rows(model, lambda v, m, h: _reconstruct_block(model, v, m, h, key), rows, mask, _BLOCK)


@jax.jit
def _reconstruct_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"] | None,
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
) -> Float[Array, "b x"]:
    def one(v: Float[Array, " x"], m: Bool[Array, " x"] | None, h: UInt32[Array, "2"]) -> Float[Array, " x"]:
        xi, _ = model.posterior(v, m).sample(row_key(key, h))
        return model.generative.observation.mean(model.generative.outputs(xi))

    return jax.vmap(one)(rows, mask, hashes)

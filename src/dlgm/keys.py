"""Random keys for where many numbers are drawn."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.random import define_prng_impl
from jaxtyping import Key, UInt, UInt32

_THREEFRY = "threefry2x32"
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def quick_key(key: Key[Array, "*keys"]) -> Key[Array, "*keys"]:
    """The same key with the same numbers, which cost a quarter on CPUs.

    JAX compiles its generator, Threefry, into a loop over whole arrays there; here its twenty rounds are written out,
    so that they stay in registers. A key of another kind is returned as it is.
    """
    if str(jax.random.key_impl(key)) != _THREEFRY:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_QUICK)


def plain_key(key: Key[Array, "*keys"]) -> Key[Array, "*keys"]:
    """The key that `quick_key` was given, for what takes JAX's own kind only."""
    if key.dtype != _QUICK_DTYPE:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_THREEFRY)


def _blocks(key_data: UInt32[Array, "2"], counts: UInt32[Array, "..."]) -> tuple[Array, Array]:
    """Two random words for each count."""
    # A wall around the rounds: a compiler that mixes them with their neighbours may repeat them once for each use.
    return jax.lax.optimization_barrier(_threefry(key_data, jnp.zeros_like(counts), counts))


def _counts(shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    size = math.prod(shape)
    if size >= 2**32:
        raise NotImplementedError(f"Expected fewer than 2^32 random numbers at a time; got shape {shape}.")
    return jax.lax.iota(np.uint32, size).reshape(shape)


def _random_bits(key_data: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "..."]:
    high, low = _blocks(key_data, _counts(shape))
    if bit_width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low
    return (high ^ low).astype(f"uint{bit_width}")


def _split(key_data: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "... 2"]:
    return jnp.stack(_blocks(key_data, _counts(shape)), axis=-1)


def _fold_in(key_data: UInt32[Array, "2"], number: UInt32[Array, ""] | int) -> UInt32[Array, "2"]:
    return jnp.stack(_blocks(key_data, jnp.asarray(number, np.uint32)))


def _threefry(key_data: UInt32[Array, "2"], x: UInt32[Array, "..."], y: UInt32[Array, "..."]) -> tuple[Array, Array]:
    """Threefry on pairs of words with twenty rounds (Salmon et al., 2011)."""
    keys = (key_data[0], key_data[1], key_data[0] ^ key_data[1] ^ np.uint32(0x1BD11BDA))
    x, y = x + keys[0], y + keys[1]
    for n in range(5):
        for r in _ROTATIONS[n % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(r)) | (y >> np.uint32(32 - r)))
        x, y = x + keys[(n + 1) % 3], y + keys[(n + 2) % 3] + np.uint32(n + 1)
    return x, y


_QUICK = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl=_THREEFRY)),
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="quick_threefry2x32",
    tag="quick",
)
_QUICK_DTYPE = jax.eval_shape(lambda: jax.random.wrap_key_data(jnp.zeros(2, np.uint32), impl=_QUICK)).dtype

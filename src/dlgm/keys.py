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
    so that they stay in registers. A key of another kind is returned as it is, and so is every key where JAX has been
    told to number its bits in the old way (`jax_threefry_partitionable`).
    """
    numbered = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if str(jax.random.key_impl(key)) != _THREEFRY or not numbered:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_QUICK)


def plain_key(key: Key[Array, "*keys"]) -> Key[Array, "*keys"]:
    """The key that `quick_key` was given, for what takes JAX's own kind only."""
    return _plain(jax.random.key_data(key)) if jax.random.key_impl(key) == _QUICK else key


def _random_bits(key_data: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "..."]:
    size = math.prod(shape)
    if bit_width == 64 or size >= 2**32:
        return jax.random.bits(_plain(key_data), shape, f"uint{bit_width}")
    first, second = _threefry(key_data, jax.lax.iota(np.uint32, size).reshape(shape))
    return (first ^ second).astype(f"uint{bit_width}")


def _plain(key_data: UInt32[Array, "*keys 2"]) -> Key[Array, "*keys"]:
    return jax.random.wrap_key_data(key_data, impl=_THREEFRY)


def _threefry(key_data: UInt32[Array, "2"], counts: UInt32[Array, "..."]) -> tuple[Array, Array]:
    """Two words for each count: Threefry on pairs of words with twenty rounds (Salmon et al., 2011)."""
    keys = (key_data[0], key_data[1], key_data[0] ^ key_data[1] ^ np.uint32(0x1BD11BDA))
    x, y = jnp.broadcast_to(keys[0], counts.shape), counts + keys[1]
    for n in range(5):
        for r in _ROTATIONS[n % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(r)) | (y >> np.uint32(32 - r)))
        x, y = x + keys[(n + 1) % 3], y + keys[(n + 2) % 3] + np.uint32(n + 1)
    return x, y


_QUICK = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl=_THREEFRY)),
    # Keys are derived by JAX's own loop, which the compiler does not look through: written out, the rounds of one key
    # after another could end up inside each other, each repeated for every use.
    split=lambda key_data, shape: jax.random.key_data(jax.random.split(_plain(key_data), shape)),
    random_bits=_random_bits,
    fold_in=lambda key_data, number: jax.random.key_data(jax.random.fold_in(_plain(key_data), number)),
    name="quick_threefry2x32",
    tag="quick",
)

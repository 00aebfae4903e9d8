"""Quick keys are JAX's own keys, number for number."""

import jax
import numpy as np
import pytest

from dlgm.keys import plain_key, quick_key

KEY = jax.random.key(7)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 2)])
def test_bits(shape, dtype):
    np.testing.assert_array_equal(jax.random.bits(quick_key(KEY), shape, dtype), jax.random.bits(KEY, shape, dtype))


def test_bits_of_two_words(x64):
    np.testing.assert_array_equal(jax.random.bits(quick_key(KEY), (9,), "uint64"), jax.random.bits(KEY, (9,), "uint64"))


def test_derived_keys_and_their_draws():
    """Folded and split, mapped over and compiled: the same normal and Bernoulli numbers."""

    @jax.jit
    def draws(key):
        keys = jax.random.split(jax.random.fold_in(key, 3), (4, 2))
        return jax.vmap(lambda k: (jax.random.normal(k[0], (5,)), jax.random.bernoulli(k[1], 0.1, (50,))))(keys)

    for quick, plain in zip(draws(quick_key(KEY)), draws(KEY), strict=True):
        np.testing.assert_array_equal(quick, plain)


def test_a_key_of_another_kind_is_left_alone():
    key = jax.random.key(0, impl="rbg")
    assert quick_key(key) is key
    assert plain_key(key) is key
    assert plain_key(KEY) is KEY
    assert quick_key(quick_key(KEY)).dtype == quick_key(KEY).dtype


def test_there_and_back():
    """Poisson numbers, which JAX draws with its own kind of key only."""
    drawn = jax.jit(lambda key: jax.random.poisson(plain_key(quick_key(key)), 3.0, (20,)))(KEY)
    np.testing.assert_array_equal(drawn, jax.random.poisson(KEY, 3.0, (20,)))

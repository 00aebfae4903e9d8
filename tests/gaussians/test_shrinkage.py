"""The rank-one matrices' derivatives, written out by hand, against finite differences and dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from dlgm.gaussians.shrinkage import log1p_square, shrink, shrunk_diagonal

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [0.0, 0.3, 3.0, 30.0])
def test_first_and_second_derivatives(x64, size):
    """Forwards and backwards, from no direction at all to a long one."""
    w, x = size * RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4))
    check_grads(jax.jit(shrink), (w, x), order=2, rtol=1e-5)
    check_grads(jax.jit(log1p_square), (w,), order=2, rtol=1e-5)
    check_grads(jax.jit(shrunk_diagonal), (w,), order=2, rtol=1e-5)


@pytest.mark.parametrize("size", [0.3, 30.0])
def test_the_derivative_is_that_of_the_dense_matrix(x64, size):
    """Of (I + w w')^-1/2 x by its eigenvalues, in a direction of w and x at once."""
    w, x, dw, dx = jnp.asarray(RNG.normal(size=(4, 5)) * np.array([size, 1, 1, 1])[:, None])

    def dense(w, x):
        values, vectors = jnp.linalg.eigh(jnp.eye(5) + jnp.outer(w, w) + jnp.diag(1e-9 * jnp.arange(5.0)))
        return vectors @ (vectors.T @ x / jnp.sqrt(values))

    h = 1e-5 * size
    slope = (dense(w + h * dw, x + h * dx) - dense(w - h * dw, x - h * dx)) / (2 * h)
    np.testing.assert_allclose(jax.jvp(shrink, (w, x), (dw, dx))[1], slope, rtol=1e-4, atol=1e-6)


def test_a_dominating_entry_keeps_its_variance():
    """In float32, 1 - v_i^2 would be zero for the first entry; one entry of exactly one half is not special."""
    w = jnp.array([1e4, 1.0, 0.5])
    dense = np.diag(np.linalg.inv(np.eye(3) + np.outer(np.float64(w), np.float64(w))))
    np.testing.assert_allclose(shrunk_diagonal(w), dense, rtol=1e-5)
    np.testing.assert_allclose(shrunk_diagonal(jnp.array([1.0])), [0.5], rtol=1e-6)

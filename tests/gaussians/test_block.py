"""Independent Gaussians side by side, against the dense block-diagonal Gaussian they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag

from dlgm.gaussians import BlockGaussian, DiagonalGaussian, FullGaussian, RankOneGaussian
from dlgm.stochastic import Pathwise, per_sample_gradients


def blocks(seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(5, 3))
    triangle = np.tril(rng.normal(size=(2, 2)), -1) + np.diag([0.7, 1.4])
    return (
        RankOneGaussian(mean=jnp.asarray(a[0]), log_d=jnp.asarray(a[1]), u=jnp.asarray(a[2])),
        FullGaussian(mean=jnp.asarray(a[3, :2]), scale_tril=jnp.asarray(triangle)),
        DiagonalGaussian(mean=jnp.asarray(a[4]), log_d=jnp.asarray(a[1])),
    )


def test_every_member_is_that_of_the_dense_gaussian(x64):
    q = BlockGaussian(*blocks())
    C = block_diag(*(np.asarray(b.covariance()) for b in q.blocks))
    dense = FullGaussian(mean=q.mean, scale_tril=jnp.linalg.cholesky(C))
    x = jnp.asarray(np.random.default_rng(1).normal(size=8))
    np.testing.assert_allclose(q.covariance(), C, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q.variance, np.diag(C), rtol=1e-10)
    np.testing.assert_allclose(q.log_det, dense.log_det, rtol=1e-10)
    np.testing.assert_allclose(q.log_prob(x), dense.log_prob(x), rtol=1e-10)
    np.testing.assert_allclose(q.entropy(), dense.entropy(), rtol=1e-10)
    np.testing.assert_allclose(q.kl_to_standard(), dense.kl_to_standard(), rtol=1e-10)
    np.testing.assert_allclose(q.factor() @ q.solve_factor(x), x, rtol=1e-10)
    np.testing.assert_allclose(q.factor_transpose_times(x), q.factor().T @ x, rtol=1e-10)


def test_divergences_between_blocks_and_with_dense(x64):
    """Tr(C^-1 C') - K by blocks, and against a Gaussian that does not fall into blocks."""
    q, p = BlockGaussian(*blocks()), BlockGaussian(*blocks(1))
    expected = np.trace(np.linalg.inv(q.covariance()) @ p.covariance()) - 8
    np.testing.assert_allclose(q.excess_trace(p), expected, rtol=1e-9)
    mixed = p.covariance() + 0.1
    dense = FullGaussian(mean=p.mean, scale_tril=jnp.linalg.cholesky(mixed))
    np.testing.assert_allclose(q.excess_trace(dense), np.trace(np.linalg.inv(q.covariance()) @ mixed) - 8, rtol=1e-9)


def test_per_sample_gradients_name_the_blocks():
    q = BlockGaussian(*blocks())
    gradients = per_sample_gradients(jnp.sum, q, key=jax.random.key(0), estimator=Pathwise(), num_samples=3)
    assert {"0.mean", "0.log_d", "0.u", "1.mean", "1.scale_tril", "2.mean", "2.log_d"} == set(gradients)
    np.testing.assert_allclose(gradients["2.mean"], np.ones((3, 3)), rtol=1e-6)


def test_slices_and_bad_blocks():
    first = blocks()[0]
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), BlockGaussian(first, first))
    assert batch.batch_shape == (2,)
    assert jax.vmap(lambda q: q.kl_to_standard())(batch).shape == (2,)
    with pytest.raises(ValueError, match="BlockGaussian: expected at least one Gaussian; got none"):
        BlockGaussian()
    with pytest.raises(ValueError, match="expected blocks of one batch shape"):
        BlockGaussian(first, jax.tree.map(lambda leaf: leaf[None], first))

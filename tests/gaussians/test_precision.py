import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from dlgm.gaussians import FullGaussian, PrecisionGaussian, kl_between_gaussians, precision_factors

KEY = jax.random.key(0)


def precisions(K, batch=(3,), seed=0):
    A = np.random.default_rng(seed).normal(size=(*batch, K, 2 * K))
    return jnp.asarray(A @ A.mT / K + np.diag(np.linspace(0.1, 2, K)))


def pair(K):
    """The same Gaussian by its precision and by its covariance."""
    P = precisions(K)
    mean = jax.random.normal(KEY, P.shape[:-1])
    L = np.linalg.cholesky(np.linalg.inv(np.asarray(P, np.float64)))
    return PrecisionGaussian(mean, *precision_factors(P)), FullGaussian(mean, jnp.asarray(L, P.dtype))


@pytest.mark.parametrize("K", [1, 2, 7, 24])
def test_factors_are_cholesky_s_and_its_inverse(K):
    P = precisions(K)
    J, inverse = precision_factors(P)
    np.testing.assert_allclose(J, np.linalg.cholesky(np.asarray(P)), atol=2e-5)
    np.testing.assert_allclose(J @ inverse, np.broadcast_to(np.eye(K), P.shape), atol=2e-5)


def test_derivatives_are_exact():
    with jax.enable_x64(True):
        P = jnp.asarray(np.asarray(precisions(4), np.float64))
        check_grads(lambda B: precision_factors(jnp.asarray(B + B.mT)), (P / 2,), order=2, modes=["fwd", "rev"])
        ours = jax.grad(lambda B: jnp.sum(jnp.sin(precision_factors(B + B.mT)[0])))(P / 2)
        theirs = jax.grad(lambda B: jnp.sum(jnp.sin(jnp.linalg.cholesky(B + B.mT))))(P / 2)
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("K", [1, 5])
def test_it_is_the_gaussian_of_that_covariance(K):
    q, dense = pair(K)
    x = jax.random.normal(jax.random.fold_in(KEY, 1), (3, K))
    np.testing.assert_allclose(q.covariance(), dense.covariance(), atol=1e-4)
    np.testing.assert_allclose(q.variance, dense.variance, atol=1e-4)
    np.testing.assert_allclose(q.log_det, dense.log_det, atol=1e-4)
    np.testing.assert_allclose(q.log_prob(x), dense.log_prob(x), atol=1e-3)
    np.testing.assert_allclose(q.kl_to_standard(), dense.kl_to_standard(), atol=1e-3)
    np.testing.assert_allclose(q.solve_factor(q.factor_times(x)), x, atol=1e-4)
    np.testing.assert_allclose(q.factor_transpose_times(x), (q.factor().mT @ x[..., None])[..., 0], atol=1e-5)
    np.testing.assert_allclose(kl_between_gaussians(q, dense), 0, atol=1e-3)
    np.testing.assert_allclose(kl_between_gaussians(dense, q), 0, atol=1e-3)


def test_draws_have_its_covariance():
    q, _ = pair(2)
    n = 40_000
    draws = np.asarray(q.sample(KEY, (n,)))
    found = np.einsum("nbi,nbj->bij", draws - q.mean, draws - q.mean) / n
    C = np.asarray(q.covariance())
    spread = np.sqrt(np.einsum("bii,bjj->bij", C, C) + C**2)
    assert np.max(np.abs(found - C) / (spread / n**0.5)) < 4.5  # twelve numbers, in standard errors


def test_a_diagonal_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="PrecisionGaussian: expected positive values in `tril's diagonal`"):
        PrecisionGaussian(jnp.zeros(2), jnp.diag(jnp.array([1.0, -2.0])), jnp.eye(2), validate_args=True)

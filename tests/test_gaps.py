"""The best Gaussians of `benchmarks/gaps.py`, where they are known: posteriors of linear-Gaussian models."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.linear import FactorAnalysis, random_factor_analysis

LOOSE = random_factor_analysis(seed=3, x=6, k=3)
FA = FactorAnalysis(LOOSE.W @ np.array([[1, 0.8, 0.3], [0, 1, 0.8], [0, 0, 1]]), LOOSE.b, LOOSE.psi)
ROWS = FA.sample(np.random.default_rng(1), 4).astype(np.float32)
K, DRAWS = 3, 2000  # latents, and draws by which bounds are judged


@pytest.fixture
def gaps(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import gaps

    yield gaps
    del sys.modules["gaps"]


def test_draws_are_as_many_as_errors_are_reckoned_with(gaps):
    assert gaps.JUDGED == DRAWS


def test_bounds_of_the_best_gaussians(gaps):
    r"""The best diagonal one has the precisions $P_{ii}$ and loses $(\sum_i \log P_{ii} - \log|P|) / 2$ of log p(v).

    That of rank K - 1 is the posterior itself, since P - d I with d its least eigenvalue is of that rank. Within 5
    standard errors in each of 4 rows: a false alarm once in 400,000 keys.
    """
    P = np.linalg.inv(FA.posterior(ROWS)[1])
    log_p = FA.log_prob(ROWS)
    diagonal = log_p - 0.5 * (np.log(P.diagonal()).sum() - np.linalg.slogdet(P)[1])
    assert np.all(log_p - diagonal > 0.3)
    model, key = FA.model(widen=1.5), jax.random.key(0)
    error = standard_error(P, np.diag(1 / P.diagonal()))
    np.testing.assert_allclose(gaps.best_bounds(model, ROWS, 0, key), diagonal, atol=5 * error)
    np.testing.assert_allclose(gaps.best_bounds(model, ROWS, K - 1, key), log_p, atol=0.01)


def test_bounds_of_the_recognition_model(gaps):
    r"""Of a posterior w times as wide as the true one: $K (w^2 - 1 - 2 \log w) / 2$ below log p(v)."""
    w, C = 1.5, FA.posterior(ROWS)[1]
    found = gaps.recognition_bounds(FA.model(widen=w), jnp.asarray(ROWS), jax.random.key(0))
    expected = FA.log_prob(ROWS) - K * (w**2 - 1 - 2 * np.log(w)) / 2
    np.testing.assert_allclose(found, expected, atol=5 * standard_error(np.linalg.inv(C), w**2 * C))


def standard_error(P, C):
    """Of a bound with a q of covariance C at the mean of a posterior of precision P: half of x (P - 1/C) x."""
    A = P @ C - np.eye(K)
    return np.sqrt(0.5 * np.trace(A @ A) / DRAWS)

"""New rows, posterior moments and reconstructions, against factor analysis' exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import conditional_means, posterior_moments, reconstruct, sample
from tests.linear import random_factor_analysis

FA = random_factor_analysis()
ROWS = FA.sample(np.random.default_rng(1), 30).astype(np.float32)
KEY = jax.random.key(5)


def test_more_samples_begin_with_the_same_rows():
    few, many = (sample(FA.model(), n, key=KEY) for n in (3, 600))
    assert many.rows.shape == (600, 5)
    np.testing.assert_array_equal(many.rows[:3], few.rows)
    with pytest.raises(ValueError, match="num: expected a whole number of at least 1; got 0"):
        sample(FA.model(), 0, key=KEY)


def test_samples_scatter_about_their_means():
    """(v - mean) / sqrt(psi) is standard normal for factor analysis: n = 2,000 x 5, 5 standard errors."""
    drawn = sample(FA.model(), 2_000, key=KEY)
    z = (drawn.rows - drawn.means) / np.sqrt(FA.psi)
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)


def test_posterior_moments_are_exact_for_factor_analysis():
    mean, C = FA.posterior(ROWS)
    found = posterior_moments(FA.model(), ROWS, key=KEY)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.variance, np.tile(np.diag(C), (30, 1)), rtol=1e-4)


def test_no_rows_give_no_answers():
    none = ROWS[:0]
    assert posterior_moments(FA.model(), none, key=KEY).mean.shape == (0, 2)
    assert reconstruct(FA.model(), none, key=KEY).shape == (0, 5)


def test_moments_are_compiled_once():
    from dlgm.inference.generation import _moments_block

    before = _moments_block._cache_size()  # type: ignore[attr-defined]
    for n in (1, 3, 30):
        posterior_moments(FA.model(), ROWS[:n], key=KEY)
    assert _moments_block._cache_size() <= before + 1  # type: ignore[attr-defined]


def test_conditional_means_and_reconstructions():
    """E[v | xi] = W xi + b; a reconstruction is that at a draw of the posterior: its mean over 400 keys, 5 s.e."""
    xi = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    np.testing.assert_allclose(conditional_means(FA.model(), jnp.asarray(xi)), xi @ FA.W.T + FA.b, rtol=1e-4, atol=1e-5)
    mean, C = FA.posterior(ROWS[:1])
    model = FA.model()
    draws = np.concatenate([reconstruct(model, ROWS[:1], key=jax.random.key(i)) for i in range(400)])
    error = np.sqrt(np.diag(FA.W @ C @ FA.W.T) / 400)
    np.testing.assert_array_less(abs(draws.mean(0) - (mean @ FA.W.T + FA.b)[0]), 5 * error)

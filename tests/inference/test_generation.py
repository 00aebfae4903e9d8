"""New rows, posterior moments, reconstructions and fills, against factor analysis' exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import conditional_means, fill, posterior_moments, reconstruct, sample
from tests.linear import random_factor_analysis
from tests.model.cases import build

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
    assert fill(FA.model(), none, none > 0, key=KEY)[0].shape == (0, 5)


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


def test_fills_follow_the_exact_conditional():
    """With the exact posterior the chain is a Gibbs sampler of p(v_m | v_o), Gaussian and known.

    400 chains of 60 iterations for one row (copies would share their draws, hence keys): 5 standard errors.
    """
    S, holes, seen = FA.covariance, [1, 3], [0, 2, 4]
    gain = S[np.ix_(holes, seen)] @ np.linalg.inv(S[np.ix_(seen, seen)])
    expected = FA.b[holes] + gain @ (ROWS[0, seen] - FA.b[seen])
    C = S[np.ix_(holes, holes)] - gain @ S[np.ix_(seen, holes)]
    mask = np.ones((1, 5), bool)
    mask[:, holes] = False
    rows = np.where(mask, ROWS[:1], np.nan)
    model = FA.model()
    runs = [fill(model, rows, mask, iterations=60, key=jax.random.key(i))[0][0] for i in range(400)]
    draws = np.stack(runs).astype(np.float64)
    np.testing.assert_array_equal(draws[:, seen], np.tile(ROWS[:1, seen], (400, 1)))
    np.testing.assert_array_less(abs(draws[:, holes].mean(0) - expected), 5 * np.sqrt(np.diag(C) / 400))
    np.testing.assert_array_less(abs(draws[:, holes].var(0) / np.diag(C) - 1), 5 * np.sqrt(2 / 400))


def test_fills_keep_what_was_observed_and_belong_to_the_row():
    model = build((2,), columns=6)
    rows = (np.random.default_rng(0).random((9, 6)) < 0.5).astype(np.float32)
    mask = np.random.default_rng(1).random((9, 6)) < 0.5
    filled, means = fill(model, rows, mask, key=KEY)
    np.testing.assert_array_equal(filled[mask], rows[mask])
    np.testing.assert_array_equal(means[mask], rows[mask])
    assert set(np.unique(filled)) <= {0.0, 1.0}
    alone, _ = fill(model, rows[4:5], mask[4:5], key=KEY)
    np.testing.assert_array_equal(alone[0], filled[4])
    with pytest.raises(ValueError, match="mask: expected which cells were observed"):
        fill(model, rows, None, key=KEY)

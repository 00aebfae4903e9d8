"""What a Bayesian model answers is averaged over its parameters: against a model whose predictive law is known.

v = b + noise of variance VAR, b ~ N(M, TAU) in each column, so that v ~ N(M, VAR + TAU).
"""

import jax
import numpy as np
import pytest
from scipy import stats

from dlgm.inference import impute, log_likelihood, sample
from tests.learning.test_bayes import location_model

M, TAU, VAR = np.array([0.5, -1.0]), np.array([0.6, 0.2]), 0.4
MODEL = location_model(M, TAU, VAR)
ROWS = np.random.default_rng(0).normal(M, np.sqrt(TAU + VAR), size=(30, 2)).astype(np.float32)
KEY = jax.random.key(3)


def exact(rows):
    return stats.norm(M, np.sqrt(VAR + TAU)).logpdf(rows).sum(axis=1)


def test_the_likelihood_averages_over_parameters():
    """1,000 draws of the parameters: 5 standard errors; that at the mean parameters is another."""
    found = log_likelihood(MODEL, ROWS, num_samples=10_000, key=KEY)
    np.testing.assert_array_less(abs(found.log_p - exact(ROWS)), 5 * found.standard_error)
    assert found.standard_error.max() < 0.15
    point = log_likelihood(MODEL.at_mean(), ROWS, num_samples=2_000, key=KEY)
    expected = stats.norm(M, np.sqrt(VAR)).logpdf(ROWS).sum(axis=1)
    np.testing.assert_array_less(abs(point.log_p - expected), 5 * point.standard_error + 1e-4)


def test_standard_errors_count_draws_of_the_parameters():
    """100 keys, 40 draws each: z-scores have a spread of 1 within 4.5 standard errors of it (1 / sqrt(200)).

    As if all samples were independent, the spread would be over 2.
    """
    keys = jax.random.split(KEY, 100)
    found = [log_likelihood(MODEL, ROWS[:1], num_samples=400, key=k) for k in keys]
    z = np.array([(f.log_p[0] - exact(ROWS[:1])[0]) / f.standard_error[0] for f in found])
    assert abs(z.std() - 1) < 0.32
    assert abs(z.mean()) < 0.45
    assert np.isnan(log_likelihood(MODEL, ROWS[:1], num_samples=10, key=KEY).standard_error[0])


def test_a_rows_score_does_not_depend_on_the_others():
    """Bit for bit, although all rows are scored with the same draws of the parameters."""
    whole = log_likelihood(MODEL, ROWS, num_samples=35, key=KEY).log_p
    np.testing.assert_array_equal(log_likelihood(MODEL, ROWS[7:8], num_samples=35, key=KEY).log_p, whole[7:8])
    np.testing.assert_array_equal(log_likelihood(MODEL, ROWS[::-1], num_samples=35, key=KEY).log_p, whole[::-1])


def test_new_rows_have_parameters_of_their_own():
    """n = 2,000 rows: means, variances and the correlation of columns within 5 standard errors of independent rows'."""
    n = 2_000
    rows = np.asarray(sample(MODEL, n, key=KEY).rows, np.float64)
    z = (rows - M) / np.sqrt(VAR + TAU)
    np.testing.assert_array_less(abs(z.mean(0)), 5 / np.sqrt(n))
    np.testing.assert_array_less(abs(z.var(0) - 1), 5 * np.sqrt(2 / n))
    assert abs(np.mean(z[::2] * z[1::2])) < 5 / np.sqrt(n)  # neighbours share nothing
    np.testing.assert_array_equal(sample(MODEL, 3, key=KEY).rows, rows[:3].astype(np.float32))


@pytest.mark.parametrize("method", ["chain", "resample"])
def test_chains_have_parameters_of_their_own(method):
    """300 chains of two draws: their mean has variance TAU + VAR / 2, their half difference VAR / 2; 5 s.e. of each.

    A row's fills do not depend on the rows beside it.
    """
    rows = np.array([[np.nan, -1.0], [0.0, np.nan]], np.float32)
    options = {"method": method, "draws": 600, "chains": 300, "warm_up": 1, "thin": 20, "key": KEY}
    found = impute(MODEL, rows, **options)
    pairs = found.values.astype(np.float64).reshape(2, 300, 2)
    between, within = pairs.mean(-1), (pairs[..., 0] - pairs[..., 1]) / 2
    error = 5 * np.sqrt(2 / 300)
    np.testing.assert_allclose(between.var(axis=1) / (TAU + VAR / 2), 1, atol=error)
    np.testing.assert_allclose(within.var(axis=1) / (VAR / 2), 1, atol=error)
    np.testing.assert_array_less(abs(between.mean(1) - M) / np.sqrt(TAU + VAR / 2), 5 / np.sqrt(300))
    alone = impute(MODEL, rows[:1], **options)
    np.testing.assert_array_equal(alone.values, found.values[:1])

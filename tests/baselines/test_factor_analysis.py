import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dlgm.baselines import FactorAnalysis, fit_factor_analysis


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return FactorAnalysis(rng.normal(size=(6, 2)), rng.normal(size=6), rng.uniform(0.2, 1.5, size=6))


@pytest.fixture
def rows(model):
    rng = np.random.default_rng(1)
    rows = model.sample(rng, 40)
    rows[rng.uniform(size=rows.shape) < 0.4] = np.nan
    rows[0] = np.nan
    return rows


def covariance_of(model):
    return model.loadings @ model.loadings.T + np.diag(model.noise)


def test_the_likelihood_is_that_of_the_observed_gaussian(model, rows):
    found = model.log_likelihood(rows)
    assert found[0] == 0
    for row, log_p in zip(rows[1:], found[1:], strict=True):
        o = np.flatnonzero(~np.isnan(row))
        law = multivariate_normal(model.bias[o], covariance_of(model)[np.ix_(o, o)])
        assert log_p == pytest.approx(law.logpdf(row[o]), rel=1e-10, abs=1e-10)


def test_holes_are_filled_by_the_conditional_gaussian(model, rows):
    mean, variance = model.conditional(rows)
    S = covariance_of(model)
    for row, m, s2 in zip(rows, mean, variance, strict=True):
        o, h = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        gain = S[np.ix_(h, o)] @ np.linalg.inv(S[np.ix_(o, o)])
        np.testing.assert_allclose(m[h], model.bias[h] + gain @ (row[o] - model.bias[o]), atol=1e-10)
        np.testing.assert_allclose(s2[h], np.diag(S[np.ix_(h, h)] - gain @ S[np.ix_(o, h)]), atol=1e-10)
        np.testing.assert_array_equal(m[o], row[o])
        assert (s2[o] == 0).all()


def test_no_step_lowers_the_posterior_density(rows):
    def height(iterations):
        model = fit_factor_analysis(rows, num_factors=2, iterations=iterations, shrinkage=3.0, pseudo_rows=2.0)
        spread = np.nanvar(rows, axis=0)
        prior = 3.0 * np.sum(model.loadings**2) + 2.0 * np.sum(np.log(model.noise) + spread / model.noise)
        return model.log_likelihood(rows).sum() - prior / 2

    heights = [height(i) for i in range(30)]
    assert np.diff(heights).min() > -1e-9
    assert heights[-1] > heights[0] + 1


def test_complete_rows_agree_with_scikit_learn():
    from sklearn.datasets import load_wine
    from sklearn.decomposition import FactorAnalysis as Reference
    from sklearn.preprocessing import scale

    rows = scale(load_wine().data)
    reference = Reference(3, svd_method="lapack", tol=1e-8, max_iter=5000).fit(rows)
    model = fit_factor_analysis(rows, num_factors=3, iterations=1000, shrinkage=1e-9, pseudo_rows=1e-9)
    assert model.log_likelihood(rows).mean() == pytest.approx(reference.score(rows), abs=1e-4)


def test_loadings_are_learnt_from_half_of_the_cells():
    rng = np.random.default_rng(3)
    truth = FactorAnalysis(rng.normal(size=(10, 2)), rng.normal(size=10), rng.uniform(0.2, 0.5, size=10))
    rows = truth.sample(rng, 4000)
    holes = np.where(rng.uniform(size=rows.shape) < 0.5, np.nan, rows)
    found = fit_factor_analysis(holes, num_factors=2, iterations=300)
    # A given pair of cells is in 1,000 of the rows, a given cell in 2,000: in units of the columns' standard deviations
    # the standard error of a covariance is at most (2 / 1000) ** 0.5 = 0.045.
    units = np.sqrt(np.diag(covariance_of(truth)))
    error = (covariance_of(found) - covariance_of(truth)) / np.outer(units, units)
    assert np.abs(error).max() < 4 * 0.045
    # 39 free parameters and half of the cells: new rows cost about 39 / 4,000 nats more than under the truth.
    new = truth.sample(rng, 4000)
    assert 0 < (truth.log_likelihood(new) - found.log_likelihood(new)).mean() < 0.03


def test_an_empty_column_is_neutral(rows):
    rows[:, 2] = np.nan
    model = fit_factor_analysis(rows, num_factors=2)
    assert (model.loadings[2] == 0).all()
    assert (model.bias[2], model.noise[2]) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": np.zeros(3)}, "rows: expected shape"),
        ({"rows": np.zeros((0, 3))}, "at least one row"),
        ({"rows": np.array([[np.inf, 1.0]])}, "finite numbers"),
        ({"rows": np.zeros((4, 3)), "mask": np.ones((3, 3), bool)}, "mask: expected the rows' shape"),
        ({"rows": np.zeros((4, 3)), "num_factors": 0}, "num_factors: expected at least 1"),
        ({"rows": np.zeros((4, 3)), "shrinkage": 0.0}, "above zero"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_factor_analysis(**{"num_factors": 1, **arguments})

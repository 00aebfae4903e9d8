"""The scores of the benchmark of imputation, by hand and by closed forms."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm


@pytest.fixture
def benchmark(monkeypatch):
    """The modules of the benchmark by name; forgotten afterwards, for their folder is no package of ours."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    yield lambda name: importlib.import_module(f"imputation.{name}")
    for name in [name for name in sys.modules if name.split(".")[0] == "imputation"]:
        del sys.modules[name]


@pytest.fixture
def scores(benchmark):
    return benchmark("scores")


def test_methods_are_compared_with_the_masks_that_both_had(benchmark):
    """A method that was spared the hard mask does not beat one that was not; and 2 % do not count."""
    errors = {
        "all": {0: 0.40, 1: 0.80},  # mean 0.6
        "easy mask": {0: 0.41},  # 2.5 % worse with its only mask
        "as good": {0: 0.405, 1: 0.81},
        "worse": {0: 0.40, 1: 0.90},
    }
    records = [
        {"protocol": "numbers", "table": "t", "mask": mask, "method": method, "error": error}
        for method, own in errors.items()
        for mask, error in own.items()
    ]
    found = benchmark("page")._table(records, ["numbers"], lambda r: r["error"], "{:.2f}", lowest=True)
    told = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in found.splitlines()[2:]}
    assert told["all"] == "**0.60 (0.20)**"
    assert told["easy mask"] == "0.41, 1 of 2 masks"
    assert told["as good"].startswith("**")
    assert not told["worse"].startswith("**")


def test_a_method_that_ran_out_of_time_is_spared_the_table_s_other_masks(benchmark):
    run = {"table": "large", "protocol": "mixed 20 %"}
    records = [
        {**run, "method": "slow", "failed": "TimeoutError: not done after 1800 seconds"},
        {**run, "method": "broken", "failed": "ValueError: no"},
        {**run, "method": "quick", "error": 0.5},
    ]
    too_slow = benchmark("run")._ran_out_of_time
    assert too_slow(records, "slow", "large", "mixed 50 %")
    assert not too_slow(records, "slow", "large", "new rows")
    assert not too_slow(records, "slow", "small", "mixed 20 %")
    assert not too_slow(records, "broken", "large", "mixed 20 %")
    assert not too_slow(records, "quick", "large", "mixed 20 %")


def of_column(scores, draws, truth, kind, levels=0):
    """The scores of one column, all of which was hidden; `draws` has a row a draw and a column a cell."""
    truth = np.asarray(truth, float)[:, None]
    return scores.of_draws(np.asarray(draws, float)[:, :, None], truth, np.ones(truth.shape, bool), (kind,), (levels,))[
        kind
    ]


@pytest.mark.parametrize("num_points", [20, 100, 200])
def test_numbers_are_covered_as_often_as_is_said(scores, num_points):
    """Exactly: the truth is one more draw from the same law, so that it is each of s + 1 points equally often."""
    points = np.random.default_rng(0).normal(size=num_points)
    others = np.stack([np.delete(points, j) for j in range(num_points)], axis=1)
    assert of_column(scores, others, points, "number")["coverage"] == pytest.approx(0.9)
    narrow = points.mean() + 0.5 * (others - points.mean())
    assert of_column(scores, narrow, points, "number")["coverage"] < 0.75


@pytest.mark.parametrize("kind", ["ordinal", "category", "number"])
@pytest.mark.parametrize("counts", [(5, 4, 3, 1), (1, 6, 6, 0), (13, 0, 0, 0), (4, 3, 3, 3)])
def test_lumps_are_covered_as_often_as_is_said(scores, kind, counts):
    """Exactly, however few values there are: draws in the truth's own proportions, the truth each of them in turn."""
    codes = np.repeat(np.arange(4), counts)
    draws = np.tile(codes[:, None], (1, len(codes)))
    assert of_column(scores, draws, codes, kind, 4)["coverage"] == pytest.approx(0.9)


def test_codes_at_the_edge_count_in_part(scores):
    """Shares 0.2, 0.7, 0, 0.1: the middle 90 % holds 15 of the 20 % of code 0, and 5 of the 10 % of code 3."""
    draws = np.repeat([0, 1, 3], [4, 14, 2])[:, None]
    for kind, inside in (("ordinal", (0.75, 1, 1, 0.5)), ("number", (0.75, 1, 1, 0.5)), ("category", (1, 1, 0, 0))):
        for code in range(4):
            assert of_column(scores, draws, [code], kind, 4)["coverage"] == pytest.approx(inside[code])


@pytest.mark.parametrize("y", [-2.0, 0.0, 0.7])
def test_crps_of_a_gaussian(scores, y):
    """y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt(pi), unbiased for any number of draws: 40 times 100 cells of 20 draws,
    within 4 standard errors of their mean. All cells have one truth: such a column has no units, however it rounds."""
    draws = np.random.default_rng(1).normal(size=(40, 20, 100))
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    found = [of_column(scores, own, np.full(100, y), "number")["crps"] for own in draws]
    assert np.std(found) < 0.05
    assert abs(np.mean(found) - exact) < 4 * np.std(found, ddof=1) / np.sqrt(40)


def test_crps_is_its_definition(scores):
    """E|X - y| - E|X - X'| / 2 over pairs of different draws, in standard deviations of the column."""
    rng = np.random.default_rng(2)
    draws, truth = rng.normal(size=(7, 3)), np.array([0.5, -1.0, 2.0])
    pairs = [abs(draws[i] - draws[j]) for i in range(7) for j in range(7) if i != j]
    expected = np.mean(np.abs(draws - truth).mean(axis=0) - np.mean(pairs, axis=0) / 2) / np.std(truth)
    assert of_column(scores, draws, truth, "number")["crps"] == pytest.approx(expected)
    assert of_column(scores, 10 * draws, 10 * truth, "number")["crps"] == pytest.approx(expected)


def test_log_and_brier_scores_by_hand(scores):
    # Draws -1 and 1: a Gaussian of variance 2, at its mean; the column itself is constant, and has no units.
    found = of_column(scores, [[-1.0], [1.0]], [0.0], "number")
    assert found["log_score"] == pytest.approx(norm.logpdf(0, scale=np.sqrt(2)))
    # Three of four draws are right, each of three codes counted half a time more: 3.5 of 5.5.
    found = of_column(scores, [[0], [0], [0], [2]], [0], "category", 3)
    assert found["log_score"] == pytest.approx(np.log(3.5 / 5.5))
    assert found["crps"] == pytest.approx((0.25**2 + 0.25**2) / 2)


def test_errors_of_fills_by_hand(scores):
    truth = np.array([[0.0, 0, 10], [1, 3, 20], [2, 1, np.nan]])
    filled = np.array([[0.0, 2, 10], [0, 3, 25], [1, 1, 7]])
    hidden = np.array([[True, True, False], [True, True, True], [True, False, False]])
    assert scores.squared_error(filled, truth, hidden) == pytest.approx((0 + 4 + 1 + 0 + 25 + 1) / 6)
    # Two of three categories wrong; codes 1 of 4 levels off on average; 5 of a range of 10.
    error = scores.mixed_error(filled, truth, hidden, ("category", "ordinal", "number"), (3, 4, 0))
    assert error == pytest.approx((2 / 3 + 1 / 4 + 0.5) / 3)


def test_the_series_of_miwae_is_a_ratio_of_gamma_functions(benchmark):
    """To 2e-7 in double precision, from the smallest argument on."""
    a = np.geomspace(1.5, 1e4, 500)
    with jax.enable_x64(True):
        found = np.asarray(benchmark("miwae")._log_gamma_step(jnp.asarray(a)))
    np.testing.assert_allclose(found, gammaln(a + 0.5) - gammaln(a), atol=2e-7)

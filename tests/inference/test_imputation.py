"""Imputation against exact conditionals: Gaussian ones of factor analysis, and enumerated ones of binary models."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from dlgm.inference import impute, log_likelihood
from dlgm.inference.imputation import METHODS
from tests.enumerable import enumerable, stationary
from tests.linear import random_factor_analysis
from tests.model.cases import build

FA = random_factor_analysis()
ROWS = FA.sample(np.random.default_rng(1), 30).astype(np.float32)
KEY = jax.random.key(5)
SMALL = enumerable()
SEEN = {0: 1.0, 2: 0.0}
HOLES, KNOWN = [1, 3], [0, 2, 4]


# Mixing is tested by itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*chains have not mixed", "ignore:.*rest on fewer than")


def _conditional(row):
    S = FA.covariance
    gain = S[np.ix_(HOLES, KNOWN)] @ np.linalg.inv(S[np.ix_(KNOWN, KNOWN)])
    return FA.b[HOLES] + gain @ (row[KNOWN] - FA.b[KNOWN]), S[np.ix_(HOLES, HOLES)] - gain @ S[np.ix_(KNOWN, HOLES)]


def _with_holes(row, copies):
    rows = np.tile(row, (copies, 1))
    rows[:, HOLES] = np.nan
    return rows


@pytest.mark.parametrize(("method", "widen"), [("chain", 1.0), ("metropolis", 1.3), ("resample", 1.3)])
def test_draws_have_the_moments_of_the_conditional_gaussian(method, widen):
    """400 copies of a row, 20 chains of 60 steps (or 1,200 proposals) each: means and covariances, 5 standard errors.

    The chain is exact with an exact posterior; the other two are with one that is too wide.
    """
    found = impute(
        FA.model(widen), _with_holes(ROWS[0], 400), method=method, draws=20, chains=20, warm_up=5, thin=60, key=KEY
    )
    mean, C = _conditional(ROWS[0])
    draws = found.values.reshape(400, 2, 20).astype(np.float64)
    centred = draws - mean[:, None]
    of_rows = {
        "means": centred.mean(2),
        "means of the laws": found.means.reshape(400, 2) - mean,
        "covariances": np.einsum("nis,njs->nij", centred, centred).reshape(400, 4) / 20 - C.ravel(),
    }
    for name, values in of_rows.items():
        error = values.std(0, ddof=1) / np.sqrt(400)
        np.testing.assert_array_less(abs(values.mean(0)), 5 * error, err_msg=name)
        assert np.all(error < 0.05 * np.sqrt(np.diag(C).max())), name  # and that says something
    np.testing.assert_array_equal(found[3][:, KNOWN], np.tile(ROWS[0, KNOWN], (400, 1)))


def _counts(method, warm_up, n=20_000):
    """How often each completion of SEEN comes up in n draws of chains of their own (or sets of 1,000 proposals)."""
    row = np.full((n // 20, 4), np.nan, np.float32)
    for column, value in SEEN.items():
        row[:, column] = value
    found = impute(SMALL.model, row, method=method, draws=20, chains=20, warm_up=warm_up, thin=50, key=KEY)
    completed = np.concatenate([found[i] for i in range(20)])
    numbers = completed @ (2 ** np.arange(4)[::-1])
    return np.bincount(numbers.astype(int), minlength=16)[SMALL.members(SEEN)]


def test_the_corrected_chain_is_at_the_true_conditional():
    """20,000 chains of a wrong recognition model, 4 completions: p above 1e-3, while the plain chain is elsewhere."""
    exact = SMALL.conditional(SEEN)
    n = 20_000
    assert chisquare(_counts("metropolis", 5), n * exact).pvalue > 1e-3
    assert chisquare(_counts("chain", 0), n * exact).pvalue < 1e-6
    assert chisquare(_counts("chain", 0), n * stationary(SMALL.kernel(SEEN))).pvalue > 1e-3


def test_resampling_is_at_the_true_conditional():
    """Draws of a row share its 1,000 proposals, so that rows are compared: 1,000 of them, 5 standard errors."""
    row = np.full((1000, 4), np.nan, np.float32)
    for column, value in SEEN.items():
        row[:, column] = value
    found = impute(SMALL.model, row, method="resample", draws=20, chains=4, warm_up=5, thin=50, key=KEY)
    exact = SMALL.conditional(SEEN) @ SMALL.rows[SMALL.members(SEEN)][:, [1, 3]]
    for values in (found.means.reshape(1000, 2), found.values.mean(1).reshape(1000, 2)):
        error = values.std(0, ddof=1) / np.sqrt(1000)
        np.testing.assert_array_less(abs(values.mean(0) - exact), 5 * error)


def test_the_exact_kernel_leaves_the_conditional_and_the_paper_bounds_the_other():
    r"""App. F. With eps = max over xi of sum_v |q(xi|v) p(v) / p(xi) - p(v|xi)|, one step from p(v_m | v_o) by the
    recognition model's kernel goes no further than eps / p(v_o) in L1 (docs/errata.md has why not eps). Where the chain
    settles is then within that over 1 - alpha, with Dobrushin's coefficient alpha of the kernel.
    """
    ratio = SMALL.recognition * SMALL.p[:, None] / SMALL.prior
    epsilon = abs(ratio - SMALL.likelihood).sum(0).max()
    assert np.isfinite(epsilon)
    for seen in ({0: 1.0, 2: 0.0}, {0: 0.0}, {1: 1.0, 2: 1.0, 3: 0.0}, {3: 1.0}):
        at = SMALL.members(seen)
        exact, p_seen = SMALL.conditional(seen), SMALL.p[at].sum()
        np.testing.assert_allclose(exact @ SMALL.kernel(seen, exact=True), exact, atol=1e-6)
        T = SMALL.kernel(seen)
        one_step = abs(exact @ T - exact).sum()
        assert one_step <= epsilon / p_seen
        alpha = 0.5 * abs(T[:, None] - T[None]).sum(-1).max()
        assert abs(stationary(T) - exact).sum() <= epsilon / p_seen / (1 - alpha)
        assert one_step > 1e-4  # the bound has something to hold


def test_the_likelihood_of_a_row_with_holes_is_the_marginal():
    """Enumerated, for a model that sees its mask and one that does not; 4,000 samples, 5 standard errors.

    `resample` estimates it too. An empty row has likelihood one.
    """
    for small in (SMALL, enumerable(1, sees_mask=True)):
        rows = np.array([[1, np.nan, 0, np.nan], [np.nan] * 4, [0, 1, 1, 0], [np.nan, np.nan, np.nan, 1]], np.float32)
        expected = [
            np.log(small.p[small.members({c: v for c, v in enumerate(row) if v == v})].sum())
            if (row == row).any()
            else 0
            for row in rows
        ]
        found = log_likelihood(small.model, rows, num_samples=4000, key=KEY)
        assert abs(found.log_p[1]) == 0
        assert found.standard_error[1] == 0
        seen = np.array([0, 2, 3])
        gap = abs(np.asarray(found.log_p) - expected)[seen]
        np.testing.assert_array_less(gap, 5 * found.standard_error[seen])
        weights = impute(small.model, rows, method="resample", draws=20, thin=200, key=KEY)
        holes = [0, 3]
        error = np.sqrt(1 / weights.effective_sample_size[holes])
        np.testing.assert_array_less(abs(weights.log_p[holes] - np.asarray(expected)[holes]), 5 * error)
        assert np.isnan(weights.log_p[2])


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_filled_by_themselves(method):
    """In any company, in any order; complete rows cost nothing and have no diagnostics."""
    model = build((2,), columns=6)
    rng = np.random.default_rng(0)
    rows = (rng.random((9, 6)) < 0.5).astype(np.float32)
    mask = rng.random((9, 6)) < 0.5
    mask[2] = True
    few: dict[str, Any] = {"draws": 4, "chains": 2, "warm_up": 3, "thin": 2, "method": method, "key": KEY}
    found = impute(model, rows, mask, **few)
    assert len(found) == 4
    assert len(list(found)) == 4
    for i in range(4):
        np.testing.assert_array_equal(found[i][mask], rows[mask])
        assert set(np.unique(found[i])) <= {0.0, 1.0}
    order = rng.permutation(9)
    shuffled = impute(model, np.where(mask, rows, np.nan)[order], **few)
    for i in range(4):
        np.testing.assert_array_equal(shuffled[i], found[i][order])
    alone = impute(model, rows[4:5], mask[4:5], **few)
    np.testing.assert_array_equal(alone.mean()[0], found.mean()[4])
    assert np.isnan(found.acceptance[2])


def test_copies_of_a_row_have_draws_of_their_own():
    """Otherwise a column's mean over completed tables would vary far too much. The first keeps what it has alone."""
    row = np.array([[1.0, np.nan, 0.0, np.nan]], np.float32)
    settings: dict[str, Any] = {"draws": 40, "chains": 4, "warm_up": 5, "thin": 2, "key": KEY}
    alone, copies = (impute(SMALL.model, np.tile(row, (n, 1)), **settings) for n in (1, 3))
    np.testing.assert_array_equal(copies.values[:2], alone.values)
    assert not np.array_equal(copies.values[:2], copies.values[2:4])
    assert not np.array_equal(copies.values[2:4], copies.values[4:])


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_fill_and_nothing_known(method):
    """No rows, complete rows, empty rows."""
    none = impute(FA.model(), ROWS[:0], method=method, key=KEY)
    assert none.mean().shape == (0, 5)
    assert len(none) == 100
    full = impute(FA.model(), ROWS, method=method, key=KEY)
    np.testing.assert_array_equal(full[7], ROWS)
    np.testing.assert_array_equal(full.interval()[0], ROWS)
    assert full.standard_deviation().max() == 0
    assert np.isnan(full.r_hat()).all()
    empty = impute(FA.model(), np.full((200, 5), np.nan), method=method, draws=20, chains=4, key=KEY)
    z = empty.values.reshape(200, 5, 20).mean(2) - FA.b  # a row of which nothing is known is a new row
    np.testing.assert_array_less(abs(z.mean(0)), 5 * z.std(0, ddof=1) / np.sqrt(200))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "mice"}, "method: expected one of metropolis, chain, resample; got 'mice'"),
        ({"draws": 0}, "draws: expected a whole number of at least 1; got 0"),
        ({"draws": 10, "chains": 4}, "draws: expected a multiple of the number of chains, 4; got 10"),
        ({"thin": 0}, "thin: expected a whole number of at least 1"),
        ({"warm_up": -1}, "warm_up: expected a whole number of at least 0"),
        ({"chains": True}, "chains: expected a whole number of at least 1; got True"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        impute(FA.model(), ROWS, key=KEY, **wrong)


def test_chains_that_have_not_mixed_are_pointed_out():
    """Two far modes, and a recognition model that stays in the one it is in; the same model mixes if it may leave."""
    stuck = enumerable(3, strength=60.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        impute(SMALL.model, np.array([[1.0, np.nan, 0.0, np.nan]]), draws=100, thin=20, key=KEY)
    row = np.full((5, 4), np.nan, np.float32)
    row[:, 0] = [0, 1, 0, 1, 0]
    with pytest.warns(UserWarning, match=r"R-hat is above 1.32 in \d+ of 15 holes"):
        found = impute(stuck.model, row, draws=40, chains=4, warm_up=0, thin=1, key=KEY)
    assert np.nanmax(found.r_hat()) > 1.1


@pytest.mark.parametrize("method", ["chain", "metropolis"])
def test_means_are_over_every_step(method):
    """300 copies of a row, one draw each: a mean of 40 steps varies less than half as much as that of a single one."""
    rows = _with_holes(ROWS[0], 300)
    asked: dict[str, Any] = {"method": method, "draws": 1, "chains": 1, "warm_up": 5, "key": KEY}
    one, many = (impute(FA.model(), rows, thin=thin, **asked).means.reshape(300, 2).var(0) for thin in (1, 40))
    np.testing.assert_array_less(many, 0.5 * one)

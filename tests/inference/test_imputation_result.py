"""What an imputation says of its draws: exact answers for draws that are known."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest

from dlgm.data import infer_schema
from dlgm.inference import Imputation, denoise, impute, over_impute
from dlgm.model import (
    Bernoulli,
    Categorical,
    Composite,
    DiscretisedLogistic,
    Gaussian,
    LogNormal,
    Ordinal,
    Poisson,
    build_model,
    preset,
)
from tests.enumerable import enumerable
from tests.linear import random_factor_analysis

KEY = jax.random.key(2)
# Mixing is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:.*chains have not mixed", "ignore:.*rest on fewer than")
MIXED = Composite(
    [(Gaussian(1), (0,)), (Categorical(1, 3), (1,)), (Ordinal(1, 4), (2,)), (Poisson(1), (3,)), (Bernoulli(1), (4,))]
)


def _imputation(values, means, probabilities, num_chains=2, observation=MIXED):
    """One row without a single observed cell, another that is complete."""
    rows = np.full((2, observation.columns), np.nan, np.float32)
    rows[1] = 1
    none = np.full(2, np.nan, np.float32)
    return Imputation(
        rows, ~np.isnan(rows), np.asarray(values, np.float32), np.asarray(means, np.float32),
        np.asarray(probabilities, np.float32), observation, "chain", num_chains, none, none, none,
    )  # fmt: skip


RNG = np.random.default_rng(0)
DRAWS = np.stack(
    [RNG.normal(size=39), RNG.integers(0, 3, 39), RNG.integers(0, 4, 39), RNG.poisson(7, 39), RNG.integers(0, 2, 39)]
).astype(np.float32)
P: Any = [[0, 0, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], [0.7, 0.3, 0, 0]]
KNOWN = _imputation(DRAWS, [0.5, 0, 1.7, 6.5, 0.3], P, num_chains=1)


def test_summaries_of_known_draws():
    """Of numbers the mean, of codes the most probable, of counts and ordered codes the median; ends between order
    statistics, at 2 and 38 of 39 for 90 %, and whole numbers rounded outwards."""
    ordered = np.sort(DRAWS, axis=1)
    np.testing.assert_allclose(KNOWN.mean()[0], [0.5, 0, 1.7, 6.5, 0.3], rtol=1e-6)
    np.testing.assert_allclose(KNOWN.best()[0], [0.5, 2, ordered[2, 19], ordered[3, 19], 0], rtol=1e-6)
    np.testing.assert_allclose(KNOWN.median()[0], [ordered[0, 19], 2, ordered[2, 19], ordered[3, 19], ordered[4, 19]])
    low, high = KNOWN.interval(0.9)
    np.testing.assert_allclose(low[0], [ordered[0, 1], np.nan, ordered[2, 1], ordered[3, 1], ordered[4, 1]])
    np.testing.assert_allclose(high[0], [ordered[0, 37], np.nan, ordered[2, 37], ordered[3, 37], ordered[4, 37]])
    low, high = KNOWN.interval(0.8725)  # between two: at 2.55 and 37.45
    np.testing.assert_allclose(low[0, 0], 0.45 * ordered[0, 1] + 0.55 * ordered[0, 2], rtol=1e-4)
    assert low[0, 3] == np.floor(0.45 * ordered[3, 1] + 0.55 * ordered[3, 2])
    np.testing.assert_allclose(KNOWN.standard_deviation()[0], DRAWS.std(axis=1, ddof=1), rtol=1e-5)
    for answer in (KNOWN.mean(), KNOWN.best(), KNOWN.median(), low):
        np.testing.assert_array_equal(answer[1], 1)
    np.testing.assert_allclose(KNOWN.probabilities(1), [P[1][:3], [0, 1, 0]], rtol=1e-6)
    np.testing.assert_allclose(KNOWN.probabilities(4), [P[4][:2], [0, 1]], rtol=1e-6)
    np.testing.assert_array_equal(KNOWN.trace(0, 3), DRAWS[3:4])
    (line,) = KNOWN.plot_trace(0, 3).lines
    np.testing.assert_array_equal(line.get_ydata(), DRAWS[3])


def test_binary_columns_need_no_probabilities_of_their_own():
    binary = _imputation(np.ones((2, 4)), [0.25, 0.75], np.zeros((2, 0)), observation=Bernoulli(2))
    np.testing.assert_allclose(binary.probabilities(1), [[0.25, 0.75], [0.0, 1.0]])
    np.testing.assert_array_equal(binary.best()[0], [0, 1])


def test_codes_of_fractions_are_numbers_in_their_units():
    """Three values that are not equally far apart, and two: means by hand, draws among the values."""
    few, two = (-0.5, 0.25, 4.0), (1.5, 2.5)
    frame = pd.DataFrame({"few": [*few] * 20, "two": [*two] * 30})
    schema = infer_schema(frame)
    assert [column.is_fractional for column in schema.columns] == [True, True]
    encoded, _ = schema.encode(frame)
    np.testing.assert_array_equal(encoded[:3], [[0, 0], [1, 1], [2, 0]])
    pd.testing.assert_frame_equal(schema.decode(encoded), frame)
    drawn = np.stack([np.arange(39) % 3, np.arange(39) % 2])
    codes = _imputation(
        drawn,
        [1.3, 0.25],
        [[0.1, 0.5, 0.4], [0.75, 0.25, 0]],
        1,
        Composite([(Ordinal(1, 3), (0,)), (Bernoulli(1), (1,))]),
    )
    found = codes.in_units(schema)
    means = [0.1 * -0.5 + 0.5 * 0.25 + 0.4 * 4.0, 0.75 * 1.5 + 0.25 * 2.5]
    np.testing.assert_allclose(found.mean(), [means, [0.25, 2.5]], rtol=1e-6)
    np.testing.assert_allclose(found.best(), found.mean())
    np.testing.assert_array_equal(found.values, [np.take(few, drawn[0]), np.take(two, drawn[1])])
    np.testing.assert_array_equal(found.median()[0], [0.25, 1.5])
    low, high = found.interval(0.9)
    np.testing.assert_array_equal([low[0], high[0]], [[-0.5, 1.5], [4.0, 2.5]])
    assert found.levels.tolist() == [0, 0]
    with pytest.raises(ValueError, match="column 0 holds numbers"):
        found.probabilities(0)
    with pytest.raises(ValueError, match=r"one of the values -0\.5, 0\.25, 4; got 0\.3 .* typed as real"):
        schema.encode(frame.assign(few=0.3))
    # Categories that the user has made such stay categories.
    declared = infer_schema(pd.DataFrame({"c": pd.Categorical([0.5, 2.5, 1.0], ordered=True)}))
    assert not declared.columns[0].is_fractional


def test_what_cannot_be_answered_is_refused():
    with pytest.raises(ValueError, match=r"level: 0.99 needs at least 199 draws; there are 39"):
        KNOWN.interval(0.99)
    with pytest.raises(ValueError, match="level: expected a probability between 0 and 1; got 1"):
        KNOWN.interval(1.0)
    with pytest.raises(ValueError, match="column 0 holds numbers"):
        KNOWN.probabilities(0)
    with pytest.raises(ValueError, match="row 1, column 2 was observed"):
        KNOWN.trace(1, 2)


def test_r_hat_and_effective_draws():
    """Against their definitions: chains that agree, that disagree, that never move, and that stand apart."""
    n, chains = 40, 4
    agree = RNG.normal(size=(chains, n))
    apart = agree + 3 * np.arange(chains)[:, None]
    still = np.zeros((chains, n))
    stuck = np.repeat(np.arange(chains), n).reshape(chains, n)
    found = _imputation(
        np.stack([agree, apart, still, stuck]).reshape(4, -1), np.zeros(4), np.zeros((4, 0)), chains, Gaussian(4)
    )
    halves = apart.reshape(2 * chains, n // 2)
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    expected = np.sqrt((n // 2 - 1) / (n // 2) + between / within)
    r_hat = found.r_hat()[0]
    assert r_hat[0] < 1.1
    np.testing.assert_allclose(r_hat[1], expected, rtol=1e-5)
    assert r_hat[2] == 1
    assert r_hat[3] == np.inf
    effective = found.effective_draws()[0]
    assert effective[0] > 80
    assert effective[1] < 10
    assert effective[2] == n * chains
    assert np.isnan(found.r_hat()[1]).all()
    assert np.isnan(KNOWN.r_hat()).all()  # one chain says nothing


def test_pooling_follows_rubins_rules():
    """By hand, for three data sets; Barnard and Rubin's degrees of freedom from their formula."""
    values = np.array([[1.0, 2.0, 4.0]])
    found = _imputation(values, [0.0], np.zeros((1, 0)), 1, Gaussian(1))
    pooled = found.pool(lambda rows: (rows[0, 0], 0.5))
    between = 7 / 3
    total = 0.5 + 4 / 3 * between
    assert np.isclose(pooled.estimate, 7 / 3)
    assert np.isclose(pooled.between, between)
    assert np.isclose(pooled.within, 0.5)
    assert np.isclose(pooled.standard_error, np.sqrt(total))
    share = (4 / 3 * between) / total
    assert np.isclose(pooled.degrees_of_freedom, 2 / share**2)
    small = found.pool(lambda rows: (rows[0, 0], 0.5), complete_degrees_of_freedom=9)
    observed = 10 / 12 * 9 * (1 - share)
    assert np.isclose(small.degrees_of_freedom, 1 / (share**2 / 2 + 1 / observed))
    low, high = pooled.interval(0.95)
    from scipy.stats import t

    assert np.isclose(high - low, 2 * t.ppf(0.975, 2 / share**2) * np.sqrt(total))
    same = _imputation(np.ones((1, 3)), [0.0], np.zeros((1, 0)), 1, Gaussian(1)).pool(lambda rows: (rows[0, 0], 0.5))
    assert same.missing_information == 0
    assert np.isinf(same.degrees_of_freedom)
    with pytest.raises(ValueError, match="expected at least two completed data sets; got 1"):
        _imputation(np.ones((1, 1)), [0.0], np.zeros((1, 0)), 1, Gaussian(1)).pool(lambda rows: (0.0, 1.0))
    with pytest.raises(ValueError, match="a variance for every estimate"):
        found.pool(lambda rows: (rows[0, 0], [1.0, 2.0]))


def test_a_pooled_mean_covers_the_truth():
    """Factor analysis, half of the cells of 200 rows hidden, 60 tables: the 90 % interval of a column's mean holds the
    model's in 90 % of them or more, to 3 standard errors of a binomial share."""
    FA = random_factor_analysis()
    rng = np.random.default_rng(3)
    hits = 0
    for i in range(60):
        rows = FA.sample(rng, 200).astype(np.float32)
        rows[rng.random(rows.shape) < 0.5] = np.nan
        found = impute(FA.model(), rows, method="chain", draws=20, chains=2, warm_up=10, thin=20, key=jax.random.key(i))
        pooled = found.pool(lambda r: (r[:, 0].mean(), r[:, 0].var(ddof=1) / len(r)), complete_degrees_of_freedom=199)
        low, high = pooled.interval(0.9)
        hits += low <= FA.b[0] <= high
    # From below only: the model knows the true mean, which draws the fills towards it, and intervals are a little wide.
    assert 0.9 - 3 * np.sqrt(0.09 / 60) < hits / 60


def test_over_imputation_reports_the_coverage_of_exact_intervals():
    """Factor analysis with its own rows: 80 % of hidden cells lie within, to 4 standard errors, in every column."""
    FA = random_factor_analysis()
    rows = FA.sample(np.random.default_rng(4), 1500).astype(np.float32)
    rows[::7, 2] = np.nan
    found = over_impute(
        FA.model(), rows, share=0.2, level=0.8, key=KEY, method="chain", draws=49, chains=7, warm_up=10, thin=20
    )
    coverage, error = found.coverage()
    assert error < 0.012
    assert abs(coverage - 0.8) < 4 * error
    by_column = found.coverage_by_column()
    np.testing.assert_array_less(abs(by_column[:, 0] - 0.8), 4 * by_column[:, 1])
    assert not (found.hidden & np.isnan(rows)).any()
    assert abs(found.hidden.mean() - 0.2) < 0.02
    np.testing.assert_allclose(np.sqrt(np.mean(found.errors() ** 2)), found.errors().std(), rtol=0.05)
    again = over_impute(
        FA.model(), rows[::-1], share=0.2, level=0.8, key=KEY, method="chain", draws=49, chains=7, warm_up=10, thin=20
    )
    np.testing.assert_array_equal(again.hidden[::-1], found.hidden)  # cells are hidden row by row
    with pytest.raises(ValueError, match="share: expected a share of the cells"):
        over_impute(FA.model(), rows, share=1.0, key=KEY)


def test_categories_are_covered_by_their_likeliest_codes():
    from dlgm.inference.imputation.over_imputation import _among_the_likely

    p = np.array([[0.6, 0.35, 0.05]] * 3, np.float32)
    np.testing.assert_array_equal(_among_the_likely(p, np.array([0.0, 1.0, 2.0]), 0.9), [True, True, False])


def test_every_family_can_be_imputed():
    """One table of six families, a model as it starts: fills lie in each column's support, probabilities sum to one."""
    table = Composite([*zip(MIXED.parts, MIXED.places, strict=True), (LogNormal(1), (5,))])
    model = build_model(preset("default", table, latent=(2,), hidden=(8,)), key=jax.random.key(0))
    rows = np.full((3, 6), np.nan, np.float32)
    rows[0, 0], rows[1] = 0.3, [0.1, 2, 3, 5, 1, 2.5]
    for method in ("chain", "metropolis", "resample"):
        found = impute(model, rows, method=method, draws=20, chains=2, warm_up=2, thin=2, key=KEY)
        for i in (0, 19):
            table.check(found[i])
        table.check(np.where(np.arange(6) % 5 == 0, rows[1], found.best()))
        np.testing.assert_allclose(found.probabilities(1).sum(1), 1, rtol=1e-5)
        np.testing.assert_allclose(found.probabilities(2).sum(1), 1, rtol=1e-5)
        np.testing.assert_allclose(found.probabilities(4).sum(1), 1, rtol=1e-5)
        assert np.isfinite(found.mean()).all()


def test_probabilities_of_codes_are_those_of_the_law():
    outputs = np.random.default_rng(0).normal(size=MIXED.num_outputs).astype(np.float32)
    p = np.asarray(MIXED.probabilities(outputs))
    assert MIXED.levels == (0, 3, 4, 0, 2)
    assert p.shape == (5, 4)
    np.testing.assert_allclose(p.sum(1), [0, 1, 1, 0, 1], rtol=1e-5)
    np.testing.assert_allclose(p[4, 1], MIXED.mean(outputs)[4], rtol=1e-5)
    np.testing.assert_allclose(p[2] @ np.arange(4), MIXED.mean(outputs)[2], rtol=1e-5)


def test_denoising_binary_rows_is_exact():
    """An enumerated model and 10 % of flipped bits: E[v | c] from all 16 rows, 20 chains of 1,000 steps each, 5 s.e."""
    small = enumerable(2)
    c = np.array([1, 0, 0, 1], np.float32)
    flips = abs(small.rows - c).sum(1)
    weight = small.p * 0.1**flips * 0.9 ** (4 - flips)
    exact = weight @ small.rows / weight.sum()
    answers = np.concatenate(
        [denoise(small.model, c[None], noise=0.1, draws=1000, warm_up=5, key=jax.random.key(i)) for i in range(20)]
    )
    error = answers.std(0, ddof=1) / np.sqrt(20)
    np.testing.assert_array_less(abs(answers.mean(0) - exact), 5 * error)
    assert error.max() < 0.01


def test_denoising_real_rows_is_exact():
    """Factor analysis and noise of standard deviation 0.7, one cell missing: the Gaussian conditional mean."""
    FA = random_factor_analysis()
    c = FA.sample(np.random.default_rng(5), 1)[0].astype(np.float32)
    seen = [0, 1, 3, 4]
    S = FA.covariance
    gain = S[:, seen] @ np.linalg.inv(S[np.ix_(seen, seen)] + 0.49 * np.eye(4))
    exact = FA.b + gain @ (c[seen] - FA.b[seen])
    row = c[None].copy()
    row[0, 2] = np.nan
    model = FA.model(1.2)
    answers = np.concatenate(
        [denoise(model, row, noise=0.7, draws=1000, warm_up=20, key=jax.random.key(i)) for i in range(20)]
    )
    np.testing.assert_array_less(abs(answers.mean(0) - exact), 5 * answers.std(0, ddof=1) / np.sqrt(20))


def test_denoising_without_known_noise_is_a_mean_of_reconstructions():
    FA = random_factor_analysis()
    rows = FA.sample(np.random.default_rng(5), 4).astype(np.float32)
    mean, _ = FA.posterior(rows)
    found = denoise(FA.model(), rows, draws=2000, key=KEY)
    np.testing.assert_allclose(found, mean @ FA.W.T + FA.b, atol=0.12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise": 0.5}, "noise: expected a probability between 0 and 0.5; got 0.5"),
        ({"draws": 0}, "draws: expected a whole number of at least 1; got 0"),
    ],
)
def test_denoising_refuses(wrong, message):
    with pytest.raises(ValueError, match=message):
        denoise(enumerable().model, np.zeros((1, 4)), key=KEY, **wrong)
    counts = build_model(preset("default", Poisson(2), latent=(1,), hidden=(4,)), key=KEY)
    with pytest.raises(ValueError, match="known for bernoulli and gaussian rows; the family is poisson"):
        denoise(counts, np.ones((1, 2)), noise=0.1, key=KEY)
    assert denoise(counts, np.ones((1, 2)), draws=3, key=KEY).shape == (1, 2)


def test_two_categories_have_probabilities_too():
    """The mean of a category is a code and not a probability: shares of the draws say what it should be."""
    table = Composite([(Gaussian(1), (0,)), (Categorical(1, 2), (1,))])
    model = build_model(preset("default", table, latent=(1,), hidden=(4,)), key=jax.random.key(0))
    found = impute(model, np.full((200, 2), np.nan), draws=20, chains=2, warm_up=5, thin=5, key=KEY)
    p = found.probabilities(1)[:, 1]
    drawn = found.values.reshape(200, 2, 20)[:, 1].mean(1)
    error = (p - drawn).std() / np.sqrt(200)
    assert abs((p - drawn).mean()) < 5 * error
    assert 0.02 < p.mean() < 0.98


def test_pixels_are_whole():
    pixels = _imputation([[3.0, 4.0, 5.0, 9.0]], [5.25], np.zeros((1, 0)), 1, DiscretisedLogistic(1))
    assert pixels.best()[0, 0] == 5
    assert pixels.median()[0, 0] == 4


def test_weights_that_rest_on_little_are_pointed_out():
    """Even if nearly all rows are complete."""
    FA = random_factor_analysis()
    rows = FA.sample(np.random.default_rng(6), 400).astype(np.float32)
    rows[:2, 1] = np.nan
    with pytest.warns(UserWarning, match=r"in [12] of 2 rows the weights rest on fewer than 10"):
        impute(FA.model(0.05), rows, method="resample", draws=20, chains=1, warm_up=0, thin=1, key=KEY)


def test_acceptance_is_one_for_an_exact_posterior():
    """The share of proposals taken, for a recognition model that is exact: all of them."""
    FA = random_factor_analysis()
    rows = FA.sample(np.random.default_rng(6), 3).astype(np.float32)
    rows[:, 1] = np.nan
    found = impute(FA.model(), rows, draws=20, chains=2, thin=3, key=KEY)
    np.testing.assert_allclose(found.acceptance, 1.0, atol=0.02)  # float32: an exact ratio of one is one to rounding
    shifted = eqx.tree_at(
        lambda m: m.recognition.heads[0].network.layers[0].bias, FA.model(), replace_fn=lambda b: b.at[0].add(1.0)
    )
    assert impute(shifted, rows, draws=20, chains=2, thin=3, key=KEY).acceptance.max() < 0.9


def test_a_truth_at_the_end_of_an_interval_is_covered():
    """Draws that are cut off at 0.3, and a truth that rounding has put just below it."""
    from dlgm.inference import OverImputation

    found = _imputation(np.full((1, 40), 0.3), [0.3], np.zeros((1, 0)), num_chains=1, observation=Gaussian(1))
    truth = np.array([[np.float32(0.3) - 3e-8], [1.0]])
    assert OverImputation(found, np.array([[True], [False]]), truth, 0.9).coverage()[0] == 1.0
    far = np.array([[0.29], [1.0]])
    assert OverImputation(found, np.array([[True], [False]]), far, 0.9).coverage()[0] == 0.0


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (lambda rows: 1.0, "expected `estimate` to return an estimate and its variance; got 1.0"),
        (lambda rows: (1.0, -1.0), "variances of at least zero"),
        (lambda rows: (np.nan, 1.0), "expected finite estimates"),
    ],
)
def test_what_cannot_be_pooled_is_refused(estimate, words):
    with pytest.raises(ValueError, match=words):
        KNOWN.pool(estimate)

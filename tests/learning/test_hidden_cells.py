"""Cells hidden on purpose: which they are, and what a model's answers to them are worth."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.learning.hidden_cells import HiddenCells, _draws, hide_some
from dlgm.model import Bernoulli, Categorical, Composite, Gaussian, ModelConfig, Ordinal, build_model, initialise
from tests.linear import random_factor_analysis

KEY = jax.random.key(0)
TRUTH = random_factor_analysis(seed=3, x=5, k=2)
MASK = np.random.default_rng(0).uniform(size=(40, 6)) < 0.5


def test_the_share_asked_for_is_hidden_and_at_most_so_many():
    hidden = hide_some(MASK, 0.2)
    assert hidden.sum() == int(0.2 * MASK.sum())
    assert not (hidden & ~MASK).any()
    assert hide_some(MASK, 0.2, most=7).sum() == 7
    assert not hide_some(MASK, 0.0).any()


@pytest.mark.parametrize("mask", [MASK, MASK.T], ids=["long", "wide"])
def test_every_row_and_column_keeps_a_cell(mask):
    """Asked for all of them, it leaves one in each row and column that has any; what is alone stays."""
    left = mask & ~hide_some(mask, 1.0)
    for axis in (0, 1):
        np.testing.assert_array_equal(left.any(axis=axis), mask.any(axis=axis))
    # None of the others could go as well.
    rows, columns = left.sum(axis=1), left.sum(axis=0)
    assert all(rows[i] == 1 or columns[j] == 1 for i, j in np.argwhere(left))
    assert not hide_some(np.eye(4, dtype=bool), 1.0).any()


def test_hiding_follows_from_the_seed():
    np.testing.assert_array_equal(hide_some(MASK, 0.3, seed=1), hide_some(MASK, 0.3, seed=1))
    assert (hide_some(MASK, 0.3, seed=1) != hide_some(MASK, 0.3, seed=2)).any()


def linear_model(off=0.0):
    """TRUTH as a model by cells, whose posterior is exact for any holes; `off` moves its recognition's centers."""
    config = ModelConfig(
        Gaussian(5).config(), latent=(2,), hidden=(), scale="scalar", linear_path=True, covariance="cells"
    )
    model = build_model(config, key=KEY)
    floor = model.generative.observation.config()["floor"]
    precision = 1 / np.sqrt(TRUTH.psi)
    leaves = (TRUTH.W, TRUTH.b, np.log(TRUTH.psi - floor), TRUTH.W * precision[:, None], precision, TRUTH.b + off)
    return eqx.tree_at(
        lambda m: (
            m.generative.networks[0].linear,
            m.generative.networks[0].layers[-1].bias,
            m.generative.observation.log_var,
            m.recognition.weights,
            m.recognition.gain,
            m.recognition.center,
        ),
        model,
        tuple(jnp.asarray(leaf, jnp.float32) for leaf in leaves),
    )


def conditional(row, left, i):
    """Mean and variance of cell i of a row, given those that are left: Gaussian, by its covariance."""
    S = TRUTH.covariance
    slope = np.linalg.solve(S[left][:, left], S[left, i])
    return TRUTH.b[i] + slope @ (row[left] - TRUTH.b[left]), S[i, i] - slope @ S[left, i]


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_expectations_are_the_exact_conditional_means(off):
    """60 cells, one a row among other holes, 2,000 draws each: every mean within 5 standard errors (60 x 6e-7), and so
    is the score. With a recognition model that is off, importance weights put it right."""
    rng = np.random.default_rng(1)
    rows = TRUTH.sample(rng, 60)
    at = rng.integers(0, 5, size=60)
    hidden = np.arange(5) == at[:, None]
    left = ~hidden & (rng.uniform(size=rows.shape) < 0.7)
    model = linear_model(off)
    judge = HiddenCells(rows, left, hidden, num_samples=2000, key=KEY)

    exact, variance = np.array([conditional(rows[n], left[n], at[n]) for n in range(60)]).T
    cells = jnp.asarray(np.argwhere(hidden))
    drawn = _draws(model, rows.astype(np.float32), left, cells, jnp.zeros((5, 0)), KEY, 2000)
    values, w = (np.asarray(found, np.float64) for found in drawn)
    np.testing.assert_allclose(w.sum(axis=0), 1, rtol=1e-4)
    found = np.sum(w * values, axis=0)
    error = np.sqrt(np.sum((w * (values - found)) ** 2, axis=0))
    assert (np.abs(found - exact) < 5 * error).all()
    if off == 0.0:  # draws from the exact posterior have equal weights
        np.testing.assert_allclose(w, 1 / 2000, rtol=0.02)
        np.testing.assert_allclose(error, np.sqrt(variance / 2000), rtol=0.2)

    spread = np.array([np.var(rows[(left | hidden)[:, i], i]) for i in at])
    gap, true = exact - rows[hidden], -np.mean((exact - rows[hidden]) ** 2 / spread)
    bias = np.mean(error**2 / spread)  # of the square of an estimate
    of_score = 2 * np.sqrt(np.sum((gap * error / spread) ** 2)) / 60
    assert abs(judge(model) - (true - bias)) < 5 * of_score
    assert judge(model) == judge(model)


def judge_of(column, hidden, units=None):
    """A judge of two columns, of which the second is asked about, and other rows' cells of it were seen."""
    rows = np.stack([np.zeros(len(column)), column], axis=1)
    asked = np.stack([np.zeros(len(column), bool), hidden], axis=1)
    options = {} if units is None else {"units": units}
    return HiddenCells(rows, ~asked, asked, key=KEY, **options)


def test_numbers_are_judged_in_the_users_units():
    """By hand: exponentials of weighted draws, averaged after that, over the variance of the exponentials."""
    column, hidden = np.log([1.0, 2.0, 3.0, 6.0]), np.array([False, True, False, True])
    values, w = np.log([[1.0, 4.0], [5.0, 8.0]]), np.array([[0.75, 0.5], [0.25, 0.5]])
    judge = judge_of(column, hidden, units=lambda i, v: np.exp(v) if i == 1 else v)
    # Means 2 and 6 of 2 and 6 are right; half a unit more in the first draw of the second cell is 0.25 in the mean.
    assert judge.error(values, w, Gaussian(2)) == pytest.approx(0.0, abs=1e-12)
    values[0, 1] = np.log(4.5)
    assert judge.error(values, w, Gaussian(2)) == pytest.approx(0.25**2 / np.var([1, 2, 3, 6]) / 2)
    # Shifts and scales are nothing to it.
    plain, scaled = judge_of(column, hidden), judge_of(column, hidden, units=lambda i, v: 3 + 10 * v)
    assert plain.error(values, w, Gaussian(2)) == pytest.approx(scaled.error(values, w, Gaussian(2)))


CODES = Composite([(Gaussian(1), (0,)), (Categorical(1, num_classes=3), (1,))])


def test_categories_are_judged_by_their_brier_score():
    """By hand, over that of the frequencies 1/2, 1/4, 1/4, which is 1 - 6/16; and units do not touch codes."""
    column, hidden = np.array([0.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False])
    values = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    w = np.array([[0.5, 0.2], [0.3, 0.7], [0.2, 0.1]])
    first = (0.5 - 1) ** 2 + 0.5**2  # shares (0.5, 0.5, 0) of a 0
    second = 0.2**2 + (0.7 - 1) ** 2 + 0.1**2  # shares (0.2, 0.7, 0.1) of a 1
    judge = judge_of(column, hidden, units=lambda i, v: v + 100 * i)
    assert judge.error(values, w, CODES) == pytest.approx((first + second) / 2 / (1 - 6 / 16))


def test_means_and_frequencies_have_an_error_of_one():
    """Whatever the column: so that numbers, bits and categories count alike. A constant one counts nothing."""
    everything = np.ones(8, bool)
    codes = np.array([0.0, 0, 0, 1, 1, 2, 2, 2])
    draws = np.tile(codes[:, None], (1, 8))
    even = np.full((8, 8), 1 / 8)
    bits = Composite([(Gaussian(1), (0,)), (Categorical(1, num_classes=2), (1,))])
    for column, observation in ((codes, CODES), (codes, Gaussian(2)), (np.minimum(codes, 1), bits)):
        judge = judge_of(column, everything)
        assert judge.error(np.minimum(draws, column.max()), even, observation) == pytest.approx(1.0)
    for observation in (CODES, Gaussian(2)):
        assert judge_of(np.ones(8), everything).error(draws, even, observation) == 0.0


def test_ordered_codes_are_expected_and_others_are_drawn():
    """Every weighted value is the mean, given the latents, of what codes stand for; of three categories, a code."""
    observation = Composite(
        [
            (Bernoulli(1), (2,)),
            (Ordinal(2, (4, 3)), (0, 3)),
            (Categorical(1, num_classes=2), (1,)),
            (CODES.parts[1], (4,)),
        ]
    )
    model = build_model(ModelConfig(observation.config(), latent=(2,), hidden=(3,)), key=KEY)
    rows, left = np.zeros((1, 5), np.float32), np.zeros((1, 5), bool)
    cells = jnp.asarray([[0, i] for i in range(5)])
    stand_for = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    values, _ = _draws(model, jnp.asarray(rows), jnp.asarray(left), cells, jnp.asarray(stand_for), KEY, 50)
    # The latents of those draws, from the same key.
    own = jax.random.split(jax.random.split(KEY, 1)[0])[0]
    q = model.posterior(jnp.zeros(5), jnp.zeros(5, bool))
    xi = jax.vmap(lambda k: q.sample(k)[0])(jax.random.split(own, 50))
    family = model.generative.observation

    def expected(outputs):
        """By the log-probability of each code."""
        log_p = [family.log_prob(jnp.minimum(c, jnp.array(family.levels) - 1.0), outputs) for c in range(4)]
        has = jnp.arange(4)[:, None] < jnp.array(family.levels)
        return jnp.sum(jnp.where(has, jnp.exp(jnp.stack(log_p)), 0.0) * stand_for.T, axis=0)

    by_hand = jax.vmap(lambda x: expected(model.generative.outputs(x)))(xi)
    np.testing.assert_allclose(values[:, :4], by_hand[:, :4], rtol=1e-4)
    assert set(np.unique(values[:, 4])) <= {0.0, 1.0, 2.0}


def test_the_mean_of_values_far_apart_has_an_error_of_one():
    """A model of the frequencies alone, whose codes stand for 0, 0.1 and 9.5: no mean of codes tells the mean."""
    column = np.array([0.0] * 50 + [1.0] * 30 + [2.0] * 20)
    observation = Composite([(Gaussian(1), (0,)), (Ordinal(1, 3), (1,))])
    config = ModelConfig(observation.config(), latent=(1,), hidden=(), linear_path=True)
    model = build_model(config, key=KEY)
    rows = np.stack([np.zeros(100), column], axis=1)
    model = initialise(model, rows, None)
    model = eqx.tree_at(lambda m: m.generative.networks[0].linear, model, replace_fn=jnp.zeros_like)
    asked = np.stack([np.zeros(100, bool), np.ones(100, bool)], axis=1)
    stand_for = np.array([0.0, 0.1, 9.5])
    judge = HiddenCells(rows, ~asked, asked, units=lambda i, v: stand_for[v.astype(int)] if i else v, key=KEY)
    assert -judge(model) == pytest.approx(1.0, abs=1e-3)

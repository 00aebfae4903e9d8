"""Every baseline behind one interface: a row of the table each."""

import dataclasses

import jax
import numpy as np
import pytest

from dlgm.baselines import (
    BERNOULLI_FACTOR_ANALYSIS,
    NLGBN,
    WAKE_SLEEP,
    Baseline,
    BernoulliMixture,
    Density,
    GaussianFactorAnalysis,
    LatentBaseline,
    fit_mixture_of_bernoullis,
)
from dlgm.baselines.latent import LatentDensity
from dlgm.learning import AbstractWatcher
from dlgm.model import make_observation, preset
from dlgm.model.presets import PRESETS

RNG = np.random.default_rng(0)
KINDS = RNG.integers(0, 2, size=(400, 1))
ROWS = (RNG.random((400, 6)) < np.where(KINDS, [0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9])).astype(
    np.uint8
)
TRAIN, VALID, TEST = ROWS[:240], ROWS[240:300], ROWS[300:]


def small(baseline, latent, training=(), **model):
    """The same kind of model and learning, of a size for these rows."""
    fast = {"epochs": 40, "batch_size": 40, "learning_rate": 0.02, "drop_out": 0.0}
    training = {**baseline.training, **fast, **dict(training)}
    return dataclasses.replace(baseline, model={"latent": latent, **model}, training=training, num_samples=200)


BASELINES = {
    "gaussian-factor-analysis": GaussianFactorAnalysis(num_factors=1, iterations=30),
    "mixture": BernoulliMixture(num_components=2, iterations=25),
    "bernoulli-factor-analysis": small(BERNOULLI_FACTOR_ANALYSIS, (1,), recognition_hidden=(8,)),
    "nlgbn": small(NLGBN, (2, 1), recognition_hidden=(8,)),
    "wake-sleep": small(WAKE_SLEEP, (2,), {"epochs": 80, "learning_rate": 0.01}, hidden=(16,)),
}


def independent_columns(binary):
    """The mean log-likelihood of the test rows under independent columns fitted to the training rows."""
    mean = TRAIN.mean(axis=0)
    if binary:
        return np.sum(TEST * np.log(mean) + (1 - TEST) * np.log1p(-mean), axis=1).mean()
    variance = TRAIN.var(axis=0)
    return np.sum(-0.5 * np.log(2 * np.pi * variance) - (TEST - mean) ** 2 / (2 * variance), axis=1).mean()


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_fits_scores_and_samples(name):
    """Half a nat better than independent columns: two kinds of rows are worth about 1.4."""
    baseline, binary = BASELINES[name], name != "gaussian-factor-analysis"
    density = baseline.fit(TRAIN, VALID, seed=3)
    assert isinstance(baseline, Baseline)
    assert isinstance(density, Density)
    scores = density.score_samples(TEST, seed=1)
    assert scores.shape == (100,)
    assert np.isfinite(scores).all()
    assert scores.mean() > independent_columns(binary) + 0.5
    drawn = density.sample(300, seed=1)
    assert drawn.shape == (300, 6)
    assert (set(np.unique(drawn)) == {0, 1}) == binary
    # Columns of a kind go together in the rows, and so in the samples.
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] > 0.3

    if isinstance(baseline, LatentBaseline):
        assert isinstance(density, LatentDensity)
        assert density.training["config"]["seed"] == 3
    again = baseline.fit(TRAIN, VALID, seed=3)
    np.testing.assert_array_equal(again.score_samples(TEST, seed=1), scores)
    np.testing.assert_array_equal(again.sample(300, seed=1), drawn)
    assert not np.array_equal(density.sample(300, seed=2), drawn)
    with pytest.raises(ValueError, match="whole number of at least"):
        density.sample(-1)


class Records(AbstractWatcher):
    def __init__(self):
        self.seen = []

    def epoch(self, record):
        self.seen.append(record)


def test_a_mixture_in_parts_is_the_mixture_in_one_piece():
    records = Records()
    density = BernoulliMixture(num_components=3, iterations=25).fit(TRAIN, seed=5, watchers=[records])
    whole = fit_mixture_of_bernoullis(TRAIN, num_components=3, key=jax.random.key(5), iterations=25, smoothing=0.1)
    for part, other in zip(jax.tree.leaves(density.model), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-4)
    assert [record["epoch"] for record in records.seen] == [1, 11, 21, 25]
    assert np.diff([record["loss"] for record in records.seen]).max() < 1e-5


def test_the_best_of_a_mixture_by_valid_rows_is_kept():
    """Forty components for forty rows: more steps make them fit too well."""
    records = Records()
    settings = BernoulliMixture(num_components=40, iterations=40, smoothing=1e-3)
    density = settings.fit(TRAIN[:40], VALID, seed=0, watchers=[records])
    bounds = [record["valid_bound"] for record in records.seen]
    assert bounds[-1] < max(bounds) - 0.1
    assert density.score_samples(VALID).mean() == pytest.approx(max(bounds), rel=1e-6)


def test_rows_that_are_not_a_table_are_refused():
    with pytest.raises(ValueError, match=r"rows: expected shape \(n, x\); got \(400, 2, 3\)\. Flatten images first\."):
        NLGBN.fit(ROWS.reshape(400, 2, 3))


def test_the_architectures_are_the_papers():
    """Section 2, 6.1 and 6.2: what is linear, what has which size; wake-sleep learns the model of the DLGM rows."""
    observation = make_observation("bernoulli", columns=784)
    linear = preset(BERNOULLI_FACTOR_ANALYSIS.preset, observation, **BERNOULLI_FACTOR_ANALYSIS.model)
    assert (linear.latent, linear.hiddens, linear.activate_input) == ((100,), ((),), False)
    network = preset(NLGBN.preset, observation, **NLGBN.model)
    assert (network.hiddens, network.activate_input, network.nonlinearities) == (((), ()), True, ("tanh", "tanh"))
    asleep = preset(WAKE_SLEEP.preset, observation, **WAKE_SLEEP.model)
    assert (asleep.latent, asleep.hidden) == ((200,), (200, 200))
    assert WAKE_SLEEP.training["objective"] == "wake-sleep"
    assert PRESETS["fig-2c"].settings == {"latent": (100,), "hidden": (300,)}

"""The importance-weighted bound that begins as the free energy."""

from typing import Any

import jax
import numpy as np
import pytest

from dlgm.learning import TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation

RNG = np.random.default_rng(0)  # rows of zeros or of ones, with some bits turned: a posterior has much to say
ROWS = ((RNG.uniform(size=(400, 1)) < 0.5) ^ (RNG.uniform(size=(400, 6)) < 0.2)).astype(np.uint8)
MODEL = ModelConfig(make_observation("bernoulli", columns=6).config(), latent=(8,), hidden=(5,))
SETTINGS: dict[str, Any] = {"epochs": 10, "batch_size": 50, "learning_rate": 1e-6, "warm_up": 0.0}  # it stays


def fitted(**settings):
    return fit(MODEL, ROWS, config=TrainingConfig(**SETTINGS, **settings))


@pytest.fixture(scope="module")
def free():
    return fitted()


def losses(run):
    return np.array([record["loss"] for record in run.history])


def test_it_is_the_free_energy_until_then_and_the_weighted_bound_after(free):
    run = fitted(objective="importance-weighted", num_samples=20, free_until=0.5)
    np.testing.assert_allclose(losses(run)[:5], losses(free)[:5], rtol=1e-5)
    # A tighter bound, of the same weights and rows: lower by 0.05, where epochs of the free energy spread by 0.008.
    gap = losses(free).mean() - losses(run)[5:].mean()
    assert gap > 4 * losses(free).std()
    assert losses(run)[5:].max() < losses(free).min()


def test_to_the_end_it_is_the_free_energy(free):
    run = fitted(objective="importance-weighted", free_until=1.0)
    for ours, theirs in zip(*(jax.tree.leaves(r.model) for r in (run, free)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"free_until": 0.5}, "free_until: expected the objective importance-weighted, which comes after; got free-en"),
        ({"objective": "importance-weighted", "free_until": 1.5}, "free_until: expected a share of the epochs, from 0"),
    ],
)
def test_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**settings)

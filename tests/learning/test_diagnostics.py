"""Diagnostics that tell a healthy model from a collapsed one, and a quiet estimator from a noisy one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlgm.learning import diagnose, gradient_signal_to_noise
from dlgm.stochastic import BonnetPriceHVP, LeaveOneOut, Pathwise, Reinforce
from tests.linear import random_factor_analysis
from tests.model.cases import build

FA = random_factor_analysis()
ROWS = FA.sample(np.random.default_rng(1), 200).astype(np.float32)


def test_factor_analysis_is_healthy():
    """Both latents used; marginal KLs as the formula has them; no gap at the exact posterior."""
    found = diagnose(FA.model(), ROWS, num_samples=50, key=jax.random.key(0))
    assert (found.active_units, found.latent, found.warnings) == ([2], [2], [])
    mean, C = FA.posterior(ROWS)
    kl = 0.5 * (np.diag(C) + mean**2 - 1 - np.log(np.diag(C)))
    np.testing.assert_allclose(found.unit_kl[0], kl.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(found.log_p, FA.log_prob(ROWS).mean(), rtol=1e-4)
    assert abs(found.gap) < 1e-3


def test_the_gap_is_the_divergence_from_the_true_posterior():
    """A posterior 1.5 times too wide: KL(q || p) = K (1.5^2 - 1) / 2 - K log 1.5 for every row. 5 s.e. over rows."""
    found = diagnose(FA.model(widen=1.5), ROWS, num_samples=1_000, key=jax.random.key(0))
    expected = 2 * ((1.5**2 - 1) / 2 - np.log(1.5))
    assert abs(found.gap - expected) < 5 * found.gap_standard_error + 0.01


def test_collapse_is_called_by_its_name():
    """A recognition model that ignores its input, in the second of two layers."""
    model = build((3, 2), columns=5, family="gaussian", covariance="diagonal", jitter=1.0)
    deaf = eqx.tree_at(
        lambda m: (m.recognition.heads[1].network.layers[0].weight, m.recognition.heads[1].network.layers[0].bias),
        model,
        replace_fn=jnp.zeros_like,
    )
    found = diagnose(deaf, ROWS, num_samples=10, key=jax.random.key(0))
    assert found.active_units[1] == 0
    assert found.active_units[0] > 0
    np.testing.assert_allclose(found.unit_kl[1], 0, atol=1e-6)
    assert [w.split(":")[0] for w in found.warnings] == ["Posterior collapse"]
    assert "none of the 2 latents of layer 2 is used" in found.warnings[0]


def test_signal_to_noise_ranks_the_estimators():
    """Far from the optimum, the pathwise gradient is clearer than REINFORCE's by a good margin."""
    model = build((2,), columns=5, family="gaussian", nonlinearity="tanh")
    ratios = gradient_signal_to_noise(
        model,
        jnp.asarray(ROWS[:20]),
        {"pathwise": Pathwise(), "price": BonnetPriceHVP(), "reinforce": Reinforce(LeaveOneOut())},
        num_samples=2,
        num_draws=200,
        key=jax.random.key(0),
    )
    assert ratios["pathwise"] > 2 * ratios["reinforce"] > 0
    assert ratios["price"] > 2 * ratios["reinforce"]

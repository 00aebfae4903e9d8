"""The Gaussian at the peak of a row's posterior: exact where that is a Gaussian, and useful where q is not."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import impute
from dlgm.inference.laplace import _WIDER, laplace
from dlgm.model import build_model, make_observation, preset
from dlgm.model.recognition import RecognitionModel
from tests.linear import random_factor_analysis

FA = random_factor_analysis()
ROW = FA.sample(np.random.default_rng(1), 1)[0].astype(np.float32)
KNOWN = np.array([True, False, True, False, True])


def _exact(row, known):
    """Mean and covariance of the latents, given the known cells."""
    W, psi = FA.W[known], FA.psi[known]
    C = np.linalg.inv(np.eye(FA.W.shape[1]) + W.T @ (W / psi[:, None]))
    return C @ W.T @ ((row - FA.b)[known] / psi), C


def test_one_step_is_exact_for_a_gaussian():
    mean, C = _exact(ROW, KNOWN)
    q = laplace(FA.model().generative, jnp.asarray(ROW), jnp.asarray(KNOWN), jnp.asarray([3.0, -4.0]), 1).q
    np.testing.assert_allclose(q.mean, mean, atol=2e-5)
    np.testing.assert_allclose(q.covariance(), _WIDER**2 * C, atol=2e-5)


@pytest.mark.parametrize("family", ["bernoulli", "categorical", "ordinal", "student-t", "poisson"])
def test_the_peak_is_a_peak(family):
    """The gradient of log p(xi, v_o) vanishes there, and the Gaussian is a proper one."""
    observation = make_observation(family, columns=6, **({"num_classes": 3} if family[-3:] in ("cal", "nal") else {}))
    model = build_model(
        preset("default", observation, latent=(3,), hidden=(8,), nonlinearity="tanh"), key=jax.random.key(1)
    )
    # Wide awake: outputs that vary with the latents.
    generative = eqx.tree_at(lambda g: g.networks[0].layers[-1].weight, model.generative, replace_fn=lambda w: 8 * w)
    v, mask = jnp.asarray([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]), jnp.asarray([True] * 4 + [False] * 2)
    q = laplace(generative, v, mask, jnp.ones(3), 50).q
    slope = jax.grad(lambda xi: generative.log_joint(v, xi, mask))(q.mean)
    np.testing.assert_allclose(slope, 0, atol=2e-2)
    assert np.all(np.linalg.eigvalsh(np.asarray(q.covariance())) > 0)


def test_proposals_from_the_peak_mend_a_wrong_recognition_model():
    """q knows nothing, as wide as the prior and far off: means are exact, 5 standard errors over 200 copies."""
    model = FA.model()
    assert isinstance(model.recognition, RecognitionModel)
    head = model.recognition.heads[0].network.layers[0]
    lost = eqx.tree_at(
        lambda m: (m.recognition.heads[0].network.layers[0].weight, m.recognition.heads[0].network.layers[0].bias),
        model,
        (jnp.zeros_like(head.weight), jnp.zeros_like(head.bias).at[:2].set(3.0)),
    )
    rows = np.tile(np.where(KNOWN, ROW, np.nan), (200, 1)).astype(np.float32)
    asked: dict[str, Any] = {
        "method": "resample",
        "draws": 20,
        "chains": 1,
        "warm_up": 0,
        "thin": 20,
        "key": jax.random.key(2),
    }
    with warnings.catch_warnings(action="ignore"):
        found, plain = impute(lost, rows, newton=3, **asked), impute(lost, rows, **asked)
    mean, _ = _exact(ROW, KNOWN)
    exact = (FA.W @ mean + FA.b)[~KNOWN]
    means = found.means.reshape(200, 2)
    error = means.std(0, ddof=1) / np.sqrt(200)
    np.testing.assert_array_less(abs(means.mean(0) - exact), 5 * error)
    assert np.median(found.effective_sample_size) > 100  # of 400, half of them from the peak
    assert np.median(found.effective_sample_size) > 2 * np.median(plain.effective_sample_size)

"""The posterior over the generative parameters: its KL, its draws, and the settings that ask for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import minimize_scalar

from dlgm.artifact import SavedModel, load_model, save_model
from dlgm.model import ModelConfig, build_model, initialise, make_observation
from tests.model.cases import build


def bayesian(prior="constant", **settings):
    """Means and variances that all differ, the latter between 0.05 and 1 or so."""
    model = build((2, 1), columns=3, hidden=(2,), bayes=True, prior=prior, **settings)
    return eqx.tree_at(lambda m: m.parameters.log_tau, model, replace_fn=lambda tree: _scaled(tree, 0.3))


def _scaled(tree, factor):
    return jax.tree.map(lambda leaf: factor * leaf, tree)


def arrays(model):
    """(m, tau) of each array of parameters, in float64."""
    pairs = zip(jax.tree.leaves(model.generative), jax.tree.leaves(model.parameters.log_tau), strict=True)
    return [(np.asarray(m, np.float64), np.exp(np.asarray(log_tau, np.float64))) for m, log_tau in pairs]


def normal_divergence(m, tau, kappa):
    """By numpyro, whose Normal takes a standard deviation."""
    kl = dist.kl_divergence(dist.Normal(m, np.sqrt(tau)), dist.Normal(0.0, np.sqrt(kappa)))
    return float(jnp.sum(kl))


@pytest.mark.parametrize("prior", ["constant", "fan-in"])
def test_the_divergence_is_that_of_normal_laws(x64, prior):
    model = bayesian(prior, kappa=2.5)

    def kappa(m):
        return 2.5 / m.shape[1] if prior == "fan-in" and m.ndim == 2 else 2.5

    expected = sum(normal_divergence(m, tau, kappa(m)) for m, tau in arrays(model))
    np.testing.assert_allclose(model.penalty(), expected, rtol=1e-12)
    for found, (m, _) in zip(
        jax.tree.leaves(model.parameters.prior_variances(model.generative)), arrays(model), strict=True
    ):
        np.testing.assert_allclose(found, kappa(m), rtol=1e-12)


def test_a_learned_prior_makes_the_divergence_smallest(x64):
    """For the weights into each unit and for each layer's biases by itself, against a search over the variance."""
    model = bayesian("learned")
    expected = 0.0
    for found, (m, tau) in zip(
        jax.tree.leaves(model.parameters.prior_variances(model.generative)), arrays(model), strict=True
    ):
        groups = list(zip(m, tau, strict=True)) if m.ndim == 2 else [(m, tau)]
        for kappa, (m_group, tau_group) in zip(np.ravel(found), groups, strict=True):
            best = minimize_scalar(lambda log_kappa, m=m_group, tau=tau_group: normal(m, tau, np.exp(log_kappa)))
            np.testing.assert_allclose(kappa, np.exp(best.x), rtol=1e-5)
            expected += best.fun
    np.testing.assert_allclose(model.penalty(), expected, rtol=1e-9)


def normal(m, tau, kappa):
    """The same in numpy, which is quick; the test above holds numpyro against the code, and so this one."""
    return float(np.sum(0.5 * ((m**2 + tau) / kappa + np.log(kappa / tau) - 1)))


def test_a_plain_model_pays_for_its_length_only():
    model = build((2,), kappa=3.0)
    np.testing.assert_allclose(model.penalty(), model.generative.penalty())
    assert model.drawn(jax.random.key(0)) is model


def test_draws_have_the_stated_means_and_variances():
    """n = 4,000 draws of 32 parameters: means and variances within 5 standard errors (6e-7 each)."""
    model, n = bayesian(), 4_000
    draws = jax.jit(jax.vmap(lambda k: model.drawn(k).generative))(jax.random.split(jax.random.key(0), n))
    numbers = []
    for theta, (m, tau) in zip(jax.tree.leaves(draws), arrays(model), strict=True):
        z = (np.asarray(theta, np.float64) - m) / np.sqrt(tau)
        np.testing.assert_array_less(abs(z.mean(0)), 5 / np.sqrt(n))
        np.testing.assert_array_less(abs(z.var(0) - 1), 5 * np.sqrt(2 / n))
        numbers.append(z.reshape(n, -1))
    together = np.corrcoef(np.concatenate(numbers, axis=1).T) - np.eye(sum(z.shape[1] for z in numbers))
    assert abs(together).max() < 5.5 / np.sqrt(n)  # independent of each other: 496 pairs, false alarm 2e-5


def test_the_mean_is_a_plain_model():
    model = bayesian()
    mean = model.at_mean()
    assert mean.parameters is None
    assert mean.generative is model.generative
    assert mean.recognition is model.recognition


def test_starting_from_data_moves_the_means_alone():
    model = bayesian()
    started = initialise(model, np.tile([[1.0, 0, 0], [1, 1, 0]], (5, 1)))
    assert started.generative.networks[0].layers[-1].bias[0] > 1
    assert eqx.tree_equal(started.parameters, model.parameters)


def test_it_is_saved_and_loaded(tmp_path):
    config = ModelConfig(
        make_observation("gaussian", columns=3).config(), latent=(2,), hidden=(2,), bayes=True, prior="learned"
    )
    model = build_model(config, key=jax.random.key(1))
    save_model(tmp_path / "m.dlgm", SavedModel(model, config))
    loaded = load_model(tmp_path / "m.dlgm")
    assert loaded.config == config
    assert loaded.model.parameters is not None
    assert loaded.model.parameters.prior == "learned"
    assert eqx.tree_equal(loaded.model, model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "learned"}, "prior: learned is for a posterior over the parameters; set bayes=True too."),
        ({"bayes": True, "prior": "flat"}, "prior: expected one of constant, fan-in, learned; got 'flat'."),
    ],
)
def test_other_settings_are_refused(settings, message):
    with pytest.raises(ValueError) as error:
        ModelConfig(make_observation("bernoulli", columns=3).config(), **settings)
    assert str(error.value) == message

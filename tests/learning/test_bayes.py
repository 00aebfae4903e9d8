"""Variational Bayes over the parameters: the free energy of eq. 28, its gradients, and what training finds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlgm.learning import Checkpoints, FreeEnergy, ImportanceWeighted, TrainingConfig, fit, mean_bound
from dlgm.learning.objective import _PARAMETERS, minibatch_free_energy
from dlgm.model import ModelConfig, build_model, make_observation
from tests.learning.test_checkpoint import At
from tests.model.test_bayes import bayesian

ROWS = jnp.array([[1.0, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]])
KEY = jax.random.key(4)
PLAIN = FreeEnergy()


def free_energy(model, rows=ROWS, objective=PLAIN, **options):
    return minibatch_free_energy(objective, model, rows, None, key=KEY, **{"num_rows": 12, **options})


def narrow(model, log_tau=-60.0):
    """The same model, certain of its parameters."""
    certain = jax.tree.map(lambda leaf: jnp.full_like(leaf, log_tau), model.parameters.log_tau)
    return eqx.tree_at(lambda m: m.parameters.log_tau, model, certain)


def test_certain_parameters_have_the_objective_of_a_point_estimate():
    """Row by row with the same draws of the latents; the loss has the KL of the parameters in place of the penalty."""
    model = narrow(bayesian(kappa=3.0))
    total, terms = jax.jit(free_energy)(model)
    expected, point = jax.jit(free_energy)(model.at_mean())
    for a, b in zip(jax.tree.leaves(terms), jax.tree.leaves(point), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        total - model.penalty(), expected - model.generative.penalty(), rtol=1e-4
    )  # of numbers near 1,000 and 40


def test_draws_are_shared_by_equal_parts_of_the_batch():
    """With two, the first half of the rows has the first, the other half the other; with one, all have it."""
    model, key_theta = bayesian(), jax.random.fold_in(KEY, _PARAMETERS)
    row_keys = jax.random.split(KEY, 4)
    one = jax.jit(lambda k, v, row: FreeEnergy()(model.drawn(k), v, key=row).loss)
    a, b = jax.random.split(key_theta)
    for draws, keys in ((1, [key_theta] * 4), (2, [a, a, b, b])):
        total, terms = jax.jit(lambda m, draws=draws: free_energy(m, parameter_draws=draws, beta=1.0))(model)
        expected = [float(one(k, v, row)) for k, v, row in zip(keys, ROWS, row_keys, strict=True)]
        np.testing.assert_allclose(terms.loss, expected, rtol=1e-5)
        np.testing.assert_allclose(total, 3 * sum(expected) + model.penalty(), rtol=1e-5)  # 12 rows, 4 of them here


def test_gradients_follow_equation_29(x64):
    """As mended, at one draw, to rounding.

    In m: -d log p / d theta + m / kappa.
    In tau: -(theta - m) / (2 tau) d log p / d theta + 1 / (2 kappa) - 1 / (2 tau).
    """
    kappa, model = 2.0, bayesian(kappa=2.0)
    gradient = jax.jit(jax.grad(lambda m: free_energy(m)[0]))(model)
    theta = jax.jit(lambda m: m.drawn(jax.random.fold_in(KEY, _PARAMETERS)).generative)(model)

    def minus_log_p(generative):
        """The rows' terms as a function of theta, the recognition model's part held."""
        point = eqx.tree_at(lambda m: m.generative, model.at_mean(), generative)
        return free_energy(point)[0] - generative.penalty()

    by_theta = jax.tree.leaves(jax.jit(jax.grad(minus_log_p))(theta))
    m, log_tau = jax.tree.leaves(model.generative), jax.tree.leaves(model.parameters.log_tau)
    in_m, in_log_tau = jax.tree.leaves(gradient.generative), jax.tree.leaves(gradient.parameters)
    for j, drawn in enumerate(jax.tree.leaves(theta)):
        tau = jnp.exp(log_tau[j])
        np.testing.assert_allclose(in_m[j], by_theta[j] + m[j] / kappa, rtol=1e-9, atol=1e-11)
        in_tau = (drawn - m[j]) / (2 * tau) * by_theta[j] + 1 / (2 * kappa) - 1 / (2 * tau)
        np.testing.assert_allclose(in_log_tau[j] / tau, in_tau, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("prior", "objective", "draws"), [("fan-in", FreeEnergy(), 1), ("learned", ImportanceWeighted(2, "pathwise"), 2)]
)
def test_gradients_are_those_of_finite_differences(x64, prior, objective, draws):
    """Along three random directions through means, variances and recognition model, in float64, with the key held."""
    leaves, tree = jax.tree.flatten(bayesian(prior, nonlinearity="tanh", kappa=2.0))

    def loss(leaves):
        model = jax.tree.unflatten(tree, leaves)
        return free_energy(model, objective=objective, beta=0.7, parameter_draws=draws)[0]

    along = jax.jit(lambda t, direction: loss([leaf + t * d for leaf, d in zip(leaves, direction, strict=True)]))
    gradient = jax.device_get(jax.jit(jax.grad(loss))(leaves))
    rng, h = np.random.default_rng(0), 1e-5
    for _ in range(3):
        direction = [rng.normal(size=leaf.shape) for leaf in leaves]
        difference = (float(along(h, direction)) - float(along(-h, direction))) / (2 * h)
        exact = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
        np.testing.assert_allclose(exact, difference, rtol=1e-6)


# ---- what training finds --------------------------------------------------------------------------------------------


def location_model(m, tau, var, kappa=1e6):
    """v = b + noise of a known variance, b ~ N(m, tau) in every column; the latent has no say."""
    observation = make_observation("gaussian", columns=len(m))
    config = ModelConfig(observation.config(), latent=(1,), hidden=(), scale="scalar", bayes=True, kappa=kappa)
    model = narrow(build_model(config, key=jax.random.key(0)))
    dtype = model.generative.networks[0].layers[0].bias.dtype
    return eqx.tree_at(
        lambda m: (
            m.generative.networks[0].layers[0].weight,
            m.generative.networks[0].layers[0].bias,
            m.generative.observation.log_var,
            m.parameters.log_tau.networks[0].layers[0].bias,
        ),
        model,
        (
            jnp.zeros((len(m), 1), dtype),
            jnp.asarray(m, dtype),
            jnp.full(len(m), np.log(var - observation.config()["floor"]), dtype),
            jnp.log(jnp.asarray(tau, dtype)),
        ),
    )


def test_training_finds_the_exact_posterior(x64):
    """The mean of Gaussian rows of known variance is conjugate: precision 1 / kappa + N / var, mean by precision.

    Gradients of whole-data free energies at 64 draws each, 2,000 steps of Adam with a falling rate: what is left of the
    noise is below 0.03 posterior standard deviations, and 0.03 in the log variance.
    """
    kappa, var, rows = 0.5, 0.8, jnp.asarray(np.random.default_rng(0).normal([1.0, -2.0], 0.9, size=(64, 2)))
    model = location_model([0.0, 0.0], [1.0, 1.0], var, kappa)
    where = lambda m: (m.generative.networks[0].layers[0].bias, m.parameters.log_tau.networks[0].layers[0].bias)  # noqa: E731
    optimiser, steps = optax.adam(optax.cosine_decay_schedule(0.02, 2_000), b2=0.99), 2_000

    def step(i, carry):
        found, state = carry

        def loss(found):
            moved = eqx.tree_at(where, model, found)
            key = jax.random.fold_in(KEY, i)
            return minibatch_free_energy(PLAIN, moved, rows, None, num_rows=64, parameter_draws=64, key=key)[0]

        updates, state = optimiser.update(jax.grad(loss)(found), state)
        return optax.apply_updates(found, updates), state

    start = where(model)
    m, log_tau = jax.jit(lambda: jax.lax.fori_loop(0, steps, step, (start, optimiser.init(start))))()[0]
    precision = 1 / kappa + 64 / var
    np.testing.assert_allclose(m, np.sum(rows, 0) / var / precision, atol=0.03 / np.sqrt(precision))
    np.testing.assert_allclose(log_tau, -np.log(precision), atol=0.03)


def toy(rows=40):
    rng = np.random.default_rng(0)
    return (rng.random((rows, 4)) < np.array([0.9, 0.1, 0.5, 0.7])).astype(np.uint8)


def trained(checkpoints=None, watchers=(), **settings):
    config = ModelConfig(
        make_observation("bernoulli", columns=4).config(), latent=(1,), hidden=(2,), bayes=True, prior="learned"
    )
    training = TrainingConfig(
        **{"epochs": 4, "batch_size": 20, "learning_rate": 0.01, "warm_up": 0.0, "parameter_draws": 4, **settings},
        parameter_weight=0.5,
    )
    return fit(config, toy(), valid=toy()[:10], config=training, checkpoints=checkpoints, watchers=watchers)


class StoppedError(Exception):
    pass


def test_the_same_loop_trains_saves_and_resumes(tmp_path):
    """StoppedError after two epochs and resumed, it ends with the same bits, variances included; they have moved."""
    whole = trained()
    for log_tau in jax.tree.leaves(whole.model.parameters):
        assert len(np.unique(log_tau)) == log_tau.size  # those of an array are all the same at the start
    for record in whole.history:
        assert record["prior"] > 0.1  # a row's share of the KL, at half its weight in the loss
        expected = record["reconstruction"] + sum(record["kl"]) + 0.5 * record["prior"]
        np.testing.assert_allclose(record["loss"], expected, rtol=1e-5)
    with pytest.raises(StoppedError):
        trained(Checkpoints(tmp_path, every=0.0), [At(3, _stop)])
    resumed = trained(Checkpoints(tmp_path, resume=True))
    assert eqx.tree_equal(resumed.model, whole.model)
    assert [record["loss"] for record in resumed.history] == [record["loss"] for record in whole.history]


def _stop():
    raise StoppedError


def test_shares_of_a_batch_must_be_equal():
    with pytest.raises(ValueError) as error:
        trained(parameter_draws=3)
    assert str(error.value) == "parameter_draws: expected a divisor of the batch size, 20; got 3."


def test_the_validation_bound_averages_over_draws():
    """E log N(v | b, var) under b ~ N(m, tau) is log N(v | m, var) - tau / (2 var), less the KL of the latent.

    8 draws of 2 columns for all rows: with 400 keys, 5 standard errors.
    """
    model, rows = location_model([0.5, -1.0], [0.3, 0.05], 0.7), jnp.array([[0.1, -0.4], [1.2, -2.0]])
    each = np.asarray(
        jax.jit(jax.vmap(lambda k: mean_bound(model, rows, key=k)))(jax.random.split(KEY, 400)), np.float64
    )
    point = float(mean_bound(model.at_mean(), rows, key=KEY))
    expected = point - (0.3 + 0.05) / (2 * 0.7)
    assert abs(each.mean() - expected) < 5 * each.std() / np.sqrt(400)
    assert abs(each.mean() - point) > 20 * each.std() / np.sqrt(400)

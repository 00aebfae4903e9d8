"""Wake-sleep: its gradient is that of the two phases, and factor analysis at its maximum is where both vanish."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import log_likelihood
from dlgm.learning import FreeEnergy, Noise, TrainingConfig, WakeSleep, fit, mean_bound
from dlgm.learning.wake_sleep import dream_surprise
from dlgm.model import Model, make_observation, preset
from tests.linear import random_factor_analysis
from tests.model.cases import build

V = jnp.array([1.0, 0, 1, 1, 0, 0])
HOLES = jnp.array([True, True, False, True, True, False])


def leaves(tree):
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    ("structure", "mask", "num", "beta"), [("directed", None, 1, 1.0), ("factorised", HOLES, 2, 0.3)]
)
def test_the_gradient_is_that_of_both_phases(x64, structure, mask, num, beta):
    """Each phase written out by itself, from the draws that the objective makes of its key.

    Before the KL is at full weight, the recognition model has a share of the free energy's gradient as well.
    """
    model, key = build(structure=structure, sees_mask=mask is not None), jax.random.key(3)
    key_wake, key_sleep = jax.random.split(key)
    draws = jax.random.split(key_wake, 4)[2]
    keys = [draws] if num == 1 else list(jax.random.split(draws, num))
    dreams = [key_sleep] if num == 1 else list(jax.random.split(key_sleep, num))

    @jax.jit
    def by_hand(model):
        generative, recognition = model.generative, model.recognition
        awake = [model.posterior(V, mask).sample(k)[0] for k in keys]
        wake = jax.grad(lambda g: -sum(g.log_joint(V, xi, mask) for xi in awake) / num)(generative)
        asleep = []
        for k in dreams:
            key_xi, key_v, _ = jax.random.split(k, 3)
            xi = jax.random.normal(key_xi, (5,))
            asleep.append((xi, model.encode(generative.observation.sample(generative.outputs(xi), key_v), mask)))
        sleep = jax.grad(lambda r: -sum(r(x).log_prob(xi) for xi, x in asleep) / num)(recognition)
        if beta < 1:
            free = jax.grad(lambda r: FreeEnergy(num)(Model(generative, r), V, mask, beta=beta, key=key_wake).loss)
            sleep = jax.tree.map(lambda s, f: s + (1 - beta) * f, sleep, free(recognition))
        return wake, sleep

    @jax.jit
    def ours(model):
        return jax.grad(lambda m: WakeSleep(num)(m, V, mask, beta=beta, key=key).loss)(model)

    got, (wake, sleep) = ours(model), by_hand(model)
    for part, expected in ((got.generative, wake), (got.recognition, sleep)):
        for g, e in zip(leaves(part), leaves(expected), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12)


def test_the_value_is_the_free_energy():
    """Of the wake phase's draw, with training's noise."""
    model, key, noise = build(), jax.random.key(3), Noise(drop_out=0.3)
    found = jax.jit(lambda m: WakeSleep()(m, V, beta=0.3, noise=noise, key=key))(model)
    wanted = jax.jit(lambda m: FreeEnergy()(m, V, beta=0.3, noise=noise, key=jax.random.split(key)[0]))(model)
    for got, expected in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_dreams_have_noise_and_holes():
    """Weights of an input that is never seen have no gradient; those of the others have some in 50 dreams."""
    model, keys = build(covariance="diagonal", structure="factorised"), jax.random.split(jax.random.key(0), 50)

    @partial(jax.jit, static_argnums=0)
    def gradients(noise, mask=None):
        grad = jax.grad(lambda m, k: dream_surprise(m, mask, noise=noise, key=k))
        return jax.vmap(lambda k: grad(model, k).recognition.trunk.layers[0].weight)(keys)

    assert (np.abs(gradients(Noise())) > 0).any(axis=(0, 1)).all()
    assert (np.asarray(gradients(Noise(), HOLES))[:, :, ~HOLES] == 0).all()
    assert (np.asarray(gradients(Noise(drop_out=1 - 1e-6))) == 0).all()


# ---- factor analysis, where the fixed point is known ----------------------------------------------------------------


def scores(part, model, rows, n):
    """The mean over rows of each parameter's gradient, in standard errors, from `n` independent draws."""

    @jax.jit
    def gradients(keys):
        def loss(m, k):
            keys = jax.random.split(k, len(rows))
            return jnp.mean(jax.vmap(lambda v, k: WakeSleep()(m, v, key=k).loss)(rows, keys))

        return jax.lax.map(lambda k: jax.grad(loss)(model, k), keys, batch_size=100)

    found = leaves(getattr(gradients(jax.random.split(jax.random.key(0), n)), part))
    found = np.concatenate([g.reshape(n, -1) for g in found], axis=1)
    spread = found.std(axis=0)
    random = spread > 1e-12  # G, a scale of one, has none and is not learned
    assert (found[:, ~random] == 0).all()
    return found.mean(axis=0)[random] / spread[random] * np.sqrt(n)


def fitting_rows(fa, n=40):
    """Rows with the model's own mean and covariance, to rounding, so that it is a maximum of their likelihood."""
    noise = np.random.default_rng(1).normal(size=(n, len(fa.b)))
    noise -= noise.mean(axis=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(noise.T @ noise / n)).T
    return white @ np.linalg.cholesky(fa.covariance).T + fa.b


def test_the_sleep_gradient_vanishes_at_the_exact_posterior():
    """n = 1,000 means over 40 dreams; 30 parameters within 5 standard errors (6e-7 each), and not if q is wider."""
    fa = random_factor_analysis()
    rows = jnp.asarray(fitting_rows(fa), jnp.float32)
    assert np.abs(scores("recognition", fa.model(), rows, 1_000)).max() < 5
    assert np.abs(scores("recognition", fa.model(widen=1.1), rows, 1_000)).max() > 10


def test_the_wake_gradient_vanishes_at_maximum_likelihood():
    """With the exact posterior, wake is expectation maximisation. n = 1,000 draws for 40 rows, 5 standard errors."""
    fa = random_factor_analysis()
    rows, model = jnp.asarray(fitting_rows(fa), jnp.float32), fa.model()
    assert np.abs(scores("generative", model, rows, 1_000)).max() < 5
    assert np.abs(scores("generative", model, 1.1 * rows, 1_000)).max() > 10


def test_training_finds_factor_analysis_and_is_judged_by_the_bound():
    """From a random start to within 0.02 nats a row of the maximum, with a bound as near: q is the posterior."""
    fa = random_factor_analysis()
    rows = fitting_rows(fa, 2_000).astype(np.float32)
    config = preset("factor-analysis", make_observation("gaussian", columns=5, variance="per-column"), latent=(2,))
    settings = TrainingConfig(epochs=120, batch_size=100, objective="wake-sleep", learning_rate=0.02, validate_every=40)
    fitted = fit(config, rows, valid=rows, config=settings)
    best = fa.log_prob(rows).mean()
    log_p = log_likelihood(fitted.model, rows, num_samples=100, key=jax.random.key(0)).mean()[0]
    bound = fitted.history[fitted.best_epoch - 1]["valid_bound"]
    assert best - 0.02 < log_p < best + 1e-3
    assert best - 0.05 < bound < best + 0.05
    key_valid = jax.random.split(jax.random.key(0), 3)[2]
    assert bound == float(mean_bound(fitted.model, jnp.asarray(rows), key=key_valid))


def test_a_number_of_samples_is_checked():
    with pytest.raises(ValueError, match="num_samples: expected a whole number of at least 1; got 0"):
        WakeSleep(0)
    assert eqx.tree_equal(TrainingConfig(objective="wake-sleep", num_samples=3).make_objective(), WakeSleep(3))

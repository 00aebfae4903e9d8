"""A model that starts at factor analysis is factor analysis, holes or none; and other families start near it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import fit_factor_analysis
from dlgm.inference import log_likelihood
from dlgm.learning import TrainingConfig, fit
from dlgm.learning.linear_start import Inputs, linear_start, start_at
from dlgm.model import (
    Bernoulli,
    Composite,
    Gaussian,
    HeapedLogNormal,
    ModelConfig,
    build_model,
    initialise,
    make_observation,
)
from tests.linear import random_factor_analysis

KEY = jax.random.key(0)
TRUTH = random_factor_analysis(seed=3, x=6, k=2)


def rows_with_holes(n=300, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    rows = TRUTH.sample(rng, n)
    rows[rng.uniform(size=rows.shape) < share] = np.nan
    return rows


def built(observation, K=2, hidden=(8,)):
    config = ModelConfig(
        observation.config(), latent=(K,), hidden=hidden, scale="scalar", linear_path=True, covariance="cells"
    )
    return build_model(config, key=KEY)


def started(rows, observation, **settings):
    mask = ~np.isnan(rows)
    model = initialise(built(observation, **settings), rows, mask)
    return linear_start(model, rows, mask), mask


@pytest.mark.parametrize("hidden", [(8,), ()])
def test_the_posterior_is_exact_for_any_holes(hidden):
    rows = rows_with_holes()
    mask = ~np.isnan(rows)
    model = initialise(built(Gaussian(6), hidden=hidden), rows, mask)
    inputs = Inputs(model.generative.observation, rows, mask)
    fitted = fit_factor_analysis(inputs.scaled, num_factors=2)
    model = start_at(model, fitted, inputs)
    means, covariances = fitted.factors(inputs.scaled)
    for i in range(5):
        v, m = jnp.asarray(np.nan_to_num(rows[i]), jnp.float32), jnp.asarray(mask[i])
        q = model.posterior(v, m).gaussian(KEY)
        np.testing.assert_allclose(q.mean, means[i], atol=2e-5)
        np.testing.assert_allclose(q.covariance(), covariances[i], atol=2e-5)
    # The generative model is that factor analysis too: importance weights from the exact posterior are all alike.
    found = log_likelihood(model, np.nan_to_num(rows), mask, num_samples=20, key=KEY)
    exact = fitted.log_likelihood(inputs.scaled) - mask @ np.log(inputs.scale)
    np.testing.assert_allclose(found.log_p, exact, atol=2e-3)  # the family's floor on variances makes up most of that


def test_an_empty_row_has_the_prior_for_posterior():
    model, _ = started(rows_with_holes(), Gaussian(6))
    q = model.posterior(jnp.zeros(6), jnp.zeros(6, bool)).gaussian(KEY)
    np.testing.assert_allclose(q.mean, 0, atol=1e-6)
    np.testing.assert_allclose(q.covariance(), np.eye(2), atol=1e-6)


def test_fit_starts_there_and_gets_better_where_data_bends():
    rng = np.random.default_rng(5)
    xi = rng.normal(size=(2000, 1))
    bent = np.concatenate([xi, xi**2, np.sin(2 * xi), -xi], axis=1) + 0.3 * rng.normal(size=(2000, 4))
    train, new = np.split((bent - bent.mean(axis=0)) / bent.std(axis=0), 2)
    config = ModelConfig(
        Gaussian(4).config(),
        latent=(2,),
        hidden=(32,),
        nonlinearity="tanh",
        scale="scalar",
        linear_path=True,
        covariance="cells",
        kappa=1.0,
    )
    linear = fit_factor_analysis(train, num_factors=2, iterations=300).log_likelihood(new).mean()

    def after(epochs, rate):
        settings = TrainingConfig(epochs=epochs, batch_size=100, learning_rate=rate, warm_up=0.0, averaging=0.9)
        fitted = fit(config, train, config=settings)
        return log_likelihood(fitted.model, new, num_samples=200, key=KEY).log_p.mean()

    assert after(1, 1e-9) == pytest.approx(linear, abs=0.02)
    assert after(60, 5e-3) > linear + 0.3


def test_codes_start_near_what_factors_say_of_them():
    rng = np.random.default_rng(7)
    xi = rng.normal(size=(4000, 1))
    logits = xi * np.array([0.8, -0.5, 0.3]) + np.array([0.2, -0.4, 0.0])
    bits = (rng.uniform(size=logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
    numbers = xi + 0.2 * rng.normal(size=(4000, 2))
    table = Composite([(Gaussian(2), (0, 3)), (Bernoulli(3), (1, 2, 4))])
    rows = np.empty((4000, 5))
    rows[:, [0, 3]], rows[:, [1, 2, 4]] = numbers, bits
    model, mask = started(rows, table, K=1)
    assert mask.all()
    linear = np.asarray(model.generative.networks[0].linear)[:, 0]
    sign = np.sign(linear[0])  # outputs are the parts', one after another: two locations, then three logits
    # A probability moves less far than its slope at the middle says, so a line through it is too flat by up to a sixth
    # at a slope of 0.8; the standard error of a slope is about 0.04.
    np.testing.assert_allclose(sign * linear[2:], [0.8, -0.5, 0.3], atol=0.16 * 0.8 + 0.08)
    noise = np.exp(np.asarray(model.generative.observation.parts[0].log_var))
    np.testing.assert_allclose(noise, 0.04, rtol=0.25)


@pytest.mark.parametrize(
    "family",
    [
        "categorical",
        "ordinal",
        "poisson",
        "negative-binomial",
        "log-normal",
        "student-t",
        "heaped-log-normal",
        "heaped-gaussian",
    ],
)
def test_every_family_can_start_linear(family):
    rng = np.random.default_rng(0)
    options = {"num_classes": 4} if family in ("categorical", "ordinal") else {}
    observation = make_observation(family, columns=3, **options)
    rows = rng.integers(0, 4, size=(200, 3)).astype(float) if options else rng.poisson(3, size=(200, 3)) + 1.0
    if "heaped" in family:
        rows[rng.uniform(size=rows.shape) < 0.5] = 0.0
    rows[rng.uniform(size=rows.shape) < 0.2] = np.nan
    model, mask = started(rows, observation)
    found = log_likelihood(model, np.nan_to_num(rows, nan=1.0), mask, num_samples=50, key=KEY)
    assert np.isfinite(found.log_p).all()
    q = model.posterior(jnp.ones(3), jnp.zeros(3, bool)).gaussian(KEY)
    np.testing.assert_allclose(q.mean, 0, atol=1e-6)


def test_a_heap_starts_by_its_logit():
    """The others get smaller as they get more frequent: their size is left to training, not guessed from that."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=4000)
    there = rng.random(4000) < 1 / (1 + np.exp(-1.5 * z))
    heaped = np.where(there, np.exp(-0.5 * z + 0.3 * rng.normal(size=4000)), 0.0)
    rows = np.stack([z + 0.3 * rng.normal(size=4000), z + 0.3 * rng.normal(size=4000), heaped], axis=1)
    table = Composite([(Gaussian(2), (0, 1)), (HeapedLogNormal(1), (2,))])
    model, _ = started(rows, table, K=1)
    slopes = np.asarray(model.generative.networks[0].linear)[:, 0]
    assert slopes[3] == 0
    # That of the heap falls as z rises: by less than it should, as the numbers that tell of it get smaller, too.
    assert -1.5 < slopes[2] * np.sign(slopes[0]) < -0.5


@pytest.mark.parametrize("family", ["log-normal", "heaped-log-normal"])
def test_a_tail_without_end_has_no_slope_that_is_no_number(family):
    observation = make_observation(family, columns=1)
    outputs = jnp.array([0.0, 200.0][-observation.num_outputs :])
    assert np.isfinite(observation.mean(outputs)).all()
    assert np.isfinite(jax.jacobian(observation.expected_inputs)(outputs)).all()


def test_outliers_are_held_and_what_that_takes_is_noise():
    """One cell of 400 is 1, the others 0: sqrt(399) standard deviations away. It is held at 5, and the variance that is
    lost, (399 - 25) / 400, is remembered; holes count for neither."""
    rng = np.random.default_rng(0)
    rows = np.stack([np.zeros(500), rng.uniform(size=500)], axis=1)
    rows[7, 0], rows[400:, 0] = 1.0, np.nan
    inputs = Inputs(Gaussian(2), rows, ~np.isnan(rows))
    np.testing.assert_allclose(inputs.center[0], 1 / 400, rtol=1e-6)
    np.testing.assert_allclose(inputs.scale[0], np.sqrt(399) / 400, rtol=1e-6)
    np.testing.assert_allclose(inputs.scaled[[7, 8], 0], [5, -1 / np.sqrt(399)], rtol=1e-5)
    np.testing.assert_allclose(inputs.beyond, [374 / 400, 0], rtol=1e-5, atol=1e-12)
    assert np.isnan(inputs.scaled[400:, 0]).all()
    # The model starts with that noise: in units of the column, g = 1 / (scale sqrt(noise)).
    model, _ = started(rows, Gaussian(2), K=1)
    noise = 1 / (np.asarray(model.recognition.gain, np.float64) * inputs.scale) ** 2
    assert 374 / 400 < noise[0] < 1.01


def test_other_models_are_refused():
    config = ModelConfig(Gaussian(6).config(), latent=(2,), hidden=(8,))
    model = build_model(config, key=KEY)
    with pytest.raises(ValueError, match="one layer with linear_path"):
        linear_start(model, np.zeros((4, 6)) + np.arange(4)[:, None])
    with pytest.raises(ValueError, match="one layer of latents"):
        ModelConfig(Gaussian(6).config(), latent=(2, 2), covariance="cells")


def codes(n=2_000, seed=0):
    """Three columns of categories: the first two tell of each other, the third of neither; a tenth of cells gone."""
    rng = np.random.default_rng(seed)
    first = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    second = np.where(rng.uniform(size=n) < 0.8, first, rng.integers(0, 4, n))
    rows = np.stack([first, second, rng.integers(0, 4, n)], axis=1).astype(float)
    rows[rng.uniform(size=rows.shape) < 0.1] = np.nan
    return rows, make_observation("categorical", columns=3, num_classes=4)


def test_a_code_has_unit_variance_in_its_directions_and_no_covariance():
    """Exact where all cells are seen: the directions' covariance is the identity within each column."""
    rows, observation = codes()
    rows = rows[~np.isnan(rows).any(axis=1)]
    inputs = Inputs(observation, rows, None)
    directions = inputs.scaled @ inputs.basis
    np.testing.assert_allclose(inputs.basis.T @ inputs.basis, np.eye(9), atol=1e-12)
    np.testing.assert_allclose(directions @ inputs.basis.T, inputs.scaled, atol=1e-12)
    for at in (0, 3, 6):
        own = directions[:, at : at + 3]
        np.testing.assert_allclose(own.T @ own / len(own), np.eye(3), atol=1e-10)


def test_factors_of_codes_are_those_of_their_directions():
    """What the numbers say of the factors is what the directions do, when their noise is the same in each."""
    rows, observation = codes()
    inputs = Inputs(observation, rows, ~np.isnan(rows))
    found = inputs.factors(2)
    assert found.loadings.shape == (12, 2)
    means, covariances = found.factors(inputs.scaled, inputs.seen)
    A, noise = inputs.basis.T @ found.loadings, found.noise.reshape(3, 4)[:, :3].ravel()
    for i in range(5):
        seen = inputs.seen[i].reshape(3, 4)[:, :3].ravel()
        z = np.where(inputs.seen[i], inputs.scaled[i], 0) @ inputs.basis - inputs.basis.T @ found.bias
        C = np.linalg.inv(np.eye(2) + A[seen].T @ (A[seen] / noise[seen, None]))
        np.testing.assert_allclose(covariances[i], C, atol=1e-10)
        np.testing.assert_allclose(means[i], C @ A[seen].T @ (z[seen] / noise[seen]), atol=1e-10)


def test_factors_are_of_what_columns_have_in_common():
    """The third column, which has nothing in common with the others, is left to noise."""
    rows, observation = codes()
    found = Inputs(observation, rows, ~np.isnan(rows)).factors(3)
    lengths = np.linalg.norm(found.loadings.reshape(3, -1), axis=1)
    assert lengths[2] < 0.3 * lengths[:2].min()


def test_a_cells_numbers_are_hidden_together():
    rows, observation = codes()
    inputs = Inputs(observation, rows, ~np.isnan(rows))
    hidden = inputs.hide(0.3, np.random.default_rng(0)).reshape(-1, 3, 4)
    assert (hidden.all(axis=2) == hidden.any(axis=2)).all()
    assert not (hidden[..., 0] & np.isnan(rows)).any()
    assert abs(hidden.mean() - 0.3 * 0.9) < 0.03

"""Learning from incomplete data: the observed-only likelihood, masks and NaN, and the corners."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import embed, impute, log_likelihood
from dlgm.learning import FreeEnergy, ImportanceWeighted, Noise, TrainingConfig, fit, minibatch_free_energy
from dlgm.model import Bernoulli, Gaussian, ModelConfig, RecognitionModel, build_model, initialise, preset
from tests.linear import random_factor_analysis

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
ROWS = (RNG.random((60, 5)) < 0.4).astype(np.float32)
MASK = RNG.random((60, 5)) < 0.7
SETTINGS = TrainingConfig(epochs=3, batch_size=20)


def mean(model, v, mask=None):
    """Of q(xi | v)."""
    return model.posterior(v, mask).gaussian(KEY).mean


def config(columns=5, family=Bernoulli, **more):
    return ModelConfig(family(columns).config(), latent=(2,), hidden=(6,), **more)


@pytest.mark.parametrize("sees_mask", [False, True])
@pytest.mark.parametrize("objective", ["free-energy", "importance-weighted"])
def test_nan_means_what_a_mask_means(objective, sees_mask):
    """The same weights, bit for bit; whatever stands in the holes under a mask."""
    settings = TrainingConfig(epochs=3, batch_size=20, objective=objective)
    holes = np.where(MASK, ROWS, np.nan)
    one = fit(config(sees_mask=sees_mask), holes, valid=holes[:20], config=settings)
    two = fit(
        config(sees_mask=sees_mask),
        np.where(MASK, ROWS, 7),
        MASK,
        valid=ROWS[:20],
        valid_mask=MASK[:20],
        config=settings,
    )
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(two.model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history[-1]["valid_bound"] == two.history[-1]["valid_bound"]
    scores = [
        log_likelihood(one.model, *rows, num_samples=20, key=KEY).log_p
        for rows in ((holes,), (np.where(MASK, ROWS, 7), MASK))
    ]
    np.testing.assert_array_equal(scores[0], scores[1])


def test_nan_under_a_mask_that_calls_it_observed_is_refused():
    with pytest.raises(ValueError, match="expected a number in every observed cell; got nan at row 0, column 0"):
        fit(config(), np.full((3, 5), np.nan), np.ones((3, 5), bool), config=SETTINGS)


@pytest.mark.parametrize("objective", [FreeEnergy(), ImportanceWeighted(3)])
def test_the_bound_is_one_on_the_likelihood_of_what_was_observed(objective):
    """Holding column 4 out of every row is the same as having no column 4, for a posterior that cannot tell."""
    model = build_model(config(), key=KEY)
    # The recognition model gets nothing from the column that one of the two does not have.
    model = eqx.tree_at(lambda m: m.recognition.trunk.layers[0].weight, model, replace_fn=lambda w: w.at[:, 4].set(0))
    smaller = build_model(config(4), key=KEY)
    smaller = eqx.tree_at(
        lambda m: (m.recognition, m.generative.networks, m.generative.scales),
        smaller,
        (
            eqx.tree_at(lambda r: r.trunk.layers[0].weight, model.recognition, replace_fn=lambda w: w[:, :4]),
            eqx.tree_at(
                lambda n: (n[0].layers[-1].weight, n[0].layers[-1].bias),
                model.generative.networks,
                replace_fn=lambda leaf: leaf[:4],
            ),
            model.generative.scales,
        ),
    )
    rows, mask = jnp.asarray(ROWS), jnp.ones(ROWS.shape, bool).at[:, 4].set(False)
    for key in jax.random.split(KEY, 3):
        keys = jax.random.split(key, len(rows))
        masked = jax.vmap(lambda v, m, k: objective(model, v, m, key=k).loss)(rows, mask, keys)
        without = jax.vmap(lambda v, k: objective(smaller, v, key=k).loss)(rows[:, :4], keys)
        np.testing.assert_allclose(masked, without, rtol=1e-5)


def test_a_model_that_sees_its_mask_starts_as_one_that_does_not():
    """Weights of zero for holes; a training with holes moves those of columns that had some, and no others."""
    model = initialise(build_model(config(sees_mask=True), key=KEY), ROWS)
    v = jnp.asarray(ROWS[0])
    hole = jnp.ones(5, bool).at[2].set(False)
    np.testing.assert_array_equal(mean(model, v, hole), mean(model, v.at[2].set(0)))
    rows = ROWS.copy()
    rows[::2, 2] = np.nan
    trained = fit(config(sees_mask=True), rows, config=SETTINGS).model
    assert trained.recognition.trunk is not None
    weight = trained.recognition.trunk.layers[0].weight[:, 5:]
    assert np.all(weight[:, [0, 1, 3, 4]] == 0)
    assert np.any(weight[:, 2] != 0)
    # A column that was complete at fit and is missing now is taken at its fill.
    late = jnp.ones(5, bool).at[0].set(False)
    np.testing.assert_array_equal(mean(trained, v, late), mean(trained, v.at[0].set(0)))


def test_a_directed_model_without_a_trunk_sees_its_mask():
    made = ModelConfig(Bernoulli(5).config(), latent=(2, 2), hidden=(), structure="directed", sees_mask=True)
    model = build_model(made, key=KEY)
    hole = jnp.ones(5, bool).at[2].set(False)
    xi, _ = model.posterior(jnp.asarray(ROWS[0]), hole).sample(KEY)
    assert xi.shape == (4,)
    assert isinstance(model.recognition, RecognitionModel)
    for head in model.recognition.heads:
        assert np.all(head.network.layers[0].weight[:, 5:10] == 0)
        assert np.all(head.network.layers[0].weight[:, :5] != 0)


CORNERS = {
    "an empty column": lambda rows: rows.__setitem__((slice(None), 1), np.nan),
    "empty rows": lambda rows: rows.__setitem__(slice(0, 30), np.nan),
    "one observed cell": lambda rows: (rows.__setitem__(slice(None), np.nan), rows.__setitem__((7, 3), 1.0)),
    "nothing at all": lambda rows: rows.__setitem__(slice(None), np.nan),
}


@pytest.mark.parametrize("family", [Bernoulli, Gaussian])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners_are_learned_from_scored_and_filled(corner, family):
    rows = ROWS.copy()
    CORNERS[corner](rows)
    fitted = fit(config(family=family, sees_mask=True), rows, valid=rows[:10], config=SETTINGS)
    assert all(np.isfinite(record["train_bound"]) for record in fitted.history)
    scores = log_likelihood(fitted.model, rows, num_samples=20, key=KEY)
    assert np.isfinite(scores.log_p).all()
    np.testing.assert_array_equal(scores.log_p[np.isnan(rows).all(axis=1)], 0)
    found = impute(fitted.model, rows, draws=4, chains=2, warm_up=2, thin=1, key=KEY)
    assert np.isfinite(found.mean()).all()
    fitted.model.generative.observation.check(found[0])
    assert np.isfinite(embed(fitted.model, rows, key=KEY).points).all()


def test_hidden_cells_are_neither_seen_nor_scored():
    """`hide` is the masked objective at random masks: its mean over them, 2,000 keys, 5 standard errors."""
    model = build_model(config(sees_mask=True), key=KEY)
    rows = jnp.asarray(ROWS[:1])

    @jax.jit
    @jax.vmap
    def hidden(key):
        return minibatch_free_energy(FreeEnergy(), model, rows, None, num_rows=1, noise=Noise(hide=1.0), key=key)[0]

    @jax.jit
    @jax.vmap
    def masked(key):
        key_rate, key_cells, key = jax.random.split(key, 3)
        mask = jax.random.uniform(key_cells, (1, 5)) >= jax.random.uniform(key_rate)
        return minibatch_free_energy(FreeEnergy(), model, rows, mask, num_rows=1, key=key)[0]

    one, two = hidden(jax.random.split(KEY, 2000)), masked(jax.random.split(jax.random.key(1), 2000))
    error = np.sqrt((one.var() + two.var()) / 2000)
    assert abs(one.mean() - two.mean()) < 5 * error
    assert error < 0.05
    complete = minibatch_free_energy(FreeEnergy(), model, rows, None, num_rows=1, key=KEY)[0]
    assert abs(one.mean() - complete) > 5 * error


def test_noise_of_holes_is_refused_outside_its_range():
    with pytest.raises(ValueError, match=r"hide: expected a share from 0 to 1; got 1.5"):
        TrainingConfig(hide_cells=1.5)


def test_factor_analysis_is_learned_from_half_of_its_cells():
    """2,000 rows, half of the cells gone: held-out likelihood is within 0.1 nats of the true model's, and the fills'
    error within 5 % of that of the exact conditional mean."""
    FA = random_factor_analysis()
    rng = np.random.default_rng(1)
    train, test = FA.sample(rng, 2000).astype(np.float32), FA.sample(rng, 500).astype(np.float32)
    holes = train.copy()
    holes[rng.random(train.shape) < 0.5] = np.nan
    made = preset(
        "factor-analysis", Gaussian(5, variance="per-column"), latent=(2,), sees_mask=True, recognition_hidden=(32,)
    )
    fitted = fit(made, holes, config=TrainingConfig(epochs=150, batch_size=100, learning_rate=5e-3))
    found = log_likelihood(fitted.model, test, num_samples=500, key=KEY)
    assert abs(found.mean()[0] - FA.log_prob(test).mean()) < 0.1
    mask = rng.random(test.shape) >= 0.5
    filled = impute(fitted.model, test, mask, draws=20, chains=2, warm_up=20, thin=60, key=KEY)
    exact = test.copy()
    for row, seen in zip(exact, mask, strict=True):
        S, at, to = FA.covariance, np.flatnonzero(seen), np.flatnonzero(~seen)
        row[to] = FA.b[to] + S[np.ix_(to, at)] @ np.linalg.solve(S[np.ix_(at, at)], row[at] - FA.b[at])
    errors = [np.sqrt(np.mean((fills - test)[~mask] ** 2)) for fills in (filled.mean(), exact)]
    assert errors[0] < 1.05 * errors[1]

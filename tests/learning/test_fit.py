"""The loop: reproducible, compiled once, safe with non-finite numbers, and right about what it keeps."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.learning import (
    FreeEnergy,
    ImportanceWeighted,
    JsonlHistory,
    NonFiniteError,
    TerminalProgress,
    TrainingConfig,
    fit,
    make_mesh,
    mean_bound,
)
from dlgm.learning.step import Resident, epoch_order, make_run, start_state
from dlgm.model import ModelConfig, build_model, initialise, make_observation
from tests.linear import random_factor_analysis

RNG = np.random.default_rng(0)
# Two kinds of rows, with noise: something a single latent can learn.
KINDS = RNG.integers(0, 2, size=(150, 1))
ROWS = (RNG.random((150, 6)) < np.where(KINDS, [0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9])).astype(
    np.uint8
)
MODEL = ModelConfig(make_observation("bernoulli", columns=6).config(), latent=(2,), hidden=(5,))
QUICK = TrainingConfig(epochs=3, batch_size=50, learning_rate=0.01)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def resident(rows, batch_size, key):
    """The first epoch's batches."""
    order = epoch_order(key, 0, num_rows=len(rows))
    return Resident(jnp.asarray(rows), None, order.reshape(-1, batch_size))


class Counting(FreeEnergy):
    """The free energy, counting how often Python runs it: once for every trace."""

    calls: list = eqx.field(static=True, default_factory=list)

    def __call__(self, *args, **options):
        self.calls.append(1)
        return super().__call__(*args, **options)

    def __hash__(self):
        return id(self)


def test_a_run_is_a_function_of_config_data_and_seed():
    again = fit(MODEL, ROWS, valid=ROWS[:30], config=QUICK)
    first = fit(MODEL, ROWS, valid=ROWS[:30], config=QUICK)
    assert same(first.model, again.model)
    other = fit(MODEL, ROWS, valid=ROWS[:30], config=TrainingConfig(**{**QUICK.to_dict(), "seed": 1}))
    assert not same(first.model, other.model)
    # Evaluating draws from a branch of its own: training does not notice whether it is watched.
    unwatched = fit(MODEL, ROWS, config=QUICK)
    assert [r["loss"] for r in unwatched.history] == [r["loss"] for r in first.history]


def test_the_step_is_compiled_once_and_the_state_is_donated():
    objective = Counting()
    fit(MODEL, ROWS, config=QUICK, objective=objective)
    assert len(objective.calls) == 1

    optimiser = QUICK.make_optimiser(9)
    run = make_run(QUICK, FreeEnergy(), optimiser, num_rows=150, batch_size=50, mesh=make_mesh(1))
    state = start_state(build_model(MODEL, key=jax.random.key(0)), optimiser, jax.random.key(1))
    after = run(state, resident(ROWS, 50, jax.random.key(1)), 2)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.model))
    assert int(after.step) == 2
    assert int(run(after, resident(ROWS, 50, jax.random.key(1)), 3).step) == 3


def test_learning_raises_the_bound_to_near_the_truth():
    """The rows' entropy, from the true mixture, is the best possible mean: the bound comes within 0.35 nats."""
    p = np.array([0.9, 0.9, 0.9, 0.1, 0.1, 0.1])
    log_p = [np.sum(np.where(ROWS, np.log(q), np.log(1 - q)), axis=1) for q in (p, 1 - p)]
    truth = np.mean(np.logaddexp(*log_p) - np.log(2))
    config = TrainingConfig(epochs=150, batch_size=50, learning_rate=0.02, validate_every=10)
    fitted = fit(MODEL, ROWS, valid=ROWS, config=config)
    bound = np.mean([float(mean_bound(fitted.model, jnp.asarray(ROWS), key=jax.random.key(i))) for i in range(20)])
    start = fitted.history[0]["train_bound"]
    assert start < truth - 0.5
    assert truth - 0.35 < bound < truth + 0.15  # 150 rows can be fitted a little better than the truth fits them


def test_the_best_weights_on_validation_are_kept():
    """Validation rows of the opposite kind: learning the training rows makes them ever less likely."""
    config = TrainingConfig(epochs=30, batch_size=50, learning_rate=0.05, patience=4, warm_up=0.0)
    fitted = fit(MODEL, np.tile(ROWS[:1], (100, 1)), valid=1 - np.tile(ROWS[:1], (20, 1)), config=config)
    bounds = [record["valid_bound"] for record in fitted.history]
    assert fitted.stopped_early
    assert len(bounds) == fitted.best_epoch + 4
    assert bounds[fitted.best_epoch - 1] == max(bounds)
    key = jax.random.split(jax.random.key(0), 3)[2]
    kept = mean_bound(fitted.model, jnp.asarray(1 - np.tile(ROWS[:1], (20, 1))), key=key)
    np.testing.assert_allclose(kept, max(bounds), rtol=1e-5)


def test_patience_waits_for_a_look():
    """Looks at epochs 5, 10, ..: with a patience of 3, a bound that only falls stops the run at the second look."""
    config = TrainingConfig(
        epochs=30, batch_size=50, learning_rate=0.05, patience=3, warm_up=0.0, validate_every=5, schedule="constant"
    )
    fitted = fit(MODEL, np.tile(ROWS[:1], (100, 1)), valid=1 - np.tile(ROWS[:1], (20, 1)), config=config)
    assert (fitted.best_epoch, len(fitted.history)) == (5, 10)
    rising = fit(MODEL, ROWS, valid=ROWS, config=TrainingConfig(**{**config.to_dict(), "learning_rate": 1e-4}))
    assert (rising.best_epoch, rising.stopped_early) == (30, False)


def test_importance_weighted_training_is_judged_by_its_own_bound():
    config = TrainingConfig(epochs=2, batch_size=50, objective="importance-weighted")
    fitted = fit(MODEL, ROWS, valid=ROWS, config=config)
    key = jax.random.split(jax.random.key(0), 3)[2]
    own = mean_bound(fitted.model, jnp.asarray(ROWS), objective=ImportanceWeighted(5), key=key)
    np.testing.assert_allclose(fitted.history[fitted.best_epoch - 1]["valid_bound"], own, rtol=1e-5)


def test_the_average_of_the_parameters_is_what_is_kept():
    """After step t: d * average + (1 - d) * model with d = min(averaging, (1 + t) / (10 + t)), step by step."""
    config = TrainingConfig(epochs=30, batch_size=150, learning_rate=0.05, averaging=0.5)
    optimiser = config.make_optimiser(30)
    state = start_state(build_model(MODEL, key=jax.random.key(0)), optimiser, jax.random.key(1))
    run = make_run(config, FreeEnergy(), optimiser, num_rows=150, batch_size=150, mesh=make_mesh(1))
    expected = leaves(state.averaged)
    for t in range(12):
        d = min(0.5, (1 + t) / (10 + t))
        before = leaves(state.model)
        state = run(state, resident(ROWS, 150, jax.random.key(1)), t + 1)
        after = leaves(state.model)
        assert all((old != new).any() for old, new in zip(before, after, strict=True))
        expected = [d * average + (1 - d) * new for average, new in zip(expected, after, strict=True)]
    for average, want in zip(leaves(state.averaged), expected, strict=True):
        np.testing.assert_allclose(average, want, rtol=1e-4, atol=1e-6)


class Poisoned(FreeEnergy):
    """The free energy, infinite for any row whose first cell holds 9."""

    def __call__(self, model, v, mask=None, **options):
        terms = super().__call__(model, v, mask, **options)
        bad = jnp.where(v[0] == 9, jnp.inf, 0.0)
        return eqx.tree_at(lambda t: (t.loss, t.reconstruction), terms, (terms.loss + bad, terms.reconstruction + bad))


class FirstCell(FreeEnergy):
    """A loss that is known: the row's first cell."""

    def __call__(self, model, v, mask=None, **options):
        terms = super().__call__(model, v, mask, **options)
        return eqx.tree_at(lambda t: t.loss, terms, v[0] + 0 * terms.loss)


def test_an_epochs_loss_is_the_mean_over_its_steps():
    """150 rows in three batches: whatever their order, the mean of the batches' means is that of the rows."""
    history = fit(MODEL, ROWS, config=QUICK, objective=FirstCell()).history
    np.testing.assert_allclose([record["loss"] for record in history], ROWS[:, 0].mean(), rtol=1e-4)


def test_a_non_finite_loss_stops_with_the_last_good_weights():
    """One poisoned row among 100: the step at which its batch comes is named, and the weights are those before it."""
    observation = make_observation("gaussian", columns=2)
    config = ModelConfig(observation.config(), latent=(1,), hidden=(3,))
    rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    rows[17, 0] = 9
    settings = TrainingConfig(epochs=5, batch_size=10, averaging=0.0)
    with pytest.raises(NonFiniteError) as error:
        fit(config, rows, config=settings, objective=Poisoned())
    # The first epoch's order, from the run's own branch of the seed, says when row 17 comes.
    run_key = jax.random.split(jax.random.key(0), 3)[1]
    order = np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.fold_in(run_key, 0), 0), 100))
    step = int(np.flatnonzero(order == 17)[0]) // 10 + 1
    assert error.value.step == step
    assert step > 1
    assert str(error.value).startswith(f"Training stopped at step {step}: the reconstruction term is not finite.")
    assert str(error.value).endswith("The last good weights are kept in `model` of this error.")

    # The weights are those after step - 1 steps: the same run, epoch by epoch of one step on the rows in that order.
    optimiser = settings.make_optimiser(50)
    model = initialise(build_model(config, key=jax.random.split(jax.random.key(0), 3)[0]), rows)
    state = start_state(model, optimiser, run_key)
    run = make_run(settings, Poisoned(), optimiser, num_rows=100, batch_size=10, mesh=make_mesh(1))
    stuck = run(state, resident(rows, 10, run_key), 10)
    assert int(stuck.step) == step - 1
    assert not bool(stuck.sound)
    assert bool(stuck.causes[0])
    assert same(error.value.model, stuck.model)
    assert all(np.isfinite(leaf).all() for leaf in leaves(stuck.model))


def test_a_non_finite_validation_bound_stops_too():
    """Validation rows that no float32 likelihood can hold: said at once, with finite weights."""
    config = ModelConfig(make_observation("gaussian", columns=2).config(), latent=(1,), hidden=(3,))
    rows = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(
        NonFiniteError, match="Training stopped after epoch 1: the bound on the validation rows is -inf"
    ):
        fit(config, rows, valid=np.full((3, 2), 1e30), config=TrainingConfig(epochs=2))


def test_a_runaway_is_noticed_too():
    """Steps of absurd length: an error or finite weights, never a model of NaN."""
    settings = TrainingConfig(
        epochs=20, batch_size=50, optimiser="sgd", learning_rate=1e12, clip=0.0, schedule="constant"
    )
    with pytest.raises(NonFiniteError) as error:
        fit(MODEL, ROWS, config=settings)
    assert error.value.step >= 1
    assert all(np.isfinite(leaf).all() for leaf in leaves(error.value.model))


def test_holes_are_learned_around():
    """What stands in masked cells does not matter, NaN included; and such a model still learns."""
    mask = np.random.default_rng(3).random(ROWS.shape) < 0.7
    runs = [fit(MODEL, np.where(mask, ROWS, other).astype(np.float32), mask, config=QUICK) for other in (np.nan, 1.0)]
    assert same(runs[0].model, runs[1].model)
    assert np.isfinite(runs[0].history[-1]["loss"])


def test_schedules_and_warm_up():
    config = TrainingConfig(epochs=10, learning_rate=0.1, warm_up=0.5)
    rates = config.learning_rates(1000)
    np.testing.assert_allclose(
        [rates(0), rates(10), rates(20), rates(510), rates(1000)], [0.005, 0.0525, 0.1, 0.05, 0], atol=1e-7
    )
    betas = [float(config.beta(jnp.asarray(float(step)), 1000)) for step in (0, 249, 499, 900)]
    np.testing.assert_allclose(betas, [1 / 500, 0.5, 1.0, 1.0], rtol=1e-6)
    assert float(TrainingConfig(warm_up=0.0).beta(jnp.zeros(()), 1000)) == 1.0
    constant = TrainingConfig(schedule="constant", learning_rate=0.1).learning_rates(1000)
    np.testing.assert_allclose(constant(1000), 0.1, rtol=1e-6)


def test_every_optimiser_goes_against_the_gradient():
    from dlgm.learning.config import OPTIMISERS

    for name in OPTIMISERS:
        optimiser = TrainingConfig(optimiser=name, schedule="constant", learning_rate=0.1).make_optimiser(100)
        parameters = jnp.array([1.0, -2.0])
        state = optimiser.init(parameters)
        for _ in range(3):
            updates, state = optimiser.update(jnp.array([0.5, -0.25]), state, parameters)
        assert updates[0] < 0 < updates[1], name


def test_every_optimiser_keeps_within_reach():
    """A step is refused before it is taken, by a bound on how far it goes: here is the bound, for gradients that jump.

    Matrices, since some treat them differently, of numbers of every size that float32 can square.
    """
    from dlgm.learning.config import OPTIMISERS

    sizes = 10 ** np.random.default_rng(0).uniform(-18, 18, (200, 5, 10)).astype(np.float32)
    for name in OPTIMISERS:
        config = TrainingConfig(optimiser=name, learning_rate=1e3)
        optimiser, rates = config.make_optimiser(200), config.learning_rates(200)

        def furthest(carry, size, optimiser=optimiser, rates=rates):
            state, longest, n = carry
            updates, state = optimiser.update(size, state, jnp.zeros((5, 10)))
            longest = jnp.maximum(longest, jnp.linalg.norm(size))
            return (state, longest, n + 1), jnp.max(jnp.abs(updates)) / (jnp.max(rates(n)) * (1 + longest))

        start = (optimiser.init(jnp.zeros((5, 10))), jnp.zeros(()), jnp.zeros((), jnp.int32))
        _, reach = jax.jit(lambda start, sizes, step=furthest: jax.lax.scan(step, start, sizes))(start, sizes)
        assert np.max(reach) < 100, name


def test_clipping_bounds_the_gradients_length_not_its_direction():
    """One step of gradient descent, whose momentum then holds the gradient."""
    taken = {}
    for clip in (0.0, 1e-3):
        config = TrainingConfig(optimiser="sgd", clip=clip, batch_size=50)
        optimiser = config.make_optimiser(100)
        run = make_run(config, FreeEnergy(), optimiser, num_rows=len(ROWS), batch_size=50, mesh=make_mesh(1))
        key = jax.random.key(3)
        state = run(start_state(build_model(MODEL, key=key), optimiser, key), resident(ROWS, 50, key), 1)
        taken[clip] = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(state.optimiser) if leaf.ndim])
    norm = jnp.linalg.norm(taken[0.0])
    assert norm > 1e-3
    np.testing.assert_allclose(taken[1e-3], taken[0.0] * 1e-3 / norm, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: expected a whole number of at least 1; got 0."),
        (
            {"optimiser": "adm"},
            "optimiser: expected one of rmsprop, adam, adamw, adamax, nadam, adagrad, lion, adan, muon, sgd; "
            "got 'adm'. Did you mean 'adam'?",
        ),
        ({"objective": "elbo"}, "objective: expected one of free-energy, importance-weighted, wake-sleep; got 'elbo'."),
        (
            {"objective": "importance-weighted", "num_samples": 1},
            "num_samples: expected a whole number of at least 2; got 1.",
        ),
        ({"num_samples": 0}, "num_samples: expected a whole number of at least 1; got 0."),
        ({"learning_rate": -1.0}, "learning_rate: expected a positive number; got -1.0."),
        ({"warm_up": 2.0}, "warm_up: expected a share of the epochs, from 0 to 1; got 2.0."),
        ({"averaging": 1.0}, "averaging: expected a decay of at least 0 and less than 1; got 1.0."),
        ({"drop_out": 1.5}, "drop_out: expected a rate of at least 0 and less than 1; got 1.5."),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError) as error:
        TrainingConfig(**settings)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            np.zeros((3, 28, 28)),
            {},
            "rows: expected (n, 6) values; got shape (3, 28, 28). Flatten images first.",
        ),
        (np.zeros((0, 6)), {}, "rows: expected at least one row; got none."),
        (
            np.full((2, 6), np.nan),
            {"mask": np.ones((2, 6), bool)},
            "bernoulli: expected a number in every observed cell; got nan at row 0, column 0. "
            "Mark it missing in the mask.",
        ),
        (
            ROWS,
            {"config": TrainingConfig(patience=3)},
            "patience: early stopping needs validation rows; pass `valid`, or set patience to 0.",
        ),
        (
            ROWS,
            {"mask": np.ones((2, 6), bool)},
            "rows: expected a mask of booleans, true where observed, of shape (150, 6); got bool of shape (2, 6).",
        ),
    ],
)
def test_bad_data_is_refused(rows, options, message):
    with pytest.raises(ValueError) as error:
        fit(MODEL, rows, **options)
    assert str(error.value) == message


def test_bit_flips_are_for_binary_data():
    config = ModelConfig(make_observation("gaussian", columns=6).config(), latent=(1,), hidden=())
    with pytest.raises(ValueError, match="bit_flip: only binary rows have bits to flip; the family is gaussian"):
        fit(config, ROWS, config=TrainingConfig(bit_flip=0.1))


def test_history_is_told_to_watchers(tmp_path, capsys):
    path = tmp_path / "deep" / "history.jsonl"
    fitted = fit(MODEL, ROWS, valid=ROWS[:30], config=QUICK, watchers=[JsonlHistory(path), TerminalProgress("test")])
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records == fitted.history
    assert [record["epoch"] for record in records] == [1, 2, 3]
    expected = {"epoch", "step", "loss", "train_bound", "valid_bound", "reconstruction", "kl", "prior", "beta"}
    assert expected <= set(records[0])
    assert len(records[0]["kl"]) == 1
    lines = capsys.readouterr().err.splitlines()  # no terminal here: plain lines, not a bar
    assert len(lines) == 3
    assert lines[-1].startswith("test: epoch 3/3  loss ")
    assert "valid bound -" in lines[-1]


def test_rows_left_over_wait_for_another_epoch():
    """150 rows in batches of 40: three steps an epoch; a batch larger than the data is the data."""
    fitted = fit(MODEL, ROWS, config=TrainingConfig(epochs=2, batch_size=40))
    assert [record["step"] for record in fitted.history] == [3, 6]
    assert fit(MODEL, ROWS[:7], config=TrainingConfig(epochs=2)).history[-1]["step"] == 2


def test_a_trained_model_can_be_trained_further():
    """A model in place of a config is taken as it is: linear-Gaussian at its optimum, it stays there."""
    fa = random_factor_analysis()
    rows = fa.sample(np.random.default_rng(0), 400).astype(np.float32)
    fitted = fit(fa.model(), rows, config=TrainingConfig(epochs=2, learning_rate=1e-4, warm_up=0.0))
    assert abs(fitted.history[-1]["train_bound"] - fa.log_prob(rows).mean()) < 0.2

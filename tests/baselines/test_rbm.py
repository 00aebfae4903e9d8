import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import RBM, Contrastive, FittedRBM, count_log_partition
from dlgm.baselines.baseline import Baseline, Density
from dlgm.baselines.boltzmann import draw_bits
from dlgm.baselines.contrastive import centre, contrast, make_run, new_machine, run_chains, start_state
from dlgm.baselines.contrastive_loop import train
from dlgm.learning import CheckpointError, Checkpoints, NonFiniteError
from dlgm.learning.progress import AbstractWatcher
from dlgm.tensorfile import TensorFileError
from tests.baselines.machines import every_row, frequencies, random_machine, table, two_clusters, within

ERRORS = 4.5  # of 16 states or 19 parameters, two-sided: a false alarm once in 8,000 keys
QUICK = Contrastive(epochs=6, batch_size=50, learning_rate=0.05, validate_every=2)
PATTERNS = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1]], np.uint8)
ROWS = two_clusters(600)


class Recorded(AbstractWatcher):
    def __init__(self, stop=None):
        self.records, self.before, self.stop = [], [], stop

    def start(self, epochs, before=()):
        self.before = list(before)

    def epoch(self, record):
        self.records.append(record)
        if record["epoch"] == self.stop:
            raise KeyboardInterrupt


def exact_gradient(machine, v):
    """Of the mean of -log p(v), with log Z by the sum over all states."""

    def loss(machine):
        states = jnp.asarray(every_row(v.shape[1]))
        return jnp.mean(machine.free_energy(v)) + jax.scipy.special.logsumexp(-machine.free_energy(states))

    return jax.grad(loss)(machine)


def test_long_chains_give_the_likelihoods_gradient_and_short_ones_do_not(x64):
    machine, n = random_machine(4, 3, scale=2.0), 20_000
    v = jnp.asarray(np.tile(PATTERNS[3].astype(float), (n, 1)))
    exact = exact_gradient(machine, v[:1])

    @jax.jit
    def distance(k):
        """In standard errors of the mean over n chains, all started at the rows."""
        fantasies = run_chains(machine, v, k, jax.random.key(0))
        found = jax.grad(contrast)(machine, v, fantasies)
        each = jax.vmap(jax.grad(lambda m, one: m.free_energy(one)), in_axes=(None, 0))(machine, fantasies)
        z = jax.tree.map(lambda a, b, s: (a - b) / (jnp.std(s, axis=0) / np.sqrt(n)), found, exact, each)
        return jnp.max(jnp.array([jnp.abs(leaf).max() for leaf in jax.tree.leaves(z)]))

    assert distance(100) < ERRORS
    assert distance(1) > 4 * ERRORS


def test_gibbs_steps_grow_evenly():
    growing = Contrastive(gibbs_steps=(1, 25))
    assert [int(growing.gibbs_steps_at(step, 25)) for step in (0, 1, 12, 23, 24)] == [1, 2, 13, 24, 25]
    assert [int(Contrastive(gibbs_steps=3).gibbs_steps_at(step, 49)) for step in (0, 48)] == [3, 3]


def stepped(machine, config, rows, num_steps, key=0):
    """The state after some steps, and its chains before them."""
    base = jnp.zeros(4)
    state = start_state(config, machine, base, num_steps, jax.random.key(key))
    before = np.asarray(state.chains)
    run = make_run(config, visible_mean=jnp.full(4, 0.5), num_steps=num_steps)
    return run(state, jnp.asarray(rows), jnp.arange(len(rows)).reshape(-1, config.batch_size), num_steps), before


def test_persistent_chains_are_the_machines_from_the_first_step_on(x64):
    # At such a learning rate the machine stays, and so does the law of chains that are its own; rows are all ones.
    machine, n = random_machine(4, 3), 4000
    config = Contrastive(batch_size=100, chains=n, learning_rate=1e-12)
    state, before = stepped(machine, config, np.ones((100, 4), np.uint8), 40)
    p = table(machine).sum(axis=1)
    within(frequencies(before), p, n, ERRORS)
    within(frequencies(state.chains), p, n, ERRORS)
    assert (before != state.chains).mean() > 0.1
    assert int(state.step) == 40
    np.testing.assert_allclose(state.machine.weights, machine.weights, atol=1e-9)


def test_persistent_chains_go_on_where_they_were(x64):
    # All chains are put at one state: a single Gibbs step leaves them near it, and a hundred steps of one each do not.
    machine, n = random_machine(4, 3, scale=2.0), 4000
    config = Contrastive(batch_size=100, chains=n, learning_rate=1e-12)
    p = table(machine).sum(axis=1)
    run = make_run(config, visible_mean=jnp.full(4, 0.5), num_steps=100)
    state = start_state(config, machine, jnp.zeros(4), 100, jax.random.key(0))
    state = eqx.tree_at(lambda s: s.chains, state, jnp.ones((n, 4)))
    rows, order = jnp.zeros((100, 4), jnp.uint8), jnp.arange(100)[None]
    state = run(state, rows, order, 1)
    assert np.abs(frequencies(state.chains) - p).max() > 0.05
    within(frequencies(run(state, rows, order, 100).chains), p, n, ERRORS)


@pytest.mark.parametrize("persistent", [True, False])
def test_where_the_chains_start(x64, persistent):
    # Couplings so strong that a Gibbs step changes nothing: chains stay where they start, and from the batch itself the
    # gradient is zero. Each hidden unit copies a visible one.
    machine = random_machine(4, 4, scale=0.0)
    machine = dataclasses.replace(
        machine, weights=200 * jnp.eye(4), visible_bias=jnp.full(4, -100.0), hidden_bias=jnp.full(4, -100.0)
    )
    config = Contrastive(batch_size=100, persistent=persistent, gibbs_steps=2, optimiser="sgd", learning_rate=0.1)
    state, before = stepped(machine, config, np.tile(PATTERNS, (25, 1)), 3)
    np.testing.assert_array_equal(state.chains, before)
    moved = float(jnp.abs(state.machine.visible_bias - machine.visible_bias).max())
    assert moved > 1e-3 if persistent else moved == 0


def test_a_step_descends_the_contrast_with_weight_decay(x64):
    # One plain step by hand. The chains of contrastive divergence are deterministic in a machine as stiff as this.
    machine = random_machine(4, 3, scale=0.0)
    machine = dataclasses.replace(
        machine, weights=jnp.full((4, 3), 2.0), visible_bias=jnp.full(4, 1e3), hidden_bias=jnp.full(3, -1e3)
    )
    config = Contrastive(
        batch_size=4, persistent=False, learning_rate=0.1, schedule="constant", weight_decay=0.5, centred=False
    )
    state, _ = stepped(machine, config, PATTERNS, 1)
    # Fantasies are all ones and no hidden unit is on: only the visible biases and the decay move anything.
    np.testing.assert_allclose(state.machine.weights, 2.0 - 0.1 * 0.5 * 2.0, rtol=1e-7)
    np.testing.assert_allclose(state.machine.visible_bias, 1e3 + 0.1 * (PATTERNS.mean(axis=0) - 1), rtol=1e-10)
    np.testing.assert_allclose(state.machine.hidden_bias, -1e3, rtol=1e-12)
    np.testing.assert_allclose(state.loss, 1e3 * (4 - PATTERNS.sum(axis=1).mean()), rtol=1e-12)
    # The average's memory is a tenth at the first step.
    np.testing.assert_allclose(state.averaged.weights, 0.1 * 2.0 + 0.9 * 1.9, rtol=1e-7)


def test_the_centred_gradient_is_the_centred_machines(x64):
    machine, rng = random_machine(4, 3), np.random.default_rng(1)
    v, w = rng.integers(0, 2, (2, 30, 4)).astype(float)
    mu, lam = rng.random(4), rng.random(3)
    gradient = jax.grad(contrast)(machine, jnp.asarray(v), jnp.asarray(w))
    found = centre(gradient, jnp.asarray(mu), jnp.asarray(lam))
    # Statistics of rows minus those of chains, with the hidden units' means, in v - mu and h - lambda.
    h, g = (1 / (1 + np.exp(-np.asarray(machine.hidden_logits(jnp.asarray(each))))) for each in (v, w))
    W = -((v - mu).T @ (h - lam) - (w - mu).T @ (g - lam)) / 30
    np.testing.assert_allclose(found.weights, W, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.visible_bias, -(v - w).mean(axis=0) - W @ lam, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.hidden_bias, -(h - g).mean(axis=0) - W.T @ mu, rtol=1e-10, atol=1e-14)
    # A descent direction: its product with the gradient is a sum of squares.
    product = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(gradient), strict=True))
    squares = np.sum(W**2) + np.sum((v - w).mean(axis=0) ** 2) + np.sum((h - g).mean(axis=0) ** 2)
    np.testing.assert_allclose(product, squares, rtol=1e-10)


def test_it_learns_clusters_and_keeps_the_best_by_the_validation_rows():
    watcher = Recorded()
    settings = RBM(hidden=4, training=dataclasses.replace(QUICK, epochs=60, learning_rate=0.1, validate_every=5))
    model = settings.fit(ROWS, ROWS[:200], watchers=[watcher])
    assert isinstance(settings, Baseline)
    assert isinstance(model, Density)
    assert model.partition.method == "counted"
    scores = model.score_samples(ROWS)
    # No model of them can have more than minus the rows' entropy, and independent bits have -2.77.
    p = frequencies(ROWS)
    best = np.sum(p[p > 0] * np.log(p[p > 0]))
    assert best - 0.05 < scores.mean() <= best
    np.testing.assert_allclose(np.exp(model.score_samples(every_row(4))).sum(), 1, rtol=1e-5)
    looks = {r["epoch"]: r["valid_bound"] for r in watcher.records if r["valid_bound"] is not None}
    assert list(looks) == list(range(5, 61, 5))
    np.testing.assert_allclose(scores[:200].mean(), max(looks.values()), rtol=1e-5)
    # One in company has the same bits as alone.
    np.testing.assert_array_equal(scores[:1], model.score_samples(ROWS[:1]))
    assert model.score_samples(ROWS[:0]).shape == (0,)


def test_the_machine_that_was_worth_most_is_returned():
    worth, seen = iter([-3.0, -1.0, -2.0]), []

    def judge(machine):
        seen.append(np.array(machine.weights))
        return next(worth)

    base = jnp.zeros(4)
    start = new_machine(base, 3, jax.random.key(1))
    best = train(QUICK, start, ROWS, base=base, judge=judge, key=jax.random.key(0))
    np.testing.assert_array_equal(best.weights, seen[1])
    assert np.abs(seen[1] - seen[2]).max() > 1e-4


def test_a_seed_fixes_the_result_and_another_does_not():
    a, b, c = (RBM(3, QUICK).fit(ROWS, seed=seed).machine.weights for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 1e-3


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path):
    whole = RBM(3, QUICK).fit(ROWS, ROWS[:50])
    with pytest.raises(KeyboardInterrupt):
        RBM(3, QUICK).fit(ROWS, ROWS[:50], watchers=[Recorded(stop=4)], checkpoints=Checkpoints(tmp_path, every=0.0))
    watcher = Recorded()
    going_on = Checkpoints(tmp_path, resume=True)
    resumed = RBM(3, QUICK).fit(ROWS, ROWS[:50], watchers=[watcher], checkpoints=going_on)
    assert len(watcher.before) == 3
    assert [r["epoch"] for r in watcher.records] == [4, 5, 6]
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(CheckpointError, match=r"is of a run with hidden 3; this one has 4."):
        RBM(4, QUICK).fit(ROWS, ROWS[:50], checkpoints=going_on)
    with pytest.raises(CheckpointError, match=r"is of a run with other training data."):
        RBM(3, QUICK).fit(1 - ROWS, ROWS[:50], checkpoints=going_on)
    with pytest.raises(CheckpointError, match=r"is of a run with other validation data."):
        RBM(3, QUICK).fit(ROWS, ROWS[:40], checkpoints=going_on)


def test_samples_have_the_machines_frequencies():
    machine, n = random_machine(4, 3), 20_000
    machine = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), machine)
    model = FittedRBM(machine, jnp.zeros(4), count_log_partition(machine), sample_steps=100)
    drawn = model.sample(n)
    assert drawn.dtype == np.uint8
    within(frequencies(drawn), table(machine).sum(axis=1), n, ERRORS)
    assert np.abs(drawn.astype(int) - model.sample(n, seed=1)).max() == 1


def test_a_file_gives_back_the_model(tmp_path):
    machine = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), random_machine(4, 3))
    model = FittedRBM(machine, jnp.ones(4), count_log_partition(machine)._replace(standard_error=0.1), 7)
    model.save(tmp_path / "model")
    loaded = FittedRBM.load(tmp_path / "model")
    assert (loaded.partition, loaded.sample_steps) == (model.partition, 7)
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(loaded), strict=True):
        np.testing.assert_array_equal(a, b)
    content = bytearray((tmp_path / "model").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(TensorFileError, match=r"model: damaged: its contents do not fit its digest"):
        FittedRBM.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "Contrastive: expected `epochs` to be a whole number of at least 1; got 0."),
        ({"gibbs_steps": (1, 0)}, "Contrastive: expected `gibbs_steps` to be a whole number of at least 1; got 0."),
        ({"learning_rate": 0.0}, "Contrastive: expected a positive `learning_rate`; got 0.0."),
        (
            {"optimiser": "adam"},
            "Contrastive: expected sgd for the centred gradient; got adam, which .* Use centred=False with it.",
        ),
        ({"averaging": 1.0}, "Contrastive: expected `averaging` from 0 to below 1; got 1.0."),
        ({"optimiser": "adm"}, "optimiser: expected one of .*; got 'adm'. Did you mean 'adam'?"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Contrastive(**settings)


def test_too_few_rows_and_runaway_training_are_reported():
    with pytest.raises(ValueError, match=r"rows: expected at least a batch of 50; got 20."):
        RBM(3, QUICK).fit(ROWS[:20])
    with pytest.raises(ValueError, match=r"rows: expected at least a batch of 50; got 0."):
        RBM(3, QUICK).fit(ROWS[:0])
    runaway = dataclasses.replace(QUICK, learning_rate=9.0, weight_decay=9.0, epochs=20, optimiser="sgd")
    with pytest.raises(NonFiniteError, match=r"the free energy is not finite. Lower the learning rate, or"):
        RBM(3, runaway).fit(ROWS)


def test_bits_are_drawn_with_their_probabilities():
    logits, n = jnp.array([-2.0, 0.0, 1.0]), 20_000
    shares = np.asarray(draw_bits(jnp.broadcast_to(logits, (n, 3)), jax.random.key(0))).mean(axis=0)
    within(shares, 1 / (1 + np.exp(-np.asarray(logits))), n, ERRORS)

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import DBN, Contrastive, FittedDBN, FittedRBM, count_log_partition
from dlgm.baselines.baseline import Baseline, Density
from dlgm.baselines.dbn import top_machine
from dlgm.learning import Checkpoints
from dlgm.learning.progress import AbstractWatcher
from tests.baselines.machines import every_row, frequencies, random_machine, table, within

ERRORS = 4.5  # of 16 states, two-sided: a false alarm once in 9,000 keys
QUICK = Contrastive(epochs=30, batch_size=50, learning_rate=0.1, validate_every=10)
V = every_row(4)


def network(top=None, num_samples=2000):
    first = random_machine(4, 3)
    top = random_machine(3, 5, seed=1) if top is None else top
    return FittedDBN(first, top, jnp.zeros(3), count_log_partition(top), num_samples, 100)


def conditionals(model):
    """p(v | h), p(h) and q(h | v) of every v and h, from the machines' tables."""
    below, top = table(model.first), table(model.top)
    return below / below.sum(axis=0), top.sum(axis=1), below / below.sum(axis=1)[:, None]


def exact(model):
    """log p(v) of every v, and the bound on it, by sums over h."""
    p_v, p_h, q = conditionals(model)
    return np.log(p_v @ p_h), np.sum(q * (np.log(p_v * p_h) - np.log(q)), axis=1)


def test_bound_and_estimate_agree_with_sums_over_all_states(x64):
    model = network()
    log_p, bound = exact(model)
    np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-12)
    assert (bound < log_p - 1e-3).all()
    S = 20_000
    p_v, p_h, q = conditionals(model)
    found = model.likelihood(V, num_samples=S)
    assert np.abs((found.bound - bound) / found.bound_error).max() < ERRORS
    assert np.abs((found.log_p - log_p) / found.log_p_error).max() < ERRORS
    # The stated errors are those of S draws of q: of the terms that are drawn, and of w relative to its mean. As
    # standard deviations of 20,000 draws they are right to within a few per cent.
    drawn = np.log(p_v * p_h)
    spread = np.sqrt(np.sum(q * drawn**2, axis=1) - np.sum(q * drawn, axis=1) ** 2)
    np.testing.assert_allclose(found.bound_error, spread / np.sqrt(S), rtol=0.1)
    w = p_v * p_h / q
    relative = np.sqrt(np.sum(q * w**2, axis=1) / np.exp(2 * log_p) - 1)
    np.testing.assert_allclose(found.log_p_error, relative / np.sqrt(S), rtol=0.1)
    np.testing.assert_allclose(found.effective_sample_size, S / (1 + relative**2), rtol=0.1)


def test_few_samples_stay_below_on_average(x64):
    # E[log mean w] rises with S from the bound to log p: with 2 samples, a mean over 16 rows and 300 seeds.
    model = network()
    log_p, bound = exact(model)
    found = np.array([model.likelihood(V, num_samples=2, seed=seed).log_p.mean() for seed in range(300)])
    error = found.std() / np.sqrt(300)
    assert bound.mean() + 4 * error < found.mean() < log_p.mean() - 4 * error


def test_with_the_exact_posterior_every_weight_is_the_likelihood(x64):
    # The first machine upside down as the top one: q is then exact. The samples are not whole blocks of fifty.
    model = network(top=random_machine(4, 3).swapped())
    log_p = np.log(table(model.first).sum(axis=1))
    found = model.likelihood(V, num_samples=70)
    np.testing.assert_allclose(found.log_p, log_p, rtol=1e-10)
    np.testing.assert_allclose(found.effective_sample_size, 70, rtol=1e-10)
    assert (found.log_p_error < 1e-6).all()
    np.testing.assert_allclose(exact(model)[1], log_p, rtol=1e-10)
    assert np.isnan(model.likelihood(V, num_samples=1).bound_error).all()


def test_scores_are_the_bound_and_a_row_keeps_its_own(x64):
    model = network(num_samples=60)
    scores = model.score_samples(V)
    np.testing.assert_array_equal(scores, model.likelihood(V, num_samples=60).bound)
    np.testing.assert_array_equal(scores[[11, 3]], model.score_samples(V[[11, 3]]))
    assert (scores != model.score_samples(V, seed=1)).all()
    assert model.score_samples(V[:0]).shape == (0,)


def test_the_top_machine_starts_as_the_first_upside_down(x64):
    first, key, base = random_machine(4, 3), jax.random.key(0), jnp.array([-1.0, 0.0, 2.0])
    top = top_machine(first, 6, base, key)
    assert 0 < np.abs(top.weights[:, 4:]).max() < 0.1
    without = dataclasses.replace(top, weights=top.weights.at[:, 4:].set(0))
    np.testing.assert_allclose(table(without).sum(axis=1), table(first).sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(top.visible_bias, first.hidden_bias)
    fewer = top_machine(first, 3, base, key)
    assert np.abs(fewer.weights).max() < 0.1
    np.testing.assert_array_equal(fewer.visible_bias, base)


def test_samples_have_the_networks_frequencies():
    model = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network())
    drawn = model.sample(20_000)
    assert drawn.dtype == np.uint8
    within(frequencies(drawn), np.exp(exact(model)[0]), 20_000, ERRORS)


class Recorded(AbstractWatcher):
    def __init__(self):
        self.runs = []

    def start(self, epochs, before=()):
        self.runs.append(list(before))

    def epoch(self, record):
        self.runs[-1].append(record)


def test_a_second_layer_mends_what_the_first_cannot_and_the_fit_can_be_resumed(tmp_path):
    """Two halves of four bits, a tenth of which are flipped, agree in four rows of five: two hidden units soon know the
    halves, but not that they agree. The bound rises above the first machine's own log p, by hundreds of its errors.
    """
    rng, watcher = np.random.default_rng(0), Recorded()
    halves = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[rng.choice(4, size=600, p=[0.4, 0.1, 0.1, 0.4])]
    rows = (np.repeat(halves, 4, axis=1) ^ (rng.random((600, 8)) < 0.1)).astype(np.uint8)
    first, top = (dataclasses.replace(QUICK, epochs=e, learning_rate=0.3, averaging=0.9) for e in (20, 60))
    settings = DBN(hidden=(2, 8), training=(first, top), num_samples=500)
    model = settings.fit(rows, rows[:200], watchers=[watcher], checkpoints=Checkpoints(tmp_path))
    assert isinstance(settings, Baseline)
    assert isinstance(model, Density)
    assert [len(run) for run in watcher.runs] == [20, 60]
    alone = FittedRBM(model.first, jnp.zeros(8), count_log_partition(model.first)).score_samples(rows)
    found = model.likelihood(rows)
    assert np.sqrt(np.sum(found.bound_error**2)) / 600 < 0.002
    assert found.bound.mean() > alone.mean() + 0.2
    again = Recorded()
    resumed = settings.fit(rows, rows[:200], watchers=[again], checkpoints=Checkpoints(tmp_path, resume=True))
    assert again.runs == watcher.runs
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_gives_back_the_network(tmp_path):
    model = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network())
    model.save(tmp_path / "model")
    loaded = FittedDBN.load(tmp_path / "model")
    assert (loaded.partition, loaded.num_samples, loaded.sample_steps) == (model.partition, 2000, 100)
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(loaded), strict=True):
        np.testing.assert_array_equal(a, b)


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"as the first has hidden ones, 3; got 4 and shape \(4,\)."):
        FittedDBN(random_machine(4, 3), random_machine(4, 3), jnp.zeros(4), count_log_partition(random_machine(4, 3)))
    with pytest.raises(
        ValueError,
        match=r"DBN: expected two settings, Contrastive\(...\) for each layer, in `training`; got \(Contrastive",
    ):
        DBN(hidden=(3, 4), training=(QUICK,))
    with pytest.raises(ValueError, match=r"DBN: expected two sizes of layers, in `hidden`; got \(3,\)"):
        DBN(hidden=(3,))

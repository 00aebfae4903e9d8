"""Test rows scored a block at a time, by every kind of model, and over interruptions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import BoltzmannMachine, FittedDBN, FittedRBM, LogPartition
from dlgm.reproduce import scoring

ROWS = np.random.default_rng(0).integers(0, 2, (7, 3)).astype(np.uint8)


def machine(visible, hidden, seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    shapes = ((visible, hidden), (visible,), (hidden,))
    return BoltzmannMachine(*(jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)))


def rbm(error=0.25):
    return FittedRBM(machine(3, 2, 0), jnp.zeros(3), LogPartition(2.0, error, "annealed"))


def dbn():
    return FittedDBN(machine(3, 2, 0), machine(2, 2, 1), jnp.zeros(2), LogPartition(2.0, 0.25, "annealed"), 30)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(scoring, "BLOCK", 3)


def score(density, path, rows=ROWS, seed=0, **options):
    return scoring.score_rows(density, rows, seed=seed, kept=path, **options)


@pytest.mark.parametrize("make", [rbm, dbn])
def test_blocks_are_of_no_effect(make, tmp_path):
    told: list[int] = []
    found = score(make(), tmp_path / "s", progress=told.append)
    is_bounded = isinstance(make(), FittedDBN)
    np.testing.assert_array_equal(found.bound if is_bounded else found.log_p, make().score_samples(ROWS))
    assert told == [3, 6, 7]


def test_errors_that_rows_share_are_not_averaged_away(tmp_path):
    """By hand: of the machine nothing but log Z is sampled; of the network the rows' draws, independently, as well."""
    found = scoring.summary(rbm(), score(rbm(), tmp_path / "a"))
    log_p = rbm().score_samples(ROWS)
    assert found["monte_carlo_error"] == 0.25
    assert found["nats"] == pytest.approx(-log_p.mean())
    assert found["standard_error"] == pytest.approx(log_p.std(ddof=1) / 7**0.5)
    assert (found["samples"], found["effective_sample_size"]) == (None, None)
    found = scoring.summary(dbn(), score(dbn(), tmp_path / "b"))
    own = dbn().likelihood(ROWS)
    assert found["monte_carlo_error"] == pytest.approx((0.25**2 + (own.log_p_error**2).sum() / 7**2) ** 0.5)
    assert found["samples"] == 30
    assert (found["nats"], found["bound_nats"]) == (pytest.approx(-own.log_p.mean()), pytest.approx(-own.bound.mean()))
    assert found["nats"] < found["bound_nats"]  # the estimate is the tighter one


def test_a_run_cut_short_goes_on(tmp_path, monkeypatch):
    whole, path = score(dbn(), tmp_path / "whole"), tmp_path / "cut"

    def cut(done):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(dbn(), path, progress=cut)
    asked, original = [], scoring._score

    def noted(density, rows, *args):
        asked.append(len(rows))
        return original(density, rows, *args)

    monkeypatch.setattr(scoring, "_score", noted)
    again = score(dbn(), path)
    assert asked == [1]  # the seventh row alone
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("what", ["model", "rows", "seed", "damage"])
def test_scores_of_something_else_are_not_taken(what, tmp_path):
    path = tmp_path / "s"
    score(dbn() if what == "model" else rbm(), path)
    if what == "damage":
        path.write_bytes(path.read_bytes()[:-1])
    rows = 1 - ROWS if what == "rows" else ROWS
    told: list[int] = []
    found = score(rbm(), path, rows, seed=1 if what == "seed" else 0, progress=told.append)
    assert told == [3, 6, 7]
    np.testing.assert_array_equal(found.log_p, rbm().score_samples(rows))

"""A judge in place of validation rows, runs that are cut short, and runs that share their program."""

import jax
import numpy as np
import pytest

from dlgm.learning import FreeEnergy, NonFiniteError, TrainingConfig, fit
from dlgm.learning.loop import _kept_program
from dlgm.model import build_model, initialise
from tests.learning.test_fit import MODEL, QUICK, ROWS, Counting, leaves, same


class Scripted:
    """A judge that gives these scores, one after another, and keeps what it was shown."""

    def __init__(self, *scores):
        self.scores, self.shown = list(scores), []

    def __call__(self, model):
        self.shown.append([leaf.copy() for leaf in leaves(model)])
        return self.scores[len(self.shown) - 1]


@pytest.mark.parametrize(
    ("scores", "best"), [((-3, -2, -1, -2), 2), ((1, 0.5, 0.25, 0), 0), ((0, 1, 2, 3), 3), ((1, 1, 1, 1), 0)]
)
def test_the_weights_that_the_judge_likes_best_are_kept(scores, best):
    """The start's among them, as epoch 0; of equals the first."""
    judge = Scripted(*scores)
    fitted = fit(MODEL, ROWS, judge=judge, config=QUICK)
    assert fitted.best_epoch == best
    assert same(fitted.model, judge.shown[best])
    assert [record["valid_bound"] for record in fitted.history] == list(scores[1:])
    assert fitted.summary()["valid_bound"] == (scores[best] if best else None)
    start = initialise(build_model(MODEL, key=jax.random.split(jax.random.key(0), 3)[0]), ROWS)
    assert same(start, judge.shown[0])
    assert all(not same(a, b) for a, b in zip(judge.shown, judge.shown[1:], strict=False))


def test_patience_listens_to_the_judge():
    config = TrainingConfig(**{**QUICK.to_dict(), "patience": 1, "warm_up": 0.0})
    fitted = fit(MODEL, ROWS, judge=Scripted(0, -1, 5, 5), config=config)
    assert (fitted.best_epoch, len(fitted.history), fitted.stopped_early) == (0, 1, True)


def test_a_judge_is_not_believed_when_its_score_is_no_number():
    for scores, said in (((np.nan, 1), "before epoch 1"), ((0, np.nan), "after epoch 1")):
        with pytest.raises(NonFiniteError, match=f"Training stopped {said}: .* is nan"):
            fit(MODEL, ROWS, judge=Scripted(*scores), config=QUICK)


def test_there_is_one_judge():
    with pytest.raises(ValueError) as error:
        fit(MODEL, ROWS, valid=ROWS, judge=Scripted(), config=QUICK)
    assert str(error.value) == "judge: expected either valid rows or a judge; got both."


def test_a_run_that_is_cut_short_is_the_beginning_of_the_longer_one():
    """Bit for bit, learning rates and all; the judge's copies are of the longer run."""
    judge = Scripted(0, 1, 2, 3)
    whole = fit(MODEL, ROWS, judge=judge, config=QUICK)

    def told(record):
        return {name: value for name, value in record.items() if name not in ("seconds", "rows_per_second")}

    for epochs in (0, 1, 2, 3, 9):
        cut = fit(MODEL, ROWS, config=QUICK, stop_after=epochs)
        done = min(epochs, 3)
        assert (cut.best_epoch, len(cut.history), cut.stopped_early) == (done, done, done < 3)
        assert same(cut.model, judge.shown[done])
        assert [told(record) for record in cut.history] == [
            {**told(record), "valid_bound": None} for record in whole.history[:done]
        ]


def test_the_last_epoch_before_a_cut_is_judged():
    """Looks at epochs 2, 4, .., and at the last one that there is."""
    config = TrainingConfig(**{**QUICK.to_dict(), "validate_every": 2})
    short = fit(MODEL, ROWS, judge=Scripted(0, 7), config=config, stop_after=1)
    assert [record["valid_bound"] for record in short.history] == [7]
    whole = fit(MODEL, ROWS, judge=Scripted(0, 1, 2), config=config)
    assert [record["valid_bound"] for record in whole.history] == [None, 1, 2]


def test_runs_that_differ_in_data_and_seed_share_their_program():
    """One trace for all of them, and the same bits as with a program of their own."""
    _kept_program.cache_clear()
    objective = Counting()
    other = TrainingConfig(**{**QUICK.to_dict(), "seed": 1})
    fit(MODEL, ROWS, config=QUICK, objective=objective)
    shared = [
        fit(MODEL, ROWS, config=other, objective=objective),
        fit(MODEL, 1 - ROWS, config=QUICK, objective=objective),
        fit(MODEL, ROWS, judge=Scripted(0, 1, 2, 3), config=QUICK, objective=objective, stop_after=2),
    ]
    assert len(objective.calls) == 1
    _kept_program.cache_clear()
    own = fit(MODEL, ROWS, config=other, objective=objective)
    assert len(objective.calls) == 2
    assert same(shared[0].model, own.model)
    assert not same(shared[0].model, shared[1].model)


def test_what_is_part_of_the_program_is_not_shared():
    """Two runs at other learning rates are two programs; each has its own rate from the first step on."""
    rates = [0.01, 0.002]
    runs = [fit(MODEL, ROWS, config=TrainingConfig(**{**QUICK.to_dict(), "learning_rate": rate})) for rate in rates]
    first, second = ([record["learning_rate"] for record in run.history] for run in runs)
    np.testing.assert_allclose(np.array(second), np.array(first) * 0.2, rtol=1e-5)
    found = _kept_program.cache_info().currsize
    fit(MODEL, ROWS, config=QUICK, objective=FreeEnergy(num_samples=2))
    assert _kept_program.cache_info().currsize == min(found + 1, 4)

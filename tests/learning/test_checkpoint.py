"""A run that is stopped, however it is, ends with the same bits once resumed; and damage is noticed."""

import errno
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from dlgm import files
from dlgm.learning import AbstractWatcher, CheckpointError, Checkpoints, FreeEnergy, Interrupted
from dlgm.stochastic import BonnetPrice
from tests.learning.killing import run_and_kill, told, train


@pytest.fixture(scope="module")
def uninterrupted():
    return told(train())


class At(AbstractWatcher):
    """Does something after an epoch."""

    def __init__(self, number, action):
        self.number, self.action = number, action

    def epoch(self, record):
        if record["epoch"] == self.number:
            self.action()


def stopped_after(folder, epoch, every=0.0, **options):
    """A run that a signal stops after an epoch, its checkpoints left in `folder`."""
    with pytest.raises(Interrupted) as stop:
        train(Checkpoints(folder, every=every, **options), [At(epoch, lambda: os.kill(os.getpid(), signal.SIGTERM))])
    return stop.value


def test_killed_and_resumed_ends_where_it_would_have_ended(tmp_path, uninterrupted):
    """SIGKILL, three times, at moments of its own choosing."""
    assert run_and_kill(tmp_path, 3, seed=0) >= 2
    assert told(train(Checkpoints(tmp_path, resume=True))) == uninterrupted


def test_a_signal_is_obeyed_after_saving(tmp_path, uninterrupted):
    stop = stopped_after(tmp_path, 5, every=1e9)
    saved = tmp_path / "step-0000000050.checkpoint"
    assert str(stop) == f"Stopped at step 50, in epoch 6 of 12; the run is saved in {saved}."
    assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert [path.name for path in tmp_path.glob("*.checkpoint")] == [saved.name]
    assert told(train(Checkpoints(tmp_path, resume=True))) == uninterrupted


def test_a_signal_is_obeyed_in_the_middle_of_an_epoch(tmp_path, uninterrupted, monkeypatch):
    """With a look at the clock after every step, the run stops within the epoch, and its means are still right."""
    from dlgm.learning import loop

    monkeypatch.setattr(loop, "_PATIENCE_OF_SIGNALS", 0.0)
    real, calls = Checkpoints.due, []

    def due(self):
        calls.append(1)
        if len(calls) == 44:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self)

    monkeypatch.setattr(Checkpoints, "due", due)
    with pytest.raises(Interrupted) as stop:
        train(Checkpoints(tmp_path, every=1e9))
    # The signal may reach Python a step later.
    assert re.match(r"Stopped at step 4[45], in epoch 5", str(stop.value))
    assert told(train(Checkpoints(tmp_path, resume=True))) == uninterrupted


def test_a_finished_run_is_taken_as_it_is(tmp_path, uninterrupted):
    train(Checkpoints(tmp_path))
    never = [At(epoch, lambda: pytest.fail("an epoch was run")) for epoch in range(1, 13)]
    assert told(train(Checkpoints(tmp_path, resume=True), never)) == uninterrupted


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, uninterrupted, damage):
    stopped_after(tmp_path, 4)
    newest = max(tmp_path.glob("*.checkpoint"))
    whole = newest.read_bytes()
    flipped = whole[:-200] + bytes([whole[-200] ^ 1]) + whole[-199:]
    newest.write_bytes({"truncated": whole[:-100], "flipped": flipped, "empty": b""}[damage])
    with pytest.warns(UserWarning, match=f"{newest.name}: passed over: .*damaged"):
        resumed = train(Checkpoints(tmp_path, resume=True, keep=1))
    assert told(resumed) == uninterrupted
    # The damaged one has a higher number than some that are written after it; it is not the one that is kept.
    assert {path.name for path in tmp_path.iterdir()} == {
        "lock",
        "step-0000000120.checkpoint",
        newest.with_suffix(".damaged").name,
    }


def test_nothing_but_damage_is_refused(tmp_path):
    stopped_after(tmp_path, 2, keep=1)
    (only,) = tmp_path.glob("*.checkpoint")
    only.write_bytes(b"damaged")
    with (
        pytest.warns(UserWarning, match="passed over"),
        pytest.raises(CheckpointError, match="no checkpoint there can"),
    ):
        train(Checkpoints(tmp_path, resume=True))


def test_a_full_disk_leaves_the_last_good_one(tmp_path, uninterrupted, monkeypatch):
    stopped_after(tmp_path, 3)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.checkpoint")}

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(CheckpointError) as error:
            train(Checkpoints(tmp_path, resume=True, every=0.0))
    assert str(error.value).endswith(
        f"cannot be written (No space left on device). The last good one is {tmp_path / sorted(before)[-1]}."
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"} == before
    assert told(train(Checkpoints(tmp_path, resume=True))) == uninterrupted


def test_a_full_disk_at_the_end_does_not_cost_the_model(tmp_path, uninterrupted, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dlgm.tensorfile.write_atomically", full)
    with pytest.warns(
        UserWarning, match=r"step-0000000120\.checkpoint: cannot be written \(No space left on device\)\."
    ):
        assert told(train(Checkpoints(tmp_path, every=1e9))) == uninterrupted


def test_what_a_kill_while_writing_has_left_is_swept(tmp_path):
    left = tmp_path / ".step-0000000010.checkpoint.k1ll3d"
    left.write_bytes(b"half of one")
    checkpoints = Checkpoints(tmp_path)
    with checkpoints.held():
        assert not left.exists()
    left.write_bytes(b"half of one")
    checkpoints.remove()
    assert not tmp_path.exists()


def test_removing_takes_the_layers_along_and_nothing_else(tmp_path):
    checkpoints, other = Checkpoints(tmp_path / "run"), tmp_path / "run" / "another"
    for layer in (1, 2):
        stopped_after(checkpoints.layer(layer).folder, 2)
    stopped_after(other, 2)
    kept = Checkpoints(other).paths()
    assert kept
    checkpoints.remove()
    assert list(checkpoints.folder.iterdir()) == [other]
    assert Checkpoints(other).paths() == kept


def test_the_last_few_are_kept(tmp_path):
    stopped_after(tmp_path, 6, keep=3)
    assert len(list(tmp_path.glob("*.checkpoint"))) == 3


def test_a_second_run_on_the_folder_is_refused(tmp_path):
    program = (
        "import sys; from pathlib import Path; from dlgm.learning import Checkpoints\n"
        "with Checkpoints(Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(CheckpointError, match="another run is writing its checkpoints here"):
        train(Checkpoints(tmp_path))
    child.communicate("")
    with Checkpoints(tmp_path).held():
        pass


def test_an_earlier_run_is_not_overwritten_and_another_is_not_resumed(tmp_path):
    stopped_after(tmp_path, 2)
    with pytest.raises(CheckpointError, match="holds the checkpoints of an earlier run"):
        train(Checkpoints(tmp_path))
    with pytest.raises(CheckpointError, match="is of a run with other training data"):
        train(Checkpoints(tmp_path, resume=True), rows=np.zeros((200, 6), np.uint8))


OTHERS: dict[str, dict] = {
    r"learning_rate 0\.01; this one has 0\.02": {"learning_rate": 0.02},
    r"seed 0; this one has 1": {"seed": 1},
    'the model\'s nonlinearity "relu"; this one has "tanh"': {"nonlinearity": "tanh"},
    r"the model's kappa .*; this one has 7\.5": {"kappa": 7.5},
    r"the model's latent \[2\]; this one has \[3\]": {"latent": (3,)},
    "objective in detail .*; this one has .*BonnetPrice": {"objective": FreeEnergy(estimator=BonnetPrice())},
    "other validation data": {"valid": np.zeros((50, 6), np.uint8)},
    "steps a chunk 10; this one has 5": {"mapped": True, "chunk_rows": 100},
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    stopped_after(folder, 2)
    return folder


@pytest.mark.parametrize("difference", OTHERS)
def test_another_run_is_not_resumed(stopped, difference):
    with pytest.raises(CheckpointError, match=f"is of a run with {difference}"):
        train(Checkpoints(stopped, resume=True), **OTHERS[difference])


def test_a_run_on_several_chunks_is_resumed_in_the_middle_of_one(tmp_path, monkeypatch):
    """Stopped after every few steps; with four chunks of three, three, three and one."""
    from dlgm.learning import loop

    monkeypatch.setattr(loop, "_PATIENCE_OF_SIGNALS", 0.0)
    chunks: dict = {"mapped": True, "chunk_rows": 60}
    expected, real = told(train(**chunks)), Checkpoints.due
    assert expected != told(train())
    for number in (4, 7, 15):
        calls: list[int] = []

        def due(self, calls=calls, number=number):
            calls.append(1)
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGINT)
            return real(self)

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "due", due)
            with pytest.raises(Interrupted):
                train(Checkpoints(tmp_path, resume=True, every=1e9), **chunks)
    assert told(train(Checkpoints(tmp_path, resume=True), **chunks)) == expected


def test_history_of_a_resumed_run_is_whole(tmp_path):
    from dlgm.learning import JsonlHistory

    def histories(**options):
        return Checkpoints(tmp_path / "run", every=0.0, **options), JsonlHistory(tmp_path / "history.jsonl")

    checkpoints, history = histories()
    with pytest.raises(Interrupted):
        train(checkpoints, [history, At(3, lambda: os.kill(os.getpid(), signal.SIGINT))])
    checkpoints, history = histories(resume=True)
    fitted = train(checkpoints, [history])
    assert [json.loads(line) for line in history.path.read_text().splitlines()] == fitted.history


def test_a_checkpoint_from_before_a_setting_existed_is_resumed(tmp_path, uninterrupted):
    """What the run did not know had its default: here `move`, taken out of the checkpoint's description."""
    from dlgm.tensorfile import read_tensors, write_tensors

    stopped_after(tmp_path, 5, every=1e9)
    (path,) = tmp_path.glob("*.checkpoint")
    tensors, described = read_tensors(path)
    run = json.loads(described["run"])
    assert run.pop("move") == 0
    write_tensors(path, tensors, {**described, "run": json.dumps(run)})
    assert told(train(Checkpoints(tmp_path, resume=True))) == uninterrupted

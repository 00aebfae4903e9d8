"""`dlgm fit` stopped and resumed, and in two processes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from dlgm.artifact import load_model
from dlgm.cli import main

# More epochs than fit into a pipe that nobody reads from.
RUN = ["fit", "digits", "--latent", "2", "--hidden", "4", "--epochs", "200", "--out", "m.dlgm"]


def start(args, cwd):
    program = [sys.executable, "-c", "from dlgm.cli import main; main()", *args]
    return subprocess.Popen(program, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def run(monkeypatch, capsys):
    """The command in this process: its exit code, and what it prints."""

    def one(args, folder):
        monkeypatch.setattr("sys.argv", ["dlgm", *args])
        with contextlib.chdir(folder), pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return one


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run that SIGINT has stopped, somewhere after its first epoch."""
    folder = tmp_path_factory.mktemp("interrupted")
    os.mkfifo(folder / "history")
    child = start([*RUN, "--history", "history"], folder)
    with (folder / "history").open() as history:
        history.readline()
        child.send_signal(signal.SIGINT)
        history.read()
    return folder, child, child.communicate()


def test_a_signal_ends_the_run_and_says_how_to_go_on(interrupted):
    folder, child, (out, err) = interrupted
    assert child.returncode == 128 + signal.SIGINT, err
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("dlgm: Stopped at step ")
    assert last.endswith("Go on with the same command and --resume.")
    assert {path.name for path in folder.iterdir()} == {"history", "m.dlgm.checkpoints"}


def test_an_unfinished_run_is_neither_overwritten_nor_mixed_up_but_resumed(interrupted, tmp_path, run):
    folder, *_ = interrupted
    code, _, err = run(RUN, folder)
    assert code == 2
    assert err == (
        "dlgm: m.dlgm.checkpoints: holds the checkpoints of an earlier run. Resume it (resume=True, --resume), or "
        "choose another folder.\n"
    )
    code, _, err = run([*RUN, "--resume", "--seed", "5"], folder)
    assert code == 2
    assert "is of a run with seed 0; this one has 5." in err
    code, _, err = run([*RUN, "--resume", "--quiet"], folder)
    assert (code, err) == (0, "")
    assert not (folder / "m.dlgm.checkpoints").exists()

    code, _, err = run([*RUN, "--quiet"], tmp_path)
    assert (code, err) == (0, "")
    resumed, straight = (load_model(path / "m.dlgm") for path in (folder, tmp_path))
    for a, b in zip(jax.tree.leaves(resumed.model), jax.tree.leaves(straight.model), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_to_resume_is_said(tmp_path, run):
    code, _, err = run(
        ["fit", "digits", "--latent", "2", "--hidden", "4", "--epochs", "1", "--quiet", "--resume"], tmp_path
    )
    assert code == 0
    assert err == "dlgm: digits.dlgm.checkpoints: nothing there to resume; this run starts at the beginning.\n"


def start_two(args, cwd):
    """The command in two processes that have joined."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    joined = [*args, "--distributed", "--coordinator", address, "--num-processes", "2"]
    return [start([*joined, "--process-id", str(i)], cwd) for i in (0, 1)]


def test_two_processes(tmp_path, run):
    """The first one writes and speaks."""
    small = ["fit", "digits", "--latent", "2", "--hidden", "4", "--epochs", "2", "--json"]
    children = start_two([*small, "--out", "two.dlgm"], tmp_path)
    (first, error), (second, other) = (child.communicate() for child in children)
    assert [child.returncode for child in children] == [0, 0], error + other
    assert second == ""
    code, alone, _ = run([*small, "--out", "one.dlgm"], tmp_path)
    assert code == 0
    np.testing.assert_allclose(json.loads(first)["valid_bound"], json.loads(alone)["valid_bound"], rtol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"one.dlgm", "two.dlgm"}


def test_a_process_that_dies_ends_the_other_with_advice(tmp_path):
    os.mkfifo(tmp_path / "history")
    first, second = start_two([*RUN, "--history", "history"], tmp_path)
    with (tmp_path / "history").open() as history:
        history.readline()
        second.kill()
        history.read()
    out, err = first.communicate()
    second.communicate()
    assert first.returncode == 2
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("dlgm: Another process has gone (")
    assert last.endswith("Start all of them again with --resume: the checkpoints are in m.dlgm.checkpoints.")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--process-id", "0"], "--process-id: only with --distributed."),
        (
            ["--distributed", "--process-id", "0"],
            "--distributed: expected --coordinator, --num-processes and --process-id together, or none.",
        ),
        (
            ["--distributed", "--coordinator", "127.0.0.1:1", "--num-processes", "2", "--process-id", "2"],
            "--process-id: expected less than --num-processes, 2; got 2.",
        ),
        (["--chunk-rows", "5"], "--chunk-rows: only for your own files; digits is a data set with a name."),
    ],
)
def test_wrong_options(args, message, tmp_path, run):
    code, _, err = run([*RUN, *args], tmp_path)
    assert (code, err) == (2, f"dlgm: {message}\n")
    assert not list(tmp_path.iterdir())

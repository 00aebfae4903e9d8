"""Two devices, in one process or two, do what one does, also after one of them has died."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.learning.joining import train


def start(processes, *folders, **options):
    """The processes of a run, on two devices altogether, with a folder for each or one for all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    program = [sys.executable, "-m", "tests.learning.joining", address, str(processes)]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={2 // processes}"
    return [
        subprocess.Popen(
            [*program, str(number), str(folders[number % len(folders)]), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XLA_FLAGS": flags},
        )
        for number in range(processes)
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone"))


def same(a, b):
    np.testing.assert_allclose(a[0], b[0], rtol=1e-5)
    for x, y in zip(a[1], b[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def results(children):
    """What they print and complain; a hang is a failure."""
    return [child.communicate(timeout=300) for child in children]


@pytest.mark.parametrize(("processes", "chunk_rows"), [(1, None), (2, None), (2, 60)])
def test_two_devices_do_what_one_does(processes, chunk_rows, alone, tmp_path):
    """The batch is cut over them; the losses and weights are the same but for the order of additions."""
    expected = alone if chunk_rows is None else train(tmp_path / "alone", chunk_rows=chunk_rows)
    children = start(processes, tmp_path / "joined", chunk_rows=chunk_rows)
    for out, err in results(children):
        assert out, err
        same(json.loads(out.splitlines()[-1]), expected)  # gloo speaks first
    assert [child.returncode for child in children] == [0] * processes


def test_a_death_ends_the_others_and_one_process_goes_on(alone, tmp_path):
    children = start(2, tmp_path, last=3)
    _, (_, err) = results(children)
    assert children[0].returncode == 9
    assert children[1].returncode not in (0, 9), err
    # The first is gone, and with it what JAX keeps them together by: it may be quicker with its message than we are.
    assert "Another process has gone" in err or "another task died" in err
    resumed = train(tmp_path)
    same(resumed, alone)
    assert resumed[2][0] > 1


def test_two_processes_go_on_where_one_has_died(alone, tmp_path):
    """The second one does not see the first one's folder, and need not."""
    (child,) = start(1, tmp_path, last=4)
    results([child])
    assert child.returncode == 9
    first, second = results(start(2, tmp_path, tmp_path / "elsewhere"))
    for out, err in (first, second):
        assert out, err
        same(json.loads(out.splitlines()[-1]), alone)
    assert json.loads(first[0].splitlines()[-1])[2][0] > 1  # of the two, the first one tells its watchers


def test_a_row_that_only_one_process_reads_stops_both(tmp_path):
    children = start(2, tmp_path, chunk_rows=60, bad_row=100)
    errors = [err for _, err in results(children)]
    assert [child.returncode for child in children] == [1, 1]
    assert sum("at row 100, column 0" in err for err in errors) == 1, errors
    assert sum("Another process has stopped with an error of its own." in err for err in errors) == 1


def test_a_full_disk_stops_both(tmp_path):
    children = start(2, tmp_path, full=True)
    for _, err in results(children):
        assert "cannot be written (No space left on device)." in err
    assert [child.returncode for child in children] == [1, 1]

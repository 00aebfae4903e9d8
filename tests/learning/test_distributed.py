"""Two devices, in one process or two, do what one does, also after one of them has died."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.learning.joining import train


def start(processes, folder, last=None):
    """The processes of a run, on two devices altogether; with `last`, the first process dies at that epoch."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    program = [sys.executable, "-m", "tests.learning.joining", address, str(processes)]
    extra = [] if last is None else [str(last)]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={2 // processes}"
    return [
        subprocess.Popen(
            [*program, str(number), str(folder), *extra],
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


@pytest.mark.parametrize("processes", [1, 2])
def test_two_devices_do_what_one_does(processes, alone, tmp_path):
    """The batch is cut over them; the losses and weights are the same but for the order of additions."""
    children = start(processes, tmp_path)
    results = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0] * processes, results
    for out, _ in results:
        same(json.loads(out.splitlines()[-1]), alone)  # gloo speaks first


def test_a_death_ends_the_others_and_one_process_goes_on(alone, tmp_path):
    children = start(2, tmp_path, last=3)
    results = [child.communicate() for child in children]
    assert children[0].returncode == 9
    assert children[1].returncode not in (0, 9), results[1]
    assert results[1][1]
    resumed = train(tmp_path)
    same(resumed, alone)
    assert resumed[2][0] > 1


def test_two_processes_go_on_where_one_has_died(alone, tmp_path):
    (child,) = start(1, tmp_path, last=4)
    child.communicate()
    assert child.returncode == 9
    first, second = (child.communicate() for child in start(2, tmp_path))
    for out, error in (first, second):
        assert out, error
        same(json.loads(out.splitlines()[-1]), alone)
    assert json.loads(first[0].splitlines()[-1])[2][0] > 1  # of the two, the first one tells its watchers

"""Several processes joined on this machine do what one does, also after one of them has died."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.learning.joining import told, train


def start(processes, folder, last=None):
    """The processes of a run; with `last`, the first one dies at that epoch."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    program = [sys.executable, "-m", "tests.learning.joining", address, str(processes)]
    extra = [] if last is None else [str(last)]
    return [
        subprocess.Popen(
            [*program, str(number), str(folder), *extra], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(processes)
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return told(train(tmp_path_factory.mktemp("alone")))


def same(a, b):
    np.testing.assert_allclose(a[0], b[0], rtol=1e-5)
    for x, y in zip(a[1], b[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_two_processes_do_what_one_does(alone, tmp_path):
    children = start(2, tmp_path)
    results = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], results
    for out, _ in results:
        same(json.loads(out.splitlines()[-1]), alone)  # gloo speaks first


def test_a_death_ends_the_others_and_one_process_goes_on(alone, tmp_path):
    children = start(2, tmp_path, last=3)
    results = [child.communicate() for child in children]
    assert children[0].returncode == 9
    assert children[1].returncode not in (0, 9), results[1]
    assert results[1][1]
    same(told(train(tmp_path)), alone)

"""Many workers, one machine: they take turns, so that a machine that slows down slows all of them."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

WORKERS = Path(__file__).parent / "workers"
WARM = 3  # turns that are not counted: programs are compiled, for exactly the sizes that follow
PAUSE = 0.2  # seconds between two turns, in which the threads of the one before go to sleep


def take_turns(workers: Mapping[str, Sequence[str]], *, units: int, rounds: int) -> dict[str, list[float]]:
    """Seconds that a unit took, for each worker and each round. `units` make a turn."""
    processes = {}
    times: dict[str, list[float]] = {name: [] for name in workers}
    try:
        for name, (script, *arguments) in workers.items():
            process = subprocess.Popen(
                [sys.executable, str(WORKERS / script), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            processes[name] = process
            if process.stdout is None or json.loads(process.stdout.readline() or "null") != "ready":
                raise RuntimeError(f"{name}: the worker did not start")
        for turn in range(-WARM, rounds):
            for name, process in processes.items():
                assert process.stdin is not None
                assert process.stdout is not None
                print(units, file=process.stdin, flush=True)
                took = json.loads(process.stdout.readline())
                if turn >= 0:
                    times[name].append(took)
                time.sleep(PAUSE)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return times


def summarise(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Median and quartiles of each worker."""
    names = ("median", "quarter", "three_quarters")
    return {
        name: dict(zip(names, map(float, np.quantile(values, [0.5, 0.25, 0.75])), strict=True))
        for name, values in times.items()
    }


def ratio(times: Mapping[str, Sequence[float]], above: str, below: str) -> dict[str, float]:
    """`above / below`, round by round: its median and quartiles."""
    rounds = np.divide(times[above], times[below])
    return summarise({"ratio": list(rounds)})["ratio"]

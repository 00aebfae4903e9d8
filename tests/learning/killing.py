"""A run that is killed again and again, each time taken up where it was.

Long form: python -m tests.learning.killing 100
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path

import jax
import numpy as np

from dlgm.data import ArraySource
from dlgm.learning import AbstractWatcher, Checkpoints, TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation

CLOCK = {"seconds", "rows_per_second"}  # entries of a record that are not a function of the run


ROWS = (np.random.default_rng(0).random((200, 6)) < 0.3).astype(np.uint8)
MODEL = ModelConfig(make_observation("bernoulli", columns=6).config(), latent=(2,), hidden=(5,))
CONFIG = TrainingConfig(epochs=12, batch_size=20, learning_rate=0.01, drop_out=0.1, validate_every=2)


def train(checkpoints=None, watchers=(), *, rows=ROWS, valid=ROWS[:50], mapped=False, **others):
    """A small run of 12 epochs of 10 steps, with everything in play: averaging, best weights, noise, warm-up.

    `others` are settings of the model, of training, or of `fit`, in place of the usual ones.
    """

    def own(kind):
        names = {field.name for field in fields(kind)}
        return {name: others.pop(name) for name in list(others) if name in names and name != "objective"}

    model, config = replace(MODEL, **own(MODEL)), replace(CONFIG, **own(CONFIG))
    rows = ArraySource(rows) if mapped else rows
    return fit(model, rows, valid=valid, config=config, checkpoints=checkpoints, watchers=watchers, **others)


def told(fitted):
    """Weights, history and best epoch as plain bytes and values."""
    weights = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(fitted.model)]
    history = [{name: value for name, value in record.items() if name not in CLOCK} for record in fitted.history]
    return weights, history, fitted.best_epoch


class Saying(AbstractWatcher):
    """Says each epoch aloud, so that whoever listens knows when to strike."""

    def epoch(self, record):
        """One line."""
        print(record["epoch"], flush=True)


def run_and_kill(folder, kills, seed, wait=0.0):
    """Kill a child `kills` times, each time after an epoch chosen at random and up to `wait` seconds; how many hit."""
    draw, hits = random.Random(seed), 0
    for _ in range(kills):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.learning.killing", "child", str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(draw.randint(1, 3)):
            if not child.stdout.readline():
                break
        if wait:  # an epoch takes some hundredths of a second: in the middle of steps, of validation, of writing
            time.sleep(draw.uniform(0, wait))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        hits += child.returncode == -signal.SIGKILL
    return hits


def main():
    if sys.argv[1] == "child":
        train(Checkpoints(Path(sys.argv[2]), resume=True, every=0.0), [Saying()])
        return
    expected, total = told(train()), 0
    while total < int(sys.argv[1]):
        with tempfile.TemporaryDirectory() as folder:
            total += run_and_kill(folder, 4, total, wait=0.05)
            assert told(train(Checkpoints(Path(folder), resume=True))) == expected
            print(json.dumps({"killed": total}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "dlgm-killing"))
    main()

"""A small run for one or more processes: python -m tests.learning.joining ADDRESS PROCESSES ID FOLDER [LAST EPOCH]"""

import json
import os
import sys
from pathlib import Path

import jax
import numpy as np

from dlgm.learning import AbstractWatcher, Checkpoints, TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation

ROWS = (np.random.default_rng(0).random((203, 6)) < 0.3).astype(np.uint8)


class Dying(AbstractWatcher):
    """Ends the process without a word, as a machine that loses its power would."""

    def __init__(self, epoch):
        self.last = epoch

    def epoch(self, record):
        """Perhaps the last."""
        if record["epoch"] == self.last:
            os._exit(9)


def train(folder, watchers=()):
    """Six epochs of ten steps."""
    model = ModelConfig(make_observation("bernoulli", columns=6).config(), latent=(2,), hidden=(5,))
    config = TrainingConfig(epochs=6, batch_size=20, learning_rate=0.01, drop_out=0.1)
    checkpoints = Checkpoints(Path(folder), resume=True, every=0.0)
    return fit(model, ROWS, valid=ROWS[:50], config=config, checkpoints=checkpoints, watchers=watchers)


def told(fitted):
    """Losses and weights as plain numbers."""
    losses = [(record["loss"], record["valid_bound"]) for record in fitted.history]
    return losses, [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(fitted.model)]


if __name__ == "__main__":
    address, processes, number, folder, *last = sys.argv[1:]
    jax.distributed.initialize(address, int(processes), int(number))
    assert jax.process_count() == int(processes)
    fitted = train(folder, [Dying(int(last[0]))] if last else [])
    print(json.dumps(told(fitted)), flush=True)

"""A small run for one or more processes: python -m tests.learning.joining ADDRESS PROCESSES ID FOLDER [OPTIONS]

On two devices: a process each, or both in one. The options are those of `train`, as JSON.
"""

import errno
import json
import os
import sys
from pathlib import Path

import jax
import numpy as np

from dlgm import tensorfile
from dlgm.data import ArraySource
from dlgm.learning import AbstractWatcher, Checkpoints, TrainingConfig, fit, loop
from dlgm.model import ModelConfig, make_observation

ROWS = (np.random.default_rng(0).random((203, 6)) < 0.3).astype(np.uint8)


class Seen(AbstractWatcher):
    """The epochs that this process has trained, and perhaps the last of them.

    It ends without a word then, as a machine that loses its power would.
    """

    def __init__(self, last=None):
        self.last = last
        self.epochs = []

    def epoch(self, record):
        """One more."""
        self.epochs.append(record["epoch"])
        if record["epoch"] == self.last:
            os._exit(9)


def no_room(path, content):
    """What writing does when the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def train(folder, last=None, chunk_rows=None, bad_row=None, full=False):
    """Six epochs of ten steps: losses, weights, and the epochs that were trained here, as plain numbers.

    **Arguments**

    - `last`: an epoch after which the process dies.
    - `chunk_rows`: read the rows as from a file, so many at a time.
    - `bad_row`: one that has something else than zeros and ones in it.
    - `full`: whether the disk is.
    """
    seen, rows = Seen(last), ROWS.copy()
    if full:
        tensorfile.write_atomically = no_room
    if bad_row is not None:
        rows[bad_row] = 7
        loop._SAMPLE = 120  # cells that all processes look at before they begin
    model = ModelConfig(make_observation("bernoulli", columns=6).config(), latent=(2,), hidden=(5,))
    config = TrainingConfig(epochs=6, batch_size=20, learning_rate=0.01, drop_out=0.1)
    checkpoints = Checkpoints(Path(folder), resume=True, every=0.0)
    source = rows if chunk_rows is None else ArraySource(rows)
    options: dict = {"checkpoints": checkpoints, "chunk_rows": chunk_rows, "watchers": [seen]}
    fitted = fit(model, source, valid=ROWS[:50], config=config, **options)
    losses = [(record["loss"], record["valid_bound"]) for record in fitted.history]
    return losses, [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(fitted.model)], seen.epochs


if __name__ == "__main__":
    address, processes, number, folder, options = sys.argv[1:]
    if int(processes) > 1:
        jax.distributed.initialize(address, int(processes), int(number))
    assert jax.process_count() == int(processes)
    assert jax.device_count() > 1
    print(json.dumps(train(folder, **json.loads(options))), flush=True)

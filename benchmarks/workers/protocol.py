"""What a worker and the one that measures it say to each other.

A worker prepares a job, says that it is ready, and then, for every number n on a line, does n units of the job and says
how many seconds each took. Between the lines it sleeps: so many workers can take turns on one machine.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np

PIXELS, HIDDEN, LATENTS, BATCH, ROWS = 784, 200, 200, 200, 10_000  # the paper's model of MNIST
FLIPPED, RATE, DECAY = 0.1, 1e-3, 0.99  # noise at the inputs; RMSprop
SAMPLES = 5_000  # of a likelihood
CHAIN = 15  # iterations of the imputation chain


def bits(num_rows: int) -> np.ndarray:
    """Rows as dark as MNIST's: what a step costs does not depend on what the bits show."""
    return (np.random.default_rng(0).random((num_rows, PIXELS)) < 0.13).astype(np.float32)


def serve(job: Callable[[int], object]) -> None:
    """Time `job(n)`, which returns once n units are done. The first turns warm up, at the size that is timed."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        n = int(line)
        began = time.perf_counter()
        job(n)
        print(json.dumps((time.perf_counter() - began) / n), flush=True)

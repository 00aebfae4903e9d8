"""Train on, and score, a mapped file in a process that may not hold it: python -m tests.learning.limited FILE"""

import resource
import sys

import jax
import numpy as np

from dlgm.inference import log_likelihood
from dlgm.learning import TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation

ALLOWED = 2**27  # bytes beyond what the process has when it begins


def data_bytes():
    """Memory of the process's own, without files mapped into it: what RLIMIT_DATA counts."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmData")]
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    rows = np.load(sys.argv[1], mmap_mode="r")
    model = ModelConfig(make_observation("bernoulli", columns=rows.shape[1]).config(), latent=(1,), hidden=())
    config = TrainingConfig(epochs=1, batch_size=1_000)
    # Compile, and let the allocator settle, on a part.
    first = fit(model, rows[:12_000], config=config, chunk_rows=1_000)
    log_likelihood(first.model, rows[:4_000], num_samples=1, key=jax.random.key(0))
    used = data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (used + ALLOWED, used + ALLOWED))
    try:
        np.ones(rows.shape, rows.dtype)
        sys.exit("the limit does not bite")
    except MemoryError:
        pass
    fitted = fit(model, rows, config=config, chunk_rows=1_000)
    scores = log_likelihood(fitted.model, rows[:40_000], num_samples=1, key=jax.random.key(0))
    print(rows.nbytes // ALLOWED, fitted.history[-1]["step"], len(scores.log_p))

"""Two processes against one, on one core and on two, and what travels between them.

python processes.py ID NUM PORT CORES BATCH trains as one of them and prints one line of JSON.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np

ROUNDS, EPOCHS, BATCHES = 3, 4, (200, 2_000)


def train(process_id: int, num_processes: int, port: str, cores: str, batch_size: str) -> None:
    os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    import jax

    if num_processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes, process_id)
    from dlgm.learning import TrainingConfig, fit
    from dlgm.model import ModelConfig, make_observation

    rows = (np.random.default_rng(0).random((20_000, 784)) < 0.13).astype(np.uint8)
    model = ModelConfig(make_observation("bernoulli", columns=784).config(), latent=(200,), hidden=(200, 200))
    fitted = fit(model, rows, config=TrainingConfig(epochs=EPOCHS, bit_flip=0.1, batch_size=int(batch_size)))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(fitted.model))
    if process_id == 0:
        rates = [record["rows_per_second"] for record in fitted.history[1:]]  # the first epoch compiles
        print(json.dumps({"rates": rates, "parameters": parameters}), flush=True)
    if num_processes > 1:
        jax.distributed.shutdown()


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    # The library that processes talk through greets on the standard output too.
    return next(json.loads(line) for line in process.communicate()[0].splitlines() if line.startswith("{"))


def compare(batch: str) -> dict[str, Any]:
    rates: dict[str, list[float]] = {"one process, one core": [], "one process, two cores": [], "two processes": []}
    parameters = 0
    for _ in range(ROUNDS):
        for name, cores in (("one process, one core", "0"), ("one process, two cores", "0,1")):
            alone = answer(start("0", "1", "0", cores, batch))
            rates[name] += alone["rates"]
            parameters = alone["parameters"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        both = [start(str(i), "2", port, "0,1", batch) for i in range(2)]
        rates["two processes"] += answer(both[0])["rates"]
        both[1].wait()
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    return {
        "rows a second": medians,
        "two processes / one on two cores": medians["two processes"] / medians["one process, two cores"],
        # A ring passes every parameter's gradient round twice, less what is already there: 2 (P - 1) / P times.
        "sent by each process a step, MB": 4 * parameters / 1e6,
    }


def measure() -> dict[str, Any]:
    return {f"batches of {batch}": compare(str(batch)) for batch in BATCHES}


if __name__ == "__main__":
    train(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

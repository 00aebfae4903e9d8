"""Largest resident size of training, of a likelihood, and of a file larger than what may be held; streamed throughput.

Each job runs in a process of its own: python memory.py JOB [FILE] prints one line of JSON.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS, CHUNK = 50_000, 784, 10_000
LARGE, ALLOWED = 1_000_000, 256 * 2**20  # rows of a file, and the bytes beyond its start that a process may take for it


def bits(num_rows: int) -> np.ndarray:
    return (np.random.default_rng(0).random((num_rows, COLUMNS), np.float32) < 0.13).astype(np.uint8)


def status(field: str) -> float:
    """A line of the process's status in MiB. (`getrusage` would count what the parent held when it forked.)"""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) / 2**10


def peak() -> float:
    return status("VmHWM")


def train(rows: np.ndarray, epochs: int, chunk_rows: int | None = None, latents: int = 200) -> list[dict[str, Any]]:
    from dlgm.learning import TrainingConfig, fit
    from dlgm.model import ModelConfig, make_observation

    model = ModelConfig(make_observation("bernoulli", columns=COLUMNS).config(), latent=(latents,), hidden=(200, 200))
    return fit(model, rows, config=TrainingConfig(epochs=epochs, bit_flip=0.1), chunk_rows=chunk_rows).history


def idle() -> dict[str, float]:
    import jax

    jax.block_until_ready(jax.numpy.zeros(()))
    return {"MiB": peak()}


def training() -> dict[str, float]:
    rows = bits(ROWS)
    return {"rows, MiB": rows.nbytes / 2**20, "MiB": (train(rows, 2), peak())[1]}


def likelihood() -> dict[str, float]:
    import jax

    from dlgm.inference import log_likelihood
    from dlgm.model import ModelConfig, build_model, make_observation

    config = ModelConfig(make_observation("bernoulli", columns=COLUMNS).config(), latent=(200,), hidden=(200, 200))
    log_likelihood(build_model(config, key=jax.random.key(0)), bits(100), num_samples=5_000, key=jax.random.key(1))
    return {"MiB": peak()}


def streamed(path: str) -> dict[str, float]:
    """A file three times larger than the limit; the pages of it that the system keeps are not the process's own."""
    rows = np.load(path, mmap_mode="r")
    train(rows[:20_000], 1, 1_000, latents=10)
    own = int(status("VmData") * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (own + ALLOWED, own + ALLOWED))
    train(rows, 1, 10_000, latents=10)
    return {
        "file, MiB": rows.nbytes / 2**20,
        "limit beyond the start, MiB": ALLOWED / 2**20,
        "own, MiB": status("RssAnon"),
    }


def throughput() -> dict[str, Any]:
    """Rows in memory against the same rows in a mapped file, read in chunks: rows a second, in turns."""
    rows = bits(ROWS)
    rates: dict[str, list[float]] = {"in memory": [], "from a file, in five chunks": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, rows)
        for _ in range(3):
            for name, source in zip(rates, (rows, np.load(path, mmap_mode="r")), strict=True):
                # The first epoch compiles.
                rates[name] += [record["rows_per_second"] for record in train(source, 4, CHUNK)[1:]]
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    return {"rows a second": medians, "ratio": medians["from a file, in five chunks"] / medians["in memory"]}


def measure() -> dict[str, Any]:
    def run(*arguments: str) -> Any:
        output = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
        return json.loads(output.stdout)

    results = {name: run(name) for name in ("idle", "training", "likelihood", "throughput")}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "large.npy"
        large = np.lib.format.open_memmap(path, "w+", np.uint8, (LARGE, COLUMNS))
        for start in range(0, LARGE, ROWS):
            large[start : start + ROWS] = bits(ROWS)
        large.flush()
        results["streamed"] = run("streamed", str(path))
    return results


if __name__ == "__main__":
    jobs = {"idle": idle, "training": training, "likelihood": likelihood, "throughput": throughput}
    print(json.dumps(streamed(sys.argv[2]) if sys.argv[1] == "streamed" else jobs[sys.argv[1]]()))

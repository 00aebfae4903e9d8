"""Rows in memory against the same rows in a mapped file, read in chunks: rows a second, interleaved.

python benchmarks/streaming.py
"""

import tempfile
from pathlib import Path

import numpy as np

from dlgm.learning import TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation

ROWS, COLUMNS, CHUNK, ROUNDS = 50_000, 784, 10_000, 3


def main() -> None:
    rows = (np.random.default_rng(0).random((ROWS, COLUMNS)) < 0.2).astype(np.uint8)
    model = ModelConfig(make_observation("bernoulli", columns=COLUMNS).config(), latent=(100,), hidden=(200, 200))
    config = TrainingConfig(epochs=4, batch_size=200, drop_out=0.2)
    rates: dict[str, list[float]] = {"in memory": [], "mapped, five chunks": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, rows)
        for _ in range(ROUNDS):
            for name, source in (("in memory", rows), ("mapped, five chunks", np.load(path, mmap_mode="r"))):
                fitted = fit(model, source, config=config, chunk_rows=CHUNK)
                # The first epoch compiles.
                rates[name] += [record["rows_per_second"] for record in fitted.history[1:]]
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name:>20}  {rate:>8,.0f} rows/s")
    print(f"{'ratio':>20}  {medians['mapped, five chunks'] / medians['in memory']:>8.2f}")


if __name__ == "__main__":
    main()

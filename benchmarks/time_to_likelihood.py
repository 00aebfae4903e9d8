"""How long until a model of binarised MNIST is good: minutes of training, for several optimisers.

The paper's model (200 latents with a full G, maps of 200-200, a rank-one posterior, 10 % of the inputs dropped, batches
of 200), trained by the plain free energy. `screen` tries rates and schedules for a short time and judges them on
validation rows; `run` trains with the best of each optimiser, and estimates -log p(v) of all test rows as it goes.
Every result is a line of a file as soon as it is there; what is in the file already is not done again. These two may
run beside other work: what they say is in epochs. `pace` then times epochs of all optimisers, in turns, on a machine
that does nothing else, and says how many minutes they are, with the time of compiling.

    DLGM_DATA=... python benchmarks/time_to_likelihood.py screen out/time
    DLGM_DATA=... python benchmarks/time_to_likelihood.py run out/time
    DLGM_DATA=... python benchmarks/time_to_likelihood.py pace out/time
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.data import load_dataset
from dlgm.inference import log_likelihood
from dlgm.learning import TrainingConfig, make_mesh
from dlgm.learning.step import Resident, epoch_order, make_run, start_state
from dlgm.model import Model, ModelConfig, build_model, initialise, make_observation

RATES = {
    "rmsprop": (1e-3, 2e-3),
    "adam": (1e-3, 2e-3, 4e-3),
    "lion": (1e-4, 3e-4),
    "adan": (2e-3, 4e-3),
}
GOALS = (92, 91, 90, 89, 88)
SCHEDULES = ("cosine", "linear", "constant")
SCREENED, EPOCHS, EVERY = 20, 200, 10  # epochs: of a screening run, of a long one, between looks at the test rows


def train(rows: np.ndarray, settings: TrainingConfig) -> Iterator[tuple[int, float, Model]]:
    """Epoch after epoch: its number, its seconds (of the first, with those of compiling), and the averaged model."""
    observation = make_observation("bernoulli", columns=rows.shape[1])
    config = ModelConfig(observation.config(), latent=(200,), hidden=(200, 200), covariance="rank-one")
    key_model, key = jax.random.split(jax.random.key(settings.seed))
    steps = len(rows) // settings.batch_size
    began = time.perf_counter()
    optimiser = settings.make_optimiser(steps * settings.epochs)
    state = start_state(initialise(build_model(config, key=key_model), rows), optimiser, key)
    objective, mesh = settings.make_objective(), make_mesh(1)
    run = make_run(settings, objective, optimiser, num_rows=len(rows), batch_size=settings.batch_size, mesh=mesh)
    resident = jnp.asarray(rows)
    for epoch in range(1, settings.epochs + 1):
        order = epoch_order(key, epoch - 1, num_rows=len(rows))[: steps * settings.batch_size]
        state = run(state, Resident(resident, None, order.reshape(steps, -1)), epoch * steps)
        if not bool(state.sound):
            raise FloatingPointError(f"step {int(state.step)} is not finite")
        yield epoch, time.perf_counter() - began, jax.tree.map(jnp.copy, state.averaged)
        began = time.perf_counter()


def nats(model: Model, rows: np.ndarray, num_samples: int) -> float:
    """The mean of -log p(v), by importance sampling: too high on average, and less so with more samples."""
    return -log_likelihood(model, rows, num_samples=num_samples, key=jax.random.key(0)).mean()[0]


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The records of a file by name."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["name"]: record for record in map(json.loads, lines)}


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(record, flush=True)


def screen(folder: Path) -> None:
    """Every rate with the first schedule, and the best of each optimiser with the others."""
    data, path = load_dataset("binarized-mnist"), folder / "screen.jsonl"
    judged = data.valid[:: len(data.valid) // 1000]

    def judge(optimiser: str, rate: float, schedule: str) -> None:
        name = f"{optimiser} {rate:g} {schedule}"
        if name in read(path):
            return
        chosen: dict[str, Any] = {"optimiser": optimiser, "learning_rate": rate, "schedule": schedule}
        try:
            *_, (_, _, model) = train(data.train, TrainingConfig(epochs=SCREENED, drop_out=0.1, **chosen))
        except FloatingPointError as error:
            append(path, {"name": name, "failed": str(error)})
        else:
            append(path, {"name": name, "settings": chosen, "nats": nats(model, judged, 100)})

    for optimiser, rates in RATES.items():
        for rate in rates:
            judge(optimiser, rate, SCHEDULES[0])
        if (best := best_of(path).get(optimiser)) is not None:
            for schedule in SCHEDULES[1:]:
                judge(optimiser, best["learning_rate"], schedule)


def best_of(path: Path) -> dict[str, dict[str, Any]]:
    """The settings of each optimiser that did best so far."""
    best: dict[str, dict[str, Any]] = {}
    for record in sorted(read(path).values(), key=lambda r: r.get("nats", float("inf"))):
        if "settings" in record:
            best.setdefault(record["settings"]["optimiser"], record["settings"])
    return best


def run(folder: Path) -> None:
    data, path = load_dataset("binarized-mnist"), folder / "time.jsonl"
    best = best_of(folder / "screen.jsonl")
    if not best:
        raise SystemExit(f"{folder / 'screen.jsonl'}: expected the results of `screen`; there are none.")
    for settings in best.values():
        name = " ".join(map(str, settings.values()))
        if name in read(path):
            continue
        looks = []
        for epoch, _, model in train(data.train, TrainingConfig(epochs=EPOCHS, drop_out=0.1, **settings)):
            if epoch % EVERY == 0:
                looks.append((epoch, nats(model, data.test, 100)))
                print(name, *looks[-1], flush=True)
        first = {str(goal): next((epoch for epoch, n in looks if n < goal), None) for goal in GOALS}
        append(path, {"name": name, "epochs to": first, "last": nats(model, data.test, 500), "looks": looks})


def pace(folder: Path) -> None:
    data = load_dataset("binarized-mnist")
    found = read(folder / "time.jsonl")
    settings = {" ".join(map(str, best.values())): best for best in best_of(folder / "screen.jsonl").values()}
    runs = {name: train(data.train, TrainingConfig(epochs=EPOCHS, drop_out=0.1, **settings[name])) for name in found}
    compiling = {name: next(run)[1] for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(7):
        for name, run in runs.items():
            seconds[name].append(next(run)[1])
    for name, record in found.items():
        each = float(np.median(seconds[name]))
        start = compiling[name] - each
        epochs = record["epochs to"]
        minutes = {goal: None if n is None else round((start + n * each) / 60, 1) for goal, n in epochs.items()}
        append(folder / "pace.jsonl", {"name": name, "seconds an epoch": each, "compiling": start, "minutes": minutes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("screen", "run", "pace"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    {"screen": screen, "run": run, "pace": pace}[options.what](options.folder)


if __name__ == "__main__":
    main()

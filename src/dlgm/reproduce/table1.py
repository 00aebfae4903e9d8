"""The paper's table 1: test -ln p(v) of binarised MNIST, model by model.

A row is trained once. What it found is a file of JSON in the folder of the results, named after the row and a digest of
what tells it from other runs of the row: its settings, data and seed. A row whose file is there is not run again, one
with other settings is another file, and a row that was cut short goes on from its checkpoints. To score a model with
latents on more rows, or with more samples, it need not be trained again.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dlgm.artifact import ModelFileError, load_model
from dlgm.baselines import Baseline, Density, FittedDBN, FittedRBM
from dlgm.baselines.latent import LatentDensity
from dlgm.data import Dataset
from dlgm.files import to_json, write_atomically
from dlgm.learning import AbstractWatcher, Checkpoints
from dlgm.reproduce.page import revision
from dlgm.reproduce.scoring import score_rows, summary
from dlgm.reproduce.table1_rows import ROWS, Row
from dlgm.reproduce.training import spread
from dlgm.tensorfile import write_tensors

TEST_ROWS = {"quick": 500, "full": None}  # evenly spaced; None: all
COMPARED = "binarized-mnist"  # the data that the paper's numbers are of


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How test rows are scored, where it is not as the budget says."""

    rows: int | None = None  # so many, evenly spaced
    samples: int | None = None  # S, of models that are sampled


AS_BUDGETED = Scoring()
Watch = Callable[[str], Sequence[AbstractWatcher]]
Progress = Callable[[str, int, int], None]  # what is scored, rows done, rows in all


class ResultError(ValueError):
    """A file of results that cannot be used, with what to do."""


class _Tally(AbstractWatcher):
    """How long training took: epochs, and seconds, over all resumptions and all runs of a model with several parts."""

    def __init__(self) -> None:
        self._parts: list[Mapping[str, Any]] = []  # the last record of each

    def start(self, epochs: int, before: Sequence[Mapping[str, Any]] = ()) -> None:
        self._parts.append(before[-1] if before else {})

    def epoch(self, record: Mapping[str, Any]) -> None:
        self._parts[-1] = record

    def total(self, what: str) -> Any:
        """Of all parts; None if none has said."""
        said = [part[what] for part in self._parts if what in part]
        return sum(said) if said else None


def stem(
    row: Row, data: Dataset, *, budget: str, seed: int, scoring: Scoring = AS_BUDGETED
) -> tuple[str, dict[str, Any]]:
    """The name of a run's files, and what it is a digest of."""
    run = _described(row, _baseline(row, budget, scoring), data, scoring.rows or TEST_ROWS[budget], seed)
    digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:10]
    return f"{row.name}-{digest}", run


def found(
    row: Row, data: Dataset, out: Path, *, budget: str, seed: int, scoring: Scoring = AS_BUDGETED
) -> dict[str, Any] | None:
    """What a row's run has found, if it is done."""
    path = out / f"{stem(row, data, budget=budget, seed=seed, scoring=scoring)[0]}.json"
    return _read_record(path) if path.exists() else None


def _read_record(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ResultError(f"{path}: expected JSON; it cannot be read. Remove it to have the row run again.") from None


def run_row(
    row: Row,
    data: Dataset,
    out: Path,
    *,
    budget: str,
    seed: int,
    scoring: Scoring = AS_BUDGETED,
    watch: Watch = lambda what: (),
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Train a row's model, keep it, and score the test rows; or read what an earlier run found."""
    done = found(row, data, out, budget=budget, seed=seed, scoring=scoring)
    if done is not None:
        return done
    name, run = stem(row, data, budget=budget, seed=seed, scoring=scoring)
    # Kept until the scores are written: a run that is killed while scoring has its model or last checkpoint.
    checkpoints, tally, began = Checkpoints(out / f"{name}.checkpoints", resume=True), _Tally(), time.perf_counter()
    baseline, earlier = _baseline(row, budget, scoring), _trained_before(row, out, name, run)
    if earlier is None:
        density = baseline.fit(
            data.train, data.valid, seed=seed, watchers=[*watch(row.title), tally], checkpoints=checkpoints
        )
        told = {
            "epochs": tally.total("epoch"),
            "seconds": tally.total("seconds") or time.perf_counter() - began,
            "model": _save(density, out / name, data),
        }
    else:
        told, density = earlier
        density = dataclasses.replace(density, num_samples=baseline.num_samples)
    trained = time.perf_counter()
    test = spread(data.test, run["test_rows"] or len(data.test))
    kept = out / f"{name}.scores"
    record = {
        "row": row.name,
        **_scores(density, test, seed, lambda rows: progress(row.title, rows, len(test)), kept),
        "test_rows": len(test),
        **told,
        "scoring_seconds": time.perf_counter() - trained,
        "version": version("dlgm"),
        "revision": revision(),
        "run": run,
    }
    write_atomically(out / f"{name}.json", (to_json(record) + "\n").encode())
    checkpoints.remove()
    kept.unlink(missing_ok=True)
    return record


def _trained_before(
    row: Row, out: Path, name: str, run: Mapping[str, Any]
) -> tuple[dict[str, Any], LatentDensity] | None:
    """A model that was trained by the same settings, and not scored, or scored otherwise, with what is told of it.

    Only of models that the commands know.
    """

    def training(run: Mapping[str, Any]) -> dict[str, Any]:
        settings = {name: value for name, value in run["settings"].items() if name != "num_samples"}
        return {**run, "settings": settings, "test_rows": None}

    def kept(model: Path, others: str = "") -> LatentDensity:
        try:
            saved = load_model(model)
        except ModelFileError as error:
            raise ResultError(f"{error} Remove it{others} to have the row trained again.") from None
        return LatentDensity(saved.model, saved.config, saved.training, num_samples=1)

    own = out / f"{name}.dlgm"  # a name that is a digest of all settings
    if own.exists():
        density = kept(own)
        said = density.training["summary"]
        return {"epochs": said["epochs"], "seconds": said["seconds"], "model": own.name}, density
    for path in sorted(out.glob(f"{row.name}-*.json")):
        record = _read_record(path)
        model = out / record["model"]
        if training(record["run"]) == training(run) and model.suffix == ".dlgm" and model.exists():
            return {key: record[key] for key in ("epochs", "seconds", "model")}, kept(model, f" and {path}")
    return None


def results(data: Dataset, out: Path, *, budget: str, seed: int, scoring: Scoring = AS_BUDGETED) -> dict[str, Any]:
    """The whole table as far as it is done, beside the paper's numbers if these are of the same data."""
    return {
        "data": data.name,
        "budget": budget,
        "seed": seed,
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "paper": paper_for(row, data),
                "likelihood": row.likelihood,
                "found": found(row, data, out, budget=budget, seed=seed, scoring=scoring),
            }
            for row in ROWS.values()
        ],
    }


def paper_for(row: Row, data: Dataset) -> float | None:
    """The paper's number, if it is of this data."""
    return row.paper if data.name == COMPARED else None


def _baseline(row: Row, budget: str, scoring: Scoring = AS_BUDGETED) -> Any:
    baseline: Any = row.make(budget)
    if scoring.samples is not None and hasattr(baseline, "num_samples"):
        baseline = dataclasses.replace(baseline, num_samples=scoring.samples)
    return baseline


def _described(row: Row, baseline: Baseline, data: Dataset, test_rows: int | None, seed: int) -> dict[str, Any]:
    """All that the numbers depend on, beside the code, as plain values."""
    described = {
        "row": row.name,
        "class": type(baseline).__name__,
        "settings": dataclasses.asdict(baseline),  # type: ignore[call-overload]  # they are dataclasses, all of them
        "data": data.name,
        "rows": _digest(data),
        "test_rows": None if test_rows is None or test_rows >= len(data.test) else test_rows,
        "seed": seed,
    }
    return json.loads(to_json(described))


@cache
def _digest(data: Dataset) -> str:
    """By which the rows are known again."""
    digest = hashlib.sha256()
    for rows in (data.train, data.valid, data.test):
        digest.update(f"{rows.dtype} {rows.shape}".encode())
        digest.update(rows.tobytes())
    return digest.hexdigest()[:16]


def _scores(
    density: Density, rows: np.ndarray, seed: int, progress: Callable[[int], None], kept: Path
) -> dict[str, Any]:
    return summary(density, score_rows(density, rows, seed=seed, kept=kept, progress=progress))


def _save(density: Density, path: Path, data: Dataset) -> str:
    """The model's file: one for the commands, or else its arrays by name."""
    if isinstance(density, LatentDensity):
        path = path.with_name(f"{path.name}.dlgm")
        density.save(path, data.described())
        return path.name
    path = path.with_name(f"{path.name}.safetensors")
    if isinstance(density, FittedRBM | FittedDBN):
        density.save(path)
        return path.name
    tree = getattr(density, "model", density)
    leaves = jax.tree.leaves_with_path(tree)
    arrays = {
        jax.tree_util.keystr(at, simple=True, separator="."): np.asarray(leaf)
        for at, leaf in leaves
        if hasattr(leaf, "shape")
    }
    write_tensors(path, arrays, {"format": "dlgm baseline", "class": type(tree).__name__})
    return path.name

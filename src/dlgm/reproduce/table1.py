"""The paper's table 1: test -ln p(v) of binarised MNIST, model by model.

A row is trained once. What it found is a file of JSON in the folder of the results, named after the row and a digest of
everything the run depends on: its settings, data and seed. A row whose file is there is not run again, one with other
settings is another file, and a row that was cut short goes on from its checkpoints.
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

from dlgm.baselines import Baseline, Density
from dlgm.baselines.latent import LatentDensity
from dlgm.data import Dataset
from dlgm.files import to_json, write_atomically
from dlgm.inference.likelihood import mean_and_error
from dlgm.learning import AbstractWatcher, Checkpoints
from dlgm.reproduce.page import markdown_table, revision
from dlgm.reproduce.table1_rows import ROWS, Row
from dlgm.reproduce.training import spread
from dlgm.tensorfile import write_tensors

TEST_ROWS = {"quick": 500, "full": None}  # evenly spaced; None: all
COMPARED = "binarized-mnist"  # the data that the paper's numbers are of

Watch = Callable[[str], Sequence[AbstractWatcher]]
Progress = Callable[[str, int, int], None]  # what is scored, rows done, rows in all


class ResultError(ValueError):
    """A file of results that cannot be used, with what to do."""


class _Tally(AbstractWatcher):
    """How long training took: epochs, and seconds over all resumptions."""

    def __init__(self) -> None:
        self.last: Mapping[str, Any] = {}

    def start(self, epochs: int, before: Sequence[Mapping[str, Any]] = ()) -> None:
        self.last = before[-1] if before else {}

    def epoch(self, record: Mapping[str, Any]) -> None:
        self.last = record


def stem(row: Row, data: Dataset, *, budget: str, seed: int) -> tuple[str, dict[str, Any]]:
    """The name of a run's files, and what it is a digest of."""
    run = _described(row, _baseline(row, budget), data, budget, seed)
    digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:10]
    return f"{row.name}-{digest}", run


def found(row: Row, data: Dataset, out: Path, *, budget: str, seed: int) -> dict[str, Any] | None:
    """What a row's run has found, if it is done."""
    if row.make is None:
        return None
    path = out / f"{stem(row, data, budget=budget, seed=seed)[0]}.json"
    if not path.exists():
        return None
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
    watch: Watch = lambda what: (),
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Train a row's model, keep it, and score the test rows; or read what an earlier run found."""
    done = found(row, data, out, budget=budget, seed=seed)
    if done is not None:
        return done
    name, run = stem(row, data, budget=budget, seed=seed)
    # Kept until the scores are written: a run that is killed while scoring has its last checkpoint, and need not train.
    checkpoints, tally, began = Checkpoints(out / f"{name}.checkpoints", resume=True), _Tally(), time.perf_counter()
    density = _baseline(row, budget).fit(
        data.train, data.valid, seed=seed, watchers=[*watch(row.title), tally], checkpoints=checkpoints
    )
    trained = time.perf_counter()
    model = _save(density, out / name, data)
    test = spread(data.test, TEST_ROWS[budget] or len(data.test))
    record = {
        "row": row.name,
        **_scores(density, test, seed, lambda rows: progress(row.title, rows, len(test))),
        "test_rows": len(test),
        "epochs": tally.last.get("epoch"),
        "seconds": tally.last.get("seconds", trained - began),
        "scoring_seconds": time.perf_counter() - trained,
        "model": model,
        "version": version("dlgm"),
        "revision": revision(),
        "run": run,
    }
    write_atomically(out / f"{name}.json", (to_json(record) + "\n").encode())
    checkpoints.remove()
    return record


def results(data: Dataset, out: Path, *, budget: str, seed: int) -> dict[str, Any]:
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
                "available": row.make is not None,
                "found": found(row, data, out, budget=budget, seed=seed),
            }
            for row in ROWS.values()
        ],
    }


def paper_for(row: Row, data: Dataset) -> float | None:
    """The paper's number, if it is of this data."""
    return row.paper if data.name == COMPARED else None


def markdown(results: Mapping[str, Any]) -> str:
    """The table as a section of the results page: what was found, then by which settings."""
    lines = [_line(row) for row in results["rows"]]
    headings = [
        "model",
        "paper",
        "here",
        "difference",
        "s.e. over rows",
        "Monte Carlo error",
        "likelihood",
        "S",
        "seed",
        "epochs",
        "training",
    ]
    runs = [
        (row["title"], f"`{json.dumps(row['found']['run']['settings'], sort_keys=True)}`", row["found"]["revision"])
        for row in results["rows"]
        if row["found"]
    ]
    parts = [
        f"## Table 1: {results['data']}, test -ln p(v) in nats",
        f"Budget: {results['budget']}. S is the number of importance samples a row. Rows of the test set are as they "
        "come; the standard error is that of a mean over them, the Monte Carlo error that of the estimate itself.",
        markdown_table(headings, lines),
    ]
    if runs:
        parts += ["By these settings:", markdown_table(["model", "settings", "revision"], runs)]
    return "\n\n".join(parts)


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    paper, record = row["paper"], row["found"]
    shown = None if paper is None else f"{paper:.2f}"
    if record is None:
        state = "not run yet" if row["available"] else "not in this version"
        return (row["title"], shown, state, *[None] * 3, row["likelihood"], *[None] * 4)
    error = record["monte_carlo_error"]
    return (
        row["title"],
        shown,
        f"{record['nats']:.2f}",
        None if paper is None else f"{record['nats'] - paper:+.2f}",
        f"{record['standard_error']:.2f}",
        None if error is None else f"{error:.3f}",
        row["likelihood"],
        None if record["samples"] is None else f"{record['samples']:,}",
        record["run"]["seed"],
        record["epochs"],
        f"{record['seconds']:,.0f} s",
    )


def _baseline(row: Row, budget: str) -> Any:
    if row.make is None:
        raise ValueError(f"{row.name}: this version of dlgm has no such model.")
    return row.make(budget)


def _described(row: Row, baseline: Baseline, data: Dataset, budget: str, seed: int) -> dict[str, Any]:
    """All that the numbers depend on, beside the code, as plain values."""
    described = {
        "row": row.name,
        "class": type(baseline).__name__,
        "settings": dataclasses.asdict(baseline),  # type: ignore[call-overload]  # they are dataclasses, all of them
        "data": data.name,
        "rows": _digest(data),
        "test_rows": TEST_ROWS[budget],
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


def _scores(density: Density, rows: np.ndarray, seed: int, progress: Callable[[int], None]) -> dict[str, Any]:
    """-ln p(v), its standard error over rows, and what Monte Carlo adds; None where nothing is sampled."""
    likelihood = getattr(density, "likelihood", None)
    if likelihood is None:
        log_p = density.score_samples(rows, seed=seed)
        # An error that all rows share, as that of a partition function, is the density's own to tell.
        error, samples, ess = getattr(density, "monte_carlo_error", None), None, None
    else:
        seen = likelihood(rows, seed=seed, progress=progress)
        log_p, samples = np.asarray(seen.log_p), int(density.num_samples)  # type: ignore[attr-defined]
        # Rows are sampled independently, so that the variance of their mean is the sum of theirs over n^2.
        error = float(np.sqrt(np.sum(np.square(seen.standard_error, dtype=np.float64))) / len(rows))
        ess = float(np.mean(seen.effective_sample_size))
    mean, spread_over_rows = mean_and_error(log_p)
    return {
        "nats": -mean,
        "standard_error": spread_over_rows,
        "monte_carlo_error": error,
        "samples": samples,
        "effective_sample_size": ess,
    }


def _save(density: Density, path: Path, data: Dataset) -> str:
    """The model's file: one for the commands, or else its arrays by name."""
    if isinstance(density, LatentDensity):
        path = path.with_name(f"{path.name}.dlgm")
        density.save(path, data.described())
        return path.name
    path = path.with_name(f"{path.name}.safetensors")
    tree = getattr(density, "model", density)
    leaves = jax.tree.leaves_with_path(tree)
    arrays = {
        jax.tree_util.keystr(at, simple=True, separator="."): np.asarray(leaf)
        for at, leaf in leaves
        if hasattr(leaf, "shape")
    }
    write_tensors(path, arrays, {"format": "dlgm baseline", "class": type(tree).__name__})
    return path.name

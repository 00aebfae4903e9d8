"""Settings tried on binarised MNIST: trained on the training rows, judged by validation rows. Test rows are not read.

    python benchmarks/trials.py wider --row best --model '{"hidden": [500, 500]}' --training '{"epochs": 100}'

A trial is a row of `dlgm reproduce table1` with changes. What it found is a line of docs/trials.jsonl, and the section
of docs/results.md is written anew from all of these. A trial that is there is not run again, a model whose file is
there is not trained again, and a trial that was cut short goes on.
"""

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dlgm.baselines import RBM, LatentBaseline
from dlgm.data import load_dataset
from dlgm.files import to_json, write_atomically
from dlgm.inference import log_likelihood
from dlgm.learning import AbstractWatcher, Checkpoints, TerminalProgress, TrainingConfig
from dlgm.model import make_observation, preset
from dlgm.reproduce.page import markdown_table, put_section, revision
from dlgm.reproduce.table1_rows import ROWS
from dlgm.reproduce.training import spread, trained

SCORED, SAMPLES = 1000, 500  # rows of each split, evenly spaced, and importance samples for each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the trial")
    parser.add_argument("--row", choices=[name for name in ROWS if _can_be_tried(name)], default="best")
    parser.add_argument("--model", type=json.loads, default={}, help="changes to the row's model, as JSON")
    parser.add_argument("--training", type=json.loads, default={}, help="changes to its training, as JSON")
    parser.add_argument("--out", type=Path, default=Path("out/trials"), help="for models and checkpoints")
    parser.add_argument("--record", type=Path, default=Path("docs/trials.jsonl"))
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    asked = parser.parse_args()
    lines = asked.record.read_text(encoding="utf-8").splitlines() if asked.record.exists() else []
    records = [json.loads(line) for line in lines]
    if asked.name not in [record["name"] for record in records]:
        records.append(run(asked.name, asked.row, asked.model, asked.training, asked.out))
        text = "\n".join(to_json(record, indent=None) for record in records) + "\n"
        write_atomically(asked.record, text.encode())
    put_section(asked.page, "trials", markdown(records), by="benchmarks/trials.py")


Scored = tuple[Callable[[np.ndarray], np.ndarray], dict[str, Any]]  # log p of rows, and what is told of the training


def _can_be_tried(name: str) -> bool:
    return isinstance(ROWS[name].make("full"), LatentBaseline | RBM)


def run(name: str, row: str, model: dict[str, Any], training: dict[str, Any], out: Path) -> dict[str, Any]:
    """Train, keep the model, and score rows of both splits."""
    data = load_dataset("binarized-mnist")
    base: Any = ROWS[row].make("full")
    train = _machine if isinstance(base, RBM) else _latent
    log_p, summary = train(base, data, model, training, out / name)
    scores = {
        split: -float(np.mean(log_p(spread(getattr(data, split), SCORED)), dtype=np.float64))
        for split in ("train", "valid")
    }
    changes = {**model, **training}
    return {"name": name, "row": row, "changes": changes, **scores, **summary, "revision": revision()}


def _latent(base: LatentBaseline, data: Any, model: dict[str, Any], training: dict[str, Any], path: Path) -> Scored:
    config = preset(base.preset, make_observation(data.family, data.train.shape[1]), **{**base.model, **model})
    settings = TrainingConfig(**{**base.training, **training})
    found = trained(path.with_suffix(".dlgm"), data, config, settings, [TerminalProgress()])

    def log_p(rows: np.ndarray) -> np.ndarray:
        return np.asarray(log_likelihood(found.saved.model, rows, num_samples=SAMPLES, key=jax.random.key(0)).log_p)

    return log_p, found.summary


class _Last(AbstractWatcher):
    """The last record of a training."""

    record: Mapping[str, Any]

    def start(self, epochs: int, before: Sequence[Mapping[str, Any]] = ()) -> None:
        self.record = before[-1] if before else {}

    def epoch(self, record: Mapping[str, Any]) -> None:
        self.record = record


def _machine(base: RBM, data: Any, model: dict[str, Any], training: dict[str, Any], path: Path) -> Scored:
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in training.items()
    }
    baseline = dataclasses.replace(base, **model, training=dataclasses.replace(base.training, **changes))
    last, checkpoints = _Last(), Checkpoints(path.with_suffix(".checkpoints"), resume=True)
    fitted = baseline.fit(data.train, data.valid, watchers=[TerminalProgress(), last], checkpoints=checkpoints)
    fitted.save(path.with_suffix(".safetensors"))
    told = {"epochs": last.record["epoch"], "seconds": last.record["seconds"]}
    checkpoints.remove()
    return fitted.score_samples, told


def markdown(records: list[dict[str, Any]]) -> str:
    """All trials as a section of the results page."""
    headings = ["trial", "of the row", "changes", "valid", "valid bound", "train", "epochs", "training", "revision"]
    rows = [
        (
            record["name"],
            record["row"],
            f"`{json.dumps(record['changes'])}`",
            f"{record['valid']:.2f}",
            f"{-record['valid_bound']:.2f}" if "valid_bound" in record else "",
            f"{record['train']:.2f}",
            record["epochs"],
            f"{record['seconds']:,.0f} s",
            record["revision"],
        )
        for record in records
    ]
    return (
        "## Settings tried on binarised MNIST\n\n"
        "Rows of table 1 with changes; choices are made by these numbers, of validation rows, and never by test rows. "
        f"-ln p(v) in nats of {SCORED:,} evenly spaced rows, S = {SAMPLES}, and the bound that training watched, if "
        "it did, of all validation rows; times with other work beside them. Changes are to the row's settings at that "
        "revision.\n\n" + markdown_table(headings, rows)
    )


if __name__ == "__main__":
    main()

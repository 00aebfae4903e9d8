"""Settings tried on binarised MNIST: trained on the training rows, judged by validation rows. Test rows are not read.

    python benchmarks/trials.py wider --row best --model '{"hidden": [500, 500]}' --training '{"epochs": 100}'

A trial is a row of `dlgm reproduce table1` with changes. What it found is a line of docs/trials.jsonl, and the section
of docs/results.md is written anew from all of these. A trial that is there is not run again, a model whose file is
there is not trained again, and a trial that was cut short goes on.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dlgm.baselines import LatentBaseline
from dlgm.data import load_dataset
from dlgm.files import to_json, write_atomically
from dlgm.inference import log_likelihood
from dlgm.learning import TerminalProgress, TrainingConfig
from dlgm.model import make_observation, preset
from dlgm.reproduce.page import markdown_table, put_section, revision
from dlgm.reproduce.table1_rows import ROWS
from dlgm.reproduce.training import spread, trained

SCORED, SAMPLES = 1000, 500  # rows of each split, evenly spaced, and importance samples for each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the trial")
    parser.add_argument("--row", choices=[name for name in ROWS if _is_latent(name)], default="best")
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


def _is_latent(name: str) -> bool:
    return isinstance(ROWS[name].make("full"), LatentBaseline)


def run(name: str, row: str, model: dict[str, Any], training: dict[str, Any], out: Path) -> dict[str, Any]:
    """Train, keep the model, and score rows of both splits."""
    data = load_dataset("binarized-mnist")
    base: Any = ROWS[row].make("full")
    config = preset(base.preset, make_observation(data.family, data.train.shape[1]), **{**base.model, **model})
    settings = TrainingConfig(**{**base.training, **training})
    found = trained(out / f"{name}.dlgm", data, config, settings, [TerminalProgress()])
    scores = {}
    for split in ("train", "valid"):
        rows = spread(getattr(data, split), SCORED)
        scored = log_likelihood(found.saved.model, rows, num_samples=SAMPLES, key=jax.random.key(0))
        scores[split] = -float(np.mean(scored.log_p, dtype=np.float64))
    changes = {**model, **training}
    return {"name": name, "row": row, "changes": changes, **scores, **found.summary, "revision": revision()}


def markdown(records: list[dict[str, Any]]) -> str:
    """All trials as a section of the results page."""
    headings = ["trial", "of the row", "changes", "valid", "valid bound", "train", "epochs", "training", "revision"]
    rows = [
        (
            record["name"],
            record["row"],
            f"`{json.dumps(record['changes'])}`",
            f"{record['valid']:.2f}",
            f"{-record['valid_bound']:.2f}",
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
        f"-ln p(v) in nats of {SCORED:,} evenly spaced rows, S = {SAMPLES}, and the bound that training watched, of "
        "all validation rows; times with other work beside them. Changes are to the row's settings at that "
        "revision.\n\n" + markdown_table(headings, rows)
    )


if __name__ == "__main__":
    main()

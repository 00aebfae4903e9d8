"""The results as a page of Markdown."""

import json
import platform
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from dlgm.files import write_atomically
from dlgm.reproduce.page import markdown_table, revision
from imputation.limit import PATIENCE
from imputation.others import DATA_SETS, ROUNDS

_HEAD = """# Imputation of tables

Written by `make bench-imputation` (`benchmarks/imputation/run.py --page`), never by hand, at {revision}: Python
{python}, 2 CPU cores. Every method has its defaults and no tuning for any table. Numbers are means over masks, with
standard errors over masks in brackets. Bold is what no other method of its column betters by 2 % with the masks that
both were tried with. An empty cell has not been run.
`benchmarks/imputation/results.jsonl` has a line for each run; newer lines say at which revision it was made.
Seconds are for fitting and filling, compilation included, in one process, with other work beside it, on machines of
which the fastest is several times as fast as the slowest: they say what to expect, not which method is faster. A
method has {patience:.0f} minutes, and one that needs more for one mask of a table is not tried with its others.

Not quite defaults: MICE (miceforest) fills with the mean, median or mode of {data_sets} completed tables after
{rounds} rounds, where its own default is a single table; a mean of so few draws has about a fifth more squared error
than one of very many. On new rows its version 6.0.5 forgets to count its rounds and returns random cells; that is
mended here. The iterated forest has 5 rounds of 20 trees, where scikit-learn's own would be 10 of 100. missForest is
written here after its paper with scikit-learn's forests: categories among the predictors are codes, and leaves may
hold a single row, where R's splits them as sets, and has leaves of five in regressions. MIWAE is written here from its
paper, with 20,000 steps and no early stopping, and is not its authors' program; categories are one-hot numbers to it.
HyperImpute takes whatever has no more different values than the largest category for a category, for it cannot be
told: also the few values of a column of numbers, which costs it dearly on yeast.
"""

_HALF = """## Half of all cells gone at random

The protocol of MIWAE's paper: z-scores, exactly half of the cells removed completely at random, mean squared error of
those. Its authors report 0.287 on breast cancer for MIWAE."""
_MIXED = """## Mixed types, frozen masks

Mean over columns of the rate of wrong categories, the mean difference of ordered codes over the number of levels, and
the root mean squared error of numbers over their range."""
_NEW = """## Rows never seen in training

A fifth of the rows is kept back till training is over; half of all cells are gone in both parts. Mean squared error on
the new rows:"""
_UNCERTAIN = """## Uncertainty

Of 100 draws for each hole: how often 90 % intervals hold the truth, CRPS in standard deviations of the column (half
the Brier score for categories), and the log score (of a Gaussian with the draws' mean and standard deviation, no cell
below -20; of categories and ordered codes, the log of their share)."""


def read(path: Path) -> list[dict]:
    """All records; the last of each kind counts."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return list({(r["protocol"], r["table"], r["mask"], r["method"]): r for r in records}.values())


def write(path: Path, records: list[dict]) -> None:
    """The page."""
    head = {"patience": PATIENCE / 60, "data_sets": DATA_SETS, "rounds": ROUNDS}
    parts = [_HEAD.format(revision=revision(), python=platform.python_version(), **head)]
    parts += [
        _HALF,
        _table(records, ["numbers"], lambda r: r.get("error"), "{:.3f}", lowest=True),
        "Seconds:",
        _table(records, ["numbers"], lambda r: None if "failed" in r else r["seconds"], "{:.0f}"),
        _MIXED,
        _table(records, ["mixed 20 %", "mixed 50 %"], lambda r: r.get("error"), "{:.4f}", lowest=True),
        "Seconds:",
        _table(records, ["mixed 20 %", "mixed 50 %"], lambda r: None if "failed" in r else r["seconds"], "{:.0f}"),
        _NEW,
        _table(records, ["new rows"], lambda r: r.get("error on new rows"), "{:.3f}", lowest=True),
        "Accuracy (breast, yeast) or R^2 (diabetes) there of gradient boosting that was trained on the fills:",
        _table(records, ["new rows"], lambda r: r.get("downstream"), "{:.3f}", lowest=False),
        _UNCERTAIN,
    ]
    for kind in ("number", "ordinal", "category"):
        own = [r for r in records if kind in r.get("draws", {})]
        for name, form in (("coverage", "{:.3f}"), ("crps", "{:.3f}"), ("log_score", "{:.2f}")):
            if own:
                title = {"coverage": "coverage of 90 % intervals", "crps": "CRPS", "log_score": "log score"}[name]
                rows = _table(
                    own,
                    ["numbers", "mixed 20 %", "mixed 50 %"],
                    partial(_of_draws, kind, name),
                    form,
                )
                parts += [f"Columns of kind {kind}, {title}:", rows]
    failures = sorted({f"{r['method']} on {r['table']}: {r['failed']}" for r in records if "failed" in r})
    if failures:
        parts += ["## What did not finish", "\n".join(f"- {line}" for line in failures)]
    write_atomically(path, ("\n\n".join(part.strip() for part in parts) + "\n").encode())


def _of_draws(kind: str, name: str, record: dict) -> float:
    return record["draws"][kind][name]


def _table(
    records: Iterable[dict],
    protocols: list[str],
    value: Callable[[dict], float | None],  # None: the run did not come so far
    form: str,
    lowest: bool | None = None,
) -> str:
    found = [(r, v) for r in records if r["protocol"] in protocols and (v := value(r)) is not None]
    tables = list(dict.fromkeys((r["table"], r["protocol"]) for r, _ in found))
    methods = list(dict.fromkeys(r["method"] for r, _ in found))
    cells: dict[tuple[str, tuple[str, str]], dict[int, float]] = {}  # by mask
    for r, v in found:
        cells.setdefault((r["method"], (r["table"], r["protocol"])), {})[r["mask"]] = v
    most = {table: max(len(cells.get((m, table), {})) for m in methods) for table in tables}

    def is_beaten(method: str, table: tuple[str, str]) -> bool:
        """Whether another method is better by 2 % with the masks that both have: some are much harder than others."""
        own = cells[method, table]
        for other in (cells[m, table] for m in methods if (m, table) in cells):
            if both := sorted(set(own) & set(other)):
                mean, better = (float(np.mean([values[mask] for mask in both])) for values in (own, other))
                if (mean - better if lowest else better - mean) > 0.02 * abs(better):
                    return True
        return False

    def shown(method: str, table: tuple[str, str]) -> str | None:
        if (method, table) not in cells:
            return None
        values = list(cells[method, table].values())
        text = form.format(float(np.mean(values)))
        if len(values) > 1 and lowest is not None:
            text += f" ({form.format(np.std(values, ddof=1) / np.sqrt(len(values)))})"
        if len(values) < most[table]:
            text += f", {len(values)} of {most[table]} masks"
        return text if lowest is None or is_beaten(method, table) else f"**{text}**"

    headings = ["method", *(t if p in ("numbers", "new rows") else f"{t.split(',')[0]}, {p[6:]}" for t, p in tables)]
    return markdown_table(headings, [[m, *(shown(m, table) for table in tables)] for m in methods])

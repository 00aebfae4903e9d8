"""Table 1 as a section of the results page."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dlgm.reproduce.page import markdown_table


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
        "test rows",
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
        f"Budget: {results['budget']}. S is the number of importance samples a row. Where fewer test rows are scored "
        "than there are, they are evenly spaced. The standard error is that of a mean over rows, the Monte Carlo error "
        "that of the estimate itself. By importance sampling log p(v) is low on average, and -ln p(v) high; where a "
        "partition function is annealed, that is low on average, and so is -ln p(v), by about half the square of the "
        "Monte Carlo error.",
        markdown_table(headings, lines),
    ]
    if runs:
        parts += ["By these settings:", markdown_table(["model", "settings", "revision"], runs)]
    return "\n\n".join(parts)


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    paper, record = row["paper"], row["found"]
    shown = None if paper is None else f"{paper:.2f}"
    if record is None:
        return (row["title"], shown, "not run yet", *[None] * 3, row["likelihood"], *[None] * 5)
    error = record["monte_carlo_error"]
    return (
        row["title"],
        shown,
        f"{record['nats']:.2f}",
        None if paper is None else f"{record['nats'] - paper:+.2f}",
        f"{record['standard_error']:.2f}",
        None if error is None else f"{error:.3f}",
        row["likelihood"] + (f"; bound {record['bound_nats']:.2f}" if "bound_nats" in record else ""),
        None if record["samples"] is None else f"{record['samples']:,}",
        f"{record['test_rows']:,}",
        record["run"]["seed"],
        record["epochs"],
        f"{record['seconds']:,.0f} s",
    )

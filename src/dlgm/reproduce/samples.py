"""Rows that a model makes beside rows it was trained on (paper, figs. 3a and 4), and how near the two are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.figure import Figure

from dlgm import plots
from dlgm.data import Dataset
from dlgm.inference import sample
from dlgm.inference.likelihood import mean_and_error
from dlgm.learning import AbstractWatcher
from dlgm.recipes import recipe_for
from dlgm.reproduce.page import markdown_table
from dlgm.reproduce.training import by_recipe, spread

SETS = ("binarized-mnist", "frey-faces", "cifar10-patches", "small-norb")
SHOWN = {"quick": 16, "full": 64}  # images in a grid
COMPARED = {"quick": 20, "full": 1000}  # samples, and test rows, whose distance to the training rows is taken
_TOGETHER = 5000  # training rows that distances are taken to at a time
_WORDS = """The paper shows digits, objects of NORB, patches of CIFAR-10 and Frey faces, data on the left and samples on
the right, and says that its digits match the data well. Here: rows a model was trained on, means (probabilities, where
pixels are bits), and samples of these. The numbers are distances to the nearest training row, root mean square over a
row's values with white at 1, in the mean over rows with its standard error. Samples nearer than test rows would be
copies; samples farther away are unlike the data in some respect, if only in that each of their pixels has noise of its
own."""


def run(
    data: Dataset, out: Path, *, budget: str, seed: int, watchers: Sequence[AbstractWatcher] = ()
) -> tuple[dict[str, Any], Figure]:
    """Train by the data set's recipe, draw, and compare."""
    found, settings = by_recipe(data, recipe_for(data.name), out, budget=budget, seed=seed, watchers=watchers)
    white = 1.0 if data.family == "bernoulli" else 255.0
    number = min(COMPARED[budget], len(data.test))
    shown = min(SHOWN[budget], len(data.train))
    drawn = sample(found.saved.model, max(number, shown), key=jax.random.key(seed))

    def images(rows: Shaped[np.ndarray, "n x"]) -> np.ndarray:
        return np.clip(rows[:shown] / white, 0, 1).reshape(-1, *data.shape)

    means = "pixel probabilities" if data.family == "bernoulli" else "means"
    grids = {"training rows": spread(data.train, shown), means: drawn.means, "samples": drawn.rows}
    figure = plots.figure_of(plots.side_by_side({name: images(np.asarray(rows)) for name, rows in grids.items()}))
    results: dict[str, Any] = {"settings": settings, **found.summary, "shown": shown, "compared": number}
    compared = {"samples": np.asarray(drawn.rows)[:number], "test rows": spread(data.test, number)}
    for name, rows in compared.items():
        mean, error = mean_and_error(nearest(rows / white, data.train, white))
        results[f"distance of {name}"] = {"mean": mean, "standard error": error}
    return results, figure


def nearest(
    rows: Shaped[np.ndarray, "m x"], train: Shaped[np.ndarray, "n x"], white: float = 1.0
) -> Float[np.ndarray, " m"]:
    """The distance of each row to the nearest of `train / white`: root mean square over the row's values."""
    a, best = np.asarray(rows, np.float64), np.full(len(rows), np.inf)
    for start in range(0, len(train), _TOGETHER):
        b = train[start : start + _TOGETHER].astype(np.float64) / white
        # |a - b|^2 = |a|^2 - 2 a.b + |b|^2, of which rounding may leave a little less than nothing.
        squares = (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
        best = np.minimum(best, squares.min(axis=1))
    return np.sqrt(np.maximum(best, 0) / a.shape[1])


def markdown(results: Mapping[str, Mapping[str, Any]], missing: Sequence[str] = ()) -> str:
    """The numbers as a section of the results page."""
    headings = ["data", "validation bound", "epochs", "samples: distance", "test rows: distance", "rows of each"]
    lines = [
        (
            name,
            f"{found['valid_bound']:.2f}",
            f"{found['epochs']} ({found['seconds']:.0f} s)",
            *(
                "{mean:.4f} ({standard error:.4f})".format(**found[f"distance of {of}"])
                for of in ("samples", "test rows")
            ),
            f"{found['compared']:,}",
        )
        for name, found in results.items()
    ]
    parts = ["## Samples (figs. 3a and 4)", _WORDS, markdown_table(headings, lines)]
    if missing:
        parts.append(f"Not here, since the files were not: {', '.join(missing)}.")
    return "\n\n".join(parts)

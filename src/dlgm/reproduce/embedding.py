"""MNIST in the plane of two latents, coloured by class (paper, fig. 3b)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from dlgm.data import Dataset
from dlgm.inference import embed
from dlgm.learning import AbstractWatcher, TrainingConfig
from dlgm.model import make_observation, preset
from dlgm.plots.maps import draw_map
from dlgm.reproduce.training import trained

EPOCHS = {"quick": 5, "full": 100}


def run(
    data: Dataset,
    out: Path,
    *,
    budget: str,
    seed: int,
    watcher: Callable[[str], Sequence[AbstractWatcher]] = lambda what: (),
) -> tuple[dict[str, Any], Figure]:
    """Train a model of two latents without labels, and place the test rows."""
    settings = TrainingConfig(epochs=EPOCHS[budget], optimiser="adam", learning_rate=2e-3, validate_every=5, seed=seed)
    observation = make_observation(data.family, columns=data.train.shape[1])
    config = preset("visualisation", observation, hidden=(300, 300), nonlinearity="gated")
    found = trained(out / f"{data.name}.dlgm", data, config, settings, watcher("two latents"))
    placed = embed(found.saved.model, data.test, key=jax.random.key(seed))
    labels = data.labels["test"]
    results = {
        "data": data.name,
        "settings": settings.to_dict(),
        **found.summary,
        "rows": len(labels),
        "neighbours of the same class": neighbours_agree(placed.points, labels),
    }
    images = (data.shape, 1.0 if data.family == "bernoulli" else 255.0)
    return results, draw_map(placed.points, labels, placed.decode, images)


def markdown(results: dict[str, Any]) -> str:
    """The numbers as a section of the results page."""
    share = results["neighbours of the same class"]
    return f"""## Two latents without labels: {results["data"]} (fig. 3b)

The paper shows the classes of MNIST apart in different regions of the plane, some of them touching. Here:
{results["rows"]:,} test rows; {share:.1%} of their ten nearest neighbours in the plane have their class.
Validation bound {results["valid_bound"]:.2f} after {results["epochs"]} epochs ({results["seconds"]:.0f} s),
seed {results["settings"]["seed"]}."""


def neighbours_agree(points: np.ndarray, labels: np.ndarray, number: int = 10) -> float:
    """How often a row's nearest neighbours have its class: 1 if classes lie apart, 0.1 if ten of them are mixed up."""
    from scipy.spatial import cKDTree

    _, near = cKDTree(points).query(points, k=min(number, len(points) - 1) + 1)
    return float(np.mean(labels[near[:, 1:]] == labels[:, None]))

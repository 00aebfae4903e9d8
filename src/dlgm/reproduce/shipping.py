"""A trained model made ready to come with the package, and the check that it still is what it was."""

from typing import Any, NamedTuple

import jax
import numpy as np

from dlgm.artifact import SavedModel
from dlgm.data import Dataset
from dlgm.data.dataset import binarised
from dlgm.inference import log_likelihood
from dlgm.reproduce.training import spread

ROWS = 200  # test rows, evenly spaced, whose likelihood is recorded
SAMPLES = 1000  # S


class Measured(NamedTuple):
    """The mean log p(v) of some test rows, and its Monte Carlo standard error."""

    log_p: float
    error: float


def stripped(saved: SavedModel, data: Dataset, *, samples: int = SAMPLES, seed: int = 0, newton: int = 0) -> SavedModel:
    """The model as it is shipped: weights, settings and summary of the training, and a likelihood to know it again by.

    `data` is the set it was trained on. The likelihood is importance-sampled, of `ROWS` evenly spaced test rows.
    """
    rows = rows_of(saved, data)
    found = measured(saved, rows, samples=samples, seed=seed, newton=newton)
    likelihood = {
        "data": data.name,
        "split": "test",
        "rows": len(rows),
        "samples": samples,
        "seed": seed,
        "newton": newton,
        "log_p": found.log_p,
        "error": found.error,
    }
    training: dict[str, Any] = {name: saved.training[name] for name in ("config", "summary") if name in saved.training}
    described: dict[str, Any] = {name: saved.data[name] for name in ("name", "shape", "family") if name in saved.data}
    return SavedModel(saved.model, saved.config, described, {**training, "likelihood": likelihood})


def rows_of(saved: SavedModel, data: Dataset, number: int = ROWS) -> np.ndarray:
    """Evenly spaced test rows of the data set that a model was trained on, in black and white if it saw them so."""
    if data.name != saved.data.get("name"):
        raise ValueError(f"expected the data the model was trained on, {saved.data.get('name')!r}; got {data.name!r}.")
    return spread((binarised(data) if saved.data.get("family") == "bernoulli" else data).test, number)


def measured(saved: SavedModel, rows: np.ndarray, *, samples: int, seed: int, newton: int = 0) -> Measured:
    """The mean of log p(v) over rows; each is sampled by itself, so that their errors add up as variances do.

    With few latents some posteriors are far from what the recognition model proposes; a few weights then say nearly
    all, and the error is larger than it looks. Proposals from their peaks (`newton` steps) mend that.
    """
    found = log_likelihood(saved.model, rows, num_samples=samples, newton=newton, key=jax.random.key(seed))
    errors = np.asarray(found.standard_error, np.float64)
    return Measured(float(np.mean(found.log_p, dtype=np.float64)), float(np.sqrt(np.sum(errors**2)) / len(errors)))


def deviation(saved: SavedModel, data: Dataset) -> float:
    """How far a shipped model's likelihood, with new draws, is from the recorded one: in combined standard errors."""
    recorded = saved.training["likelihood"]
    rows = rows_of(saved, data, recorded["rows"])
    # As many samples as then: fewer would be lower on average.
    newton = recorded.get("newton", 0)
    now = measured(saved, rows, samples=recorded["samples"], seed=recorded["seed"] + 1, newton=newton)
    return (now.log_p - recorded["log_p"]) / float(np.hypot(now.error, recorded["error"]))

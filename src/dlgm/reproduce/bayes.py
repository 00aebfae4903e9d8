"""A posterior over the parameters beside a point estimate, where rows are scarce (the paper's second appendix).

Both have the same networks and settings. Each is trained with validation rows, by which the best epoch is chosen, and
without, to the end, which tells whether a posterior needs to be stopped.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from dlgm import plots
from dlgm.data import Dataset
from dlgm.inference import log_likelihood
from dlgm.inference.likelihood import mean_and_error
from dlgm.learning import AbstractWatcher, TrainingConfig
from dlgm.model import make_observation, preset
from dlgm.reproduce.page import markdown_table
from dlgm.reproduce.training import spread, trained

ROWS = {"quick": (100, 50, 20), "full": (500, 1000, 1000)}  # of training, validation and test that are used
EPOCHS = {"quick": 5, "full": 300}
SAMPLES = {"quick": 50, "full": 500}
# A recognition model that has seen few rows does not understand new ones, and would decide the comparison: half of the
# samples are drawn around the peak of each row's own posterior.
NEWTON = 6
MODEL: dict[str, Any] = {"latent": (30,), "hidden": (100,), "scale": "scalar"}
TRAINING: dict[str, Any] = {"batch_size": 100, "learning_rate": 3e-3, "drop_out": 0.2, "validate_every": 10}
# What each kind changes in the model and in its training.
_DRAWN = {"warm_up": 0.5, "parameter_draws": 5}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "point estimate": ({}, {"warm_up": 0.1}),
    "point estimate with a prior": ({"kappa": 1.0}, {"warm_up": 0.1}),
    "posterior": ({"kappa": 1.0, "bayes": True}, _DRAWN),
    "tempered posterior": ({"bayes": True, "prior": "learned"}, {**_DRAWN, "parameter_weight": 0.3}),
}
STOPS = {"best epoch": True, "last epoch": False}


def run(
    data: Dataset,
    out: Path,
    *,
    budget: str,
    seed: int,
    watcher: Callable[[str], Sequence[AbstractWatcher]] = lambda what: (),
) -> tuple[dict[str, Any], Figure]:
    """Train all kinds on few rows, and score test rows; a posterior also at the means of its parameters."""
    few = few_rows(data, *ROWS[budget])
    observation = make_observation(data.family, columns=data.train.shape[1])
    key = jax.random.key(seed)
    results: dict[str, Any] = {
        "data": data.name,
        "rows": {split: len(getattr(few, split)) for split in ("train", "valid", "test")},
        "samples": SAMPLES[budget],
        "settings": {"model": MODEL, **TRAINING, "epochs": EPOCHS[budget], "seed": seed},
        "models": {},
    }
    scores: dict[str, np.ndarray] = {}
    for kind, (model, training) in KINDS.items():
        config = preset("default", observation, **MODEL, **model)
        settings = TrainingConfig(**TRAINING, **training, epochs=EPOCHS[budget], seed=seed)
        for stop, validated in STOPS.items():
            name = f"{kind}, {stop}"
            path = out / f"{data.name}-{name.replace(', ', '-').replace(' ', '-')}.dlgm"
            found = trained(path, few, config, settings, watcher(name), validated=validated)
            answered = found.saved.model
            ways = {name: answered} if answered.parameters is None else {name: answered, f"{name}, at the mean": None}
            for way, asked in ways.items():
                scored = log_likelihood(
                    asked or answered.at_mean(), few.test, num_samples=SAMPLES[budget], newton=NEWTON, key=key
                )
                scores[way] = np.asarray(scored.log_p, np.float64)
                results["models"][way] = {
                    **found.summary,
                    "log_p": scored.mean()[0],
                    "standard error": scored.mean()[1],
                    "bound": float(np.mean(scored.bound, dtype=np.float64)),
                    "effective samples": float(np.median(scored.effective_sample_size)),
                }
    reference = scores["point estimate, best epoch"]
    for way, own in scores.items():
        # Row by row, for rows differ among themselves far more than models do.
        gain, error = mean_and_error(own - reference)
        results["models"][way] |= {"gain": gain, "standard error of the gain": error}
    entries = [(way, found["log_p"], found["standard error"]) for way, found in results["models"].items()]
    return results, plots.figure_of(plots.likelihood_bars(entries, "log likelihood of test rows, nats"))


def few_rows(data: Dataset, train: int, valid: int, test: int) -> Dataset:
    """A data set's first rows to learn and to choose by, and evenly spaced ones to test with.

    The test rows of the binarised MNIST are sorted by class: its first 2,000 are zeros and ones alone.
    """
    return dataclasses.replace(
        data, train=data.train[:train], valid=data.valid[:valid], test=spread(data.test, test), labels={}
    )


def markdown(results: dict[str, Any]) -> str:
    """The numbers as a section of the results page."""
    rows = [
        (
            way,
            f"{found['log_p']:.2f} ({found['standard error']:.2f})",
            None if not found["gain"] else f"{found['gain']:+.2f} ({found['standard error of the gain']:.2f})",
            f"{found['bound']:.2f}",
            f"{found['effective samples']:.1f}",
            f"{found['best_epoch']} ({found['seconds']:.0f} s)",
        )
        for way, found in results["models"].items()
    ]
    headings = ["model", "test log p(v)", "over the point estimate, best epoch", "bound", "effective samples", "epoch"]
    used = results["rows"]
    return f"""## A posterior over the parameters: {results["data"]}, {used["train"]} training rows

{used["valid"]:,} validation rows choose the best epoch; where the last epoch is taken, they are not looked at.
{used["test"]:,} test rows, evenly spaced, importance-sampled with {results["samples"]:,} samples each, half of them
around the peak of the row's own posterior; standard errors over rows in brackets. Where the effective samples are few,
log p(v) is too low, by how much differs between models.

{markdown_table(headings, rows)}"""

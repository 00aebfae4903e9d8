"""Models for the figures: trained once, kept in the folder of the results, and resumed if that was cut short."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlgm.artifact import SavedModel, load_model, save_model, shipped_models
from dlgm.data import Dataset
from dlgm.learning import AbstractWatcher, Checkpoints, TrainingConfig, fit
from dlgm.model import ModelConfig, make_observation, preset
from dlgm.recipes import Recipe

BUDGETS = ("quick", "full")
QUICK_EPOCHS = 5
SHIPPED = {"binarized-mnist": "paper-mnist"}  # trained by `dlgm reproduce table1 --row dlgm-rank-one`


@dataclass(frozen=True)
class Trained:
    """A model of a data set, and the few numbers of its training."""

    saved: SavedModel
    summary: dict[str, Any]


def trained(
    path: Path,
    data: Dataset,
    config: ModelConfig,
    settings: TrainingConfig,
    watchers: Sequence[AbstractWatcher] = (),
    *,
    validated: bool = True,
) -> Trained:
    """The model in a file, if it was trained with these settings; otherwise it is trained, and put there.

    With the weights of the best epoch by the validation rows; or, if they are not to be looked at, of the last.
    """
    if path.exists():
        saved = load_model(path)
        is_same = saved.config == config and saved.data.get("name") == data.name
        if is_same and TrainingConfig.from_dict(saved.training["config"]) == settings:
            return Trained(saved, saved.training["summary"])
    checkpoints = Checkpoints(path.with_suffix(".checkpoints"), resume=True)
    valid = data.valid if validated else None
    fitted = fit(config, data.train, valid=valid, config=settings, watchers=watchers, checkpoints=checkpoints)
    saved = SavedModel(
        fitted.model, config, data.described(), {"config": settings.to_dict(), "summary": fitted.summary()}
    )
    save_model(path, saved)
    checkpoints.remove()
    return Trained(saved, fitted.summary())


def by_recipe(
    data: Dataset,
    recipe: Recipe,
    out: Path,
    *,
    budget: str,
    seed: int,
    watchers: Sequence[AbstractWatcher] = (),
) -> tuple[Trained, dict[str, Any]]:
    """A model of a data set by a recipe, for a few epochs if time is short, and the settings of its training.

    Where the paper's model of the data comes with the package, it is that one, trained long enough already.
    """
    if budget == "full" and data.name in SHIPPED:
        saved = load_model(shipped_models()[SHIPPED[data.name]])
        return Trained(saved, saved.training["summary"]), saved.training["config"]
    settings = {**recipe.training, "seed": seed} | ({"epochs": QUICK_EPOCHS} if budget == "quick" else {})
    observation = make_observation(data.family, columns=data.train.shape[1])
    config = preset("default", observation, **recipe.model)
    return trained(out / f"{data.name}.dlgm", data, config, TrainingConfig(**settings), watchers), settings


def spread(rows: np.ndarray, number: int) -> np.ndarray:
    """So many rows, evenly spaced: some sets are sorted by class."""
    return rows[np.linspace(0, len(rows) - 1, min(number, len(rows))).astype(int)]

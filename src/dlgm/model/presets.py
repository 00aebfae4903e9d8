"""Models the literature has names for."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlgm.model.config import ModelConfig
from dlgm.model.observations import AbstractObservation
from dlgm.names import require_one_of
from dlgm.recipes import RECIPES


@dataclass(frozen=True)
class Preset:
    """A named model: what it is, and the settings that make it."""

    description: str
    settings: Mapping[str, Any]
    families: tuple[str, ...] = ()  # the observation families it is defined for; none named: any


PRESETS: dict[str, Preset] = {
    "default": Preset("one layer of 100 latents, two hidden layers of 200, rank-one posterior", {}),
    "factor-analysis": Preset(
        "one layer, linear; with a Gaussian family of per-column variance, factor analysis (the posterior is exact)",
        {"latent": (40,), "hidden": (), "scale": "scalar", "covariance": "full"},
        ("gaussian",),
    ),
    "bernoulli-factor-analysis": Preset(
        "one layer, linear, for binary rows: the 106.00 row of the paper's table 1",
        {"latent": (100,), "hidden": (), "scale": "scalar", "recognition_hidden": (200, 200)},
        ("bernoulli",),
    ),
    "nlgbn": Preset(
        "non-linear Gaussian belief network, T(h) = A f(h) + b, two layers",
        {
            "latent": (100, 100),
            "hidden": (),
            "nonlinearity": "tanh",
            "activate_input": True,
            "scale": "diagonal",
            "recognition_hidden": (200, 200),
            "recognition_nonlinearity": "relu",
        },
    ),
    "paper-mnist": Preset(
        "the paper's MNIST model: 200 latents, two hidden layers of 200", {"latent": (200,), "hidden": (200, 200)}
    ),
    "fig-2c": Preset(
        "the model of fig. 2c: 100 latents, one hidden layer of 300", {"latent": (100,), "hidden": (300,)}
    ),
    "visualisation": Preset(
        "two latents, for a map of the data (fig. 3b)", {"latent": (2,), "hidden": (200, 200), "covariance": "full"}
    ),
    "norb": Preset("the paper's NORB model: 400 hidden units, 100 latents", {"latent": (100,), "hidden": (400,)}),
    "best": Preset("the best settings found here for binarised MNIST", RECIPES["best"].model),
}


def preset(name: str, observation: AbstractObservation, **changes: Any) -> ModelConfig:
    """The config of a named model for a family of observations, with `changes` to its settings.

    >>> from dlgm.model import make_observation, preset
    >>> config = preset("fig-2c", make_observation("bernoulli", columns=784), covariance="diagonal")
    >>> config.latent, config.hidden, config.covariance
    ((100,), (300,), 'diagonal')
    """
    require_one_of("preset", name, PRESETS)
    families = PRESETS[name].families
    if families and observation.name not in families:
        raise ValueError(f"preset: {name} is for the family {' or '.join(families)}; got {observation.name}.")
    known = {f.name for f in dataclasses.fields(ModelConfig) if f.init and f.name != "observation"}
    if unknown := sorted(set(changes) - known):
        raise ValueError(f"preset: unknown settings {', '.join(unknown)}. Known: {', '.join(sorted(known))}.")
    return ModelConfig(observation.config(), **{**PRESETS[name].settings, **changes})

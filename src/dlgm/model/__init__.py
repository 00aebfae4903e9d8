"""The model: generative and recognition networks, observation families, and presets by name."""

from dlgm.model.cell_recognition import CellRecognition
from dlgm.model.config import ModelConfig, build_model, initialise
from dlgm.model.generative import GenerativeModel
from dlgm.model.model import Model
from dlgm.model.observations import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Composite,
    DiscretisedLogistic,
    Gaussian,
    HeapedGaussian,
    HeapedLogNormal,
    Logistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    make_observation,
    observation_from_config,
)
from dlgm.model.posterior import AbstractPosterior
from dlgm.model.presets import PRESETS, preset
from dlgm.model.recognition import RecognitionModel

__all__ = [
    "PRESETS",
    "AbstractObservation",
    "AbstractPosterior",
    "Bernoulli",
    "Categorical",
    "CellRecognition",
    "Composite",
    "DiscretisedLogistic",
    "Gaussian",
    "GenerativeModel",
    "HeapedGaussian",
    "HeapedLogNormal",
    "LogNormal",
    "Logistic",
    "Model",
    "ModelConfig",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "RecognitionModel",
    "StudentT",
    "build_model",
    "initialise",
    "make_observation",
    "observation_from_config",
    "preset",
]

"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.baseline import Baseline, Density
from dlgm.baselines.eonade import EoNADE, EoNADEDensity
from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)
from dlgm.baselines.nade import NADE, NADEDensity

__all__ = [
    "NADE",
    "Baseline",
    "Density",
    "EoNADE",
    "EoNADEDensity",
    "FactorAnalysis",
    "MixtureOfBernoullis",
    "NADEDensity",
    "em_step",
    "fit_factor_analysis",
    "fit_mixture_of_bernoullis",
    "mean_log_posterior",
]

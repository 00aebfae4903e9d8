"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)

__all__ = [
    "FactorAnalysis",
    "MixtureOfBernoullis",
    "em_step",
    "fit_factor_analysis",
    "fit_mixture_of_bernoullis",
    "mean_log_posterior",
]

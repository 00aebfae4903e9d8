"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.baseline import Baseline, Density
from dlgm.baselines.bernoulli_mixture import BernoulliMixture
from dlgm.baselines.eonade import EoNADE, EoNADEDensity
from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.baselines.gaussian_factor_analysis import GaussianFactorAnalysis
from dlgm.baselines.latent import BERNOULLI_FACTOR_ANALYSIS, NLGBN, WAKE_SLEEP, LatentBaseline
from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)
from dlgm.baselines.nade import NADE, NADEDensity

__all__ = [
    "BERNOULLI_FACTOR_ANALYSIS",
    "NADE",
    "NLGBN",
    "WAKE_SLEEP",
    "Baseline",
    "BernoulliMixture",
    "Density",
    "EoNADE",
    "EoNADEDensity",
    "FactorAnalysis",
    "GaussianFactorAnalysis",
    "LatentBaseline",
    "MixtureOfBernoullis",
    "NADEDensity",
    "em_step",
    "fit_factor_analysis",
    "fit_mixture_of_bernoullis",
    "mean_log_posterior",
]

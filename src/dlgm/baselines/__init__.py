"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.baseline import Baseline, Density
from dlgm.baselines.bernoulli_mixture import BernoulliMixture
from dlgm.baselines.boltzmann import BoltzmannMachine
from dlgm.baselines.contrastive import Contrastive
from dlgm.baselines.dbn import DBN, FittedDBN
from dlgm.baselines.dbn_likelihood import BoundedLikelihood
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
from dlgm.baselines.partition import Annealing, LogPartition, count_log_partition
from dlgm.baselines.rbm import RBM, FittedRBM

__all__ = [
    "BERNOULLI_FACTOR_ANALYSIS",
    "DBN",
    "NADE",
    "NLGBN",
    "RBM",
    "WAKE_SLEEP",
    "Annealing",
    "Baseline",
    "BernoulliMixture",
    "BoltzmannMachine",
    "BoundedLikelihood",
    "Contrastive",
    "Density",
    "EoNADE",
    "EoNADEDensity",
    "FactorAnalysis",
    "FittedDBN",
    "FittedRBM",
    "GaussianFactorAnalysis",
    "LatentBaseline",
    "LogPartition",
    "MixtureOfBernoullis",
    "NADEDensity",
    "count_log_partition",
    "em_step",
    "fit_factor_analysis",
    "fit_mixture_of_bernoullis",
    "mean_log_posterior",
]

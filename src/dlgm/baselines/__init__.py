"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.boltzmann import BoltzmannMachine
from dlgm.baselines.contrastive import Contrastive
from dlgm.baselines.dbn import DBN, FittedDBN
from dlgm.baselines.dbn_likelihood import BoundedLikelihood
from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)
from dlgm.baselines.partition import Annealing, LogPartition, count_log_partition
from dlgm.baselines.rbm import RBM, FittedRBM

__all__ = [
    "DBN",
    "RBM",
    "Annealing",
    "BoltzmannMachine",
    "BoundedLikelihood",
    "Contrastive",
    "FactorAnalysis",
    "FittedDBN",
    "FittedRBM",
    "LogPartition",
    "MixtureOfBernoullis",
    "count_log_partition",
    "em_step",
    "fit_factor_analysis",
    "fit_mixture_of_bernoullis",
    "mean_log_posterior",
]

"""The models that the paper compares with, each usable alone."""

from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)

__all__ = ["MixtureOfBernoullis", "em_step", "fit_mixture_of_bernoullis", "mean_log_posterior"]

"""Structured Gaussians: one abstract class, five covariances, linear algebra only."""

from dlgm.gaussians.block import BlockGaussian
from dlgm.gaussians.diagonal import DiagonalGaussian
from dlgm.gaussians.divergence import as_gaussian, kl_between_gaussians
from dlgm.gaussians.full import FullGaussian
from dlgm.gaussians.gaussian import AbstractGaussian
from dlgm.gaussians.low_rank import LowRankGaussian
from dlgm.gaussians.precision import PrecisionGaussian, precision_factors
from dlgm.gaussians.rank_one import RankOneGaussian

__all__ = [
    "AbstractGaussian",
    "BlockGaussian",
    "DiagonalGaussian",
    "FullGaussian",
    "LowRankGaussian",
    "PrecisionGaussian",
    "RankOneGaussian",
    "as_gaussian",
    "kl_between_gaussians",
    "precision_factors",
]

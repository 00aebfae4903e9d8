"""Stochastic backpropagation: gradients of expectations, one estimator a file."""

from dlgm.stochastic.baselines import (
    AbstractBaseline,
    ConstantBaseline,
    LeaveOneOut,
    NoBaseline,
    OptimalCoefficient,
    RunningMean,
)
from dlgm.stochastic.bonnet_price import BonnetPrice
from dlgm.stochastic.bonnet_price_hvp import BonnetPriceHVP
from dlgm.stochastic.estimator import AbstractEstimator
from dlgm.stochastic.expect import expect, per_sample_gradients
from dlgm.stochastic.exponential_family import ExponentialFamily
from dlgm.stochastic.implicit import Implicit
from dlgm.stochastic.pathwise import Pathwise
from dlgm.stochastic.product_rule import ProductRule
from dlgm.stochastic.reinforce import Reinforce

__all__ = [
    "AbstractBaseline",
    "AbstractEstimator",
    "BonnetPrice",
    "BonnetPriceHVP",
    "ConstantBaseline",
    "ExponentialFamily",
    "Implicit",
    "LeaveOneOut",
    "NoBaseline",
    "OptimalCoefficient",
    "Pathwise",
    "ProductRule",
    "Reinforce",
    "RunningMean",
    "expect",
    "per_sample_gradients",
]

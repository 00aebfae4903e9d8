r"""Observation families $\pi(v \mid T_0(h_1))$: how a row of data arises from the last network's outputs.

| name | cells | an output is |
| --- | --- | --- |
| `bernoulli` | 0 or 1 | a logit |
| `gaussian`, `logistic`, `student-t` | real | a location, and a log-variance if `variance="predicted"` |
| `log-normal` | positive | the same, on the log axis |
| `heaped-gaussian`, `heaped-log-normal` | zero, or else real or positive | a logit of zero, and the same |
| `discretised-logistic` | pixels 0 .. 255 | the same, on the axis from -1 (black) to 1 (white) |
| `categorical` | codes | a logit for each code |
| `ordinal` | ordered codes | a location among cutpoints |
| `poisson`, `negative-binomial` | counts | the log of the mean |

`Composite` mixes them by column.
"""

from dlgm.model.observations.bernoulli import Bernoulli
from dlgm.model.observations.codes import Categorical, Ordinal
from dlgm.model.observations.composite import Composite
from dlgm.model.observations.counts import NegativeBinomial, Poisson
from dlgm.model.observations.discretised_logistic import DiscretisedLogistic, DiscretisedLogisticLaw
from dlgm.model.observations.heaped import HeapedGaussian, HeapedLogNormal
from dlgm.model.observations.observation import AbstractObservation
from dlgm.model.observations.real import Gaussian, Logistic, LogNormal, StudentT
from dlgm.model.observations.registry import FAMILIES, make_observation, observation_from_config

__all__ = [
    "FAMILIES",
    "AbstractObservation",
    "Bernoulli",
    "Categorical",
    "Composite",
    "DiscretisedLogistic",
    "DiscretisedLogisticLaw",
    "Gaussian",
    "HeapedGaussian",
    "HeapedLogNormal",
    "LogNormal",
    "Logistic",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "StudentT",
    "make_observation",
    "observation_from_config",
]

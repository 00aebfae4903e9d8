"""Every (law, parameter, estimator) that is claimed to be unbiased, in one table.

A law's row gives the class, its arguments, which of the six functions have gradients of finite variance under it, and
its density in scipy's words, from which the exact gradient is computed by quadrature. Adding a law is adding a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.stats as stats
from jax.scipy.special import gammaln

from dlgm.stochastic import (
    AbstractEstimator,
    BonnetPrice,
    BonnetPriceHVP,
    ConstantBaseline,
    ExponentialFamily,
    Implicit,
    LeaveOneOut,
    NoBaseline,
    OptimalCoefficient,
    Pathwise,
    ProductRule,
    Reinforce,
    RunningMean,
)
from dlgm.stochastic import transforms as t
from tests.stochastic.functions import NAMES

GAMMA_WITHOUT_MODE = ExponentialFamily(
    name="Gamma",
    theta=lambda q: {"alpha": q.concentration, "beta": q.rate},
    log_h=lambda x: -jnp.log(x),
    phi=lambda x: (jnp.log(x), -x),
    eta=lambda th: (th["alpha"], th["beta"]),
    A=lambda th: gammaln(th["alpha"]) - th["alpha"] * jnp.log(th["beta"]),
    regular=("alpha", "beta"),  # for alpha < 1 only: then the density falls all the way, and has no mode
)

ESTIMATORS: dict[str, AbstractEstimator] = {
    "Pathwise": Pathwise(),
    "BonnetPrice": BonnetPrice(),
    "BonnetPriceHVP": BonnetPriceHVP(),
    "BonnetPriceHVP-2-probes": BonnetPriceHVP(num_probes=2),
    "Implicit": Implicit(),
    "ProductRule": ProductRule(),
    "ProductRule-own-family": ProductRule(family=GAMMA_WITHOUT_MODE),
    "Reinforce": Reinforce(NoBaseline()),
    "Reinforce-constant": Reinforce(ConstantBaseline(0.8)),
    "Reinforce-running-mean": Reinforce(RunningMean().update(0.5).update(1.0)),
    "Reinforce-leave-one-out": Reinforce(LeaveOneOut()),
    "Reinforce-optimal": Reinforce(OptimalCoefficient()),
}
REINFORCES = [name for name in ESTIMATORS if name.startswith("Reinforce")]
USUAL = ["Pathwise", "Implicit", "Reinforce-leave-one-out"]
# A law with heavy tails has no finite-variance gradient for functions that do not decay.
DECAYING = ("constant", "exp-quadratic")


@dataclass(frozen=True, eq=False)
class Univariate:
    name: str
    law: Callable[..., dist.Distribution]
    args: dict[str, float]
    scipy: Callable[..., Any] | None = None  # arguments -> frozen scipy law
    estimators: list[str] = field(default_factory=lambda: list(USUAL))
    functions: tuple[str, ...] = NAMES
    refused: tuple[tuple[str, str], ...] = ()  # (estimator, parameter) that raises, by design

    def supports(self, estimator: str) -> list[str]:
        return [name for name in self.args if (estimator, name) not in self.refused]


def _gev(name, xi):
    args = {"loc": 0.3, "scale": 0.8, "shape_xi": xi}
    return Univariate(name, t.GEV, args, lambda loc, scale, shape_xi: stats.genextreme(-shape_xi, loc, scale))


def _stable(name, alpha, beta):
    args = {"alpha": alpha, "beta": beta, "loc": 0.2, "scale": 0.8}
    return Univariate(name, t.Stable, args, estimators=["Pathwise"], functions=DECAYING)


UNIVARIATE = [
    Univariate(
        "Normal",
        t.Normal,
        {"loc": 0.4, "scale": 0.8},
        lambda loc, scale: stats.norm(loc, scale),
        ["Pathwise", "Implicit", "ProductRule", *REINFORCES],
        refused=(("ProductRule", "scale"),),
    ),
    Univariate(
        "StudentT",
        t.StudentT,
        {"df": 14.0, "loc": 0.4, "scale": 0.7},
        lambda df, loc, scale: stats.t(df, loc, scale),
    ),
    Univariate("Logistic", t.Logistic, {"loc": 0.4, "scale": 0.5}, lambda loc, scale: stats.logistic(loc, scale)),
    Univariate(
        "Weibull",
        t.Weibull,
        {"scale": 1.2, "concentration": 1.7},
        lambda scale, concentration: stats.weibull_min(concentration, scale=scale),
    ),
    Univariate("Gumbel", t.Gumbel, {"loc": 0.3, "scale": 0.6}, lambda loc, scale: stats.gumbel_r(loc, scale)),
    _gev("GEV-bounded", -0.2),
    _gev("GEV-Gumbel", 0.0),
    _gev("GEV-heavy", 0.08),
    Univariate(
        "Levy",
        t.Levy,
        {"loc": 0.2, "scale": 0.7},
        lambda loc, scale: stats.levy(loc, scale),
        functions=DECAYING,
    ),
    Univariate(
        "LogNormal", t.LogNormal, {"loc": 0.1, "scale": 0.4}, lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc))
    ),
    Univariate(
        "InverseGamma",
        t.InverseGamma,
        {"concentration": 14.0, "rate": 15.0},
        lambda concentration, rate: stats.invgamma(concentration, scale=rate),
    ),
    Univariate(
        "Wald",
        t.Wald,
        {"loc": 1.1, "concentration": 4.0},
        lambda loc, concentration: stats.invgauss(loc / concentration, scale=concentration),
    ),
    Univariate(
        "Gamma-without-mode",
        dist.Gamma,
        {"concentration": 0.7, "rate": 1.5},
        lambda concentration, rate: stats.gamma(concentration, scale=1 / rate),
        [*USUAL, "ProductRule-own-family"],
    ),
    _stable("Stable-1.6", 1.6, 0.5),
    _stable("Stable-Cauchy-like", 1.0, 0.4),
    _stable("Stable-0.8", 0.8, -0.6),
    Univariate(
        "Poisson",
        dist.Poisson,
        {"rate": 1.3},
        lambda rate: stats.poisson(rate),
        ["Reinforce", "Reinforce-leave-one-out"],
    ),
    Univariate(
        "Bernoulli",
        dist.Bernoulli,
        {"probs": 0.3},
        lambda probs: stats.bernoulli(probs),
        ["Reinforce", "Reinforce-optimal"],
    ),
]

GAUSSIAN_ESTIMATORS = [
    "Pathwise",
    "BonnetPrice",
    "BonnetPriceHVP",
    "BonnetPriceHVP-2-probes",
    "Reinforce-leave-one-out",
]

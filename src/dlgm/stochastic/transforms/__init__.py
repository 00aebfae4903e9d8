"""Laws that are sampled as a differentiable transformation of a base draw (paper, app. C.2).

Those that numpyro has are numpyro's. `GEV`, `Stable` and `Wald` are added; `Levy` is numpyro's with its draws declared
differentiable, `StudentT` numpyro's with a differentiable CDF. All of them work with `Pathwise()`, and all but
`Stable`, which has neither a CDF nor a density in closed form, with `Implicit()` and `Reinforce()` (the latter for a
`GEV` with a shape above -1/2 only: below, its end moves too fast).

| law | draw | base |
| --- | --- | --- |
| `Normal(loc, scale)` | loc + scale e | standard normal |
| `StudentT(df, loc, scale)` | loc + scale e / sqrt(g / df) | standard normal, chi-squared |
| `Logistic(loc, scale)` | loc + scale log(exp(E) - 1) | Exp(1) |
| `Weibull(scale, concentration)` | scale E^(1 / concentration) | Exp(1) |
| `Gumbel(loc, scale)`, `GEV(loc, scale, shape_xi)` | loc + scale (E^(-xi) - 1) / xi | Exp(1) |
| `Levy(loc, scale)` | loc + scale / e^2 | standard normal |
| `Stable(alpha, beta, loc, scale)` | Chambers, Mallows and Stuck | uniform, Exp(1) |
| `LogNormal(loc, scale)` | exp(loc + scale e) | standard normal |
| `InverseGamma(concentration, rate)` | rate / g | Gamma(concentration), through its CDF |
| `Wald(loc, concentration)` | through its CDF | normal, uniform |
"""

from numpyro.distributions import Gumbel, InverseGamma, Logistic, LogNormal, Normal, Weibull

from dlgm.stochastic.transforms.gev import GEV
from dlgm.stochastic.transforms.levy import Levy
from dlgm.stochastic.transforms.stable import Stable
from dlgm.stochastic.transforms.student_t import StudentT
from dlgm.stochastic.transforms.wald import Wald

__all__ = [
    "GEV",
    "Gumbel",
    "InverseGamma",
    "Levy",
    "LogNormal",
    "Logistic",
    "Normal",
    "Stable",
    "StudentT",
    "Wald",
    "Weibull",
]

r"""How much do gradient estimators vary? (paper, app. D)

Four measurements, all of them on each sample's gradient as the estimators themselves give it:

- `quadratic`: for $f = c\,\xi^2/2$ under $N(\mu, \sigma^2)$, the four variances of app. D.2 over a grid, beside their
  formulas;
- `ratio`: REINFORCE's variance over Bonnet's, which is $5/2 + 2\mu^2/\sigma^2$ and so never below 5/2;
- `growth`: for a sum over K latents, REINFORCE's variance grows like K and Gaussian backpropagation's not at all
  (app. D.1);
- `comparison`: every estimator of `dlgm.stochastic` on a function that is not quadratic.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from dlgm.gaussians import DiagonalGaussian, RankOneGaussian
from dlgm.stochastic import (
    AbstractEstimator,
    BonnetPrice,
    BonnetPriceHVP,
    ConstantBaseline,
    Implicit,
    LeaveOneOut,
    NoBaseline,
    OptimalCoefficient,
    Pathwise,
    ProductRule,
    Reinforce,
    RunningMean,
    per_sample_gradients,
)


@dataclass(frozen=True)
class Settings:
    """What is measured, and on how many samples."""

    num_samples: int = 400_000  # a variance, for one estimator at one setting
    mus: tuple[float, ...] = (-2.0, -1.0, 0.0, 0.5, 1.0, 3.0)
    sigmas: tuple[float, ...] = (0.3, 1.0, 2.0)
    cs: tuple[float, ...] = (0.5, 1.0, 3.0)
    dimensions: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    growth_samples: int = 20_000  # times K numbers have to be held


QUICK = Settings(
    num_samples=20_000, mus=(0.0, 1.0), sigmas=(0.5, 2.0), cs=(1.0, 3.0), dimensions=(1, 50, 500), growth_samples=4_000
)

# App. D.2: what each estimator's variance should be for f = c xi^2 / 2.
FORMULAS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Bonnet, d/dmu": lambda mu, sigma, c: c**2 * sigma**2,
    "Price, d/dC": lambda mu, sigma, c: 0 * c,
    "Pathwise, d/dsigma": lambda mu, sigma, c: 2 * c**2 * sigma**2 + mu**2 * c**2,
    "REINFORCE, d/dmu": lambda mu, sigma, c: 2 * c**2 * mu**2 + 2.5 * c**2 * sigma**2,
}


def run(settings: Settings, seed: int, advance: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """All four measurements as one JSON-ready record. `advance` is told about each step that is done."""
    quadratic_key, growth_key, comparison_key = jax.random.split(jax.random.key(seed), 3)
    quadratic = []
    for row in _quadratic(settings, quadratic_key):
        quadratic.append(row)
        advance("quadratic")
    growth = []
    for row in _growth(settings, growth_key):
        growth.append(row)
        advance("growth")
    comparison = []
    for row in _comparison(settings, comparison_key):
        comparison.append(row)
        advance("comparison")
    return {
        "seed": seed,
        "settings": asdict(settings),
        "jax": jax.__version__,
        "quadratic": quadratic,
        "ratio": _ratio(quadratic),
        "growth": {"rows": growth, "exponents": _exponents(growth)},
        "comparison": comparison,
    }


def num_steps(settings: Settings) -> int:
    """How often `run` calls `advance`."""
    grid = len(settings.mus) * len(settings.sigmas) * len(settings.cs)
    return grid + len(settings.dimensions) + 2 * len(_contenders(0.0))


def _variance(samples: Array | np.ndarray) -> tuple[float, float]:
    r"""The variance of scalar samples and its standard error, $\sqrt{(m_4 - s^4)/n}$."""
    x = np.asarray(samples, np.float64)
    squares = (x - x.mean()) ** 2
    return float(squares.mean()), float(squares.std() / np.sqrt(x.size))


# ---- app. D.2 ------------------------------------------------------------------------------------------------------


def _quadratic(settings: Settings, key: Array) -> Iterator[dict[str, Any]]:
    @jax.jit
    def measure(mu: Array, sigma: Array, c: Array, key: Array) -> dict[str, Array]:
        def f(x: Array) -> Array:
            return 0.5 * c * jnp.sum(x**2)

        def gradients(q: dist.Distribution, estimator: AbstractEstimator, name: str, key: Array) -> Array:
            grads = per_sample_gradients(
                f, q, key=key, estimator=estimator, num_samples=settings.num_samples, wrt=(name,)
            )
            return grads[name].reshape(-1)

        gaussian = DiagonalGaussian(mu[None], -2 * jnp.log(sigma)[None])
        normal = dist.Normal(mu, sigma)
        centred = Reinforce(ConstantBaseline(0.5 * c * (mu**2 + sigma**2)))
        keys = jax.random.split(key, 4)
        # Price's rule is for C = 1 / d, so d/dC = -(d / C) d/dlog_d
        price = gradients(gaussian, BonnetPrice(), "log_d", keys[1]) * (-1 / sigma**2)
        return {
            "Bonnet, d/dmu": gradients(gaussian, BonnetPrice(), "mean", keys[0]),
            "Price, d/dC": 2 * price,  # the paper's table is about the second derivative itself, without its 1/2
            "Pathwise, d/dsigma": gradients(normal, Pathwise(), "scale", keys[2]),
            "REINFORCE, d/dmu": gradients(normal, centred, "loc", keys[3]),
        }

    for i, (mu, sigma, c) in enumerate(product(settings.mus, settings.sigmas, settings.cs)):
        samples = measure(jnp.array(mu), jnp.array(sigma), jnp.array(c), jax.random.fold_in(key, i))
        row: dict[str, Any] = {"mu": mu, "sigma": sigma, "c": c, "variances": {}}
        for name, formula in FORMULAS.items():
            measured, error = _variance(samples[name])
            row["variances"][name] = {
                "measured": measured,
                "standard_error": error,
                "formula": float(formula(mu, sigma, c)),
            }
        yield row


def _ratio(quadratic: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for row in quadratic:
        over, under = (row["variances"][name] for name in ("REINFORCE, d/dmu", "Bonnet, d/dmu"))
        ratio = over["measured"] / under["measured"]
        relative = np.hypot(*(v["standard_error"] / v["measured"] for v in (over, under)))
        rows.append(
            {
                "mu_over_sigma": row["mu"] / row["sigma"],
                "measured": ratio,
                "standard_error": float(ratio * relative),
                "formula": 2.5 + 2 * (row["mu"] / row["sigma"]) ** 2,
            }
        )
    # Of all settings in which the formula is smallest: the smallest measured would be low by its being chosen.
    formula = min(row["formula"] for row in rows)
    lowest = [row for row in rows if row["formula"] == formula]
    smallest = {
        "formula": formula,
        "settings": len(lowest),
        "measured": float(np.mean([row["measured"] for row in lowest])),
        "standard_error": float(np.sqrt(sum(row["standard_error"] ** 2 for row in lowest)) / len(lowest)),
    }
    return {"lower_bound": 2.5, "smallest": smallest, "rows": rows}


# ---- app. D.1 ------------------------------------------------------------------------------------------------------


LARGE_K = 50


def _growth(settings: Settings, key: Array, mu: float = 0.5, sigma: float = 1.0) -> Iterator[dict[str, Any]]:
    def f(x: Array) -> Array:
        return 0.5 * jnp.sum(x**2)

    def measure(K: int, estimator: AbstractEstimator, key: Array) -> tuple[float, float]:
        q = DiagonalGaussian(jnp.full(K, mu), jnp.full(K, -2 * np.log(sigma)))
        n = settings.growth_samples
        grads = jax.jit(
            lambda key: per_sample_gradients(f, q, key=key, estimator=estimator, num_samples=n, wrt=("mean",))
        )(key)
        return _variance(grads["mean"][:, 0])

    for i, K in enumerate(settings.dimensions):
        keys = jax.random.split(jax.random.fold_in(key, i))
        reinforce = measure(K, Reinforce(ConstantBaseline(0.5 * K * (mu**2 + sigma**2))), keys[0])
        bonnet = measure(K, BonnetPrice(), keys[1])
        yield {
            "K": K,
            # each further latent adds Var[f_i] / sigma^2
            "REINFORCE": _with_formula(reinforce, 2 * mu**2 + 2.5 * sigma**2 + (K - 1) * (0.5 * sigma**2 + mu**2)),
            "Bonnet": _with_formula(bonnet, sigma**2),
        }


def _with_formula(measured: tuple[float, float], formula: float) -> dict[str, float]:
    return {"measured": measured[0], "standard_error": measured[1], "formula": formula}


def _exponents(growth: list[dict[str, Any]]) -> dict[str, float]:
    """The slope of log variance against log K, over the larger K, where the terms that do not grow no longer count."""
    rows = [row for row in growth if row["K"] >= LARGE_K]
    log_K = np.log([row["K"] for row in rows])
    return {
        name: float(np.polyfit(log_K, np.log([row[name]["measured"] for row in rows]), 1)[0])
        for name in ("REINFORCE", "Bonnet")
    }


# ---- all estimators ------------------------------------------------------------------------------------------------


def _contenders(mean_value: float) -> dict[str, AbstractEstimator]:
    return {
        "BonnetPrice": BonnetPrice(),
        "BonnetPriceHVP, 1 probe": BonnetPriceHVP(num_probes=1),
        "Pathwise": Pathwise(),
        "Implicit": Implicit(),
        "ProductRule": ProductRule(),
        "REINFORCE": Reinforce(NoBaseline()),
        "REINFORCE, constant": Reinforce(ConstantBaseline(mean_value)),
        "REINFORCE, running mean": Reinforce(RunningMean().update(mean_value)),
        "REINFORCE, leave-one-out": Reinforce(LeaveOneOut()),
        "REINFORCE, optimal": Reinforce(OptimalCoefficient()),
    }


def wave(x: Array) -> Array:
    r"""$\sum_i \cos 2 x_i + x_i$: smooth, and far from quadratic."""
    return jnp.sum(jnp.cos(2 * x) + x)


def _wave_mean(mu: Any, sigma: Any) -> Any:
    return jnp.cos(2 * mu) * jnp.exp(-2 * sigma**2) + mu


MU, SIGMA, RANK_ONE_K = 0.5, 0.8, 10
ONE, MANY = "one latent", "rank-one, 10 latents"


def _comparison(settings: Settings, key: Array) -> Iterator[dict[str, Any]]:
    n = settings.num_samples
    exact = jax.grad(_wave_mean, argnums=(0, 1))(MU, SIGMA)
    baseline = float(_wave_mean(MU, SIGMA))
    for i, (name, estimator) in enumerate(_contenders(baseline).items()):
        samples = _univariate(estimator, n, jax.random.fold_in(key, i))
        row: dict[str, Any] = {"estimator": name, "law": ONE, "mu": None, "sigma": None}  # None: diverges, so refused
        for parameter, truth in zip(("mu", "sigma"), exact, strict=True):
            if parameter in samples:
                row[parameter] = _scored(samples[parameter], float(truth))
        yield row

    q = RankOneGaussian(
        jnp.full(RANK_ONE_K, MU), jnp.full(RANK_ONE_K, -2 * np.log(SIGMA)), jnp.linspace(-0.5, 1.0, RANK_ONE_K)
    )
    for i, (name, estimator) in enumerate(_contenders(float(jnp.sum(_wave_mean(MU, jnp.sqrt(q.variance))))).items()):
        row = {"estimator": name, "law": MANY}
        if isinstance(estimator, Implicit | ProductRule):
            yield row | dict.fromkeys(q.arg_constraints)  # for one real variable only
            continue
        measure = partial(per_sample_gradients, wave, q, estimator=estimator)
        for parameter, grads in _in_blocks(measure, jax.random.fold_in(key, 1000 + i), n // 4).items():
            row[parameter] = {"variance": float(np.var(grads, axis=0).sum())}
        yield row


def _univariate(estimator: AbstractEstimator, n: int, key: Array) -> dict[str, np.ndarray]:
    """Samples of d/dmu and d/dsigma under N(MU, SIGMA^2), for our Gaussians and for numpyro's Normal alike."""
    law: dist.Distribution
    if isinstance(estimator, BonnetPrice | BonnetPriceHVP):
        law = DiagonalGaussian(jnp.array([MU]), jnp.array([-2 * np.log(SIGMA)]))
        parameters = {"mu": ("mean", 1.0), "sigma": ("log_d", -2 / SIGMA)}  # log_d = -2 log sigma
    else:
        law = dist.Normal(MU, SIGMA)
        parameters = {"mu": ("loc", 1.0), "sigma": ("scale", 1.0)}
    if isinstance(estimator, ProductRule):
        del parameters["sigma"]
    wrt = [name for name, _ in parameters.values()]
    grads = _in_blocks(partial(per_sample_gradients, wave, law, estimator=estimator, wrt=wrt), key, n)
    return {parameter: chain * grads[name].reshape(-1) for parameter, (name, chain) in parameters.items()}


def _in_blocks(
    gradients: Callable[..., dict[str, Array]], key: Array, n: int, block: int = 20_000
) -> dict[str, np.ndarray]:
    """`n` samples in blocks, so that memory does not grow with `n`."""
    size = min(block, n)
    compiled = jax.jit(lambda key: gradients(key=key, num_samples=size))
    parts = [compiled(jax.random.fold_in(key, i)) for i in range(-(-n // size))]
    return {name: np.concatenate([np.asarray(part[name], np.float64) for part in parts])[:n] for name in parts[0]}


def _scored(samples: np.ndarray, exact: float) -> dict[str, float]:
    variance, error = _variance(samples)
    return {
        "variance": variance,
        "standard_error": error,
        "mean": float(samples.mean()),
        "mean_standard_error": float(samples.std() / np.sqrt(samples.size)),
        "exact_mean": exact,
    }

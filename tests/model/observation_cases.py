"""One row a family: adding a family is adding a row. Every density here is scipy's or written out, in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from dlgm.model.observations import (
    Bernoulli,
    Categorical,
    Composite,
    DiscretisedLogistic,
    Gaussian,
    HeapedGaussian,
    HeapedLogNormal,
    Logistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)

X = 3  # columns of every case


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Any]
    # (rng, n) -> n rows from some law in the family, not the same in every column
    rows: Callable[[np.random.Generator, int], np.ndarray]
    # (family, v, outputs) -> log-density of every cell, with v of shape (.., x)
    log_density: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    # the whole support of a column, or a grid dense enough to integrate over
    support: np.ndarray
    discrete: bool = True
    has_heap: bool = False  # a mass at zero, beside a density elsewhere
    mean_is_expectation: bool = True
    # how far the start may be below the best constant fit, in nats a cell
    slack: float = 0.01


def leaf(x):
    return np.asarray(x, np.float64)


def log_interval(a, b):
    """log(F(b) - F(a)) of a standard logistic: the smaller tail is subtracted, so that float64 keeps its digits."""
    a, b = np.where(a + b > 0, -b, a), np.where(a + b > 0, -a, b)
    with np.errstate(divide="ignore"):
        return special.log_expit(b) + np.log(-np.expm1(special.log_expit(a) - special.log_expit(b)))


def loc_and_scale(family, outputs):
    rho = outputs[X:] if family.variance == "predicted" else leaf(family.log_var)
    return outputs[:X], np.sqrt(family.floor + np.exp(rho))


def bernoulli(family, v, outputs):
    return stats.bernoulli.logpmf(v, special.expit(outputs))


def gaussian(family, v, outputs):
    loc, scale = loc_and_scale(family, outputs)
    return stats.norm.logpdf(v, loc, scale)


def student_t(family, v, outputs):
    loc, scale = loc_and_scale(family, outputs)
    return stats.t.logpdf(v, 2 + np.log1p(np.exp(leaf(family.raw_df))), loc, scale)


def logistic(family, v, outputs):
    loc, scale = loc_and_scale(family, outputs)
    return stats.logistic.logpdf(v, loc, scale)


def log_normal(family, v, outputs):
    loc, scale = loc_and_scale(family, outputs)
    return stats.lognorm.logpdf(v, s=scale, scale=np.exp(loc))


def heaped(others):
    """Zero with its probability, and the others' density, by themselves."""

    def log_density(family, v, outputs):
        with np.errstate(divide="ignore"):
            elsewhere = others(family.others, v, outputs[X:])
        return np.where(v == 0, special.log_expit(outputs[:X]), special.log_expit(-outputs[:X]) + elsewhere)

    return log_density


def discretised_logistic(family, v, outputs):
    loc, scale = loc_and_scale(family, outputs)
    half = 0.5 * (family.num_levels - 1)
    upper = np.where(v == family.num_levels - 1, np.inf, ((v + 0.5) / half - 1 - loc) / scale)
    lower = np.where(v == 0, -np.inf, ((v - 0.5) / half - 1 - loc) / scale)
    return log_interval(lower, upper)


def categorical(family, v, outputs):
    log_p = special.log_softmax(outputs.reshape(X, family.num_classes), axis=1)
    return log_p[np.arange(X), np.asarray(v, int)]


def ordinal(family, v, outputs):
    edges = np.full((X, max(family.levels) + 1), np.inf)
    edges[:, 0] = -np.inf
    for i, (number, log_gaps) in enumerate(zip(family.levels, leaf(family.log_gaps), strict=True)):
        cutpoints = np.concatenate([[0.0], np.cumsum(np.exp(log_gaps[: number - 2]))])
        edges[i, 1:number] = cutpoints - cutpoints.mean()
    code = np.minimum(np.asarray(v, int), np.array(family.levels) - 1)
    log_p = log_interval(edges[np.arange(X), code] - outputs, edges[np.arange(X), code + 1] - outputs)
    return np.where(v == code, log_p, -np.inf)


def poisson(family, v, outputs):
    return stats.poisson.logpmf(v, np.exp(outputs))


def negative_binomial(family, v, outputs):
    alpha = np.exp(leaf(family.log_concentration))
    return stats.nbinom.logpmf(v, alpha, alpha / (alpha + np.exp(outputs)))


def mixed(family, v, outputs):
    """A Gaussian in column 1 between a categorical in column 2 and a Bernoulli in column 0; outputs in that order."""
    of_gaussian = family.parts[0]
    scale = np.sqrt(of_gaussian.floor + np.exp(leaf(of_gaussian.log_var)))
    log_p = special.log_softmax(outputs[1:4])
    return np.stack(
        [
            stats.bernoulli.logpmf(v[..., 0], special.expit(outputs[4])),
            stats.norm.logpdf(v[..., 1], outputs[0], scale[0]),
            log_p[np.asarray(v[..., 2], int)],
        ],
        axis=-1,
    )


LINE = np.sinh(np.linspace(-16, 16, 8001))
REAL: dict[str, Any] = {"support": LINE, "discrete": False}
LEVELS = np.arange(256.0)


def on_the_line(law):
    return lambda rng, n: np.array([-1.0, 0.5, 3.0]) + np.array([0.5, 1.0, 2.0]) * law(rng, (n, X))


def positive(rng, n):
    return np.exp(np.array([-1.0, 0.5, 3.0]) + np.array([0.5, 0.3, 0.4]) * rng.normal(size=(n, X)))


def sometimes_zero(law):
    return lambda rng, n: np.where(rng.random((n, X)) < [0.2, 0.6, 0.9], 0.0, law(rng, n))


def pixels(rng, n):
    return np.clip(np.round(np.array([60, 127, 180]) + np.array([3, 10, 12]) * rng.logistic(size=(n, X))), 0, 255)


def codes(rng, n):
    return rng.choice(5, size=(n, X), p=[0.1, 0.3, 0.3, 0.2, 0.1])


def normal(rng, shape):
    return rng.normal(size=shape)


def evenly(rng, n):
    """Columns of one spread, which is what a single variance can describe."""
    return np.array([-1.0, 0.5, 3.0]) + rng.normal(size=(n, X))


def mixed_rows(rng, n):
    return np.stack([rng.random(n) < 0.3, rng.normal(2, 0.5, n), rng.choice(3, n)], axis=1).astype(float)


CASES = [
    Case("bernoulli", lambda: Bernoulli(X), lambda rng, n: rng.random((n, X)) < [0.2, 0.5, 0.9], bernoulli, LEVELS[:2]),
    Case("gaussian", lambda: Gaussian(X), on_the_line(normal), gaussian, **REAL),
    Case("gaussian global", lambda: Gaussian(X, "global"), evenly, gaussian, **REAL),
    Case("gaussian predicted", lambda: Gaussian(X, "predicted"), on_the_line(normal), gaussian, **REAL),
    Case(
        "student-t",
        lambda: StudentT(X),
        on_the_line(lambda rng, shape: rng.standard_t(4, shape)),
        student_t,
        **REAL,
    ),
    Case(
        "logistic predicted",
        lambda: Logistic(X, "predicted"),
        on_the_line(lambda rng, shape: rng.logistic(size=shape)),
        logistic,
        **REAL,
    ),
    Case("log-normal", lambda: LogNormal(X), positive, log_normal, np.exp(np.linspace(-40, 40, 8001)), discrete=False),
    Case(
        "heaped-gaussian",
        lambda: HeapedGaussian(X),
        sometimes_zero(on_the_line(normal)),
        heaped(gaussian),
        np.sinh(np.linspace(-16, 16, 8000)),  # without zero
        discrete=False,
        has_heap=True,
    ),
    Case(
        "heaped-gaussian predicted",
        lambda: HeapedGaussian(X, "predicted"),
        sometimes_zero(on_the_line(normal)),
        heaped(gaussian),
        np.sinh(np.linspace(-16, 16, 8000)),
        discrete=False,
        has_heap=True,
    ),
    Case(
        "heaped-log-normal",
        lambda: HeapedLogNormal(X),
        sometimes_zero(positive),
        heaped(log_normal),
        np.exp(np.linspace(-40, 40, 8001)),
        discrete=False,
        has_heap=True,
    ),
    Case(
        "categorical", lambda: Categorical(X, num_classes=5), codes, categorical, LEVELS[:5], mean_is_expectation=False
    ),
    Case("ordinal", lambda: Ordinal(X, num_classes=5), codes, ordinal, LEVELS[:5]),
    Case(
        "ordinal of two",
        lambda: Ordinal(X, num_classes=2),
        lambda rng, n: 1.0 * (rng.random((n, X)) < 0.3),
        ordinal,
        LEVELS[:2],
    ),
    Case(
        "ordinal of several lengths",
        lambda: Ordinal(X, num_classes=(5, 2, 3)),
        lambda rng, n: codes(rng, n) % (5, 2, 3),
        ordinal,
        LEVELS[:5],
    ),
    Case("poisson", lambda: Poisson(X), lambda rng, n: rng.poisson([0.3, 2, 30], (n, X)), poisson, np.arange(300.0)),
    Case(
        "negative-binomial",
        lambda: NegativeBinomial(X),
        lambda rng, n: rng.negative_binomial([0.8, 2, 5], [0.3, 0.2, 0.5], (n, X)),
        negative_binomial,
        np.arange(3000.0),
        slack=0.02,
    ),
    Case("discretised-logistic", lambda: DiscretisedLogistic(X), pixels, discretised_logistic, LEVELS),
    Case(
        "discretised-logistic of four, predicted",
        lambda: DiscretisedLogistic(X, num_levels=4, variance="predicted"),
        lambda rng, n: rng.choice(4, size=(n, X), p=[0.1, 0.4, 0.4, 0.1]),
        discretised_logistic,
        LEVELS[:4],
        slack=0.03,
    ),
]

MIXED = Case(
    "composite",
    lambda: Composite([(Gaussian(1), (1,)), (Categorical(1, num_classes=3), (2,)), (Bernoulli(1), (0,))]),
    mixed_rows,
    mixed,
    LEVELS[:2],
    mean_is_expectation=False,
)

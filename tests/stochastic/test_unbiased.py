"""Every estimator is unbiased for every parameter of every law it supports, on six functions.

Each case takes the mean of n per-sample gradients and asks that it lie within 4 standard errors of the exact gradient,
on either side: a false alarm of 6e-5 a comparison. Keys are fixed.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.stochastic import per_sample_gradients
from dlgm.stochastic.exponential_family import GAUSSIAN
from tests.gaussians.cases import CASES, RANK_ONE, Case
from tests.stochastic import exact, functions
from tests.stochastic.table import ESTIMATORS, GAUSSIAN_ESTIMATORS, REINFORCES, UNIVARIATE, Univariate

N = 40_000


@cache
def measured(row: Univariate | int, estimator: str):
    """{parameter: (means, standard errors)}, functions first; one compilation for all functions."""
    law: Any = CASES[row].cls if isinstance(row, int) else row.law
    all_functions = functions.vector if isinstance(row, int) else functions.scalar
    wrt = None if isinstance(row, int) else row.supports(estimator)

    @jax.jit
    def moments(args, key):
        def one_function(pick):
            grads = per_sample_gradients(
                lambda x: jnp.where(pick, all_functions(x), 0).sum(),
                law(**args),
                key=key,
                estimator=ESTIMATORS[estimator],
                num_samples=N,
                wrt=wrt,
            )
            return {name: (g.mean(0), g.std(0) / jnp.sqrt(N)) for name, g in grads.items()}

        return jax.vmap(one_function)(jnp.eye(len(functions.NAMES), dtype=bool))

    with jax.enable_x64(True):  # so that what is measured is bias, and not float32's rounding
        return jax.device_get(moments(arguments_of(row), jax.random.key(20140114)))


def arguments_of(row):
    args = CASES[row].parameters(np.random.default_rng(0), (), 3) if isinstance(row, int) else row.args
    return {name: jnp.asarray(value) for name, value in args.items()}


def assert_within_four_standard_errors(mean, error, truth, names):
    slack = 4 * error + 1e-7 * (1 + np.abs(truth))  # the exact gradients are good to 1e-7
    for name, m, t, s, e in zip(functions.NAMES, mean, truth, slack, error, strict=True):
        if name in names:
            assert np.all(np.abs(m - t) <= s), f"{name}: {m} against {t}, standard error {e}, n = {N}"


UNIVARIATE_CASES = [
    pytest.param(row, parameter, estimator, id=f"{row.name}-{parameter}-{estimator}")
    for row in UNIVARIATE
    for estimator in row.estimators
    for parameter in row.supports(estimator)
]


@pytest.mark.parametrize(("row", "parameter", "estimator"), UNIVARIATE_CASES)
def test_univariate(row, parameter, estimator):
    mean, error = measured(row, estimator)[parameter]
    truth = exact.gradient(row, parameter)
    assert_within_four_standard_errors(mean, error, truth, row.functions)


@cache
def gaussian_truth(index):
    case = CASES[index]
    with jax.enable_x64(True):

        def expectations(args):
            return functions.vector_expectations(args["mean"], dense_covariance(case, args))

        return jax.device_get(jax.jit(jax.jacrev(expectations))(arguments_of(index)))


def dense_covariance(case: Case, args):
    if "scale_tril" in args:
        L = jnp.tril(args["scale_tril"])
        return L @ L.T
    U = args["U"] if "U" in args else args["u"][:, None] if "u" in args else jnp.zeros((3, 1))
    return jnp.linalg.inv(jnp.diag(jnp.exp(args["log_d"])) + U @ U.T)


GAUSSIAN_CASES = [
    pytest.param(index, parameter, estimator, id=f"{case.name}-{parameter}-{estimator}")
    for index, case in enumerate(CASES)
    for estimator in dict.fromkeys(GAUSSIAN_ESTIMATORS + (REINFORCES if case is RANK_ONE else []))
    for parameter in case.cls.arg_constraints
]


@pytest.mark.parametrize(("index", "parameter", "estimator"), GAUSSIAN_CASES)
def test_gaussian(index, parameter, estimator):
    mean, error = measured(index, estimator)[parameter]
    assert_within_four_standard_errors(mean, error, gaussian_truth(index)[parameter], functions.NAMES)


def test_the_exact_gradients_are_exact():
    """The quadrature against closed forms: E[x^2] = mu^2 + sigma^2 and E[cos(1.5 x + 0.3)] under a Gaussian."""
    normal = UNIVARIATE[0]
    mu, sigma = normal.args["loc"], normal.args["scale"]
    in_mu, in_sigma = exact.gradient(normal, "loc"), exact.gradient(normal, "scale")
    np.testing.assert_allclose(in_mu[2], 2 * mu, rtol=1e-7)
    np.testing.assert_allclose(in_sigma[2], 2 * sigma, rtol=1e-7)
    damping = np.exp(-0.5 * (1.5 * sigma) ** 2)
    np.testing.assert_allclose(in_mu[4], -1.5 * np.sin(1.5 * mu + 0.3) * damping, rtol=1e-7)
    np.testing.assert_allclose(in_sigma[4], -(1.5**2) * sigma * np.cos(1.5 * mu + 0.3) * damping, rtol=1e-7)


def test_every_estimator_is_in_the_table():
    tested = {estimator for row in UNIVARIATE for estimator in row.estimators} | set(GAUSSIAN_ESTIMATORS)
    assert tested == set(ESTIMATORS)


def test_product_rule_is_steady_at_the_mode_in_float32():
    """B is 0/0 there for a regular parameter: it has to come out as the constant -1, and its slope as 0."""
    x = jnp.concatenate([jnp.linspace(-4.0, 5.0, 2001), 0.4 + jnp.geomspace(1e-8, 1e-2, 200), jnp.array([0.4])])
    theta = {"mu": jnp.array(0.4), "sigma2": jnp.array(0.64)}
    np.testing.assert_allclose(GAUSSIAN.B(theta, x)["mu"], -1, atol=1e-4)
    slope = jax.vmap(jax.grad(lambda y: GAUSSIAN.B(theta, y)["mu"]))(x)
    np.testing.assert_allclose(slope, 0, atol=2e-3)

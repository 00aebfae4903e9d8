"""`expect` and `per_sample_gradients` as functions: transformations, batches, closures, higher orders."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from dlgm import stochastic
from dlgm.gaussians import DiagonalGaussian, RankOneGaussian
from dlgm.stochastic import (
    AbstractEstimator,
    BonnetPrice,
    BonnetPriceHVP,
    Implicit,
    LeaveOneOut,
    Pathwise,
    ProductRule,
    Reinforce,
    RunningMean,
    expect,
    per_sample_gradients,
)
from tests.gaussians.cases import CASES

KEY = jax.random.key(3)
GAUSSIAN: dict[str, AbstractEstimator] = {
    "Pathwise": Pathwise(),
    "BonnetPrice": BonnetPrice(),
    "BonnetPriceHVP": BonnetPriceHVP(),
    "Reinforce": Reinforce(LeaveOneOut()),
}
UNIVARIATE: dict[str, AbstractEstimator] = {
    "Pathwise": Pathwise(),
    "Implicit": Implicit(),
    "ProductRule": ProductRule(),
    "Reinforce": Reinforce(LeaveOneOut()),
}
gaussian_estimators = pytest.mark.parametrize("estimator", GAUSSIAN.values(), ids=GAUSSIAN)
univariate_estimators = pytest.mark.parametrize("estimator", UNIVARIATE.values(), ids=UNIVARIATE)


def energy(theta, estimator, num_samples=16, key=KEY):
    q = RankOneGaussian(mean=theta["mean"], log_d=theta["log_d"], u=theta["u"])
    return expect(
        lambda xi: jnp.sum(jnp.cos(theta["w"] * xi)), q, key=key, estimator=estimator, num_samples=num_samples
    )


THETA = {
    "mean": jnp.array([0.3, -0.4]),
    "log_d": jnp.array([0.1, 0.6]),
    "u": jnp.array([0.5, 1.0]),
    "w": jnp.array([1.1, 0.7]),
}


def exact_energy(theta):
    C = jnp.linalg.inv(jnp.diag(jnp.exp(theta["log_d"])) + jnp.outer(theta["u"], theta["u"]))
    return jnp.sum(jnp.cos(theta["w"] * theta["mean"]) * jnp.exp(-0.5 * theta["w"] ** 2 * jnp.diagonal(C)))


@gaussian_estimators
def test_value_is_the_mean_of_f_over_draws(estimator):
    """The estimator decides the gradient; the value stays the Monte Carlo mean of f (n = 20,000, 4 s.e.)."""
    q = DiagonalGaussian(jnp.array([0.5]), jnp.array([0.0]))
    n = 20_000
    value = expect(lambda x: x[0] ** 2, q, key=KEY, estimator=estimator, num_samples=n)
    assert abs(value - 1.25) < 4 * np.sqrt((2 + 4 * 0.25) / n)


@gaussian_estimators
def test_jit_equals_eager(estimator):
    eager = jax.value_and_grad(energy)(THETA, estimator)
    jitted = jax.jit(jax.value_and_grad(energy), static_argnums=())(THETA, estimator)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), eager, jitted)


@gaussian_estimators
def test_vmap_equals_loop(estimator):
    stacked = jax.tree.map(lambda a: jnp.stack([a, 1.2 * a, a - 0.1]), THETA)
    keys = jax.random.split(KEY, 3)
    grad = jax.jit(lambda t, k: jax.grad(energy)(t, estimator, 8, k))
    mapped = jax.vmap(grad)(stacked, keys)
    for i in range(3):
        one = grad(jax.tree.map(lambda a, i=i: a[i], stacked), keys[i])
        jax.tree.map(lambda m, o, i=i: np.testing.assert_allclose(m[i], o, rtol=1e-4, atol=1e-6), mapped, one)


@gaussian_estimators
def test_mean_of_per_sample_gradients_is_the_gradient(estimator):
    q = RankOneGaussian(THETA["mean"], THETA["log_d"], THETA["u"])
    f = lambda xi: jnp.sum(jnp.cos(THETA["w"] * xi))  # noqa: E731
    samples = per_sample_gradients(f, q, key=KEY, estimator=estimator, num_samples=16)
    grads = jax.grad(energy)(THETA, estimator)
    for name, per_sample in samples.items():
        assert per_sample.shape == (16, 2)
        np.testing.assert_allclose(per_sample.mean(0), grads[name], rtol=1e-4, atol=1e-6)


@gaussian_estimators
def test_what_f_closes_over_is_differentiated_in_the_ordinary_way(estimator):
    draws = []

    def through_f(w):
        return energy(THETA | {"w": w}, estimator, 8)

    def record(xi):
        jax.debug.callback(lambda x: draws.append(np.array(x)), xi)
        return jnp.sum(jnp.cos(THETA["w"] * xi))

    q = RankOneGaussian(THETA["mean"], THETA["log_d"], THETA["u"])
    jax.jit(lambda: expect(record, q, key=KEY, estimator=estimator, num_samples=8))()
    jax.effects_barrier()
    xi = np.unique(np.stack(draws).reshape(-1, 2), axis=0)  # some estimators look at f twice
    expected = np.mean(-xi * np.sin(np.asarray(THETA["w"]) * xi), axis=0)
    np.testing.assert_allclose(jax.grad(through_f)(THETA["w"]), expected, rtol=1e-4, atol=1e-6)


@gaussian_estimators
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_derivatives_of_the_gradient_are_unbiased_too(x64, estimator, mode):
    """All second derivatives, mixed ones with what f closes over included: 64 batches of 312, 4.5 standard errors."""
    theta = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), THETA)

    def second(key):
        return mode(jax.grad(lambda t: energy(t, estimator, 312, key)))(theta)

    batches = jax.jit(jax.vmap(second))(jax.random.split(KEY, 64))
    exact = jax.jit(jax.hessian(exact_energy))(theta)
    for first, second_name in itertools.product(THETA, THETA):
        samples, truth = batches[first][second_name], exact[first][second_name]
        error = samples.std(0) / np.sqrt(64)
        assert np.all(np.abs(samples.mean(0) - truth) < 4.5 * error + 1e-9), (first, second_name)


@univariate_estimators
def test_second_derivative_in_a_univariate_law(x64, estimator):
    """d^2/dmu^2 E cos x = -cos(mu) exp(-1/2): 64 batches of 300, 4.5 standard errors."""

    def value(mu, key):
        return expect(jnp.cos, dist.Normal(mu, 1.0), key=key, estimator=estimator, num_samples=300)

    batches = jax.jit(jax.vmap(jax.grad(jax.grad(value)), (None, 0)))(0.4, jax.random.split(KEY, 64))
    assert abs(batches.mean() + np.cos(0.4) * np.exp(-0.5)) < 4.5 * batches.std() / 8


def test_an_expectation_inside_an_expectation():
    """E_x E_y[x y^2] with x ~ N(a, 1), y ~ N(b, 1) is a (b^2 + 1): gradients by two different estimators."""

    def value(a, b):
        inner = lambda x: expect(  # noqa: E731
            lambda y: x[0] * y**2, dist.Normal(b, 1.0), key=jax.random.key(1), estimator=Implicit(), num_samples=4000
        )
        outer = DiagonalGaussian(a[None], jnp.zeros(1))
        return expect(inner, outer, key=KEY, estimator=Pathwise(), num_samples=50)

    in_a, in_b = jax.jit(jax.grad(value, argnums=(0, 1)))(jnp.array(0.5), jnp.array(1.5))
    assert abs(in_a - (1.5**2 + 1)) < 4 * np.sqrt((2 + 4 * 1.5**2) / 4000)
    assert abs(in_b - 2 * 0.5 * 1.5) < 4 * (3 / np.sqrt(50) + 2 / np.sqrt(4000))


def test_batches_have_their_own_gradients():
    locs = jnp.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])

    def total(locs, estimator):
        values = expect(lambda x: x**2, dist.Normal(locs, 0.1), key=KEY, estimator=estimator, num_samples=4000)
        assert values.shape == (2, 3)
        return jnp.sum(values)

    for estimator in (*UNIVARIATE.values(), Reinforce(stochastic.OptimalCoefficient())):
        np.testing.assert_allclose(jax.jit(jax.grad(total))(locs, estimator), 2 * locs, atol=0.6)
    q = RankOneGaussian(jnp.zeros((4, 3)), jnp.zeros(3), jnp.ones(3))
    for estimator in GAUSSIAN.values():
        assert expect(jnp.sum, q, key=KEY, estimator=estimator, num_samples=2).shape == (4,)
        grads = jax.eval_shape(
            lambda q, e=estimator: per_sample_gradients(jnp.sum, q, key=KEY, estimator=e, num_samples=2), q
        )
        assert grads["u"].shape == (2, 4, 3)


def test_one_compilation_serves_new_parameters_and_keys():
    traces = []

    def f(xi):
        traces.append(1)
        return jnp.sum(xi**2)

    @jax.jit
    def grad(u, key):
        def value(u):
            return expect(f, RankOneGaussian(jnp.zeros(2), jnp.zeros(2), u), key=key, estimator=BonnetPrice())

        return jax.grad(value)(u)

    grad(jnp.ones(2), KEY)
    after_first = len(traces)
    grad(2 * jnp.ones(2), jax.random.key(9))
    assert len(traces) == after_first


def test_price_needs_no_samples_for_a_quadratic():
    """Zero variance in the covariance: the paper's eq. 9 for f = xi' xi, against -2 u / (1 + u'u)^2."""
    u = jnp.array([1.0, -0.5, 2.0])

    def value(u):
        q = RankOneGaussian(jnp.ones(3), jnp.zeros(3), u)
        return expect(lambda xi: xi @ xi, q, key=KEY, estimator=BonnetPrice(), num_samples=1)

    np.testing.assert_allclose(jax.grad(value)(u), -2 * u / (1 + u @ u) ** 2, rtol=1e-4, atol=1e-6)


def test_bonnet_price_hvp_gives_bonnet_prices_numbers():
    q = RankOneGaussian(THETA["mean"], THETA["log_d"], THETA["u"])
    f = lambda xi: jnp.sin(xi[0]) * xi[1] ** 2  # noqa: E731
    draw_key, _ = jax.random.split(KEY)
    hvp = per_sample_gradients(f, q, key=KEY, estimator=BonnetPriceHVP(), num_samples=5)
    dense = per_sample_gradients(f, q, key=draw_key, estimator=BonnetPrice(), num_samples=5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), hvp, dense)


def test_hvp_never_forms_the_hessian():
    from tests.gaussians.test_structure import largest_intermediate

    K = 64
    q = RankOneGaussian(jnp.zeros(K), jnp.zeros(K), jnp.ones(K))
    f = lambda xi: jnp.sum(jnp.cos(xi)) * jnp.sum(xi)  # noqa: E731

    def grads(q, estimator):
        return per_sample_gradients(f, q, key=KEY, estimator=estimator, num_samples=1)

    for probes in (None, 2):
        assert largest_intermediate(lambda q, p=probes: grads(q, BonnetPriceHVP(p)), q) < K * K
    assert largest_intermediate(lambda q: grads(q, BonnetPrice()), q) >= K * K
    assert largest_intermediate(lambda q: grads(q, Pathwise()), q) < K * K


def test_running_mean_is_carried_by_the_caller():
    baseline = RunningMean(decay=0.5)
    assert baseline.mean == 0
    for value in (4.0, 8.0):
        baseline = baseline.update(value)
    np.testing.assert_allclose(baseline.mean, (0.25 * 4 + 0.5 * 8) / 0.75)
    carried, _ = jax.lax.scan(
        lambda b, v: (b.update(v), None), RunningMean(total=jnp.zeros(()), weight=jnp.zeros(())), jnp.arange(3.0)
    )
    np.testing.assert_allclose(carried.mean, (0.09 * 1 + 0.1 * 2) / (0.081 + 0.09 + 0.1), rtol=1e-6)


def test_optimal_coefficient_has_the_lowest_variance_of_the_baselines():
    from dlgm.stochastic import ConstantBaseline, NoBaseline, OptimalCoefficient

    law, n = dist.Normal(1.0, 1.0), 20_000
    baselines = [NoBaseline(), ConstantBaseline(2.0), LeaveOneOut(), OptimalCoefficient()]
    spread = [
        per_sample_gradients(lambda x: x**2, law, key=KEY, estimator=Reinforce(b), num_samples=n)["scale"].var()
        for b in baselines
    ]
    assert spread[-1] < min(spread[:-1])


@pytest.mark.parametrize("num_samples", [2, 3])
@pytest.mark.parametrize("name", ["LeaveOneOut", "OptimalCoefficient"])
def test_baselines_made_from_the_samples_bring_no_bias(x64, num_samples, name):
    """A baseline that looked at its own sample would show at S = 2: d/dmu E x^2 = 2 mu, 40,000 repeats, 4 s.e."""
    estimator = Reinforce(getattr(stochastic, name)())

    def value(mu, key):
        law = dist.Normal(mu, 1.0)
        return expect(lambda x: x**2, law, key=key, estimator=estimator, num_samples=num_samples)

    grads = jax.jit(jax.vmap(jax.grad(value), (None, 0)))(0.7, jax.random.split(KEY, 40_000))
    assert abs(grads.mean() - 1.4) < 4 * grads.std() / 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_implicit_is_pathwise_for_gaussians(x64, case):
    """Holding the whitened draw fixed, by the implicit function theorem, is moving mu + R eps."""
    parameters = case.parameters(np.random.default_rng(0), (), 3, 0.5, 2.0)

    @jax.jit
    def gradients(parameters):
        def value(parameters, estimator):
            q = case.cls(**parameters, validate_args=False)
            return expect(lambda xi: jnp.sum(jnp.cos(xi) * xi[0]), q, key=KEY, estimator=estimator, num_samples=4)

        return [jax.grad(value)(parameters, estimator) for estimator in (Implicit(), Pathwise())]

    implicit, pathwise = gradients(parameters)
    for name in parameters:
        got, expected = implicit[name], pathwise[name]
        if name == "scale_tril":
            got, expected = np.tril(got), np.tril(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)

"""The laws that numpyro lacks, against scipy; and the smooth quotients they are built on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats
from jax.test_util import check_grads

from dlgm.stochastic import Implicit, Pathwise, per_sample_gradients
from dlgm.stochastic import transforms as t
from dlgm.stochastic.transforms.series import expm1_ratio, log1p_ratio
from tests.stochastic.exact import stable_expectations

KEY = jax.random.key(5)
# Built when needed: what is made outside the x64 fixture has its parameters rounded to float32.
OURS: dict[str, tuple[Callable[[], dist.Distribution], Any]] = {
    "GEV-bounded": (lambda: t.GEV(0.3, 0.8, -0.3), stats.genextreme(0.3, 0.3, 0.8)),
    "GEV-Gumbel": (lambda: t.GEV(0.3, 0.8, 0.0), stats.gumbel_r(0.3, 0.8)),
    "GEV-near-Gumbel": (lambda: t.GEV(0.3, 0.8, 1e-6), stats.gumbel_r(0.3, 0.8)),
    "GEV-heavy": (lambda: t.GEV(0.3, 0.8, 0.2), stats.genextreme(-0.2, 0.3, 0.8)),
    "Wald": (lambda: t.Wald(1.1, 2.0), stats.invgauss(1.1 / 2.0, scale=2.0)),
    "Wald-narrow": (lambda: t.Wald(1.0, 500.0), stats.invgauss(1 / 500.0, scale=500.0)),
    "Wald-wide": (lambda: t.Wald(3.0, 0.4), stats.invgauss(3 / 0.4, scale=0.4)),
    "Levy": (lambda: t.Levy(0.2, 0.7), stats.levy(0.2, 0.7)),
    "StudentT": (lambda: t.StudentT(3.5, 0.3, 0.7), stats.t(3.5, 0.3, 0.7)),
    "StudentT-light": (lambda: t.StudentT(200.0, 0.3, 0.7), stats.t(200.0, 0.3, 0.7)),
}
each = pytest.mark.parametrize("name", OURS)
PROBABILITIES = np.array([1e-6, 1e-3, 0.05, 0.3, 0.5, 0.51, 0.8, 0.99, 0.9999])


@each
def test_density_and_cdf_agree_with_scipy(x64, name):
    ours, theirs = OURS[name][0](), OURS[name][1]
    x = theirs.ppf(PROBABILITIES)
    close: dict[str, Any] = {"rtol": 2e-5, "atol": 1e-9} if name == "GEV-near-Gumbel" else {"rtol": 1e-8, "atol": 1e-12}
    np.testing.assert_allclose(ours.log_prob(x), theirs.logpdf(x), **close)
    np.testing.assert_allclose(ours.cdf(x), theirs.cdf(x), **close)


@each
def test_mean_and_variance_agree_with_scipy(x64, name):
    if name == "Levy":
        pytest.skip("a Levy law has neither")
    ours, theirs = OURS[name][0](), OURS[name][1]
    np.testing.assert_allclose(ours.mean, theirs.mean(), rtol=2e-5)
    np.testing.assert_allclose(ours.variance, theirs.var(), rtol=1e-4)


@each
def test_draws_follow_the_law(name):
    """Kolmogorov-Smirnov, n = 20,000: refused at p < 1e-4, the false-alarm rate."""
    ours, theirs = OURS[name][0](), OURS[name][1]
    assert stats.kstest(np.asarray(ours.sample(KEY, (20_000,)), np.float64), theirs.cdf).pvalue > 1e-4


@each
def test_draws_and_densities_are_finite_in_float32(name):
    ours = OURS[name][0]()
    x = ours.sample(KEY, (20_000,))
    assert np.all(np.isfinite(x))
    assert np.all(np.isfinite(ours.log_prob(x)))


def test_gev_outside_its_support():
    law = t.GEV(0.0, 1.0, -0.5)  # ends at 2
    assert law.log_prob(3.0) == -jnp.inf
    assert law.cdf(3.0) == 1
    assert t.GEV(0.0, 1.0, 0.5).cdf(-3.0) == 0
    grads = jax.grad(lambda xi: t.GEV(0.0, 1.0, xi).log_prob(jnp.array([1.0, 3.0]))[0])(-0.5)
    assert np.isfinite(grads)
    np.testing.assert_allclose(law.icdf(law.cdf(1.3)), 1.3, rtol=1e-5)


def test_gev_moments_that_do_not_exist_are_infinite():
    assert t.GEV(0.0, 1.0, 1.5).mean == jnp.inf
    assert t.GEV(0.0, 1.0, 0.7).variance == jnp.inf
    assert np.isfinite(t.GEV(0.0, 1.0, 0.7).mean)


@pytest.mark.parametrize("xi", [-0.4, 0.0, 0.3])
def test_gev_draws_are_smooth_in_the_shape(x64, xi):
    """Through xi = 0 as well, where the textbook formula is 0/0: against finite differences, to second order."""
    check_grads(jax.jit(lambda s: t.GEV(0.1, 0.9, s).sample(KEY, (4,))), (xi,), order=2, modes=["fwd"])
    check_grads(jax.jit(lambda s: t.GEV(0.1, 0.9, s).log_prob(jnp.array([0.2, 1.0]))), (xi,), order=2, modes=["fwd"])


STABLE = [(2.0, 0.0), (1.5, 0.7), (1.0, 0.0), (1.0, 0.5), (1.0001, 0.5), (0.5, 1.0), (0.7, -0.9)]


@pytest.mark.parametrize(("alpha", "beta"), STABLE)
def test_stable_draws_have_their_characteristic_function(x64, alpha, beta):
    """cos(tX) and sin(tX) at four t, n = 40,000, within 4.5 standard errors (false alarm 5e-5 in all 8)."""
    x = np.asarray(t.Stable(alpha, beta, 0.2, 0.8).sample(KEY, (40_000,)))
    assert np.all(np.isfinite(x))
    for s in (0.3, 1.0, 2.0, 4.0):
        log_phi = _log_phi(alpha, beta, 0.2, 0.8, s)
        for part, exact in ((np.cos(s * x), np.exp(log_phi).real), (np.sin(s * x), np.exp(log_phi).imag)):
            assert abs(part.mean() - exact) < 4.5 * part.std() / np.sqrt(x.size)


def _log_phi(alpha, beta, loc, scale, s):
    size = abs(scale * s)
    skew = 2 / np.pi * np.log(size) if alpha == 1 else np.tan(np.pi * alpha / 2) * (size ** (1 - alpha) - 1)
    return 1j * loc * s - size**alpha * (1 + 1j * beta * np.sign(s) * skew)


def test_stable_special_cases():
    """Gaussian, Cauchy and Levy: n = 20,000, Kolmogorov-Smirnov at 1e-4."""
    for law, scipy_law in (
        (t.Stable(2.0, 0.0, 0.5, 0.7), stats.norm(0.5, 0.7 * np.sqrt(2))),
        (t.Stable(1.0, 0.0, 0.5, 0.7), stats.cauchy(0.5, 0.7)),
        # in the 0-parametrisation the Levy law starts at loc - scale tan(pi / 4)
        (t.Stable(0.5, 1.0, 0.5, 0.7), stats.levy(0.5 - 0.7, 0.7)),
    ):
        draws = np.asarray(law.sample(KEY, (20_000,)), np.float64)
        assert stats.kstest(draws, scipy_law.cdf).pvalue > 1e-4
    np.testing.assert_allclose(t.Stable(2.0, 0.0, 0.5, 0.7).variance, 2 * 0.7**2, rtol=1e-6)
    assert t.Stable(1.5, 0.0).variance == jnp.inf
    assert np.isnan(t.Stable(0.9, 0.0).mean)
    np.testing.assert_allclose(t.Stable(1.5, 0.5, 0.1, 2.0).mean, 0.1 - 0.5 * 2 * np.tan(0.75 * np.pi), rtol=1e-5)


def test_stable_is_smooth_through_alpha_one(x64):
    """The textbook draw is the difference of two infinities at alpha = 1: here it has derivatives there."""
    check_grads(jax.jit(lambda a: t.Stable(a, 0.6).sample(KEY, (6,))), (1.0,), order=2, modes=["fwd"], rtol=1e-4)
    around = [np.asarray(t.Stable(a, 0.6).sample(KEY, (6,))) for a in (1 - 1e-6, 1.0, 1 + 1e-6)]
    np.testing.assert_allclose(around[0], around[1], rtol=1e-4)
    np.testing.assert_allclose(around[2], around[1], rtol=1e-4)


def test_the_reference_for_stable_laws_is_right():
    """At alpha = 2 the law is N(loc, 2 scale^2), whose expectation of exp(-(x - 1/2)^2 / 2) is known."""
    variance, gap = 2 * 0.8**2, 0.2 - 0.5
    known = np.exp(-(gap**2) / (2 * (1 + variance))) / np.sqrt(1 + variance)
    np.testing.assert_allclose(stable_expectations(2.0, 0.0, 0.2, 0.8)[-1], known, rtol=1e-10)


def test_differentiating_the_wald_recipe_would_be_biased(x64):
    """Why Wald draws take their derivative from the CDF: dE[x]/dmu is 1, and the root formula's is not.

    n = 200,000; the biased recipe is more than 10 standard errors away, ours within 4.
    """
    n, lam = 200_000, 1.0
    normal_key, coin_key = jax.random.split(KEY)
    y, coin = jax.random.normal(normal_key, (n,)) ** 2, jax.random.uniform(coin_key, (n,))

    def recipe(mu):
        s = mu * y / (2 * lam)
        smaller = mu / (1 + s + jnp.sqrt(s * (s + 2)))
        return jnp.where(coin * (mu + smaller) <= mu, smaller, mu**2 / smaller)

    def derivative(f):
        return np.asarray(jax.jvp(f, (1.0,), (1.0,))[1])

    naive, ours = derivative(recipe), derivative(lambda mu: t.Wald(mu, lam).sample(KEY, (n,)))
    assert abs(naive.mean() - 1) > 10 * naive.std() / np.sqrt(n)
    assert abs(ours.mean() - 1) < 4 * ours.std() / np.sqrt(n)


def test_numpyros_student_t_cdf_is_why_there_is_our_own():
    with pytest.raises(ValueError, match="Betainc gradient"):
        jax.grad(lambda df: dist.StudentT(df).cdf(0.5))(3.0)
    assert not np.isfinite(jax.grad(lambda loc: dist.StudentT(3.0, loc).cdf(0.0))(0.0))
    np.testing.assert_allclose(jax.grad(lambda loc: t.StudentT(3.0, loc).cdf(0.0))(0.0), -stats.t(3).pdf(0), rtol=1e-5)


@pytest.mark.parametrize("f", [expm1_ratio, log1p_ratio])
def test_quotients_are_smooth_through_zero(x64, f):
    z = jnp.array([-0.5, -0.1, -0.0999, -1e-9, 0.0, 1e-300, 0.05, 0.1, 0.1001, 0.7])
    plain = {expm1_ratio: np.expm1, log1p_ratio: np.log1p}[f]
    expected = np.array([1.0 if abs(v) < 1e-15 else plain(v) / v for v in np.asarray(z)])
    np.testing.assert_allclose(f(z), expected, rtol=1e-14)
    check_grads(jax.jit(f), (z,), order=3, modes=["fwd"])


def test_bad_parameters_are_refused():
    for bad in (
        lambda: t.GEV(0.0, -1.0, 0.1),
        lambda: t.Wald(-1.0, 1.0),
        lambda: t.Stable(2.5, 0.0),
        lambda: t.Stable(1.5, 1.5),
    ):
        with pytest.raises(ValueError, match="invalid"):
            bad()


# ---- float32, at parameters where the plain formulas cancel or overflow ----------------------------------------------

N = 20_000
WALD_SQUARE = {"loc": lambda lam: 2 + 3 / lam, "concentration": lambda lam: -1 / lam**2}  # of E[x^2] at mu = 1


@pytest.mark.parametrize("lam", [10.0, 1e4, 1e6])
@pytest.mark.parametrize("estimator", [Pathwise(), Implicit()])
def test_wald_gradients_in_float32(lam, estimator):
    """E[x^2] = mu^2 + mu^3 / lambda: n = 20,000, 4 standard errors and float32's rounding of a number near 2."""
    grads = per_sample_gradients(lambda x: x**2, t.Wald(1.0, lam), key=KEY, estimator=estimator, num_samples=N)
    for name, exact in WALD_SQUARE.items():
        rounding = 1e-5 if name == "loc" else 1e-6 / lam
        assert abs(grads[name].mean() - exact(lam)) < 4 * grads[name].std() / N**0.5 + rounding


@pytest.mark.parametrize("df", [0.1, 0.3, 1.0, 3.0, 30.0])
def test_student_t_cdf_in_df_in_float32(df):
    z, h = np.array([-1e3, -1.0, 0.0, 0.01, 1.0, 10.0, 1e3]), 1e-5 * df
    exact = (stats.t(df + h).cdf(z) - stats.t(df - h).cdf(z)) / (2 * h)
    ours = jax.vmap(jax.grad(lambda d, x: t.StudentT(d).cdf(x)), (None, 0))(jnp.float32(df), jnp.float32(z))
    np.testing.assert_allclose(ours, exact, atol=3e-6)


@pytest.mark.parametrize("df", [0.5, 3.0, 1e4, 1e6])
def test_student_t_implicit_location_in_float32(df):
    """The draw moves with loc one to one, whatever df."""
    grads = per_sample_gradients(jnp.sin, t.StudentT(df), key=KEY, estimator=Implicit(), num_samples=1000, wrt=("loc",))
    pathwise = jnp.cos(t.StudentT(df).sample(KEY, (1000,)))
    np.testing.assert_allclose(np.sort(grads["loc"]), np.sort(pathwise), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.0])
def test_stable_draws_are_finite_at_the_ends_of_their_base_draws(alpha, monkeypatch):
    """Base draws are rounded: W = 0 and |U| = pi / 2 do occur, once in ten million."""
    monkeypatch.setattr(jax.random, "exponential", lambda key, shape, dtype: jnp.zeros(shape, dtype))
    monkeypatch.setattr(
        jax.random, "uniform", lambda key, shape, dtype, minval, maxval: jnp.array([minval, 0.0, 1.1 * maxval], dtype)
    )
    draws = t.Stable(alpha, 0.3).sample(KEY, (3,))
    assert not np.any(np.isnan(draws))


def test_wald_outside_its_support():
    law = t.Wald(1.0, 2.0)
    np.testing.assert_array_equal(law.log_prob(jnp.array([-1.0, 0.0])), -np.inf)
    np.testing.assert_array_equal(law.cdf(jnp.array([-1.0, 0.0])), 0)

"""The paper's slips: each printed formula shown wrong, its correction right. docs/errata.md names these tests."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats
from jax.scipy.special import digamma
from scipy import integrate

from dlgm.gaussians import DiagonalGaussian, FullGaussian, RankOneGaussian
from dlgm.stochastic import ExponentialFamily, ProductRule, expect, per_sample_gradients
from dlgm.stochastic.exponential_family import FAMILIES, GAUSSIAN, INVERSE_GAMMA, LOG_NORMAL, WALD
from dlgm.stochastic.transforms import InverseGamma, LogNormal, Wald

KEY = jax.random.key(11)


def test_kl_subtracts_K_and_not_one(x64):
    """Eqs. 13, 28, 30: KL(N(0, I) || N(0, I)) is 0 in any dimension; with the printed -1 it is (K - 1) / 2."""
    K = 5
    q = DiagonalGaussian(jnp.zeros(K), jnp.zeros(K))
    printed = 0.5 * (q.mean @ q.mean + q.trace - q.log_det - 1)
    assert printed == (K - 1) / 2
    assert q.kl_to_standard() == 0
    one = DiagonalGaussian(jnp.array([0.3]), jnp.array([0.7]))  # K = 1, where the two agree
    np.testing.assert_allclose(one.kl_to_standard(), 0.5 * (0.09 + np.exp(-0.7) + 0.7 - 1))


A_MATRIX = np.array([[2.0, 0.5], [-0.3, 1.0]])


def _gradient_in_R(key, n=200_000):
    """Per-sample g eps' for f = exp(a.xi), whose gradient in R is not symmetric, and the exact gradient."""
    a, mu, R = jnp.array([0.5, -0.3]), jnp.array([0.1, 0.2]), jnp.array([[0.3, 0.0], [1.0, 0.6]])
    eps = jax.random.normal(key, (n, 2))
    xi = mu + eps @ R.T
    g = jnp.exp(xi @ a)[:, None] * a
    exact = jax.grad(lambda R: jnp.exp(a @ mu + 0.5 * a @ R @ R.T @ a))(R)
    return np.asarray(g), np.asarray(eps), np.asarray(exact)


def _significantly_different(samples, exact, threshold):
    error = samples.std(0) / np.sqrt(len(samples))
    return bool(np.any(np.abs(samples.mean(0) - exact) > threshold * error + 1e-12))


def test_gradient_in_R_is_g_eps_and_not_eps_g(x64):
    """Eq. 11: n = 200,000; E[g eps'] within 4 standard errors of the exact gradient, E[eps g'] beyond 20."""
    g, eps, exact = _gradient_in_R(KEY)
    assert not _significantly_different(g[:, :, None] * eps[:, None, :], exact, 4)
    assert _significantly_different(eps[:, :, None] * g[:, None, :], exact, 20)
    # and the library's own, through the factor
    q = FullGaussian(jnp.array([0.1, 0.2]), jnp.array([[0.3, 0.0], [1.0, 0.6]]))
    ours = per_sample_gradients(
        lambda xi: jnp.exp(xi @ jnp.array([0.5, -0.3])), q, key=KEY, num_samples=200_000, wrt=("scale_tril",)
    )["scale_tril"]
    assert not _significantly_different(np.asarray(ours), np.tril(exact), 4)


def test_gradient_in_R_has_no_factor_one_half(x64):
    """Eq. 17: the data term is E[g_i eps_j]; with the printed 1/2 it is beyond 20 standard errors (n = 200,000)."""
    g, eps, exact = _gradient_in_R(KEY)
    products = g[:, :, None] * eps[:, None, :]
    assert not _significantly_different(products, exact, 4)
    assert _significantly_different(0.5 * products, exact, 20)


def test_chain_rule_through_R_needs_a_transpose(x64):
    """Eq. 19 prints Tr(grad_R F dR/dtheta), whose indices do not meet: it is Tr((grad_R F)' dR/dtheta)."""

    def F(R):
        return jnp.sum(jnp.sin(R) * A_MATRIX)

    def R_of(theta):
        return jnp.array([[theta, theta**2], [jnp.exp(theta), 1.0]])

    grad_R, dR = jax.grad(F)(R_of(0.7)), jax.jacfwd(R_of)(0.7)
    exact = jax.grad(lambda theta: F(R_of(theta)))(0.7)
    np.testing.assert_allclose(jnp.trace(grad_R.T @ dR), exact)
    assert abs(jnp.trace(grad_R @ dR) - exact) > 0.1


# ---- the product rule (app. C.1) -------------------------------------------------------------------------------------


def test_gaussian_B_for_sigma2_has_a_minus_sign(x64):
    """Only with the minus sign is it d_theta log p / d_x log p."""
    x, mu, s2 = jnp.array([0.1, 0.9, 2.0]), 0.4, 0.8
    printed = (x - mu - np.sqrt(s2)) * (x - mu + np.sqrt(s2)) / (2 * s2 * (x - mu))
    ours = GAUSSIAN.B({"mu": jnp.array(mu), "sigma2": jnp.array(s2)}, x)
    np.testing.assert_allclose(ours["sigma2"], -printed, rtol=1e-10)
    np.testing.assert_allclose(ours["mu"], -1, rtol=1e-10)


def test_gaussian_sigma2_product_rule_diverges(x64):
    """For f = (x + 1/2)^2 at mu = 0, sigma = 1 the gradient is 1; cut at 0.1, 0.01, 0.001 the integral runs away."""

    def integrand(x):
        theta = {"mu": jnp.array(0.0), "sigma2": jnp.array(1.0)}
        slope = jax.grad(lambda y: GAUSSIAN.B(theta, y)["sigma2"] * (y + 0.5) ** 2)(x)
        return -slope * jnp.exp(-0.5 * x**2) / jnp.sqrt(2 * jnp.pi)

    values = [_integrate(integrand, 1e-1), _integrate(integrand, 1e-2), _integrate(integrand, 1e-3)]
    assert abs(values[1] - 1) > 1
    assert abs(values[2] - 1) > 10
    assert abs(values[2]) > 5 * abs(values[1]) > 5 * abs(values[0])


def _integrate(integrand, cut):
    u = np.concatenate([np.geomspace(cut, 10, 200_001)])
    f = np.asarray(jax.jit(jax.vmap(integrand))(jnp.concatenate([-u[::-1], u])))
    half = len(u)
    return np.trapezoid(f[:half], -u[::-1]) + np.trapezoid(f[half:], u)


def test_second_formulation_for_sigma2_is_the_one_to_use(x64):
    """B = -(x - mu) / (2 sigma^2), in -E[B f']: exact by quadrature for f = (x + 1/2)^2, where the gradient is 1."""
    mu, s2 = 0.0, 1.0
    value, _ = integrate.quad(
        lambda x: (x - mu) / (2 * s2) * 2 * (x + 0.5) * stats.norm(mu, np.sqrt(s2)).pdf(x), -12, 12
    )
    np.testing.assert_allclose(value, 1.0, rtol=1e-9)


def test_log_normal_B_is_not_the_gaussian_one(x64):
    x, mu, s2 = jnp.array([0.3, 1.1, 4.0]), 0.2, 0.5
    ours = LOG_NORMAL.B({"mu": jnp.array(mu), "sigma2": jnp.array(s2)}, x)
    deviation = jnp.log(x) - mu
    np.testing.assert_allclose(ours["mu"], x * deviation / (-s2 - deviation), rtol=1e-10)
    assert np.all(np.abs(ours["mu"] - (-1)) > 0.05)
    printed_s2 = (deviation**2 - s2) / (2 * s2 * deviation)
    assert np.all(np.abs(np.abs(ours["sigma2"]) - np.abs(printed_s2)) > 0.05)
    # The printed ones belong to y = ln x, where the law is Gaussian.
    in_y = GAUSSIAN.B({"mu": jnp.array(mu), "sigma2": jnp.array(s2)}, jnp.log(x))
    np.testing.assert_allclose(in_y["mu"], -1, rtol=1e-10)
    np.testing.assert_allclose(in_y["sigma2"], -printed_s2, rtol=1e-10)


def test_inverse_gamma_B_is_right_as_printed(x64):
    x, alpha, beta = jnp.array([0.3, 1.1, 4.0]), 2.5, 1.7
    ours = INVERSE_GAMMA.B({"alpha": jnp.array(alpha), "beta": jnp.array(beta)}, x)
    below = -x * (alpha + 1) + beta
    np.testing.assert_allclose(ours["alpha"], x**2 * (-jnp.log(x) - digamma(alpha) + jnp.log(beta)) / below, rtol=1e-9)
    np.testing.assert_allclose(ours["beta"], x**2 / below * (-1 / x + alpha / beta), rtol=1e-9)


LAWS: dict[str, tuple[ExponentialFamily, dict[str, Any], tuple[float, float], Any]] = {
    "Gaussian": (GAUSSIAN, {"mu": 0.4, "sigma2": 0.8}, (-3.0, 4.0), stats.norm(0.4, np.sqrt(0.8))),
    "inverse Gamma": (INVERSE_GAMMA, {"alpha": 2.5, "beta": 1.7}, (1e-3, 5.0), stats.invgamma(2.5, scale=1.7)),
    "log-Normal": (
        LOG_NORMAL,
        {"mu": 0.2, "sigma2": 0.5},
        (1e-3, 5.0),
        stats.lognorm(np.sqrt(0.5), scale=np.exp(0.2)),
    ),
    "Wald": (WALD, {"mu": 1.1, "lam": 2.0}, (1e-3, 5.0), stats.invgauss(1.1 / 2.0, scale=2.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_natural_forms_are_the_densities(x64, name):
    family, theta, (low, high), law = LAWS[name]
    x = np.linspace(low, high, 9)[1:-1]
    theta = {n: jnp.array(v) for n, v in theta.items()}
    np.testing.assert_allclose(family.log_prob(theta, jnp.asarray(x)), law.logpdf(x), rtol=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_which_parameters_diverge(x64, name):
    """B has a pole exactly where d_x log p = 0 and d_theta log p does not: `regular` lists the ones where it does too.

    So the inverse Gamma, log-Normal and Wald rows diverge as well, in every parameter: the table's B is right, and no
    Monte Carlo average of the estimator built on it converges.
    """
    family, theta, (low, high), _ = LAWS[name]
    theta = {n: jnp.array(v) for n, v in theta.items()}
    for _ in range(60):  # bisection: log p rises up to the mode, then falls
        middle = 0.5 * (low + high)
        low, high = (middle, high) if family.slope(theta, jnp.array(middle)) > 0 else (low, middle)
    mode = jnp.array(low)
    for parameter in theta:
        direction = {n: jnp.array(float(n == parameter)) for n in theta}
        has_pole = abs(family.score(theta, direction, mode)) > 1e-6
        assert has_pole == (parameter not in family.regular), parameter


@pytest.mark.parametrize(
    "law", [InverseGamma(9.0, 8.0), LogNormal(0.1, 0.4), Wald(1.1, 4.0)], ids=lambda law: type(law).__name__
)
def test_the_product_rule_holds_where_f_vanishes_at_the_mode(x64, law):
    """With (x - mode)^2 as a factor of f the pole is cancelled, and every B gives the right gradient.

    n = 200,000, 4 standard errors. This is what `allow_divergent=True` is for.
    """
    family = FAMILIES[type(law)]
    theta = jax.tree.map(jnp.asarray, family.theta(law))
    grid = jnp.linspace(0.3, 2.0, 200_001)
    mode = float(grid[jnp.argmax(family.log_prob(theta, grid))])

    def f(x):
        return (x - mode) ** 2 * jnp.exp(-x)

    samples = per_sample_gradients(f, law, key=KEY, estimator=ProductRule(allow_divergent=True), num_samples=200_000)
    x = np.linspace(1e-4, 30, 400_001)
    for name in law.arg_constraints:
        args = {n: jnp.asarray(v, float) for n, v in law.get_args().items()}

        def expectation(value, name=name, args=args):
            density = jnp.exp(type(law)(**(args | {name: value})).log_prob(x))
            return jnp.trapezoid(f(x) * density, x)

        exact = jax.grad(expectation)(args[name])
        g = np.asarray(samples[name])
        assert abs(g.mean() - exact) < 4 * g.std() / np.sqrt(g.size) + 1e-6


# ---- coordinate transformations (app. C.2) ---------------------------------------------------------------------------


def test_logistic_transformation():
    """mu + beta ln(e^X - 1) of Exp(1) draws is Logistic; the printed ln(1 + e^-X) stays inside (0, ln 2)."""
    X = np.random.default_rng(0).exponential(size=20_000)
    mu, beta = 0.3, 0.7
    assert stats.kstest(mu + beta * np.log(np.expm1(X)), stats.logistic(mu, beta).cdf).pvalue > 1e-4
    printed = np.log1p(np.exp(-X))
    assert printed.min() > 0
    assert printed.max() < np.log(2)
    assert stats.kstest(mu + beta * printed, stats.logistic(mu, beta).cdf).pvalue < 1e-100


def test_levy_self_similarity():
    """k X + b of Levy(mu, c) draws is Levy(k mu + b, k c): one scale, which the paper writes with two symbols."""
    X = stats.levy(0.5, 1.3).rvs(20_000, random_state=1)
    k, b = 2.0, -0.4
    assert stats.kstest(k * X + b, stats.levy(k * 0.5 + b, k * 1.3).cdf).pvalue > 1e-4
    assert stats.kstest(k * X + b, stats.levy(k * 0.5 + b, 1.3).cdf).pvalue < 1e-100


def test_gev_and_weibull_transformations_are_right_as_printed():
    rng = np.random.default_rng(2)
    m, b, mu, sigma = 1.7, -0.3, 0.4, 0.8
    gumbel = stats.gumbel_r(mu, sigma).rvs(20_000, random_state=3)
    assert stats.kstest(m * gumbel + b, stats.gumbel_r(m * mu + b, m * sigma).cdf).pvalue > 1e-4
    lam, k = 1.2, 1.7
    weibull = lam * rng.exponential(size=20_000) ** (1 / k)
    assert stats.kstest(weibull, stats.weibull_min(k, scale=lam).cdf).pvalue > 1e-4


# ---- variational Bayes, initialisation, rank one ---------------------------------------------------------------------


def test_gradient_in_m_is_divided_by_kappa(x64):
    """Eq. 29: the parameter term of eq. 28 is m^2 / (2 kappa) + .., so its derivative is m / kappa."""
    kappa, m, tau = 1e6, 3.0, 0.2

    def parameter_term(m):
        return 0.5 * (m**2 / kappa + tau / kappa + jnp.log(kappa) - jnp.log(tau) - 1)

    np.testing.assert_allclose(jax.grad(parameter_term)(m), m / kappa)
    prior, posterior = stats.norm(0, np.sqrt(kappa)), stats.norm(m, np.sqrt(tau))
    kl, _ = integrate.quad(lambda x: posterior.pdf(x) * (posterior.logpdf(x) - prior.logpdf(x)), m - 8, m + 8)
    np.testing.assert_allclose(parameter_term(m), kl, rtol=1e-8)


@pytest.mark.parametrize(("variance", "usable"), [(1e6, False), (1e-6, False), ("fan-in", True)])
def test_initial_variance(variance, usable):
    """A rectifier network of three layers of 200: with variance 1e6 it explodes, with 1e-6 it is silent."""
    rng = np.random.default_rng(0)
    h = rng.normal(size=(100, 200))
    for _ in range(3):
        scale = np.sqrt(2 / 200 if variance == "fan-in" else variance)
        h = np.maximum(h @ (scale * rng.normal(size=(200, 200))), 0)
    assert (0.1 < h.std() < 10) == usable


def test_rank_one_a_at_small_u():
    """(1 - sqrt(eta)) / s is 0/0 at u = 0; eta / (1 + sqrt(eta)) is the same number everywhere else."""
    s = np.float32(1e-8)
    eta = np.float32(1) / (1 + s)
    assert abs((1 - np.sqrt(eta)) / s - 0.5) > 0.1
    assert abs(eta / (1 + np.sqrt(eta)) - 0.5) < 1e-6
    q = RankOneGaussian(jnp.zeros(2), jnp.zeros(2), jnp.zeros(2))
    np.testing.assert_array_equal(q.factor(), np.eye(2))
    grads = jax.grad(lambda u: jnp.sum(RankOneGaussian(jnp.zeros(2), jnp.zeros(2), u).factor()))(jnp.zeros(2))
    np.testing.assert_array_equal(grads, 0)


def test_app_d_variances_are_right_as_printed(x64):
    """All four, exactly, from Gaussian moments: Gauss-Hermite quadrature of degree 20 integrates these polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    for mu, sigma, c in itertools.product((-1.0, 0.0, 2.0), (0.5, 2.0), (1.0, 3.0)):
        xi = mu + sigma * nodes

        def variance(values):
            return np.sum(weights * values**2) - np.sum(weights * values) ** 2

        f, mean_f = 0.5 * c * xi**2, 0.5 * c * (mu**2 + sigma**2)
        np.testing.assert_allclose(variance(c * xi), c**2 * sigma**2)
        np.testing.assert_allclose(variance(c + 0 * xi), 0, atol=1e-12)
        np.testing.assert_allclose(variance(nodes * c * xi), 2 * c**2 * sigma**2 + mu**2 * c**2)
        np.testing.assert_allclose(variance(nodes / sigma * (f - mean_f)), 2 * c**2 * mu**2 + 2.5 * c**2 * sigma**2)


# ---- the bound on the imputation chain (app. F) ----------------------------------------------------------------------


def test_imputation_bound_is_per_observed_probability(x64):
    """Eq. 25's left side is conditioned on v_o, the proof's second line is not: p(v_m | v_o) became p(v_m, v_o).

    One binary xi and two binary entries, enumerated: the printed bound fails, and divided by p(v_o) it holds.
    """
    p_xi = np.array([0.5, 0.5])
    p_o, p_m = np.array([0.02, 0.02]), np.array([0.1, 0.9])  # P(v_o = 1 | xi), P(v_m = 1 | xi)

    def likelihood(v_m, v_o):  # for both xi
        return np.where(v_m, p_m, 1 - p_m) * np.where(v_o, p_o, 1 - p_o)

    states = list(itertools.product((0, 1), (0, 1)))
    p_v = {v: float(p_xi @ likelihood(*v)) for v in states}
    posterior = {v: p_xi * likelihood(*v) / p_v[v] for v in states}
    # A recognition model that is right where v_o = 0 and knows nothing where v_o = 1, which is rare.
    q = {v: posterior[v] if v[1] == 0 else np.array([0.9, 0.1]) for v in states}

    epsilon = max(sum(abs(q[v][i] * p_v[v] / p_xi[i] - likelihood(*v)[i]) for v in states) for i in (0, 1))
    v_o = 1
    p_observed = p_v[0, v_o] + p_v[1, v_o]
    error = 0.0
    for new in (0, 1):
        emit = np.where(new, p_m, 1 - p_m)
        error += abs(sum(emit @ (q[v_m, v_o] - posterior[v_m, v_o]) * p_v[v_m, v_o] / p_observed for v_m in (0, 1)))
    assert error > epsilon  # the printed bound, broken
    assert error <= epsilon / p_observed


def test_the_estimators_agree_with_all_of_this():
    """A last look from outside: E of a quadratic form under a rank-one Gaussian, in one line."""
    q = RankOneGaussian(jnp.zeros(2), jnp.zeros(2), jnp.ones(2))
    value = expect(lambda xi: xi @ xi, q, key=KEY, num_samples=100_000)
    assert abs(value - q.trace) < 4 * 2 / np.sqrt(100_000)

"""Every member of every Gaussian against dense float64 linear algebra."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads
from numpyro.distributions.kl import kl_divergence

from tests.gaussians.cases import CASES, DIAGONAL, FULL, LOW_RANK, RANK_ONE, STRUCTURED, members

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
shapes = st.sampled_from([((3,), 1), ((2, 3), 2), ((), 3), ((1,), 7)])
seeds = st.integers(0, 2**32 - 1)


def dense_log_prob(x, mean, C):
    K = mean.shape[-1]
    deviation = x - mean
    quadratic = np.einsum("...i,...ij,...j", deviation, np.linalg.inv(C), deviation)
    return -0.5 * (quadratic + np.linalg.slogdet(C)[1] + K * np.log(2 * np.pi))


def dense_kl(mean_p, C_p, mean_q, C_q):
    K, P_q, deviation = mean_p.shape[-1], np.linalg.inv(C_q), mean_p - mean_q
    quadratic = np.einsum("...i,...ij,...j", deviation, P_q, deviation)
    log_ratio = np.linalg.slogdet(C_q)[1] - np.linalg.slogdet(C_p)[1]
    return 0.5 * (np.trace(P_q @ C_p, axis1=-2, axis2=-1) + quadratic - K + log_ratio)


@by_name
@settings(max_examples=25)
@given(shape=shapes, seed=seeds)
def test_members_in_float64(case, shape, seed):
    batch, K = shape
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        parameters = case.parameters(rng, batch, K, spread=3.0, size2=4.0)
        C = case.covariance(parameters)
        x, eps = rng.normal(size=(5, *batch, K)), rng.normal(size=(5, *batch, K))
        got = members(case.cls)(parameters, x, eps)
    R = got["factor"]
    expected = {
        "covariance": C,
        "factor_times": np.einsum("...ij,...j->...i", R, eps),
        "factor_transpose_times": np.einsum("...ji,...j->...i", R, eps),
        "solve_factor": np.linalg.solve(np.broadcast_to(R, (5, *R.shape)), x[..., None])[..., 0],
        "round_trip": x,
        "variance": np.diagonal(C, axis1=-2, axis2=-1),
        "trace": np.trace(C, axis1=-2, axis2=-1),
        "log_det": np.linalg.slogdet(C)[1],
        "log_prob": dense_log_prob(x, parameters["mean"], C),
        "entropy": 0.5 * (K * np.log(2 * np.pi * np.e) + np.linalg.slogdet(C)[1]),
        "kl_to_standard": dense_kl(parameters["mean"], C, np.zeros(K), np.eye(K)),
    }
    assert got.keys() == expected.keys() | {"factor"}
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(R @ np.swapaxes(R, -1, -2), C, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p_case", CASES, ids=lambda case: "p=" + case.name)
@pytest.mark.parametrize("q_case", CASES, ids=lambda case: "q=" + case.name)
def test_kl_between_every_pair(x64, p_case, q_case):
    rng = np.random.default_rng(7)
    p, q = p_case.parameters(rng, (3,), 5), q_case.parameters(rng, (2, 1), 5)
    value = kl_divergence(p_case.build(p), q_case.build(q))
    expected = dense_kl(p["mean"], p_case.covariance(p), q["mean"], q_case.covariance(q))
    assert value.shape == (2, 3)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


@by_name
def test_kl_to_itself_is_zero(case):
    parameters = case.parameters(np.random.default_rng(0), (3,), 6)
    np.testing.assert_allclose(kl_divergence(case.build(parameters), case.build(parameters)), 0, atol=3e-6)


# ---- float32, where the textbook formulas fail -----------------------------------------------------------------------


def naive_float32(parameters):
    """C = D^-1 - eta D^-1 u u' D^-1 and R with (1 - sqrt(eta)) / s, term by term as printed."""
    d, u = np.exp(np.float32(parameters["log_d"])), np.float32(parameters["u"])
    s = np.sum(u * u / d, axis=-1, keepdims=True)
    eta = 1 / (1 + s)
    return 1 / d - eta * (u / d) ** 2, (1 - np.sqrt(eta)) / s


def rounded(parameters):
    """The parameters as float32 holds them, in float64: both sides then answer the same question."""
    return {name: np.float32(value).astype(np.float64) for name, value in parameters.items()}


@settings(max_examples=150)
@given(
    shape=shapes,
    seed=seeds,
    log10_size2=st.floats(-12, 12),
    spread=st.sampled_from([0.0, 1.0, 10.0, 25.0]),
    sparse=st.booleans(),
)
def test_rank_one_in_float32(shape, seed, log10_size2, spread, sparse):
    """1e-12 < |u|^2 < 1e12 and d between e^-25 and e^25, in every batch shape; `sparse` puts all of u on one latent."""
    batch, K = shape
    rng = np.random.default_rng(seed)
    parameters = RANK_ONE.parameters(rng, batch, K, spread=spread, size2=10.0**log10_size2)
    if sparse:
        parameters["u"] = parameters["u"] * (np.arange(K) == rng.integers(K))
    parameters = rounded(parameters)
    d, u, eps = np.exp(parameters["log_d"]), parameters["u"], rounded({"e": rng.normal(size=(*batch, K))})["e"]
    w = u / np.sqrt(d)
    s = np.sum(w * w, axis=-1, keepdims=True)

    # The closed forms in exact-enough arithmetic: sums that leave i out, so that float64 does not cancel either.
    others = s - w * w
    variance = (1 + np.where(others > 1e-6 * s, others, _sum_without_each(w * w))) / (1 + s) / d
    tolerance: dict[str, Any] = {"rtol": 2e-5, "atol": 0}  # log_d up to 25 is itself rounded, to 1e-6, before exp
    scale = np.sqrt(variance)
    got = members(RANK_ONE.cls)(*jax.tree.map(np.float32, (parameters, scale, eps)))
    np.testing.assert_allclose(got["variance"], variance, **tolerance)
    np.testing.assert_allclose(got["trace"], variance.sum(-1), **tolerance)
    log_det = -np.log1p(s[..., 0]) - parameters["log_d"].sum(-1)
    np.testing.assert_allclose(got["log_det"], log_det, rtol=2e-5, atol=2e-6 * K * max(1, spread))

    # R eps: each entry to within rounding of its own standard deviation
    a = 1 / ((1 + s) + np.sqrt(1 + s))
    dot = np.sum(w * eps, axis=-1, keepdims=True)
    without = _sum_without_each(w * eps)
    exact = np.where(
        w * w > 0.5 * s,
        eps * (a * (1 + _sum_without_each(w * w)) + 1 / (1 + np.sqrt(1 + s))) - a * w * without,
        eps - a * w * dot,
    )
    exact /= np.sqrt(d)
    error = np.abs(got["factor_times"] - exact) / scale
    assert error.max() < 3e-5 * max(1, np.abs(eps).max()) * K

    # log_prob at a point one standard deviation away: the quadratic form, relative to the sizes of its terms
    z = np.float64(got["solve_factor"])
    y = np.sqrt(d) * np.float32(scale)
    quadratic = np.sum(y * y, -1) + np.sum(w * y, -1) ** 2
    terms = np.sum(y * y, -1) + np.sum(np.abs(w * y), -1) ** 2
    assert np.all(np.abs(np.sum(z * z, -1) - quadratic) < 1e-4 * (1 + terms))


def _sum_without_each(terms):
    total = np.zeros_like(terms)
    for i in range(terms.shape[-1]):
        total[..., i] = np.delete(terms, i, axis=-1).sum(-1)
    return total


def test_the_textbook_formulas_do_fail_there():
    """The test above is worth something only if the plain formulas would not pass it."""
    one_latent = {"mean": np.zeros(1), "log_d": np.zeros(1), "u": np.array([1e5])}
    variance, _ = naive_float32(one_latent)
    assert variance[0] == 0  # the true variance is 1e-10
    np.testing.assert_allclose(RANK_ONE.build(one_latent, jnp.float32).variance, 1 / (1 + 1e10), rtol=1e-6)

    tiny = {"mean": np.zeros(2), "log_d": np.zeros(2), "u": np.array([1e-5, 0])}
    _, a = naive_float32(tiny)
    assert abs(a[0] - 0.5) > 0.1  # the true value is 1/2 at u = 0


@settings(max_examples=60)
@given(shape=shapes, seed=seeds, log10_size2=st.floats(-12, 12), r=st.sampled_from([1, 4]))
def test_low_rank_in_float32(shape, seed, log10_size2, r):
    """Backward stable: the answer lies within what rounding `U` itself could change."""
    batch, K = shape
    rng = np.random.default_rng(seed)
    parameters = rounded(LOW_RANK.parameters(rng, batch, K, spread=1.0, size2=10.0**log10_size2, r=min(r, K)))
    got = low_rank_members(jax.tree.map(np.float32, parameters))
    answers = _low_rank_answers(parameters)
    moved = {name: np.zeros_like(value) for name, value in answers.items()}
    for _ in range(10):
        nearby = parameters | {"U": parameters["U"] * (1 + 4e-7 * rng.choice([-1, 1], parameters["U"].shape))}
        for name, value in _low_rank_answers(nearby).items():
            moved[name] = np.maximum(moved[name], np.abs(value - answers[name]))
    for name in answers:
        slack = 10 * moved[name] + 1e-5 * (1 + np.abs(answers[name]))
        assert np.all(np.abs(got[name] - answers[name]) <= slack), name
    assert np.all(got["variance"] > 0)


@jax.jit
def low_rank_members(parameters):
    q = LOW_RANK.cls(**parameters)
    return {"log_det": q.log_det, "variance": q.variance}


def _low_rank_answers(parameters):
    # Through the QR factor of [I; W], which does not square the condition number as forming W'W would.
    U, d = parameters["U"], np.exp(parameters["log_d"])
    W = U / np.sqrt(d)[..., None]
    eye = np.broadcast_to(np.eye(U.shape[-1]), (*U.shape[:-2], U.shape[-1], U.shape[-1]))
    Q, upper = np.linalg.qr(np.concatenate([eye, W], axis=-2))
    log_det = -np.log(d).sum(-1) - 2 * np.log(np.abs(np.diagonal(upper, axis1=-2, axis2=-1))).sum(-1)
    leverage = np.sum(Q[..., U.shape[-1] :, :] ** 2, axis=-1)
    return {"log_det": log_det, "variance": (1 - leverage) / d}


def test_low_rank_survives_parallel_columns():
    """Cholesky of I + U'U is not positive definite in float32 here."""
    U = np.full((3, 2), 1e6)
    with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(np.float32(np.eye(2) + U.T @ U))
    q = LOW_RANK.build({"mean": np.zeros(3), "log_d": np.zeros(3), "U": U}, jnp.float32)
    np.testing.assert_allclose(q.log_det, -np.log1p(6e12), rtol=1e-3)
    grads = jax.grad(lambda U: LOW_RANK.cls(jnp.zeros(3), jnp.zeros(3), U).kl_to_standard())(jnp.asarray(U))
    assert np.all(np.isfinite(grads))


@pytest.mark.parametrize(("K", "r", "size"), [(4, 4, 1e4), (8, 2, 1e4), (50, 8, 1e4), (3, 2, 1e6)])
def test_low_rank_variances_have_relative_accuracy(K, r, size):
    """Where the columns pin some latents down, 1 - (what they take away) has no digits left in float32."""
    rng = np.random.default_rng(0)
    U = size * rng.normal(size=(K, r))
    U[r:] *= 1e-6 if K == 8 else 1
    parameters = rounded({"mean": np.zeros(K), "log_d": np.zeros(K), "U": U})
    exact = np.diagonal(LOW_RANK.covariance(parameters))
    if size == 1e6:  # beyond float64's own reach: Woodbury on the r-by-r side, scaled
        W = parameters["U"] / size
        inner = np.linalg.inv(size**-2 * np.eye(r) + W.T @ W)
        exact = 1 - np.einsum("ij,jk,ik->i", W, inner, W)
    q = LOW_RANK.build(parameters, jnp.float32)
    np.testing.assert_allclose(q.variance, exact, rtol=2e-3)


@pytest.mark.parametrize(("log_d", "size"), [(-85.0, 10.0), (0.0, 2e19), (-60.0, 1e12), (60.0, 1e-12), (0.0, 1e30)])
def test_no_overflow_where_the_answer_is_finite(log_d, size):
    """u'D^-1u itself would be infinite in float32 in most of these."""
    q = RANK_ONE.cls(jnp.zeros(2), jnp.full(2, log_d), jnp.full(2, size))
    log_s = np.log(2) + 2 * np.log(size) - log_d
    log_det = -2 * log_d - np.logaddexp(0, log_s)
    np.testing.assert_allclose(q.log_det, log_det, rtol=1e-5)
    eta_s = 1 / (1 + np.exp(-log_s))
    np.testing.assert_allclose(q.variance / np.exp(-log_d), 1 - 0.5 * eta_s, rtol=1e-5)
    assert np.all(np.isfinite(q.sample(jax.random.key(0), (100,))))
    grads = jax.grad(lambda u: RANK_ONE.cls(jnp.zeros(2), jnp.full(2, log_d), u).log_det)(jnp.full(2, size))
    np.testing.assert_allclose(grads, -eta_s / size, rtol=1e-4)


def test_kl_keeps_its_digits_with_many_latents():
    """K = 100,000 in float32: the divergence of a Gaussian to itself, and to the standard one both ways."""
    rng = np.random.default_rng(1)
    parameters = RANK_ONE.parameters(rng, (), 100_000, spread=0.01, size2=0.5)
    parameters["mean"] *= 0.001
    q = RANK_ONE.build(parameters, jnp.float32)
    standard = DIAGONAL.cls(jnp.zeros(100_000), jnp.zeros(100_000))
    np.testing.assert_allclose(kl_divergence(q, q), 0, atol=1e-3)
    np.testing.assert_allclose(kl_divergence(q, standard), q.kl_to_standard(), rtol=1e-3)


@pytest.mark.parametrize("case", STRUCTURED, ids=lambda case: case.name)
@pytest.mark.parametrize("log_d", [-20.0, 20.0])
def test_huge_and_tiny_precisions(case, log_d):
    parameters = case.parameters(np.random.default_rng(3), (), 4, spread=0.0)
    parameters["log_d"] = np.full(4, log_d)
    q, exact = case.build(parameters, jnp.float32), case.covariance(parameters)
    np.testing.assert_allclose(q.log_det, np.linalg.slogdet(exact)[1], rtol=1e-5)
    if case.name in ("diagonal", "rank-one"):
        np.testing.assert_allclose(q.variance, np.diagonal(exact), rtol=2e-5)


# ---- gradients -------------------------------------------------------------------------------------------------------


@by_name
def test_gradients_against_finite_differences(x64, case):
    rng = np.random.default_rng(11)
    parameters = case.parameters(rng, (), 4)
    x, eps, key_weights = rng.normal(size=(3, 4))

    @jax.jit
    def everything(parameters):
        q = case.cls(**parameters)
        sample = q.mean + q.factor_times(eps)
        return q.log_prob(x) + 0.7 * jnp.dot(key_weights, sample) + 1.3 * q.kl_to_standard()

    check_grads(everything, ({n: jnp.asarray(v) for n, v in parameters.items()},), order=1)


@pytest.mark.parametrize("size2", [0.0, 1e-12, 1e12])
def test_rank_one_gradients_at_the_ends_in_float32(size2):
    """At u = 0, near it, and far from it, float32 gradients agree with float64 ones."""
    rng = np.random.default_rng(5)
    parameters = rounded(RANK_ONE.parameters(rng, (), 4, size2=size2))
    eps = rounded({"e": rng.normal(size=4)})["e"]

    def objective(parameters, eps):
        q = RANK_ONE.cls(**parameters)
        return jnp.sum(q.factor_times(eps)) + q.kl_to_standard()

    single = jax.grad(objective)({n: jnp.float32(v) for n, v in parameters.items()}, jnp.float32(eps))
    with jax.enable_x64(True):
        double = jax.grad(objective)({n: jnp.asarray(v) for n, v in parameters.items()}, jnp.asarray(eps))
    for name in parameters:
        np.testing.assert_allclose(single[name], double[name], rtol=1e-4, atol=1e-5 * np.abs(double[name]).max())


def test_rank_r_with_one_column_is_rank_one(x64):
    parameters = RANK_ONE.parameters(np.random.default_rng(2), (2,), 5)
    one = RANK_ONE.build(parameters)
    low = LOW_RANK.cls(mean=parameters["mean"], log_d=parameters["log_d"], U=parameters["u"][..., None])
    eps = np.random.default_rng(3).normal(size=(2, 5))
    np.testing.assert_allclose(one.factor_times(eps), low.factor_times(eps), rtol=1e-12)
    np.testing.assert_allclose(one.variance, low.variance, rtol=1e-12)


def test_full_reads_the_lower_triangle_only(x64):
    parameters = FULL.parameters(np.random.default_rng(2), (), 4)
    dirty = parameters | {"scale_tril": parameters["scale_tril"] + np.triu(np.ones((4, 4)), 1)}
    np.testing.assert_array_equal(FULL.build(parameters).covariance(), FULL.build(dirty).covariance())

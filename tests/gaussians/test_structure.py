"""The structured Gaussians never form a K-by-K array, forward or backward, and a million latents fit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from dlgm.gaussians import LowRankGaussian, RankOneGaussian
from tests.gaussians.cases import CASES, STRUCTURED

K = 64


def jaxprs_in(value):
    if isinstance(value, ClosedJaxpr):
        yield from all_jaxprs(value.jaxpr)
    elif isinstance(value, Jaxpr):
        yield from all_jaxprs(value)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from jaxprs_in(item)


def all_jaxprs(jaxpr):
    yield jaxpr
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            yield from jaxprs_in(value)


def largest_intermediate(f, *args):
    closed = jax.make_jaxpr(f)(*args)
    sizes = [
        math.prod(var.aval.shape)
        for jaxpr in all_jaxprs(closed.jaxpr)
        for eqn in jaxpr.eqns
        for var in eqn.outvars
        if hasattr(var.aval, "shape")
    ]
    return max(sizes)


def objective(cls):
    def value(parameters, x, key):
        q = cls(**parameters)
        other = cls(**jax.tree.map(lambda p: 0.9 * p, parameters))
        from numpyro.distributions.kl import kl_divergence

        return jnp.sum(q.sample(key)) + q.log_prob(x) + q.kl_to_standard() + kl_divergence(q, other)

    return jax.value_and_grad(value)


@pytest.mark.parametrize("case", STRUCTURED, ids=lambda case: case.name)
def test_no_intermediate_has_K_squared_elements(case):
    parameters = {n: jnp.float32(v) for n, v in case.parameters(np.random.default_rng(0), (), K).items()}
    largest = largest_intermediate(objective(case.cls), parameters, jnp.ones(K), jax.random.key(0))
    assert K <= largest < K * K


def test_the_walk_finds_a_dense_array_where_there_is_one():
    full = CASES[-1]
    parameters = {n: jnp.float32(v) for n, v in full.parameters(np.random.default_rng(0), (), K).items()}
    assert largest_intermediate(objective(full.cls), parameters, jnp.ones(K), jax.random.key(0)) >= K * K


def test_a_million_latents():
    million = 1_000_000
    keys = jax.random.split(jax.random.key(0), 2)
    parameters = {
        "mean": jnp.zeros(million),
        "log_d": 0.1 * jax.random.normal(keys[0], (million,)),
        "u": jnp.full(million, 1e-3),
    }
    value, grads = jax.jit(objective(RankOneGaussian))(parameters, jnp.ones(million), keys[1])
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(g)) for g in grads.values())
    low = LowRankGaussian(parameters["mean"], parameters["log_d"], jnp.full((million, 2), 1e-3))
    assert np.isfinite(low.kl_to_standard())

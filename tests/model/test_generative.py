"""The two joint densities, their change of variables, and ancestral sampling."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.model import build_model, make_observation, preset
from tests.linear import random_factor_analysis
from tests.model.cases import build

SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((3,), {"scale": "full"}),
    ((3, 2), {"scale": ("full", "diagonal")}),
    ((2, 3, 1), {"scale": ("scalar", "full", "diagonal")}),
    ((2, 3, 1), {"scale": "full", "skip": True}),
    ((3, 2), {"scale": ("diagonal", "full"), "skip": True, "nonlinearity": "gated", "linear_path": True}),
]


@pytest.mark.parametrize(("latent", "settings"), SHAPES)
def test_both_joint_densities_agree_under_the_change_of_variables(x64, latent, settings):
    """log p(v, xi) = log p(v, h(xi)) + sum log|det G|, the Jacobian taken by autodiff of xi -> h (app. A)."""
    g = build(latent, **settings).generative
    xi = jnp.asarray(np.random.default_rng(1).normal(size=sum(latent)))
    v = jnp.array([1.0, 0, 1, 1, 0, 0])

    @jax.jit
    def both(xi):
        jacobian = jnp.linalg.slogdet(jax.jacobian(g.states)(xi))[1]
        return g.log_joint(v, xi), g.log_joint_of_states(v, g.states(xi)) + jacobian, g.noise(g.states(xi))

    of_xi, of_h, back = both(xi)
    np.testing.assert_allclose(of_xi, of_h, rtol=1e-10)
    np.testing.assert_allclose(back, xi, rtol=1e-9)


@pytest.mark.parametrize(
    ("latent", "settings", "folds"),
    [
        ((3,), {"scale": "full"}, True),
        ((3, 2), {"scale": "full"}, True),
        ((3, 2), {"scale": "full", "nonlinearity": "gated", "linear_path": True}, True),
        ((3,), {"scale": "full", "skip": True}, True),
        ((3, 2), {"scale": "full", "skip": True}, False),
        ((3, 2), {"scale": ("full", "diagonal")}, False),
        ((3, 2), {"scale": "full", "activate_input": True}, False),
    ],
)
def test_folding_g_changes_no_output(x64, latent, settings, folds):
    """Where the top G is full and meets nothing but an affine map it is folded away; elsewhere nothing is done."""
    g = build(latent, **settings).generative
    folded = g.folded()
    assert (folded is not g) == folds
    xi = jnp.asarray(np.random.default_rng(1).normal(size=sum(latent)))
    np.testing.assert_allclose(folded.outputs(xi), g.outputs(xi), rtol=1e-12)


@pytest.mark.parametrize("skip", [False, True])
def test_states_follow_the_papers_recursion(x64, skip):
    """Eqs. 2-3 written out by hand for three layers; where layers skip, T_0 takes all of their states."""
    g = build((2, 3, 1), scale="full", skip=skip).generative
    xi = jnp.asarray(np.random.default_rng(1).normal(size=6))
    G1, G2, G3 = (s.matrix for s in g.scales)
    T0, T1, T2 = g.networks
    h3 = G3 @ xi[5:]
    h2 = T2(h3) + G2 @ xi[2:5]
    h1 = T1(h2) + G1 @ xi[:2]
    np.testing.assert_allclose(g.states(xi), jnp.concatenate([h1, h2, h3]), rtol=1e-12)
    np.testing.assert_allclose(g.outputs(xi), T0(jnp.concatenate([h1, h2, h3]) if skip else h1), rtol=1e-12)


def test_density_of_states_is_a_product_of_gaussians(x64):
    """Eq. 5 against scipy's multivariate normal, layer by layer."""
    from scipy.stats import multivariate_normal

    g = build((2, 3), scale="full").generative
    h = np.random.default_rng(2).normal(size=5)
    v = jnp.array([1.0, 0, 1, 1, 0, 0])
    S = [np.asarray(s.matrix @ s.matrix.T) for s in g.scales]
    expected = multivariate_normal(np.asarray(g.networks[1](jnp.asarray(h[2:]))), S[0]).logpdf(h[:2])
    expected += multivariate_normal(np.zeros(3), S[1]).logpdf(h[2:])
    logits = np.asarray(g.networks[0](jnp.asarray(h[:2])))
    expected += np.sum(np.asarray(v) * logits - np.logaddexp(0, logits))
    np.testing.assert_allclose(g.log_joint_of_states(v, jnp.asarray(h)), expected, rtol=1e-10)


def test_penalty_is_the_log_density_of_a_weak_gaussian_prior(x64):
    """-log N(theta | 0, kappa I) up to its constant, over every generative parameter and no other."""
    model = build((2,), kappa=10.0)
    theta = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model.generative)])
    np.testing.assert_allclose(model.generative.penalty(), np.sum(theta**2) / 20, rtol=1e-12)
    assert theta.size == (2 * 4 + 4) + (4 * 6 + 6) + 2 * 2


def test_a_belief_networks_map_is_affine_in_the_activation(x64):
    """NLGBN: T_l(h) = A_l f(h) + b_l for every map."""
    observation = make_observation("bernoulli", columns=4)
    model = build_model(preset("nlgbn", observation, latent=(3, 2)), key=jax.random.key(0))
    h = jnp.array([0.3, -2.0])
    T1 = model.generative.networks[1]
    assert len(T1.layers) == 1
    np.testing.assert_allclose(T1(h), T1.layers[0].weight @ jnp.tanh(h) + T1.layers[0].bias, rtol=1e-6)


def test_ancestral_samples_have_the_exact_moments():
    """Factor analysis: mean b and covariance W W' + psi. n = 20,000; 5 standard errors, each of 20 comparisons 6e-7."""
    fa = random_factor_analysis()
    g = fa.model().generative
    n = 20_000
    rows = np.asarray(jax.jit(jax.vmap(g.sample))(jax.random.split(jax.random.key(0), n)), np.float64)
    S = fa.covariance
    np.testing.assert_array_less(abs(rows.mean(0) - fa.b), 5 * np.sqrt(np.diag(S) / n))
    error = np.sqrt((S**2 + np.outer(np.diag(S), np.diag(S))) / n)
    np.testing.assert_array_less(abs(np.cov(rows.T) - S), 5 * error)


def test_holes_reach_neither_value_nor_gradient():
    """A masked NaN: the joint density and all its gradients are those of the row without that column."""
    model = build((3, 2), family="gaussian", hidden=(4,)).generative
    xi = jnp.ones(5)
    mask = jnp.array([True, False, True, True, False, True])
    v = jnp.array([0.5, jnp.nan, -1.0, 0.2, jnp.inf, 1.0])

    @eqx.filter_jit
    def value_and_gradients(v):
        return eqx.filter_value_and_grad(lambda args: args[0].log_joint(v, args[1], mask))((model, xi))

    value, gradients = value_and_gradients(v)
    other, other_gradients = value_and_gradients(jnp.where(mask, v, 7.0))
    assert np.isfinite(value)
    assert value == other
    for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(other_gradients), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)

"""Gated units, by hand, in every place where a network stands."""

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.model import ModelConfig, build_model, make_observation
from dlgm.model.networks import MLP, NONLINEARITIES, gain_of, width_before
from tests.model.cases import build


def gated(x):
    """a sigma(g) in numpy: the first half says how much, the second whether."""
    a, g = np.split(np.asarray(x, np.float64), 2)
    return a / (1 + np.exp(-g))


def affine(layer, x):
    return np.asarray(layer.weight, np.float64) @ x + np.asarray(layer.bias, np.float64)


def test_a_gated_unit_is_a_number_and_its_gate():
    x = np.array([3.0, -2.0, 5.0, 0.0, np.log(3.0), -100.0])
    np.testing.assert_allclose(NONLINEARITIES["gated"](jnp.asarray(x)), [1.5, -1.5, 0.0], atol=1e-6)
    assert (width_before("gated", 7), width_before("relu", 7)) == (14, 7)


def test_a_gated_network_takes_two_numbers_a_unit():
    net = MLP(3, (4, 5), 2, nonlinearity="gated", key=jax.random.key(0))
    assert [layer.weight.shape for layer in net.layers] == [(8, 3), (10, 4), (2, 5)]
    x = np.array([0.5, -1.0, 2.0])
    first, second, last = net.layers
    expected = affine(last, gated(affine(second, gated(affine(first, x)))))
    np.testing.assert_allclose(net(jnp.asarray(x)), expected, rtol=1e-5)


def test_small_signals_keep_their_size_through_gates():
    """A gate starts half open, so that a gain of 2 undoes it: to a tenth, after five layers of 200 units."""
    net = MLP(200, (200,) * 5, 200, nonlinearity="gated", key=jax.random.key(0))
    x = 0.01 * np.random.default_rng(1).normal(size=(50, 200)).astype(np.float32)
    ratio = np.mean(np.asarray(jax.vmap(net)(jnp.asarray(x)), np.float64) ** 2) / np.mean(x**2)
    assert 0.9 < ratio < 1.1
    assert gain_of("gated") * 0.5 == 1


def test_layers_that_skip_and_gates_have_the_widths_they_need():
    """T_0 takes every layer's state, the others the one above; the trunk gives one number for two."""
    config = ModelConfig(
        make_observation("bernoulli", columns=6).config(),
        latent=(3, 2),
        hidden=((5, 4), (7,)),
        nonlinearity=("gated", "tanh"),
        structure="directed",
        covariance="diagonal",
        skip=True,
    )
    model = jax.eval_shape(lambda: build_model(config, key=jax.random.key(0)))
    T0, T1 = model.generative.networks
    assert [layer.weight.shape for layer in T0.layers] == [(10, 5), (8, 5), (6, 4)]
    assert [layer.weight.shape for layer in T1.layers] == [(7, 2), (3, 7)]
    # The trunk has T_0's widths the other way round, and its non-linearity.
    assert [layer.weight.shape for layer in model.recognition.trunk.layers] == [(8, 6), (10, 4)]
    # Heads: mean and log precision of 3 latents given 2 draws above, and of 2; each with gated units of its own.
    assert [head.network.layers[0].weight.shape for head in model.recognition.heads] == [(10, 5 + 2), (10, 5)]
    assert [head.network.layers[1].weight.shape for head in model.recognition.heads] == [(6, 5), (4, 5)]


def test_cells_with_a_gated_trunk_have_the_stated_posterior():
    """C^-1 = diag(e^rho) + sum of w w' over what is seen, mu = C (eta + sum w g (x - c)), with the network by hand."""
    settings = {"hidden": (3, 4), "nonlinearity": "gated", "linear_path": True, "covariance": "cells"}
    model = build((2,), columns=5, family="gaussian", **settings)
    r = model.recognition
    v, seen = np.array([0.5, -1.0, 2.0, 0.3, 1.2]), np.array([True, True, False, True, False])

    @jax.jit
    def moments(v, seen):
        q = model.posterior(v, seen).gaussian(jax.random.key(0))
        return q.mean, q.covariance()

    mean, covariance = moments(jnp.asarray(np.where(seen, v, np.nan), jnp.float32), jnp.asarray(seen))

    # The encoding of a Gaussian cell is the cell, and of a hole zero; after them one for every hole.
    x = np.concatenate([np.where(seen, v, 0.0), ~seen])
    first, second = r.trunk.layers
    assert (first.weight.shape, second.weight.shape) == ((8, 10), (6, 4))
    eta, rho = np.split(affine(r.head, gated(affine(second, gated(affine(first, x))))), 2)
    w, g, c = (np.asarray(leaf, np.float64)[seen] for leaf in (r.weights, r.gain, r.center))
    precision = np.diag(np.exp(rho)) + w.T @ w
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-4)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, eta + w.T @ (g * (v[seen] - c))), rtol=1e-4)

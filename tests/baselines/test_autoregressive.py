"""The network under NADE and EoNADE, against the definition written out in loops."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dlgm.baselines.autoregressive import AutoregressiveNetwork

NONLINEARITIES: dict[str, Any] = {
    "relu": lambda a: np.maximum(a, 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "tanh": np.tanh,
}
# 7 columns are gone through one at a time, 6 in pieces of two.
CASES = {
    "one layer, relu": {"x": 7, "nonlinearity": "relu"},
    "one layer, sigmoid": {"x": 6, "nonlinearity": "sigmoid"},
    "two layers, mask": {"x": 6, "nonlinearity": "tanh", "layers": 2, "sees_known": True},
}


def random_network(x, seed=0, **kwargs):
    """Every parameter at random and far from zero, biases too."""
    network = AutoregressiveNetwork(jnp.full(x, 0.5), hidden=4, key=jax.random.key(seed), **kwargs)
    leaves, tree = jax.tree.flatten(network)
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(tree, [jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype) for leaf in leaves])


def every_row(x):
    return np.array(list(itertools.product([0.0, 1.0], repeat=x)))


def log_p_by_hand(network, row, order=None):
    """log p(row) by the definition: for each column, the sum over all those before it anew."""
    W, V, b, c = (np.asarray(a, float) for a in (network.weights, network.readout, network.readout_bias, network.bias))
    h, total = NONLINEARITIES[network.nonlinearity], 0.0
    order = range(len(row)) if order is None else order
    for d, j in enumerate(order):
        a = c.copy()
        for i in list(order)[:d]:
            a += row[i] * W[i]
            if network.known is not None:
                a += np.asarray(network.known, float)[i]
        for layer in network.deeper:
            a = np.asarray(layer.weight, float) @ h(a) + np.asarray(layer.bias, float)
        p = 1 / (1 + np.exp(-(V[j] @ h(a) + b[j])))
        total += np.log(p if row[j] else 1 - p)
    return total


@pytest.mark.parametrize("case", CASES)
def test_log_likelihood_is_the_product_of_the_conditionals(case, x64):
    network = random_network(**CASES[case])
    rows = every_row(CASES[case]["x"])
    log_p = np.asarray(jax.jit(jax.vmap(network.log_likelihood))(rows))
    np.testing.assert_allclose(log_p, [log_p_by_hand(network, row) for row in rows], rtol=1e-10)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("case", ["one layer, sigmoid", "two layers, mask"])
def test_gradient_is_that_of_finite_differences(case, x64):
    network = random_network(**CASES[case])
    rows = jnp.asarray(every_row(CASES[case]["x"])[::7])
    step = 1e-5

    @jax.jit
    def mean(network):
        return jnp.mean(jax.vmap(network.log_likelihood)(rows))

    leaves, tree = jax.tree.flatten(network)
    gradients = jax.tree.leaves(jax.jit(jax.grad(mean))(network))
    rng = np.random.default_rng(1)
    for n, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
        direction = jnp.asarray(rng.normal(size=leaf.shape))
        up, down = (
            mean(jax.tree.unflatten(tree, [*leaves[:n], leaf + sign * step * direction, *leaves[n + 1 :]]))
            for sign in (1, -1)
        )
        assert float(jnp.sum(gradient * direction)) == pytest.approx(float(up - down) / (2 * step), abs=1e-8)


def test_another_order_is_the_same_network_with_its_columns_moved(x64):
    network, order = random_network(**CASES["two layers, mask"]), np.array([3, 0, 5, 1, 4, 2])
    row = np.array([1.0, 0, 1, 1, 0, 1])
    moved = network.in_order(jnp.asarray(order)).log_likelihood(jnp.asarray(row[order]))
    assert float(moved) == pytest.approx(log_p_by_hand(network, row, order), rel=1e-10)
    assert float(moved) != pytest.approx(log_p_by_hand(network, row), rel=1e-3)


def test_logits_of_a_set_are_those_on_the_way_through_it(x64):
    # log p(row) along an order, from one pass for each place in it.
    network, order = random_network(**CASES["two layers, mask"]), [3, 0, 5, 1, 4, 2]
    row, total = np.array([1.0, 0, 1, 1, 0, 1]), 0.0
    for d, j in enumerate(order):
        seen = np.isin(np.arange(6), order[:d])
        unseen = jnp.asarray(np.where(seen, row, np.nan))  # what is not seen may hold anything
        logit = float(network.logits(unseen, jnp.asarray(seen))[j])
        total += row[j] * logit - np.log1p(np.exp(logit))
    assert total == pytest.approx(log_p_by_hand(network, row, order), rel=1e-10)


def test_samples_have_the_frequencies_of_the_model():
    # 32 frequencies of n = 40,000 draws, each within 4 standard errors: false alarm 32 * 6e-5 = 2e-3.
    n, order = 40_000, np.array([2, 4, 0, 3, 1])
    network = random_network(5, layers=2, sees_known=True)
    keys = jax.random.split(jax.random.key(1), n)
    drawn = np.asarray(jax.jit(jax.vmap(network.sample, (0, None)))(keys, jnp.asarray(order)))
    p = np.exp([log_p_by_hand(network, row, order) for row in every_row(5)])
    found = np.bincount(drawn @ (2 ** np.arange(5)[::-1]), minlength=32) / n
    assert (np.abs(found - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


def test_columns_start_at_their_means():
    # With the readout's weights away, each column is a coin of its own.
    means = jnp.array([0.1, 0.5, 0.8])
    network = AutoregressiveNetwork(means, hidden=4, key=jax.random.key(0))
    np.testing.assert_allclose(1 / (1 + np.exp(-np.asarray(network.readout_bias))), means, rtol=1e-6)


def test_penalty_is_minus_the_log_density_of_the_prior(x64):
    # Up to its constant: N(0, kappa) at each of the 3 * 4 + 4 + 3 * 4 + 3 parameters.
    network, kappa = random_network(3), 2.0
    theta = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])
    assert theta.shape == (31,)
    log_prior = np.sum(scipy.stats.norm.logpdf(theta, scale=kappa**0.5) + 0.5 * np.log(2 * np.pi * kappa))
    assert float(network.penalty(kappa)) == pytest.approx(-log_prior, rel=1e-12)

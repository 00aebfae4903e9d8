"""Posteriors of every covariance and structure: draws, densities and divergences that agree with each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.model.cases import POSTERIORS, build

V = jnp.array([1.0, 0, 1, 1, 0, 0])


@pytest.mark.parametrize(("covariance", "structure"), POSTERIORS)
def test_divergence_is_the_expected_log_ratio_of_the_draws(covariance, structure):
    """E[log q(xi) - log p(xi)] = E[KL], n = 4,000 paired draws, 5 standard errors (6e-7)."""
    posterior = build(covariance=covariance, structure=structure).posterior(V)

    @jax.jit
    def draws(keys):
        def one(key):
            xi, kl = posterior.sample(key)
            log_p = -0.5 * jnp.sum(xi**2 + jnp.log(2 * jnp.pi))
            return posterior.log_prob(xi) - log_p, kl

        return jax.vmap(one)(keys)

    log_ratio, kl = jax.device_get(draws(jax.random.split(jax.random.key(0), 4_000)))
    assert kl.shape == (4_000, 1 if structure == "joint" else 2)
    assert (kl >= 0).all()
    difference = (log_ratio - kl.sum(axis=1)).astype(np.float64)
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(difference))


@pytest.mark.parametrize("structure", ["factorised", "joint", "directed"])
def test_a_move_leaves_the_posterior_as_it_is(structure):
    """Draws moved by any angle are draws: their mean log density, and its product with where they came from, taken both
    ways, agree over 10,000 draws to 5 standard errors. No angle is no move; a right angle is a new draw."""
    posterior = build(covariance="rank-one", structure=structure, jitter=1.0).posterior(V)

    @jax.jit
    @jax.vmap
    def pairs(key):
        key_xi, key_move = jax.random.split(key)
        xi, _ = posterior.sample(key_xi)
        angles = jnp.array([0.0, 0.5, jnp.pi / 2])
        return xi, jax.vmap(lambda angle: posterior.move(xi, angle, key_move))(angles)

    xi, moved = pairs(jax.random.split(jax.random.key(0), 10_000))
    np.testing.assert_allclose(moved[:, 0], xi, atol=2e-4)
    log_q = jax.jit(jax.vmap(posterior.log_prob))
    before = np.asarray(log_q(xi), np.float64)
    for at in (1, 2):
        after = np.asarray(log_q(moved[:, at]), np.float64)
        # Reversibility: exchanging the two changes no mean, here of one latent times the density at the other end.
        one_way, other = np.asarray(xi[:, 0]) * after, np.asarray(moved[:, at, 0]) * before
        for difference in (after - before, one_way - other):
            assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(difference))
    correlation = [np.corrcoef(xi[:, 0], moved[:, at, 0])[0, 1] for at in (1, 2)]
    assert correlation[0] > 0.5
    assert abs(correlation[1]) < (5 / np.sqrt(10_000) if structure != "directed" else 0.05)


@pytest.mark.parametrize("structure", ["factorised", "joint", "directed"])
def test_structures_tie_the_layers_as_they_say(structure):
    """Covariance between layers 1 (3 latents) and 2 (2 latents), from 20,000 draws: zero only when factorised."""
    posterior = build(covariance="rank-one", structure=structure, jitter=1.0).posterior(V)
    xi = jax.jit(jax.vmap(lambda k: posterior.sample(k)[0]))(jax.random.split(jax.random.key(0), 20_000))
    between = np.corrcoef(np.asarray(xi).T)[:3, 3:]
    if structure == "factorised":
        assert abs(between).max() < 5 / np.sqrt(20_000)
    else:
        assert abs(between).max() > 0.1


def test_rank_one_heads_give_the_stated_precision():
    posterior = build((3,), covariance="rank-one").posterior(V)
    q = posterior.q
    expected = np.linalg.inv(np.diag(np.exp(q.log_d)) + np.outer(q.u, q.u))
    np.testing.assert_allclose(q.covariance(), expected, rtol=1e-5)


def test_layers_share_the_trunk():
    """A change of the trunk moves every layer's posterior; a change of one head only its own."""
    import equinox as eqx

    model = build(covariance="diagonal")
    moved = eqx.tree_at(lambda m: m.recognition.trunk.layers[0].bias, model, replace_fn=lambda b: b + 1)
    one_head = eqx.tree_at(lambda m: m.recognition.heads[1].network.layers[0].bias, model, replace_fn=lambda b: b + 1)
    before, after, single = (m.posterior(V).q.mean for m in (model, moved, one_head))
    assert (before != after).all()
    np.testing.assert_array_equal(before[:3], single[:3])
    assert (before[3:] != single[3:]).all()


def test_holes_are_invisible():
    """The posterior of a row with holes does not depend on what stands in them."""
    model = build(family="gaussian")
    mask = jnp.array([True, False, True, True, False, True])
    v = jnp.arange(6.0)
    q = model.posterior(jnp.where(mask, v, jnp.nan), mask).q
    other = model.posterior(jnp.where(mask, v, 3.0), mask).q
    np.testing.assert_array_equal(q.mean, other.mean)
    assert np.isfinite(q.mean).all()
    assert (q.mean != model.posterior(v).q.mean).any()

"""Each Gaussian is a numpyro distribution like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.distributions.kl import kl_divergence
from numpyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO

from dlgm.gaussians import DiagonalGaussian, FullGaussian, RankOneGaussian, as_gaussian
from tests.gaussians.cases import CASES

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
KEY = jax.random.key(0)


@pytest.fixture
def parameters(case):
    return case.parameters(np.random.default_rng(1), (2,), 3)


@by_name
def test_samples_have_the_right_moments(x64, case, parameters):
    """n = 200,000; every entry of mean and covariance within 4.5 standard errors (false alarm 3e-4 over all 48)."""
    n, q, C = 200_000, case.build(parameters), case.covariance(parameters)
    x = np.asarray(q.sample(KEY, (n,)))
    assert x.shape == (n, 2, 3)
    deviation = x - parameters["mean"]
    mean_error = np.sqrt(np.diagonal(C, axis1=-2, axis2=-1) / n)
    assert np.all(np.abs(deviation.mean(0)) < 4.5 * mean_error)
    products = deviation[..., :, None] * deviation[..., None, :]
    assert np.all(np.abs(products.mean(0) - C) < 4.5 * products.std(0) / np.sqrt(n))


@by_name
def test_distribution_protocol(case, parameters):
    q = case.build(parameters)
    assert q.has_rsample
    assert q.support.event_dim == 1
    assert not q.is_discrete
    assert q.shape((5,)) == (5, 2, 3)
    np.testing.assert_array_equal(q.mode, q.mean)
    assert q.expand((4, 2)).sample(KEY).shape == (4, 2, 3)
    assert q.to_event(1).log_prob(q.mean).shape == ()
    masked = q.mask(jnp.array([True, False])).log_prob(q.mean)
    assert masked[0] == q.log_prob(q.mean)[0]
    assert masked[1] == 0
    assert set(q.get_args()) == set(parameters)
    assert numpyro.distributions.biject_to(q.support)(q.mean).shape == (2, 3)
    assert f"{case.cls.__name__}(K=3, batch_shape=(2,))" == repr(q)


@by_name
def test_is_a_pytree_that_vmap_slices(case, parameters):
    q = case.build(parameters)
    x = jnp.ones((2, 3))
    assert [leaf.shape for leaf in jax.tree.leaves(q)] == [v.shape for v in parameters.values()]
    sliced = jax.vmap(lambda law, point: law.log_prob(point))(q, x)
    np.testing.assert_allclose(sliced, q.log_prob(x), rtol=1e-6)
    assert jax.vmap(lambda law: law.sample(KEY))(q).shape == (2, 3)
    np.testing.assert_allclose(jax.jit(lambda law: law.log_prob(x))(q), q.log_prob(x), rtol=1e-6)


@by_name
def test_kl_with_numpyros_own_gaussians(x64, case, parameters):
    q = case.build(parameters)
    standard = dist.Normal(0.0, 1.0).expand([3]).to_event(1)
    np.testing.assert_allclose(kl_divergence(q, standard), q.kl_to_standard(), rtol=1e-10)
    np.testing.assert_allclose(kl_divergence(q.expand((4, 2)), standard), np.tile(q.kl_to_standard(), (4, 1)))
    theirs = dist.MultivariateNormal(q.mean, covariance_matrix=q.covariance())
    other = dist.MultivariateNormal(jnp.ones(3), 0.5 * jnp.eye(3))
    np.testing.assert_allclose(kl_divergence(q, other), kl_divergence(theirs, other), rtol=1e-8)
    np.testing.assert_allclose(kl_divergence(other, q), kl_divergence(other, theirs), rtol=1e-8)


def test_as_gaussian():
    normal = dist.Normal(jnp.array([1.0, 2.0]), jnp.array([0.5, 2.0])).to_event(1)
    q = as_gaussian(normal)
    assert isinstance(q, DiagonalGaussian)
    np.testing.assert_allclose(q.log_prob(jnp.zeros(2)), normal.log_prob(jnp.zeros(2)), rtol=1e-6)
    assert isinstance(as_gaussian(dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2))), FullGaussian)
    assert as_gaussian(q) is q
    with pytest.raises(NotImplementedError, match="Expected a Gaussian over vectors"):
        as_gaussian(dist.Gamma(1.0, 1.0))


@pytest.mark.parametrize("loss", [Trace_ELBO(num_particles=8), TraceMeanField_ELBO(num_particles=8)])
def test_svi_finds_the_exact_posterior(loss):
    """A linear-Gaussian model whose posterior precision is I + a a', inside the rank-one family: SVI can reach it."""
    a = jnp.array([1.5, -1.0, 0.5])
    precision = np.eye(3) + np.outer(a, a)
    exact_mean = np.linalg.solve(precision, 2.0 * np.asarray(a))

    def model():
        xi = numpyro.sample("xi", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(jnp.dot(a, xi), 1.0), obs=2.0)

    def guide():
        mean = numpyro.param("mean", jnp.zeros(3))
        log_d = numpyro.param("log_d", jnp.zeros(3))
        u = numpyro.param("u", 0.1 * jnp.ones(3))
        numpyro.sample("xi", RankOneGaussian(mean=mean, log_d=log_d, u=u))

    optimiser = optax.adam(optax.cosine_decay_schedule(3e-2, 3000))
    result = SVI(model, guide, optimiser, loss).run(KEY, 3000, progress_bar=False)
    q = RankOneGaussian(**{name: result.params[name] for name in ("mean", "log_d", "u")})
    np.testing.assert_allclose(q.mean, exact_mean, atol=0.05)
    np.testing.assert_allclose(q.covariance(), np.linalg.inv(precision), atol=0.05)

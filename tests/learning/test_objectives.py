"""Free energy, importance-weighted bound, noise: values and gradients against exact answers."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.learning import AbstractObjective, FreeEnergy, ImportanceWeighted, Noise, Terms, minibatch_free_energy
from dlgm.model import Model
from tests.linear import random_factor_analysis
from tests.model.cases import build

V = jnp.array([1.0, 0, 1, 1, 0, 0])


def many(objective, model, v, n, seed=0, mask=None, **options):
    """`n` independent evaluations of an objective, as numpy float64."""
    run = jax.jit(jax.vmap(lambda k: objective(model, v, mask, key=k, **options)))
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), run(jax.random.split(jax.random.key(seed), n)))


# ---- values ---------------------------------------------------------------------------------------------------------


def test_free_energy_at_the_exact_posterior_is_minus_log_p():
    """Factor analysis. n = 20,000 draws, 5 standard errors (6e-7)."""
    fa = random_factor_analysis()
    v = fa.sample(np.random.default_rng(1), 1)
    losses = many(FreeEnergy(), fa.model(), jnp.asarray(v[0], jnp.float32), 20_000).loss
    assert abs(losses.mean() + fa.log_prob(v)[0]) < 5 * losses.std() / np.sqrt(len(losses))


def test_importance_weights_at_the_exact_posterior_are_constant(x64):
    """Then every weight is p(v), and the bound is log p(v) without any noise, whatever the number of samples."""
    fa = random_factor_analysis()
    v = fa.sample(np.random.default_rng(1), 1)
    for gradient in ("pathwise", "doubly-reparameterised"):
        loss = many(ImportanceWeighted(3, gradient), fa.model(), jnp.asarray(v[0]), 5).loss
        np.testing.assert_allclose(loss, -fa.log_prob(v)[0], rtol=1e-9)


def test_bounds_are_ordered():
    """With a posterior too wide: F > importance-weighted with 2 > with 20 > -log p, each gap over 3 s.e."""
    fa = random_factor_analysis()
    v = fa.sample(np.random.default_rng(1), 1)
    model, row = fa.model(widen=2.0), jnp.asarray(v[0], jnp.float32)
    objectives = (FreeEnergy(), ImportanceWeighted(2), ImportanceWeighted(20))
    runs = [many(objective, model, row, 5_000) for objective in objectives]
    values = [(run.loss.mean(), run.loss.std() / np.sqrt(5_000)) for run in runs] + [(-fa.log_prob(v)[0], 0.0)]
    for (high, error), (low, other) in itertools.pairwise(values):
        assert high - low > 3 * np.hypot(error, other)


def test_terms_add_up():
    """loss = reconstruction + beta * KL, and one KL for each layer."""
    terms = many(FreeEnergy(num_samples=3), build(), V, 4, beta=0.25)
    assert terms.kl.shape == (4, 2)
    np.testing.assert_allclose(terms.loss, terms.reconstruction + 0.25 * terms.kl.sum(axis=1), rtol=1e-5)


class SumOfRow(AbstractObjective):
    """A loss without randomness, for exact sums."""

    def __call__(self, model, v, mask=None, *, beta=1.0, noise=Noise(), key):
        return Terms(jnp.sum(v), jnp.sum(v), jnp.zeros(1))


def test_minibatches_are_unbiased_for_the_whole():
    """The mean of eq. 30 over all batches of a partition is the free energy of all rows, prior included once."""
    model = build(kappa=2.0)
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(12, 6)), jnp.float32)

    def value(batch):
        return float(minibatch_free_energy(SumOfRow(), model, batch, None, num_rows=12, key=jax.random.key(0))[0])

    whole = float(rows.sum() + model.generative.penalty())
    np.testing.assert_allclose(np.mean([value(batch) for batch in rows.reshape(4, 3, 6)]), whole, rtol=1e-5)
    np.testing.assert_allclose(value(rows), whole, rtol=1e-5)


# ---- gradients ------------------------------------------------------------------------------------------------------


def test_gradients_follow_the_papers_equations(x64):
    """Eqs. 16-19, as mended, at one draw: autodiff of the free energy gives them to rounding.

    Eq. 17's data term is without the factor of one half, and its KL term is R - R^-T.
    """
    model, key, kappa = build((3,), covariance="full", kappa=5.0), jax.random.key(4), 5.0
    total_gradient = jax.jit(
        jax.grad(lambda m: minibatch_free_energy(FreeEnergy(), m, V[None], None, num_rows=1, key=key)[0])
    )(model)

    # The draw that the free energy made: its posterior's sample under the same key.
    row_key = jax.random.split(key, 1)[0]
    draw_key = jax.random.split(row_key, 4)[2]
    q = model.posterior(V).q
    eps = jnp.linalg.solve(q.scale_tril, q.sample(draw_key) - q.mean)
    mu, R = q.mean, q.scale_tril

    def log_likelihood(generative, xi):
        return generative.log_likelihood(V, xi)

    xi = mu + R @ eps
    # eq. 16
    by_theta, g = jax.jit(jax.grad(log_likelihood, argnums=(0, 1)))(model.generative, xi)
    expected = jax.tree.map(lambda g, theta: -g + theta / kappa, by_theta, model.generative)
    for got, want in zip(jax.tree.leaves(total_gradient.generative), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    # eqs. 17, 18
    by_mu = -g + mu
    by_R = -jnp.outer(g, eps) + R - jnp.linalg.inv(R).T

    # eq. 19: both carried back through the recognition network
    def pull(recognition, by_mu, by_R):
        x = model.encode(V)
        return jax.vjp(lambda r: (r(x).q.mean, r(x).q.scale_tril), recognition)[1]((by_mu, by_R))[0]

    expected_r = jax.jit(pull)(model.recognition, by_mu, jnp.tril(by_R))
    for got, want in zip(jax.tree.leaves(total_gradient.recognition), jax.tree.leaves(expected_r), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("covariance", "structure", "objective"),
    [
        ("rank-one", "factorised", FreeEnergy()),
        ("rank-r", "joint", FreeEnergy(num_samples=2)),
        ("full", "directed", FreeEnergy()),
        ("rank-one", "directed", ImportanceWeighted(3, "pathwise")),
    ],
)
def test_gradients_are_those_of_finite_differences(x64, covariance, structure, objective):
    """Along three random directions through all parameters, in float64, with the key held."""
    model = build(covariance=covariance, structure=structure, nonlinearity="tanh")
    leaves, tree = jax.tree.flatten(model)

    def loss(leaves):
        m = jax.tree.unflatten(tree, leaves)
        return minibatch_free_energy(objective, m, V[None], None, num_rows=3, beta=0.7, key=jax.random.key(1))[0]

    @jax.jit
    def along(t, direction):
        return loss([leaf + t * d for leaf, d in zip(leaves, direction, strict=True)])

    gradient = jax.device_get(jax.jit(jax.grad(loss))(leaves))
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = [rng.normal(size=leaf.shape) for leaf in leaves]
        h = 1e-5
        difference = (float(along(h, direction)) - float(along(-h, direction))) / (2 * h)
        exact = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
        np.testing.assert_allclose(exact, difference, rtol=1e-6)


@pytest.mark.parametrize(("structure", "beta"), [("factorised", 0.4), ("directed", 1.0)])
def test_doubly_reparameterised_gradient_has_the_same_expectation(structure, beta):
    """Against the pathwise one, every parameter: n = 10,000 each, 5.5 standard errors (4e-8 each of about 200)."""
    model = build((2, 1), columns=3, hidden=(3,), structure=structure, covariance="rank-one", jitter=0.6)
    leaves, tree = jax.tree.flatten(model)
    n = 10_000

    def moments(gradient):
        objective = ImportanceWeighted(3, gradient)

        @jax.jit
        def run(keys):
            def one(k):
                m = lambda ls: objective(jax.tree.unflatten(tree, ls), V[:3], key=k, beta=beta).loss  # noqa: E731
                return jnp.concatenate([g.ravel() for g in jax.grad(m)(leaves)])

            return jax.vmap(one)(keys)

        g = np.asarray(run(jax.random.split(jax.random.key(len(gradient)), n)), np.float64)
        return g.mean(axis=0), g.var(axis=0) / n

    (a, var_a), (b, var_b) = moments("pathwise"), moments("doubly-reparameterised")
    np.testing.assert_array_less(abs(a - b), 5.5 * np.sqrt(var_a + var_b) + 1e-6)


def test_doubly_reparameterised_gradient_vanishes_at_the_exact_posterior(x64):
    """There log w does not depend on the draw: no noise at all is left in the recognition model's gradient."""
    fa = random_factor_analysis(x=3)
    model, v = fa.model(), jnp.asarray(fa.sample(np.random.default_rng(1), 1)[0])

    @jax.jit
    def largest(key):
        def gradient(name):
            loss = lambda r: ImportanceWeighted(3, name)(Model(model.generative, r), v, key=key).loss  # noqa: E731
            leaves = jax.tree.leaves(jax.grad(loss)(model.recognition))
            return jnp.max(jnp.abs(jnp.concatenate([g.ravel() for g in leaves])))

        return gradient("doubly-reparameterised"), gradient("pathwise")

    doubly, pathwise = largest(jax.random.key(0))
    assert doubly < 1e-10
    assert pathwise > 0.1


def test_holes_reach_no_gradient():
    """NaN in a masked cell: same loss and gradients as any other value there, for both objectives."""
    model = build(family="gaussian")
    mask = jnp.array([True, True, False, True, False, True])
    noise = Noise(drop_out=0.3, gaussian=0.2, samples=0.1)

    @eqx.filter_jit
    def run(v, objective):
        loss = lambda m: objective(m, v, mask, noise=noise, key=jax.random.key(0)).loss  # noqa: E731
        return eqx.filter_value_and_grad(loss)(model)

    for objective in (FreeEnergy(), ImportanceWeighted(2)):
        results = [run(jnp.where(mask, V, other), objective) for other in (jnp.nan, 2.0)]
        for a, b in zip(*map(jax.tree.leaves, results), strict=True):
            assert np.isfinite(a).all()
            np.testing.assert_array_equal(a, b)


# ---- noise ----------------------------------------------------------------------------------------------------------


def corrupted(noise, x, n=20_000):
    return np.asarray(jax.jit(jax.vmap(lambda k: noise.corrupt_inputs(x, k)))(jax.random.split(jax.random.key(0), n)))


def test_drop_out_is_rescaled():
    """A share `rate` is zero, and the mean is kept: n = 20,000, 5 standard errors."""
    x = jnp.array([1.0, 2.0, 0.0])
    noisy = corrupted(Noise(drop_out=0.3), x)
    zeros = (noisy[:, :2] == 0).mean(axis=0)
    np.testing.assert_allclose(zeros, 0.3, atol=5 * np.sqrt(0.3 * 0.7 / 20_000))
    np.testing.assert_allclose(noisy[noisy[:, 1] > 0, 1], 2.0 / 0.7, rtol=1e-6)
    np.testing.assert_allclose(noisy.mean(axis=0), x, atol=5 * 2 * np.sqrt(0.3 / 0.7 / 20_000))


def test_bits_flip_at_their_rate_and_gaussian_noise_has_its_scale():
    """n = 20,000, 5 standard errors."""
    flipped = corrupted(Noise(bit_flip=0.1), jnp.array([0.0, 1.0]))
    assert set(np.unique(flipped)) == {0.0, 1.0}
    np.testing.assert_allclose(flipped.mean(axis=0), [0.1, 0.9], atol=5 * np.sqrt(0.09 / 20_000))
    shaken = corrupted(Noise(gaussian=0.5), jnp.array([3.0]))
    np.testing.assert_allclose(shaken.mean(), 3.0, atol=5 * 0.5 / np.sqrt(20_000))
    np.testing.assert_allclose(shaken.std(), 0.5, atol=5 * 0.5 / np.sqrt(40_000))


def test_noise_on_samples_shakes_what_the_generative_model_sees():
    """For factor analysis at its exact posterior, noise of scale s adds s^2 Tr(W' Psi^-1 W) / 2. n = 20,000, 5 s.e."""
    fa, s = random_factor_analysis(), 0.5
    v = jnp.asarray(fa.sample(np.random.default_rng(1), 1)[0], jnp.float32)
    plain, shaken = (many(FreeEnergy(), fa.model(), v, 20_000, noise=Noise(samples=x)).loss for x in (0.0, s))
    extra = s**2 * np.sum(fa.W**2 / fa.psi[:, None]) / 2
    error = np.sqrt((plain.var() + shaken.var()) / 20_000)
    assert abs(shaken.mean() - plain.mean() - extra) < 5 * error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drop_out": 1.0}, "drop_out: expected a rate of at least 0 and less than 1; got 1.0."),
        ({"bit_flip": -0.1}, "bit_flip: expected a rate of at least 0 and less than 1; got -0.1."),
        ({"gaussian": float("nan")}, "gaussian: expected a standard deviation of at least 0; got nan."),
    ],
)
def test_bad_noise_is_refused(settings, message):
    with pytest.raises(ValueError) as error:
        Noise(**settings)
    assert str(error.value) == message


def test_bad_objectives_are_refused():
    with pytest.raises(ValueError, match="num_samples: expected a whole number of at least 1; got 0"):
        FreeEnergy(0)
    with pytest.raises(ValueError, match="gradient: expected one of pathwise, doubly-reparameterised; got 'score'"):
        ImportanceWeighted(2, "score")

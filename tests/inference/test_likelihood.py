"""Importance-sampled likelihoods against exact ones, and what they do not depend on."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import log_likelihood
from dlgm.inference.likelihood import _score_block
from dlgm.model import Model
from tests.linear import FactorAnalysis, random_factor_analysis
from tests.model.cases import build

FA = random_factor_analysis()
ROWS = FA.sample(np.random.default_rng(1), 45).astype(np.float32)
KEY = jax.random.key(5)


def test_a_linear_gaussian_model_agrees_with_scikit_learn():
    """`FactorAnalysis.score_samples` of a fitted factor analysis; a recognition model 1.3 times too wide.

    45 rows, 2,000 samples: every row within 5 of its own standard errors; and the bound lies below.
    """
    from sklearn.decomposition import FactorAnalysis as Oracle

    oracle = Oracle(n_components=2, random_state=0).fit(FA.sample(np.random.default_rng(2), 500))
    fa = FactorAnalysis(oracle.components_.T, oracle.mean_, oracle.noise_variance_)
    exact = oracle.score_samples(ROWS)
    result = log_likelihood(fa.model(widen=1.3), ROWS, num_samples=2_000, key=KEY)
    np.testing.assert_array_less(abs(result.log_p - exact), 5 * result.standard_error + 1e-4)
    assert np.mean(result.bound) < np.mean(exact) - 0.1
    assert ((result.effective_sample_size > 1) & (result.effective_sample_size <= 2_000)).all()


def test_the_exact_posterior_needs_one_sample():
    """Every weight is p(v): no error, all samples effective, and the bound is the likelihood."""
    result = log_likelihood(FA.model(), ROWS, num_samples=60, key=KEY)
    np.testing.assert_allclose(result.log_p, FA.log_prob(ROWS), rtol=1e-4)
    np.testing.assert_allclose(result.bound, FA.log_prob(ROWS), rtol=1e-4)
    np.testing.assert_allclose(result.effective_sample_size, 60, rtol=1e-3)
    assert result.standard_error.max() < 1e-3
    single = log_likelihood(FA.model(), ROWS[:1], num_samples=1, key=KEY)
    np.testing.assert_allclose(single.log_p, FA.log_prob(ROWS[:1]), rtol=1e-4)
    assert np.isnan(single.standard_error).all()


def test_standard_errors_are_calibrated():
    """600 scores (20 rows, 30 keys) of a model 1.5 times too wide: (estimate - exact) / s.e. has unit spread.

    With 2,000 samples the delta method's bias is below a tenth of a standard error. The standard deviation of 600
    standard normals has a standard error of 0.029; 5 of them, and the mean within 5 / sqrt(600) plus that bias.
    """
    model, exact = FA.model(widen=1.5), FA.log_prob(ROWS[:20])
    z = []
    for seed in range(30):
        result = log_likelihood(model, ROWS[:20], num_samples=2_000, key=jax.random.key(seed))
        z.append((result.log_p - exact) / result.standard_error)
    assert abs(np.std(z) - 1) < 0.145
    assert abs(np.mean(z)) < 0.3


@pytest.mark.parametrize(("latent", "structure"), [((1,), "factorised"), ((2,), "factorised"), ((1, 1), "directed")])
@pytest.mark.parametrize("newton", [0, 4])
def test_bernoulli_models_agree_with_quadrature(latent, structure, newton):
    """All 2^4 rows: a grid of 201 points an axis on [-8, 8] against 4,000 samples, 5 standard errors; they sum to 1."""
    settings = {"columns": 4, "structure": structure, "nonlinearity": "tanh"}
    # A recognition model near the prior covers the posterior: the weights are bounded and their errors can be believed.
    model = Model(build(latent, jitter=0.5, **settings).generative, build(latent, jitter=0.1, **settings).recognition)
    rows = np.array([[(i >> j) & 1 for j in range(4)] for i in range(16)], np.float32)
    axis = jnp.linspace(-8, 8, 201)
    grid = jnp.stack(jnp.meshgrid(*[axis] * sum(latent)), axis=-1).reshape(-1, sum(latent))

    @jax.jit
    def exact(v):
        log_joint = jax.vmap(lambda xi: model.generative.log_joint(v, xi))(grid)
        return jax.scipy.special.logsumexp(log_joint) + sum(latent) * jnp.log(axis[1] - axis[0])

    expected = np.asarray(jax.lax.map(exact, jnp.asarray(rows)))
    np.testing.assert_allclose(np.exp(expected).sum(), 1, rtol=1e-4)
    result = log_likelihood(model, rows, num_samples=4_000, newton=newton, key=KEY)
    np.testing.assert_array_less(abs(result.log_p - expected), 5 * result.standard_error + 1e-4)


@pytest.mark.parametrize("holes", [False, True])
def test_newton_finds_rows_that_the_recognition_model_does_not_understand(holes):
    """The recognition model of another factor analysis, by which almost no sample counts. 4,000 samples, 5 s.e.

    Half of the samples come from a Gaussian 1.2 times as wide as the posterior, in two dimensions: at best
    1 / E[w^2] of them count, where w = p / g and E_g[w^2] = (1.2^2 / sqrt(2 * 1.2^2 - 1))^2 = 1.1; of all, not much
    less than half of that, and never less than a third.
    """
    model = Model(FA.model().generative, random_factor_analysis(seed=9).model().recognition)
    mask = np.random.default_rng(0).uniform(size=ROWS.shape) < 0.7 if holes else None
    exact = FA.log_prob(ROWS) if mask is None else np.array([_observed(v, m) for v, m in zip(ROWS, mask, strict=True)])
    result = log_likelihood(model, ROWS, mask, num_samples=4_000, newton=3, key=KEY)
    np.testing.assert_array_less(abs(result.log_p - exact), 5 * result.standard_error + 1e-4)
    assert (result.effective_sample_size > 4_000 / 3).all()
    without = log_likelihood(model, ROWS, mask, num_samples=4_000, key=KEY)
    assert np.median(without.effective_sample_size) < 400


def _observed(v, m):
    return FA.log_prob(v[None], list(np.flatnonzero(m)))[0] if m.any() else 0.0


def test_holes_are_marginalised():
    """The likelihood of what was observed: exact for factor analysis, here through importance weights. 5 s.e."""
    mask = np.ones(ROWS.shape, bool)
    mask[:, [1, 3]] = False
    rows = np.where(mask, ROWS, np.nan)
    result = log_likelihood(FA.model(widen=1.5), rows, mask, num_samples=5_000, key=KEY)
    expected = FA.log_prob(ROWS, [0, 2, 4])
    np.testing.assert_array_less(abs(result.log_p - expected), 5 * result.standard_error + 1e-4)


def test_a_rows_score_does_not_depend_on_the_others():
    """Alone, reordered, in other company: bit for bit the same; with a mask of all true as well."""
    model = FA.model(widen=1.5)

    def score(rows, mask=None):
        return log_likelihood(model, rows, mask, num_samples=130, key=KEY).log_p

    whole = score(ROWS)
    order = np.random.default_rng(0).permutation(len(ROWS))
    np.testing.assert_array_equal(score(ROWS[order]), whole[order])
    np.testing.assert_array_equal(score(ROWS[7:8]), whole[7:8])
    np.testing.assert_array_equal(score(ROWS[3:30]), whole[3:30])
    np.testing.assert_allclose(score(ROWS, np.ones(ROWS.shape, bool)), whole, rtol=1e-6)
    assert (score(np.concatenate([ROWS[:1], ROWS[:1]]))[0] == whole[0]).all()
    assert len(np.unique(whole)) == len(ROWS)


def test_one_compilation_serves_any_number_of_rows_and_samples():
    """The compiled block does not know either number: memory cannot grow with them."""
    model = FA.model()
    before = _score_block._cache_size()  # type: ignore[attr-defined]
    for n, samples in ((1, 1), (45, 60), (21, 500)):
        log_likelihood(model, ROWS[:n], num_samples=samples, key=KEY)
    assert _score_block._cache_size() <= before + 1  # type: ignore[attr-defined]


def test_no_rows_have_no_scores():
    assert log_likelihood(FA.model(), ROWS[:0], key=KEY).log_p.shape == (0,)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (np.zeros((2, 3)), {}, "rows: expected (n, 5) values; got shape (2, 3)."),
        (np.zeros(5), {}, "rows: expected (n, 5) values; got shape (5,). Put one row into a list."),
        (np.zeros((2, 5, 1)), {}, "rows: expected (n, 5) values; got shape (2, 5, 1). Flatten images first."),
        (
            np.zeros((2, 5)),
            {"mask": np.ones((2, 4), bool)},
            "rows: expected a mask of booleans, true where observed, of shape (2, 5); got bool of shape (2, 4).",
        ),
        (np.zeros((2, 5)), {"num_samples": 0}, "num_samples: expected a whole number of at least 1; got 0."),
        (np.zeros((2, 5)), {"newton": -1}, "newton: expected a whole number of at least 0; got -1."),
    ],
)
def test_bad_input_is_refused(rows, options, message):
    with pytest.raises(ValueError) as error:
        log_likelihood(FA.model(), rows, key=KEY, **options)
    assert str(error.value) == message


def test_rows_of_a_file_are_scored_as_they_come(tmp_path, monkeypatch):
    """Read seven at a time from a mapped file: the same scores; a bad row is named by its place in the file."""
    from dlgm.inference import rows as reading

    monkeypatch.setattr(reading, "_READ", 7)
    fa = random_factor_analysis()
    rows = fa.sample(np.random.default_rng(0), 50)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    options: dict[str, Any] = {"num_samples": 10, "key": jax.random.key(0)}
    done: list[int] = []
    scores = log_likelihood(fa.model(), mapped, progress=done.append, **options)
    np.testing.assert_array_equal(scores.log_p, log_likelihood(fa.model(), rows, **options).log_p)
    assert done[-1] == 50
    rows[33, 1] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(ValueError, match="at row 33, column 1"):
        log_likelihood(fa.model(), np.load(tmp_path / "rows.npy", mmap_mode="r"), **options)

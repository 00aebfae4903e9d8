import json
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize

from dlgm.model.observations import (
    Bernoulli,
    Categorical,
    Composite,
    DiscretisedLogistic,
    DiscretisedLogisticLaw,
    Gaussian,
    HeapedGaussian,
    HeapedLogNormal,
    LogNormal,
    Ordinal,
    Poisson,
    StudentT,
    observation_from_config,
)
from tests.model.observation_cases import CASES, LEVELS, MIXED, X, log_interval

by_name = pytest.mark.parametrize("case", [*CASES, MIXED], ids=lambda case: case.name)
by_single = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

N = 12  # rows of every example
DRAWS = 5_000

# Compiling takes longer than running here, so the compiler is told not to try hard.
quick = partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


def prepared(case):
    """A family whose own arrays are not at their starting values, with outputs and rows to go with it."""
    rng = np.random.default_rng(0)
    moved = jax.tree.map(lambda a: a - 0.5 + jnp.asarray(0.3 * rng.normal(size=a.shape), a.dtype), case.make())
    outputs = np.float32(0.7 * rng.normal(size=moved.num_outputs))
    return moved, outputs, np.float32(case.rows(rng, N))


@quick
def log_probs(family, rows, outputs):
    return jax.vmap(lambda v: family.log_prob(v, outputs))(rows)


@quick
def draws(family, outputs, keys):
    return jax.vmap(lambda key: family.sample(outputs, key))(keys)


@quick
def members(family, rows, outputs, mask, weights):
    """Row by row: log-probabilities, the gradient of their weighted sum in everything, mean, encoding and its slope."""

    def one(v, outputs, mask, weights):
        def weighted(family, outputs, v):
            log_p = family.log_prob(v, outputs, mask)
            return jnp.sum(weights * log_p), log_p

        grads, log_p = jax.grad(weighted, argnums=(0, 1, 2), has_aux=True)(family, outputs, v)
        return {
            "log_prob": log_p,
            "grads": grads,
            "mean": family.mean(outputs),
            "code": family.encode(v, mask),
            "slope": jax.grad(lambda v: family.encode(v, mask).sum())(v),
        }

    return jax.vmap(one)(rows, outputs, mask, weights)


def members_of(family, rows, outputs, mask=None, weights=None):
    """The same, compiled once for each family: always N rows, outputs for each."""
    rows, outputs = (np.broadcast_to(np.float32(a), (N, a.shape[-1])) for a in (rows, outputs))
    everything = np.ones(rows.shape, bool)
    mask, weights = (everything if a is None else a for a in (mask, weights))
    return jax.device_get(members(family, rows, outputs, mask, np.float32(weights)))


# ---- the laws --------------------------------------------------------------------------------------------------------


@by_name
def test_log_prob_is_the_density(case):
    family, outputs, rows = prepared(case)
    expected = case.log_density(family, rows.astype(float), outputs.astype(float))
    np.testing.assert_allclose(members_of(family, rows, outputs)["log_prob"], expected, rtol=2e-5, atol=2e-5)


@by_single
def test_probabilities_sum_to_one_with_or_without_a_mask(case):
    family, outputs, rows = prepared(case)
    grid = np.repeat(case.support[:, None], X, axis=1)
    log_p = np.asarray(log_probs(family, np.concatenate([rows, np.float32(grid)]), outputs), np.float64)
    np.testing.assert_allclose(log_p[:N], members_of(family, rows, outputs)["log_prob"], rtol=1e-5, atol=1e-6)
    p = np.exp(log_p[N:])
    total = p.sum(axis=0) if case.discrete else np.trapezoid(p, grid, axis=0)
    if case.has_heap:
        zeros = np.zeros(rows.shape, np.float32)
        total = total + np.exp(members_of(family, zeros, outputs)["log_prob"][0])
    np.testing.assert_allclose(total, 1, atol=1e-5 if case.discrete else 1e-3)


@by_name
def test_probabilities_of_codes_are_those_of_the_cells(case):
    """The table of all codes against the log-probability of each, which independent densities vouch for."""
    family, outputs, _ = prepared(case)
    found = np.asarray(family.probabilities(outputs))
    levels = np.array(family.levels)
    assert found.shape == (X, levels.max()) if case is not MIXED else found.shape[1] == levels.max()
    for code in range(levels.max()):
        has = code < levels
        cells = np.where(has, code, 1.0).astype(np.float32)
        expected = np.where(has, np.exp(family.log_prob(cells, outputs, has)), 0.0)
        np.testing.assert_allclose(found[:, code], expected, atol=3e-7, rtol=1e-5)


@pytest.mark.parametrize("num_classes", [6, 2, (2, 6, 4)], ids=str)
def test_an_ordinal_law_scores_as_the_categorical_law_that_it_is(num_classes):
    family = Ordinal(3, num_classes)
    family = eqx.tree_at(lambda f: f.log_gaps, family, jax.random.normal(jax.random.key(0), family.log_gaps.shape))
    law = family.law(jnp.array([0.3, -2.0, 1.0]))
    table = np.asarray(jax.nn.log_softmax(law.logits))
    codes = np.stack([np.arange(6) % number for number in family.levels], axis=1)
    np.testing.assert_allclose(law.log_prob(codes), table[np.arange(3), codes], atol=2e-6)
    n = 100_000
    drawn = np.asarray(law.sample(jax.random.key(1), (n,)))
    shares = np.stack([np.bincount(column, minlength=table.shape[1]) / n for column in drawn.T])
    p = np.exp(table)
    assert np.all(np.abs(shares - p) <= 4 * np.sqrt(p * (1 - p) / n) + 1e-12)


@by_single
def test_samples_follow_the_law(case):
    """Means within 5 standard errors, n = 5,000: false alarm 6e-7 a column. Frequencies, 5.5: 4e-8 each."""
    family, outputs, rows = prepared(case)
    v = np.asarray(draws(family, outputs, jax.random.split(jax.random.key(1), DRAWS)), np.float64)
    if case.mean_is_expectation:
        mean = members_of(family, rows, outputs)["mean"][0]
        error = np.abs(v.mean(axis=0) - mean) / (v.std(axis=0) / np.sqrt(DRAWS))
        assert error.max() < 5, error
    if case.discrete:
        p = np.exp(case.log_density(family, np.repeat(case.support[:, None], X, axis=1), outputs.astype(float)))
        frequency = np.mean(v == case.support[:, None, None], axis=1)
        common = DRAWS * p * (1 - p) > 20
        z = np.abs(frequency - p)[common] / np.sqrt(p * (1 - p) / DRAWS)[common]
        assert z.max() < 5.5
        assert np.isin(v, case.support).all()
    if case.has_heap:
        p = special.expit(outputs[:X].astype(float))
        assert np.abs(np.mean(v == 0, axis=0) - p).max() < 5 * np.sqrt(0.25 / DRAWS)


def test_the_mean_of_a_categorical_is_its_most_probable_code():
    outputs = jnp.array([0.0, 2, 1, -1, -2, -1.5])
    np.testing.assert_array_equal(Categorical(2, num_classes=3).mean(outputs), [1, 0])


# ---- missing cells ---------------------------------------------------------------------------------------------------


@by_name
def test_masked_cells_count_for_nothing(case):
    """Under jit and vmap: the same as clean cells left out of the sum."""
    family, outputs, rows = prepared(case)
    mask = np.random.default_rng(3).random(rows.shape) < 0.6
    mask[0], mask[1] = False, True
    holed = np.where(mask, rows, np.resize(np.array([np.nan, np.inf, -np.inf], np.float32), rows.shape))
    got, left_out = members_of(family, holed, outputs, mask), members_of(family, rows, outputs, weights=mask)
    np.testing.assert_array_equal(got["log_prob"], np.where(mask, left_out["log_prob"], 0))
    for a, b in zip(jax.tree.leaves(got["grads"]), jax.tree.leaves(left_out["grads"]), strict=True):
        assert np.all(a[0] == 0)  # the first row has nothing observed
        np.testing.assert_array_equal(a, b)
    assert np.all(got["grads"][2][~mask] == 0)
    per_input = np.repeat(mask, family.input_widths, axis=1)
    np.testing.assert_array_equal(got["code"], np.where(per_input, left_out["code"], 0))
    assert got["code"].shape == (N, family.num_inputs)
    assert np.all(np.isfinite(got["slope"]))


@pytest.mark.parametrize(
    ("family", "v", "expected"),
    [
        (Bernoulli(2), [0, 1], [0, 1]),
        (Gaussian(2), [-3.5, 2], [-3.5, 2]),
        (LogNormal(2), [1, np.e], [0, 1]),
        (Poisson(2), [0, np.expm1(2)], [0, 2]),
        (HeapedGaussian(2), [0, -3.5], [0, -3.5]),
        (HeapedLogNormal(2), [0, np.expm1(2)], [0, 2]),
        (Categorical(2, num_classes=3), [2, 0], [0, 0, 1, 1, 0, 0]),
        (Ordinal(3, num_classes=5), [0, 1, 4], [-1, -0.5, 1]),
        (DiscretisedLogistic(3), [0, 51, 255], [-1, -0.6, 1]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_the_recognition_network_sees(family, v, expected):
    np.testing.assert_allclose(family.encode(jnp.array(v, jnp.float32)), expected, atol=1e-6)


# ---- far out, in float32 ---------------------------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("level", [-1e4, -200.0, -50.0, 50.0, 200.0, 1e4])
def test_extreme_outputs(case, level):
    """Values and gradients stay finite, and so do draws, whose encoding is finite too: they are in the support."""
    family, _, rows = prepared(case)
    outputs = np.full(family.num_outputs, level, np.float32)
    drawn = np.asarray(draws(family, outputs, jax.random.split(jax.random.key(0), DRAWS)))[:N]
    family.check(drawn)
    for v in (rows, drawn):
        assert all(np.all(np.isfinite(value)) for value in jax.tree.leaves(members_of(family, v, outputs)))


@pytest.mark.parametrize("case", [case for case in CASES if "poisson" in case.name or "binomial" in case.name])
def test_a_runaway_log_mean_is_pulled_back(case):
    family, outputs, rows = prepared(case)
    for level in (-50.0, 50.0):
        _, slope, _ = members_of(family, np.ones_like(rows), np.full_like(outputs, level))["grads"]
        assert np.all(np.sign(slope) == -np.sign(level))


@pytest.mark.parametrize("location", [-50.0, -20.0, 0.0, 20.0, 50.0])
def test_ordinal_far_from_its_cutpoints(location):
    """numpyro's OrderedLogistic says log(1.2e-38) for most codes here, with a gradient of zero."""
    cutpoints = np.array([-np.inf, -1.5, -0.5, 0.5, 1.5, np.inf])

    def exact(o):
        return log_interval(cutpoints[:-1] - o, cutpoints[1:] - o)

    value, slope = ordinal_of_five(location)
    np.testing.assert_allclose(value, exact(location), rtol=1e-6, atol=1e-7)
    by_difference = (exact(location + 1e-4) - exact(location - 1e-4)) / 2e-4
    np.testing.assert_allclose(slope, by_difference, rtol=1e-4, atol=1e-6)


@quick
def ordinal_of_five(location):
    family, codes = Ordinal(5, num_classes=5), jnp.arange(5.0)
    return jax.jvp(lambda o: family.log_prob(codes, jnp.full(5, o)), (location,), (1.0,))


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 0.1, 10.0, 1e6])
@pytest.mark.parametrize("loc", [-30.0, -1.0, 0.1, 1.0, 30.0])
def test_discretised_logistic_with_narrow_bins_and_far_tails(loc, scale):
    v = np.arange(256.0)
    y = v / 127.5 - 1
    lower, upper = y - 1 / 255, y + 1 / 255
    lower[0], upper[-1] = -np.inf, np.inf
    loc, scale = float(np.float32(loc)), float(np.float32(scale))
    expected = log_interval((lower - loc) / scale, (upper - loc) / scale)
    got, slopes = discretised(np.float32(loc), np.float32(scale))
    # edges are rounded to 6e-8 of the larger of 1 and |loc|, before the division by the scale
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 + 2e-7 * max(1, abs(loc)) / scale)
    assert np.all(np.isfinite(slopes))
    np.testing.assert_allclose(np.exp(np.float64(got)).sum(), 1, rtol=1e-4 + 4e-7 * max(1, abs(loc)) / scale)


@quick
def discretised(loc, scale):
    def of(v, loc, scale):
        return DiscretisedLogisticLaw(loc, scale).log_prob(v)

    v = jnp.asarray(LEVELS, jnp.float32)
    slopes = jax.vmap(jax.grad(of, argnums=(1, 2)), (0, None, None))(v, loc, scale)
    return of(v, loc, scale), jnp.stack(slopes)


# ---- where training starts -------------------------------------------------------------------------------------------


@by_name
def test_the_start_is_near_the_best_constant_fit(case):
    """The optimum over the bias and the family's own arrays, found by L-BFGS from the start."""
    rows = case.rows(np.random.default_rng(5), 400).astype(float)
    mask = np.random.default_rng(6).random(rows.shape) < 0.8
    family, bias = case.make().initialise(np.where(mask, rows, np.nan), mask)
    leaves, structure = jax.tree.flatten((family, bias))
    start = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def loss(flat):
        parts = [part.reshape(leaf.shape) for part, leaf in zip(np.split(flat, ends), leaves, strict=True)]
        moved, outputs = jax.tree.unflatten(structure, parts)
        return -np.mean(case.log_density(moved, rows, outputs)[mask])

    best = minimize(loss, start, method="L-BFGS-B", options={"maxiter": 30})
    assert loss(start) - best.fun < case.slack


def test_starting_values_known_by_hand():
    rows = np.array([[0.0, 4.0], [1.0, 8.0], [1.0, 6.0]])
    _, logits = Bernoulli(1).initialise(rows[:, :1])
    np.testing.assert_allclose(logits, [np.log(2.5 / 1.5)], rtol=1e-6)
    family, bias = Gaussian(2).initialise(rows)
    np.testing.assert_allclose(bias, [2 / 3, 6], rtol=1e-6)
    np.testing.assert_allclose(family.law(bias).variance, [2 / 9, 8 / 3], rtol=1e-5)
    family, bias = Gaussian(2, variance="global").initialise(rows)
    np.testing.assert_allclose(family.law(bias).variance, (2 / 9 + 8 / 3) / 2, rtol=1e-5)
    _, bias = Gaussian(2, variance="predicted").initialise(rows)
    np.testing.assert_allclose(bias, [2 / 3, 6, np.log(2 / 9 - 1e-4), np.log(8 / 3 - 1e-4)], rtol=1e-5)
    # A column seen once says nothing about its spread: 1 by itself, and no part of a global variance.
    once = np.array([[True, True], [True, False], [True, False]])
    family, bias = Gaussian(2).initialise(rows, once)
    np.testing.assert_allclose(bias, [2 / 3, 4], rtol=1e-6)
    np.testing.assert_allclose(family.law(bias).variance, [2 / 9, 1], rtol=1e-5)
    family, bias = Gaussian(2, variance="global").initialise(rows, once)
    np.testing.assert_allclose(family.law(bias).variance, 2 / 9, rtol=1e-5)
    _, bias = Poisson(1).initialise(rows[:, 1:])
    np.testing.assert_allclose(bias, [np.log(6)], rtol=1e-6)
    assert np.allclose(StudentT(1).df, 5)


@by_name
def test_tables_with_little_in_them(case):
    """No rows, one row, constant columns, nothing observed: always finite, and the data stay possible."""
    rows = np.repeat(case.rows(np.random.default_rng(5), 1), 4, axis=0).astype(float)
    nothing = np.zeros(rows.shape, bool)
    one_column = nothing.copy()
    one_column[:, 1] = True
    tables = [(rows[:0], None), (rows[:1], None), (rows, None), (rows * np.nan, nothing), (rows, one_column)]
    for table, mask in tables:
        family, bias = case.make().initialise(table, mask)
        assert bias.shape == (family.num_outputs,)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((family, bias)))
        assert jax.tree.map(jnp.shape, family) == jax.tree.map(jnp.shape, case.make())
        assert np.all(np.isfinite(members_of(family, rows[:1], bias)["log_prob"]))


# ---- configuration and mixtures --------------------------------------------------------------------------------------


@by_name
def test_config_survives_json(case):
    family = case.make()
    again = observation_from_config(json.loads(json.dumps(family.config())))
    assert type(again) is type(family)
    assert again.config() == family.config()
    assert eqx.tree_equal(again, family)


def test_config_is_the_constructors_arguments():
    assert DiscretisedLogistic(2, num_levels=16, floor=1e-5).config() == {
        "family": "discretised-logistic",
        "columns": 2,
        "variance": "per-column",
        "floor": 1e-5,
        "num_levels": 16,
    }


def test_a_composite_is_its_parts():
    """A composite inside another, with columns out of order: column 1 is binary, column 2 holds codes."""
    first = Gaussian(2, variance="predicted")
    second = Composite([(Categorical(1, num_classes=3), [1]), (Bernoulli(1), [0])])
    table = Composite([(first, [3, 0]), (second, [1, 2])])
    assert (table.num_outputs, table.input_widths) == (8, (1, 1, 3, 1))

    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(size=30), rng.random(30) < 0.3, rng.choice(3, 30), rng.normal(5, 2, 30)], axis=1)
    fitted, bias = table.initialise(rows)
    (_, first_bias), (_, second_bias) = first.initialise(rows[:, [3, 0]]), second.initialise(rows[:, [1, 2]])
    np.testing.assert_array_equal(bias, np.concatenate([first_bias, second_bias]))

    v, mask = jnp.asarray(rows[0], jnp.float32), jnp.array([True, True, False, True])

    @quick
    def both():
        own = (bias[:4], bias[4:])
        at = (np.array([3, 0]), np.array([1, 2]))
        log_p = [part.log_prob(v[i], o, mask[i]) for part, i, o in zip((first, second), at, own, strict=True)]
        means = [part.mean(o) for part, o in zip((first, second), own, strict=True)]
        whole = (fitted.log_prob(v, bias, mask), fitted.mean(bias))
        law = fitted.law(bias)
        return whole, (log_p, means), fitted.encode(v), (law.log_prob(v), fitted.log_prob(v, bias)), law.mean

    whole, parts, code, (law_log_p, log_p), law_mean = both()
    for got, (one, two) in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(got, [one[1], two[0], two[1], one[0]])
    np.testing.assert_array_equal(code, [v[0], v[1], *np.eye(3)[int(rows[0, 2])], v[3]])
    np.testing.assert_allclose(law_log_p, log_p, rtol=1e-6)
    np.testing.assert_allclose(law_mean[jnp.array([0, 1, 3])], rows.mean(axis=0)[[0, 1, 3]], atol=0.02)

    # 5 standard errors, n = 5,000: false alarm 6e-7 a column
    keys = jax.random.split(jax.random.key(0), DRAWS)
    by_law = quick(jax.vmap(lambda key: fitted.law(bias).sample(key)))(keys)
    for drawn in (draws(fitted, bias, keys), by_law):
        many = np.asarray(drawn, np.float64)
        error = np.abs(many.mean(axis=0) - whole[1]) / (many.std(axis=0) / np.sqrt(DRAWS))
        assert np.all(error[[0, 1, 3]] < 5)
        frequency = np.mean(many[:, 2, None] == np.arange(3), axis=0)
        p = (np.sum(rows[:, 2, None] == np.arange(3), axis=0) + 0.5) / 31.5
        assert np.all(np.abs(frequency - p) < 5 * np.sqrt(p * (1 - p) / DRAWS))

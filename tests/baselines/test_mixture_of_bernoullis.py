import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import BernoulliMixture, MixtureOfBernoullis, em_step, fit_mixture_of_bernoullis, mean_log_posterior

S = 0.3


def random_model(k, x, seed=0):
    rng = np.random.default_rng(seed)
    return MixtureOfBernoullis(
        jnp.log(jnp.asarray(rng.dirichlet(np.ones(k)))), jnp.asarray(rng.normal(size=(k, x)) * 2)
    )


def random_rows(n, x, seed=1):
    return (np.random.default_rng(seed).random((n, x)) < 0.4).astype(int)


def by_hand(model, row, seen):
    """p(row) by the definition, one factor at a time."""
    w, p = np.exp(np.asarray(model.log_weights)), 1 / (1 + np.exp(-np.asarray(model.logits)))
    total = 0.0
    for k in range(len(w)):
        product = w[k]
        for j in np.flatnonzero(seen):
            product *= p[k, j] if row[j] else 1 - p[k, j]
        total += product
    return total


def every_row(x):
    return np.array(list(itertools.product([0, 1], repeat=x)))


@pytest.mark.parametrize(("k", "x"), [(1, 1), (3, 5)])
def test_likelihood_is_the_definition_and_sums_to_one(x64, k, x):
    model, rows = random_model(k, x), every_row(x)
    p = np.exp(model.log_likelihood(rows))
    np.testing.assert_allclose(p, [by_hand(model, row, np.ones(x, bool)) for row in rows], rtol=1e-12)
    assert abs(p.sum() - 1) < 1e-12


def test_masked_cells_are_summed_out(x64):
    model, rows = random_model(3, 5), random_rows(40, 5)
    mask = np.random.default_rng(2).random((40, 5)) < 0.6
    mask[0] = False
    got = np.exp(model.log_likelihood(np.where(mask, rows, np.nan), mask))
    np.testing.assert_allclose(got, [by_hand(model, r, m) for r, m in zip(rows, mask, strict=True)], rtol=1e-12)

    everything = every_row(5)
    p = np.exp(model.log_likelihood(everything))
    sums = [p[(everything[:, m] == r[m]).all(axis=1)].sum() for r, m in zip(rows, mask, strict=True)]
    np.testing.assert_allclose(got, sums, rtol=1e-12)
    assert abs(got[0] - 1) < 1e-12


def test_a_row_in_784_cells_does_not_underflow():
    model, rows = random_model(4, 784), random_rows(3, 784)
    log_p = model.log_likelihood(rows)
    assert np.isfinite(log_p).all()
    assert (log_p < -300).all()


def test_responsibilities_are_bayes_rule(x64):
    model, rows = random_model(3, 5), every_row(5)
    for k in range(3):
        alone = MixtureOfBernoullis(jnp.zeros(1), model.logits[k : k + 1])
        joint = model.log_weights[k] + alone.log_likelihood(rows)
        expected = np.exp(joint - model.log_likelihood(rows))
        np.testing.assert_allclose(model.responsibilities(rows)[:, k], expected, rtol=1e-12)


@pytest.mark.parametrize("with_holes", [False, True])
@pytest.mark.parametrize("smoothing", [1e-3, 0.3, 2.0])
def test_each_step_raises_the_log_posterior(x64, smoothing, with_holes):
    rows = random_rows(40, 5)
    mask = np.random.default_rng(3).random(rows.shape) < 0.7 if with_holes else None
    model, values = random_model(3, 5), []
    for _ in range(40):
        values.append(float(mean_log_posterior(model, rows, smoothing=smoothing, mask=mask)))
        model = em_step(model, rows, smoothing=smoothing, mask=mask)
    assert (np.diff(values) > -1e-13).all()
    assert values[-1] > values[0] + 0.1


def test_the_likelihood_alone_may_fall(x64):
    # Why the posterior is the quantity to watch: from the maximum likelihood, a step goes towards the prior.
    rows = random_rows(20, 3)
    p = rows.mean(axis=0)
    best = MixtureOfBernoullis(jnp.zeros(1), jnp.asarray(np.log(p) - np.log1p(-p))[None])
    after = em_step(best, rows, smoothing=1.0)
    assert after.log_likelihood(rows).mean() < best.log_likelihood(rows).mean()
    assert mean_log_posterior(after, rows, smoothing=1.0) > mean_log_posterior(best, rows, smoothing=1.0)


def test_the_fit_is_the_step_repeated_and_ends_at_a_stationary_point(x64):
    rows, num = random_rows(40, 5), 3000

    def fit(iterations):
        return fit_mixture_of_bernoullis(
            rows, num_components=2, key=jax.random.key(0), iterations=iterations, smoothing=S
        )

    end = fit(num)
    stepped = jax.lax.fori_loop(1, num, lambda _, model: em_step(model, rows, smoothing=S), fit(1))
    np.testing.assert_allclose(stepped.logits, end.logits, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stepped.log_weights, end.log_weights, rtol=1e-9)

    def objective(free):
        log_weights = jax.nn.log_softmax(free[0])
        return mean_log_posterior(MixtureOfBernoullis(log_weights, free[1]), rows, smoothing=S)

    for gradient in jax.grad(objective)((end.log_weights, end.logits)):
        np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_one_component_is_the_smoothed_column_means():
    rows = random_rows(25, 6)
    rows[:, 0], rows[:, 1] = 0, 1
    model = fit_mixture_of_bernoullis(rows, num_components=1, key=jax.random.key(0), iterations=1, smoothing=S)
    np.testing.assert_allclose(jax.nn.sigmoid(model.logits[0]), (rows.sum(0) + S) / (25 + 2 * S), rtol=1e-5)
    np.testing.assert_allclose(model.log_weights, 0, atol=1e-6)

    mask = np.random.default_rng(5).random(rows.shape) < 0.5
    mask[:, 2] = False
    holed = em_step(model, np.where(mask, rows, np.nan), smoothing=S, mask=mask)
    expected = ((rows * mask).sum(0) + S) / (mask.sum(0) + 2 * S)
    np.testing.assert_allclose(jax.nn.sigmoid(holed.logits[0]), expected, rtol=1e-5)


def test_recovers_a_well_separated_mixture_with_holes():
    rng = np.random.default_rng(6)
    p = np.where(rng.random((3, 30)) < 0.5, 0.1, 0.9)
    w = np.array([0.2, 0.3, 0.5])
    rows = rng.random((3000, 30)) < p[rng.choice(3, size=3000, p=w)]
    mask = rng.random(rows.shape) >= 0.3
    # Of 60 keys, 9 end with two components on one cluster, 1.4 nats lower: so the best of four.
    fits = [
        fit_mixture_of_bernoullis(rows, num_components=3, key=key, smoothing=0.01, mask=mask)
        for key in jax.random.split(jax.random.key(8), 4)
    ]
    model = max(fits, key=lambda fit: mean_log_posterior(fit, rows, smoothing=0.01, mask=mask))
    order = np.argsort(model.log_weights)
    # Within 4 standard errors of a component's share: sqrt(0.25 / 3000) = 0.009, and of the smallest component's
    # cells: sqrt(0.09 / (600 * 0.7)) = 0.015. The largest of 90 cells is beyond 4 once in 175 seeds.
    np.testing.assert_allclose(np.exp(model.log_weights)[order], w, atol=0.036)
    np.testing.assert_allclose(jax.nn.sigmoid(model.logits)[order], p, atol=0.06)


def test_a_masked_value_changes_nothing_and_a_mask_of_all_true_is_no_mask():
    rows, rng = random_rows(40, 5), np.random.default_rng(9)

    def fit(rows, mask):
        return fit_mixture_of_bernoullis(rows, num_components=3, key=jax.random.key(0), mask=mask)

    mask = rng.random(rows.shape) < 0.7
    logits = [fit(v, mask).logits for v in (rows, np.where(mask, rows, 1 - rows), np.where(mask, rows, np.nan))]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[0], logits[2])
    assert np.abs(logits[0] - fit(rows, None).logits).max() > 0.1
    np.testing.assert_allclose(fit(rows, np.ones_like(mask)).logits, fit(rows, None).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [np.ones((40, 5)), np.arange(40)[:, None] % np.full(5, 2)], ids=["one", "two"])
def test_more_components_than_distinct_rows(rows):
    model = fit_mixture_of_bernoullis(rows, num_components=3, key=jax.random.key(0), smoothing=1e-3)
    assert np.isfinite(model.logits).all()
    assert np.isfinite(model.log_weights).all()
    assert abs(np.exp(model.log_weights).sum() - 1) < 1e-5
    p = jax.nn.sigmoid(model.logits)
    assert ((p > 0) & (p < 1)).all()


def test_an_empty_component_keeps_a_small_weight_and_halves():
    # The second component gives these rows e^-100 a cell.
    model = MixtureOfBernoullis(jnp.log(jnp.array([0.5, 0.5])), jnp.array([[-2.0] * 4, [100.0] * 4]))
    after = em_step(model, np.zeros((10, 4)), smoothing=S)
    np.testing.assert_allclose(after.logits[1], 0, atol=1e-6)
    np.testing.assert_allclose(jnp.exp(after.log_weights), [(10 + S) / (10 + 2 * S), S / (10 + 2 * S)], rtol=1e-5)


def test_samples_have_the_models_frequencies_and_do_not_depend_on_their_number():
    model, num = random_model(3, 5), 40_000
    draws = np.asarray(model.sample(jax.random.key(10), num))
    counts = np.bincount(draws @ 2 ** np.arange(4, -1, -1), minlength=32)
    p = np.exp(model.log_likelihood(every_row(5)))
    # Pearson's statistic with 31 degrees of freedom: above 74 once in 40,000 seeds.
    assert ((counts - num * p) ** 2 / (num * p)).sum() < 74
    np.testing.assert_array_equal(model.sample(jax.random.key(10), 5), draws[:5])


def test_works_inside_jit():
    model, rows = random_model(3, 5), jnp.asarray(every_row(5))
    np.testing.assert_allclose(jax.jit(lambda r: model.log_likelihood(r))(rows), model.log_likelihood(rows), rtol=1e-6)


FIT = {"num_components": 2, "key": jax.random.key(0)}
REFUSED = [
    (np.zeros((2, 28, 28)), {}, ValueError, "expected `rows` of shape (n, x); got (2, 28, 28). Flatten images first."),
    (np.array([[0, 1], [0.5, 2]]), {}, ValueError, "zeros and ones in `rows`; got 0.5 at (1, 0), and 2 such values"),
    (np.array([[0, np.nan]]), {}, ValueError, "got nan at (0, 1), and 1 such values in all. Binarise them, and name"),
    (np.zeros((0, 3)), {}, ValueError, "expected at least one row; got none."),
    (np.eye(2), {"mask": np.ones((2, 3), bool)}, ValueError, "`mask` of the rows' shape (2, 2); got (2, 3)."),
    (np.eye(2), {"mask": np.ones((2, 2))}, TypeError, "a boolean `mask`, true where observed; got dtype float32."),
    (np.eye(2), {"num_components": 0}, ValueError, "expected `num_components` of at least 1; got 0."),
    (np.eye(2), {"iterations": 0}, ValueError, "expected `iterations` of at least 1; got 0."),
    (np.eye(2), {"smoothing": 0.0}, ValueError, "expected a positive `smoothing`, so that no probability is 0 or 1;"),
    (np.eye(2), {"smoothing": float("nan")}, ValueError, "so that no probability is 0 or 1; got nan."),
]


@pytest.mark.parametrize(("rows", "options", "error", "message"), REFUSED)
def test_refusals(rows, options, error, message):
    with pytest.raises(error) as caught:
        fit_mixture_of_bernoullis(rows, **(FIT | options))
    assert message in str(caught.value)


def test_refuses_rows_of_another_width():
    with pytest.raises(ValueError) as caught:
        random_model(2, 3).log_likelihood(np.zeros((1, 4)))
    assert str(caught.value) == "log_likelihood: expected `rows` of shape (n, 3); got (1, 4). Flatten images first."


@pytest.mark.parametrize("name", ["num_components", "iterations"])
def test_settings_are_refused_before_they_are_used(name):
    with pytest.raises(
        ValueError, match=rf"BernoulliMixture: expected `{name}` to be a whole number of at least 1; got 0"
    ):
        BernoulliMixture(**{name: 0})

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import Annealing, BoltzmannMachine, LogPartition, count_log_partition
from dlgm.baselines.boltzmann import as_bits, base_logits
from tests.baselines.machines import every_row, frequencies, minus_energies, random_machine, table, within

# 16 states, two-sided: beyond 4.5 standard errors once in 9,000 keys.
ERRORS = 4.5


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


@pytest.mark.parametrize(("x", "k"), [(4, 3), (2, 5), (1, 1)])
def test_energies_and_conditionals_are_the_definition(x64, x, k):
    machine, V, H = random_machine(x, k), every_row(x), every_row(k)
    minus, p = minus_energies(machine), table(machine)
    v, h = (jnp.asarray(part) for part in (V, H))
    np.testing.assert_allclose(-machine.energy(v[:, None], h[None]), minus, rtol=1e-12)
    np.testing.assert_allclose(-machine.free_energy(v), np.log(np.exp(minus).sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(sigmoid(machine.hidden_logits(v)), p @ H / p.sum(axis=1)[:, None], rtol=1e-12)
    np.testing.assert_allclose(sigmoid(machine.visible_logits(h)), p.T @ V / p.sum(axis=0)[:, None], rtol=1e-12)
    np.testing.assert_allclose(-machine.swapped().energy(h[:, None], v[None]), minus.T, rtol=1e-12)


@pytest.mark.parametrize(("x", "k"), [(4, 3), (2, 5), (1, 1)])
def test_counting_is_the_sum_over_all_states(x64, x, k):
    machine = random_machine(x, k)
    found = count_log_partition(machine)
    assert (found.standard_error, found.method) == (0, "counted")
    np.testing.assert_allclose(found.log_z, np.log(np.exp(minus_energies(machine)).sum()), rtol=1e-13)


def test_counting_goes_block_by_block_over_the_smaller_side(x64):
    # Four blocks of 1,024 states here; those of the other side, 2^80, are too many for any integer to number.
    machine = random_machine(12, 80, scale=0.5)
    W, b, c = (np.asarray(part) for part in (machine.weights, machine.visible_bias, machine.hidden_bias))
    V = every_row(12)
    expected = np.logaddexp.reduce(V @ b + np.logaddexp(0, c + V @ W).sum(axis=1))
    for same in (machine, machine.swapped()):
        np.testing.assert_allclose(count_log_partition(same).log_z, expected, rtol=1e-13)


def test_too_many_states_are_refused():
    with pytest.raises(ValueError, match=r"expected at most 20 units on one side; got 21 and 22. Use Annealing."):
        count_log_partition(random_machine(21, 22))


def test_a_tempered_gibbs_step_follows_its_conditionals():
    machine, base, beta, n = random_machine(4, 3, scale=3.0), np.array([0.5, -1.0, 0.2, 1.5]), 0.4, 40_000
    V, H = every_row(4), every_row(3)
    start = V[5]
    # T(v' | v) = sum_h p(h | v) p(v' | h), with both conditionals read off the joint table of the tempered law.
    joint = np.exp((1 - beta) * (V @ base)[:, None] + beta * minus_energies(machine))
    hidden = joint[5] / joint[5].sum()
    expected = (joint / joint.sum(axis=0)) @ hidden
    drawn = machine.gibbs(
        jnp.asarray(np.tile(start, (n, 1)), jnp.float32), jax.random.key(0), base=jnp.asarray(base), beta=beta
    )
    assert H.shape == (len(hidden), 3)
    within(frequencies(drawn), expected, n, ERRORS)


def test_the_mean_of_annealed_weights_is_unbiased(x64):
    machine, n = random_machine(4, 3, scale=1.5), 40_000
    Z = np.exp(minus_energies(machine)).sum()
    # With so few laws the weights vary a lot, and their logarithms are far too low on average; their mean is not.
    log_w = Annealing(temperatures=3, chains=n).log_weights(
        machine, jnp.array([0.5, -1.0, 0.2, 1.5]), jax.random.key(1)
    )
    w = np.exp(log_w)
    error = w.std() / np.sqrt(n)
    assert abs(w.mean() - Z) < 4 * error  # false alarm 6e-5
    assert error < 0.02 * Z
    assert np.log(Z) - log_w.mean() > 0.2


def test_the_stated_error_of_annealing_is_its_error(x64):
    machine = random_machine(4, 3, scale=1.5)
    log_z = count_log_partition(machine).log_z
    annealing = Annealing(temperatures=100, chains=200)
    found = [annealing(machine, jnp.zeros(4), key) for key in jax.random.split(jax.random.key(2), 40)]
    z = np.array([(one.log_z - log_z) / one.standard_error for one in found])
    assert 18 < np.sum(z**2) < 74  # chi-square of 40: outside once in 500
    assert np.abs(z).max() < 4.5
    assert {one.method for one in found} == {"annealed"}
    assert max(one.standard_error for one in found) < 0.05


def test_without_weights_annealing_is_exact(x64):
    b, c = np.array([0.3, -2.0, 1.0]), np.array([-1.0, 0.5])
    machine = BoltzmannMachine(jnp.zeros((3, 2)), jnp.asarray(b), jnp.asarray(c))
    found = Annealing(temperatures=50, chains=10)(machine, jnp.asarray(b), jax.random.key(0))
    np.testing.assert_allclose(found.log_z, np.logaddexp(0, b).sum() + np.logaddexp(0, c).sum(), rtol=1e-12)
    assert found.standard_error < 1e-12


def test_the_laws_rise_to_the_machine_and_are_densest_there():
    betas = Annealing(temperatures=29).betas()
    np.testing.assert_allclose(betas[[0, 1, 5, 9, 19, 29]], [0, 0.5, 0.7, 0.9, 0.95, 1], atol=1e-12)
    assert len(betas) == 30
    assert (np.diff(betas) > 0).all()


def test_limits_are_three_standard_errors_of_z():
    found = LogPartition(5.0, 0.2, "annealed")
    np.testing.assert_allclose([found.low, found.high], [5 + np.log(0.4), 5 + np.log(1.6)], rtol=1e-12)
    assert LogPartition(5.0, 0.4, "annealed").low == -np.inf


def test_base_logits_are_of_the_rates_with_a_row_of_either_value_more():
    np.testing.assert_allclose(base_logits(np.array([0, 2, 8]), 8), np.log([1 / 9, 3 / 7, 9]), rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 28, 28)), r"f: expected `rows` of shape \(n, 4\); got \(2, 28, 28\). Flatten images first."),
        (np.zeros((2, 3)), r"f: expected `rows` of shape \(n, 4\); got \(2, 3\). Flatten images first."),
        (
            [[0, 1, 0, 1], [0, 0.5, np.nan, 1]],
            r"f: expected zeros and ones in `rows`; got 0.5 at \(1, 1\), and 2 such values in all. Binarise them; "
            "holes are not supported.",
        ),
    ],
)
def test_rows_that_are_not_bits_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        as_bits("f", rows, 4)


def test_a_single_chain_is_refused():
    with pytest.raises(ValueError, match=r"chains: expected at least 2; got 1."):
        Annealing(chains=1)

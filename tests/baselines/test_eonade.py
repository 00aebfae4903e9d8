import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.baselines import EoNADE, EoNADEDensity
from dlgm.baselines.eonade import OrderAgnosticLoss, draw_known, order_agnostic_loss
from tests.baselines.test_autoregressive import every_row, log_p_by_hand, random_network

X = 4
MASKS = np.array(list(itertools.product([False, True], repeat=X)))[
    :-1
]  # all but the one that leaves nothing to predict
ORDERS = list(itertools.permutations(range(X)))


@pytest.fixture(scope="module")
def density():
    return EoNADEDensity(random_network(X, layers=2, sees_known=True), orderings=3, seed=1)


def chance_of(mask):
    """Of a set: its size is uniform on 0..x-1, and sets of a size are equally likely."""
    k = int(mask.sum())
    return 1 / (X * len(list(itertools.combinations(range(X), k))))


def test_the_loss_over_all_sets_is_the_mean_over_all_orders(x64):
    network = random_network(X, layers=2, sees_known=True, nonlinearity="tanh")
    loss = jax.jit(jax.vmap(order_agnostic_loss, (None, None, 0)))
    for row in every_row(X)[[0, 6, 11]]:
        losses = np.asarray(loss(network, jnp.asarray(row), MASKS))
        expected = np.mean([-log_p_by_hand(network, row, order) for order in ORDERS])
        assert sum(chance_of(m) * l for m, l in zip(MASKS, losses, strict=True)) == pytest.approx(expected, rel=1e-10)


def test_sets_of_known_columns_have_their_chances():
    # 15 frequencies of n = 40,000 draws, each within 4 standard errors: false alarm 1e-3.
    n = 40_000
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: draw_known(k, X)))(jax.random.split(jax.random.key(0), n)))
    code = 2 ** np.arange(X)
    found = np.bincount(drawn @ code, minlength=16) / n
    p = np.array([chance_of(mask) for mask in MASKS])
    assert (np.abs(found[MASKS @ code] - p) < 4 * np.sqrt(p * (1 - p) / n)).all()
    assert found[15] == 0


def test_the_objective_is_unbiased_for_the_mean_over_all_orders(density):
    # n = 20,000, within 4 standard errors: false alarm 6e-5.
    n, row = 20_000, every_row(X)[11]
    one = jax.jit(jax.vmap(lambda k: OrderAgnosticLoss()(density, jnp.asarray(row, jnp.float32), key=k).loss))
    losses = np.asarray(one(jax.random.split(jax.random.key(2), n)), float)
    expected = np.mean([-log_p_by_hand(density.network, row, order) for order in ORDERS])
    assert abs(losses.mean() - expected) < 4 * losses.std() / n**0.5


def test_scores_are_those_of_the_mixture_over_orders(density):
    rows, orders = every_row(X), density.orders
    assert [sorted(order) for order in orders.tolist()] == [list(range(X))] * 3
    assert len(set(map(tuple, orders.tolist()))) > 1
    p = np.array([[np.exp(log_p_by_hand(density.network, row, order)) for row in rows] for order in orders])
    np.testing.assert_allclose(density.score_samples(rows), np.log(p.mean(axis=0)), rtol=1e-4)
    np.testing.assert_allclose(density.score_samples(rows, ordering=orders[1]), np.log(p[1]), rtol=1e-4)
    assert np.exp(density.score_samples(rows).astype(float)).sum() == pytest.approx(1, abs=1e-5)


def test_a_smaller_ensemble_is_the_beginning_of_a_larger_one(density):
    np.testing.assert_array_equal(density.with_orderings(8).orders[:3], density.orders)


def test_samples_are_of_the_mixture(density):
    # 16 frequencies of n = 20,000 draws, each within 4 standard errors: false alarm 1e-3; and for a given order too.
    n, code = 20_000, 2 ** np.arange(X)[::-1]
    for ordering in (None, [2, 0, 3, 1]):
        drawn = density.sample(n, ordering=ordering, seed=4)
        p = np.exp(density.score_samples(every_row(X), ordering=ordering))
        found = np.bincount(drawn @ code, minlength=16) / n
        assert (np.abs(found - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


def test_training_learns_every_order():
    # Column 2 is the exclusive or of the others; each order has to find that out. The best likelihood is that of two
    # fair coins, up to the shares of this sample.
    bits = np.random.default_rng(0).integers(0, 2, size=(400, 2))
    rows = np.column_stack([bits, bits[:, 0] ^ bits[:, 1]])
    model = EoNADE(hidden=16, layers=2, epochs=40, batch_size=20, learning_rate=0.01).fit(rows, rows[:100], seed=0)
    for ordering in ([0, 1, 2], [2, 1, 0]):
        score = model.score_samples(rows, ordering=ordering).mean()
        assert -np.log(4) - 0.05 < score < -np.log(4) + 0.01


@pytest.mark.parametrize("changes", [{"move": 1}, {"slant": 0.9}])
def test_images_are_moved_while_training(changes):
    # Two dots, one above the other: without moves no other pixel is ever seen lit.
    rows = np.zeros((200, 25), int)
    rows[:, [7, 12]] = 1
    chances = []
    still = EoNADE(hidden=4, epochs=10, batch_size=20, learning_rate=0.01)
    for settings in (still, dataclasses.replace(still, **changes)):
        # Moves end with four fifths of the training; at this rate the biases still know of them.
        model = settings.fit(rows)
        others = jax.nn.sigmoid(model.network.readout_bias)
        chances.append(float(others[jnp.array([6, 8])].max()))
    assert chances[1] > 1.2 * chances[0]


def test_moves_ask_for_square_images():
    with pytest.raises(ValueError, match="square"):
        EoNADE(epochs=1, move=1).fit(np.zeros((4, 5)))


@pytest.mark.parametrize(
    ("ordering", "got"),
    [([0, 1, 2], r"\[0 1 2\]"), ([0, 1, 2, 2], r"\[0 1 2 2\]"), ([[0, 1, 2, 3]], r"\[\[0 1 2 3\]\]")],
)
def test_an_ordering_that_is_none_is_refused(density, ordering, got):
    with pytest.raises(ValueError, match=rf"ordering: expected the columns 0 to 3, each once; got {got}\."):
        density.sample(1, ordering=ordering)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="EoNADE: expected `layers` to be a whole number of at least 1; got 0"):
        EoNADE(layers=0)
    with pytest.raises(ValueError, match="EoNADE: expected `orderings` to be a whole number of at least 1; got 0"):
        EoNADE(orderings=0)

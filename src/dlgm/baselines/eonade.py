r"""EoNADE: one network for every order of the columns, and an ensemble of orders (Uria, Murray and Larochelle, 2014).

The network sees which columns are known beside their values, so that a single set of weights has a conditional for
every column given any others. Training takes a random set of known columns for each row and predicts the rest at once,

$$\hat L(v) = \frac{x}{x - |S|} \sum_{j \notin S} -\log p(v_j \mid v_S), \qquad |S| \sim U\{0..x-1\},$$

which is unbiased for $E_o[-\log p(v \mid o)]$, the mean over all orders $o$. (With $d = |S| + 1$ the factor is the
$D / (D - d + 1)$ of the paper.) Different orders give different likelihoods; the model that is reported is their
mixture, $p(v) = \frac1k \sum_o p(v \mid o)$ over $k$ orders drawn once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float, Int, Key

from dlgm.baselines.autoregressive import AutoregressiveNetwork, log_bernoulli
from dlgm.baselines.training import (
    ROWS_AT_A_TIME,
    AbstractBinaryDensity,
    AbstractTrainedBaseline,
    building_key,
    complete_bits,
    ordering_key,
    smoothed_means,
)
from dlgm.inference.rows import map_rows
from dlgm.learning.noise import Noise
from dlgm.learning.objective import AbstractObjective, Terms
from dlgm.names import require_whole

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher, Checkpoints


class EoNADEDensity(AbstractBinaryDensity):
    """An EoNADE with its weights: the mixture over its `orders`, or, where an `ordering` is named, that one alone."""

    network: AutoregressiveNetwork
    orderings: int = eqx.field(static=True, default=2)
    seed: int = eqx.field(static=True, default=0)
    kappa: float = eqx.field(static=True, default=1e6)

    @property
    def num_columns(self) -> int:
        """Of a row."""
        return len(self.network.readout_bias)

    @property
    def orders(self) -> Int[np.ndarray, "k x"]:
        """The ensemble's orders, from the seed of the fit. Those of a smaller ensemble come first in a larger one."""
        return np.asarray(_orders(ordering_key(self.seed), self.orderings, self.num_columns))

    def with_orderings(self, orderings: int) -> "EoNADEDensity":
        """The same weights with an ensemble of another size."""
        require_whole("with_orderings", "orderings", orderings, 1)
        return EoNADEDensity(self.network, orderings, self.seed, self.kappa)

    def penalty(self) -> Float[Array, ""]:
        """Of the weights' prior."""
        return self.network.penalty(self.kappa)

    def score_samples(self, rows: Any, *, ordering: Any = None, seed: int = 0) -> Float[np.ndarray, " n"]:
        r"""$\log \frac1k \sum_o p(v \mid o)$ of each row, exact; or $\log p(v \mid o)$ of one `ordering`.

        Nothing is drawn, and `seed` does not matter. The cost is that of all orders.
        """
        rows = complete_bits("rows", rows, self.num_columns)
        orders = self._orders_of(ordering)
        return map_rows(self, lambda v, mask, hashes: _scores(self.network, v, orders), rows, None, ROWS_AT_A_TIME)

    def sample(self, num: int, *, ordering: Any = None, seed: int = 0) -> Bool[np.ndarray, "num x"]:
        """New rows: each takes one of the orders at random, or the given `ordering`, and draws its columns in it.

        The first rows of a longer call are those of a shorter one.
        """
        require_whole("sample", "num", num, 1)
        return np.asarray(_samples(self.network, self._orders_of(ordering), jax.random.key(seed), num))

    def _orders_of(self, ordering: Any) -> Int[np.ndarray, "k x"]:
        if ordering is None:
            return self.orders
        order = np.asarray(ordering)
        if order.ndim != 1 or not np.array_equal(np.sort(order), np.arange(self.num_columns)):
            raise ValueError(
                f"ordering: expected the columns 0 to {self.num_columns - 1}, each once; "
                f"got {np.array2string(order, threshold=10)}."
            )
        return order[None].astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class EoNADE(AbstractTrainedBaseline):
    """Settings of an EoNADE. Training and its bound do not depend on the number of orderings.

    >>> import numpy as np
    >>> rows = np.array([[0, 0, 1], [1, 1, 0]] * 50)
    >>> model = EoNADE(hidden=8, epochs=60, batch_size=10, learning_rate=0.05).fit(rows)
    >>> [round(float(p), 1) for p in np.exp(model.score_samples([[0, 0, 1], [1, 1, 0], [1, 0, 1]]))]
    [0.5, 0.5, 0.0]
    >>> model.with_orderings(6).orders.shape
    (6, 3)
    """

    layers: int = 1  # hidden layers; a second one makes scoring dearer by a factor of about `hidden`, not training
    orderings: int = 2  # orders in the ensemble that scores and samples; the paper has 2 and 128
    move: int = 0  # pixels by which square images are moved while training, as in `TrainingConfig`: it overfits less
    slant: float = 0.0  # and are slanted, as there

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("layers", "orderings"):
            require_whole("EoNADE", name, getattr(self, name), 1)

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> EoNADEDensity:
        """Lower the order-agnostic loss on `rows`; keep the weights that are best by `valid`, if there are such rows.

        `watchers` and `checkpoints` are those of `dlgm.learning.fit`: the bound there is an unbiased estimate of the
        mean over all orders of log p, on validation rows with the same sets of known columns every time.
        """
        rows = complete_bits("rows", rows)
        network = AutoregressiveNetwork(
            smoothed_means(rows),
            hidden=self.hidden,
            layers=self.layers,
            sees_known=True,
            nonlinearity=self.nonlinearity,
            key=building_key(seed),
        )
        start = EoNADEDensity(network, self.orderings, seed, self.kappa)
        moves = {"move": self.move, "slant": self.slant}
        return self._train(start, rows, valid, OrderAgnosticLoss(), seed, watchers, checkpoints, **moves)


class OrderAgnosticLoss(AbstractObjective):
    r"""$\hat L(v)$ for a random set of known columns, unbiased for $E_o[-\log p(v \mid o)]$."""

    def __call__(
        self,
        model: EoNADEDensity,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The loss of one row, which has no KL term."""
        loss = order_agnostic_loss(model.network, v, draw_known(key, len(v)))
        return Terms(loss, jax.lax.stop_gradient(loss), jnp.zeros(0))


def order_agnostic_loss(
    network: AutoregressiveNetwork, v: Float[Array, " x"], known: Bool[Array, " x"]
) -> Float[Array, ""]:
    r"""$\hat L(v) = \frac{x}{x - |S|} \sum_{j \notin S} -\log p(v_j \mid v_S)$, with $S$ the `known` columns."""
    log_p = jnp.where(known, 0, log_bernoulli(v, network.logits(v, known)))
    return -len(v) / jnp.sum(~known) * jnp.sum(log_p)


def draw_known(key: Key[Array, ""], x: int) -> Bool[Array, " x"]:
    """The columns before a random place in a random order: their number is uniform on 0..x-1, and they are any so many.

    Without sorting: one column, any, is not known. Each other is with probability t, and for t uniform their number is
    uniform as well (the integral of t^k (1 - t)^(n-k) over t is 1 / ((n + 1) C(n, k))).
    """
    key_one, key_t, key_columns = jax.random.split(key, 3)
    others = jnp.arange(x) != jax.random.randint(key_one, (), 0, x)
    return others & (jax.random.uniform(key_columns, (x,)) < jax.random.uniform(key_t))


@partial(jax.jit, static_argnames=("num", "x"))
def _orders(key: Key[Array, ""], num: int, x: int) -> Int[Array, "num x"]:
    return jax.vmap(lambda i: jax.random.permutation(jax.random.fold_in(key, i), x))(jnp.arange(num))


@jax.jit
def _scores(network: AutoregressiveNetwork, v: Float[Array, "n x"], orders: Int[Array, "k x"]) -> Float[Array, " n"]:
    def one(order: Int[Array, " x"]) -> Float[Array, " n"]:
        return jax.vmap(network.in_order(order).log_likelihood)(v[:, order])

    return logsumexp(jax.lax.map(one, orders), axis=0) - np.log(len(orders))


@partial(jax.jit, static_argnames="num")
def _samples(
    network: AutoregressiveNetwork, orders: Int[Array, "k x"], key: Key[Array, ""], num: int
) -> Bool[Array, "num x"]:
    def one(i: Array) -> Array:
        key_order, key_row = jax.random.split(jax.random.fold_in(key, i))
        return network.sample(key_row, orders[jax.random.randint(key_order, (), 0, len(orders))])

    return jax.vmap(one)(jnp.arange(num))

r"""NADE, the neural autoregressive distribution estimator (Larochelle and Murray, 2011), with one hidden layer.

$$\log p(v) = \sum_d \log \mathrm{Bernoulli}\big(v_{o_d} \mid \sigma(V_d \cdot h(a_d) + b_d)\big), \qquad
  a_d = c + \sum_{e < d} v_{o_e} W_e$$

with the columns taken in one fixed order $o$. The likelihood is exact, and so are its gradient and the samples.
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
from jaxtyping import Bool, Float, Key

from dlgm.baselines.autoregressive import AutoregressiveNetwork
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
from dlgm.names import require_one_of, require_whole

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher, Checkpoints


class NADEDensity(AbstractBinaryDensity):
    """A NADE with its weights. `network` has the columns in their `order`, the one that comes first at the top."""

    network: AutoregressiveNetwork
    order: tuple[int, ...] = eqx.field(static=True)
    kappa: float = eqx.field(static=True, default=1e6)

    @property
    def num_columns(self) -> int:
        """Of a row."""
        return len(self.order)

    def penalty(self) -> Float[Array, ""]:
        """Of the weights' prior."""
        return self.network.penalty(self.kappa)

    def log_likelihood(self, v: Float[Array, " x"]) -> Float[Array, ""]:
        r"""$\log p(v)$ of one row, exact."""
        return self.network.log_likelihood(v[np.array(self.order)])

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        r"""$\log p(v)$ of each row, exact; nothing is drawn, and `seed` does not matter."""
        rows = complete_bits("rows", rows, self.num_columns)
        return map_rows(self, lambda v, mask, hashes: _scores(self, v), rows, None, ROWS_AT_A_TIME)

    def sample(self, num: int, *, seed: int = 0) -> Bool[np.ndarray, "num x"]:
        """New rows, drawn column by column. The first rows of a longer call are those of a shorter one."""
        require_whole("sample", "num", num, 1)
        return np.asarray(_samples(self, jax.random.key(seed), num))


@dataclass(frozen=True, kw_only=True)
class NADE(AbstractTrainedBaseline):
    """Settings of a NADE.

    >>> import numpy as np
    >>> rows = np.array([[0, 0, 1], [1, 1, 0]] * 50)
    >>> model = NADE(hidden=8, epochs=30, batch_size=10, learning_rate=0.05).fit(rows)
    >>> [round(float(p), 1) for p in np.exp(model.score_samples([[0, 0, 1], [1, 1, 0], [1, 0, 1]]))]
    [0.5, 0.5, 0.0]
    >>> model.sample(4).shape
    (4, 3)
    """

    order: str = "natural"  # of the columns: natural, or random, drawn from the seed

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("order", self.order, ("natural", "random"))

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> NADEDensity:
        """Maximise the likelihood of `rows`; keep the weights that are best by `valid`, if there are such rows.

        `watchers` and `checkpoints` are those of `dlgm.learning.fit`: the bound there is the likelihood itself.
        """
        rows = complete_bits("rows", rows)
        order = np.arange(rows.shape[1])
        if self.order == "random":
            order = np.asarray(jax.random.permutation(ordering_key(seed), rows.shape[1]))
        network = AutoregressiveNetwork(
            smoothed_means(rows[:, order]),
            hidden=self.hidden,
            nonlinearity=self.nonlinearity,
            key=building_key(seed),
        )
        start = NADEDensity(network, tuple(order.tolist()), self.kappa)
        return self._train(start, rows, valid, NegativeLogLikelihood(), seed, watchers, checkpoints)


class NegativeLogLikelihood(AbstractObjective):
    r"""$-\log p(v)$ of a model that can compute it."""

    def __call__(
        self,
        model: NADEDensity,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The loss of one row, which has no KL term."""
        loss = -model.log_likelihood(v)
        return Terms(loss, jax.lax.stop_gradient(loss), jnp.zeros(0))


@jax.jit
def _scores(model: NADEDensity, v: Float[Array, "n x"]) -> Float[Array, " n"]:
    return jax.vmap(model.log_likelihood)(v)


@partial(jax.jit, static_argnames="num")
def _samples(model: NADEDensity, key: Key[Array, ""], num: int) -> Bool[Array, "num x"]:
    def one(i: Array) -> Array:
        return model.network.sample(jax.random.fold_in(key, i), jnp.arange(model.num_columns))

    # Back from the network's order: column o_d of a row is the d-th that was drawn.
    return jax.vmap(one)(jnp.arange(num))[:, np.argsort(model.order)]

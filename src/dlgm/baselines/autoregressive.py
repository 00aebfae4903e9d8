r"""A network that predicts the columns of a binary row one after another, each from those before it.

$$p(v) = \prod_d p(v_d \mid v_{<d}), \qquad \mathrm{logit}\,p(v_d = 1 \mid v_{<d}) = V_d \cdot h(a_d) + b_d,$$
$$a_1 = c, \qquad a_{d+1} = a_d + v_d W_d + M_d.$$

The sums $a$ grow by a term a column, so that all $x$ conditionals of a row cost $O(xH)$ together, as a single pass
through the network does, and not $O(x^2 H)$ (Larochelle and Murray, 2011). $M$ says that a column is known, whatever
its value, and is there only where columns come in more than one order. Layers after the first have no such recurrence:
they cost $O(xH^2)$.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import softplus
from jaxtyping import Bool, Float, Int, Key

from dlgm.model.networks import NONLINEARITIES, Affine, gain_of


class AutoregressiveNetwork(eqx.Module):
    r"""The conditionals $p(v_d \mid v_{<d})$ of one row, in the order of the network's columns.

    `weights` is $W$, `known` is $M$, `bias` is $c$, `readout` is $V$, `readout_bias` is $b$; `deeper` are the hidden
    layers after the first.
    """

    weights: Float[Array, "x h"]
    known: Float[Array, "x h"] | None
    bias: Float[Array, " h"]
    deeper: tuple[Affine, ...]
    readout: Float[Array, "x h"]
    readout_bias: Float[Array, " x"]
    nonlinearity: str = eqx.field(static=True)

    def __init__(
        self,
        means: Float[Array, " x"],
        *,
        hidden: int,
        layers: int = 1,
        sees_known: bool = False,
        nonlinearity: str = "relu",
        key: Key[Array, ""],
    ) -> None:
        """Random weights, and biases of the readout with which each column starts at its mean."""
        x = len(means)
        key_weights, key_known, key_readout, key_deeper = jax.random.split(key, 4)
        inputs = 2 * x if sees_known else x
        gain = gain_of(nonlinearity)
        self.weights = jax.random.normal(key_weights, (x, hidden)) * (gain / inputs**0.5)
        self.known = jax.random.normal(key_known, (x, hidden)) * (gain / inputs**0.5) if sees_known else None
        self.bias = jnp.zeros(hidden)
        self.deeper = tuple(Affine(hidden, hidden, gain=gain, key=k) for k in jax.random.split(key_deeper, layers - 1))
        self.readout = jax.random.normal(key_readout, (x, hidden)) / hidden**0.5
        self.readout_bias = jnp.log(means) - jnp.log1p(-means)
        self.nonlinearity = nonlinearity

    def in_order(self, order: Int[Array, " x"]) -> "AutoregressiveNetwork":
        """The same network with its columns in another order: the column `order[0]` comes first."""
        columns = (self.weights, self.known, self.readout, self.readout_bias)
        return eqx.tree_at(
            lambda n: (n.weights, n.known, n.readout, n.readout_bias),
            self,
            jax.tree.map(lambda leaf: leaf[order], columns),
            is_leaf=lambda leaf: leaf is None,
        )

    def log_likelihood(self, v: Float[Array, " x"]) -> Float[Array, ""]:
        r"""$\log p(v)$ of a row whose columns are in the network's order."""

        def column(a: Float[Array, " h"], at: tuple) -> tuple[Float[Array, " h"], Float[Array, ""]]:
            W_d, M_d, V_d, b_d, v_d = at
            logit = self._hidden(a) @ V_d + b_d
            return _step(a, v_d, W_d, M_d), log_bernoulli(v_d, logit)

        # The backward pass needs a_d at every d, H numbers a column and row. What it keeps are those at the start of
        # some sqrt(x) pieces; it goes through each piece once more to have the rest. That is faster, too, than to read
        # them all from memory.
        @jax.checkpoint
        def piece(a: Float[Array, " h"], at: tuple) -> tuple[Float[Array, " h"], Float[Array, " p"]]:
            return jax.lax.scan(column, a, at)

        p = _divisor(len(v))
        columns = (self.weights, self.known, self.readout, self.readout_bias, v)
        pieces = jax.tree.map(lambda leaf: leaf.reshape(-1, p, *leaf.shape[1:]), columns)
        return jnp.sum(jax.lax.scan(piece, self.bias, pieces)[1])

    def logits(self, v: Float[Array, " x"], seen: Bool[Array, " x"]) -> Float[Array, " x"]:
        """Of every column, given those that are `seen`; what the others hold does not matter. One pass."""
        a = self.bias + jnp.where(seen, v, 0) @ self.weights
        if self.known is not None:
            a = a + seen.astype(v.dtype) @ self.known
        return self._hidden(a) @ self.readout.T + self.readout_bias

    def sample(self, key: Key[Array, ""], order: Int[Array, " x"]) -> Bool[Array, " x"]:
        """A new row, drawn column by column in the given order of the network's columns."""

        def column(a: Float[Array, " h"], at: tuple) -> tuple[Float[Array, " h"], Bool[Array, ""]]:
            j, u = at
            v_j = u < jax.nn.sigmoid(self._hidden(a) @ self.readout[j] + self.readout_bias[j])
            M_j = None if self.known is None else self.known[j]
            return _step(a, v_j.astype(a.dtype), self.weights[j], M_j), v_j

        u = jax.random.uniform(key, order.shape, self.bias.dtype)
        drawn = jax.lax.scan(column, self.bias, (order, u))[1]
        return jnp.zeros_like(drawn).at[order].set(drawn)

    def penalty(self, kappa: float) -> Float[Array, ""]:
        r"""$|\theta|^2 / (2 \kappa)$, of the parameters' prior $N(0, \kappa I)$."""
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(self)), start=jnp.zeros(())) / (2 * kappa)

    def _hidden(self, a: Float[Array, " h"]) -> Float[Array, " h"]:
        h = NONLINEARITIES[self.nonlinearity]
        for layer in self.deeper:
            a = layer(h(a))
        return h(a)


def _step(
    a: Float[Array, " h"], v_d: Float[Array, ""], W_d: Float[Array, " h"], M_d: Float[Array, " h"] | None
) -> Float[Array, " h"]:
    """The sums once another column is known."""
    a = a + v_d * W_d
    return a if M_d is None else a + M_d


def log_bernoulli(v: Float[Array, "*x"], logit: Float[Array, "*x"]) -> Float[Array, "*x"]:
    r"""$\log p(v)$ of bits with $\mathrm{logit}\,p$."""
    return v * logit - softplus(logit)


def _divisor(x: int) -> int:
    """The largest divisor up to the square root."""
    return max(d for d in range(1, math.isqrt(x) + 1) if x % d == 0)

r"""The restricted Boltzmann machine of binary units: its energy, its conditionals, and one step of Gibbs sampling.

$$p(v, h) = e^{-E(v, h)} / Z, \qquad E(v, h) = -b^\top v - c^\top h - v^\top W h$$

Given one side, the other side's units are independent, so that either side is drawn, or summed out, at once.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import sigmoid, softplus
from jaxtyping import Float, Int, Key, Shaped, UInt8

from dlgm.keys import quick_key


class BoltzmannMachine(eqx.Module):
    r"""$p(v, h) \propto \exp(b^\top v + c^\top h + v^\top W h)$ over x visible and k hidden bits.

    **Arguments**

    - `weights`: $W$, shape `(x, k)`.
    - `visible_bias`, `hidden_bias`: $b$ and $c$, shapes `(x,)` and `(k,)`.

    Methods act on the last axis and broadcast over the rest.

    >>> import jax.numpy as jnp
    >>> machine = BoltzmannMachine(jnp.zeros((2, 1)), jnp.zeros(2), jnp.zeros(1))
    >>> [round(float(f), 3) for f in machine.free_energy(jnp.array([[0.0, 0.0], [1.0, 1.0]]))]  # -log 2
    [-0.693, -0.693]
    """

    weights: Float[Array, "x k"]
    visible_bias: Float[Array, " x"]
    hidden_bias: Float[Array, " k"]

    def __check_init__(self) -> None:
        shape, b, c = (jnp.shape(part) for part in (self.weights, self.visible_bias, self.hidden_bias))
        if len(shape) != 2 or b != shape[:1] or c != shape[1:]:
            raise ValueError(
                "BoltzmannMachine: expected `weights` of shape (x, k), `visible_bias` of shape (x,) and `hidden_bias` "
                f"of shape (k,); got {shape}, {b} and {c}."
            )

    def energy(self, v: Float[Array, "*#n x"], h: Float[Array, "*#n k"]) -> Float[Array, "..."]:
        r"""$E(v, h) = -b^\top v - c^\top h - v^\top W h$."""
        return -v @ self.visible_bias - jnp.sum(self.hidden_logits(v) * h, axis=-1)

    def free_energy(self, v: Float[Array, "*n x"]) -> Float[Array, "*n"]:
        r"""$F(v) = -\log \sum_h e^{-E(v, h)} = -b^\top v - \sum_j \log(1 + e^{c_j + (W^\top v)_j})$."""
        return -v @ self.visible_bias - jnp.sum(softplus(self.hidden_logits(v)), axis=-1)

    def hidden_logits(self, v: Float[Array, "*n x"]) -> Float[Array, "*n k"]:
        r"""$\mathrm{logit}\, p(h_j = 1 \mid v) = c_j + (W^\top v)_j$."""
        return self.hidden_bias + v @ self.weights

    def visible_logits(self, h: Float[Array, "*n k"]) -> Float[Array, "*n x"]:
        r"""$\mathrm{logit}\, p(v_i = 1 \mid h) = b_i + (W h)_i$."""
        return self.visible_bias + h @ self.weights.T

    def gibbs(
        self,
        v: Float[Array, "n x"],
        key: Key[Array, ""],
        *,
        base: Float[Array, " x"] | float = 0.0,
        beta: Float[Array, ""] | float = 1.0,
    ) -> Float[Array, "n x"]:
        r"""$h \sim p(h \mid v)$ for all units at once, then a new $v \sim p(v \mid h)$.

        With $\beta < 1$ it leaves another law as it is, on the way from independent bits with the logits `base`,
        $\beta = 0$, to the machine, $\beta = 1$ (Salakhutdinov and Murray, 2008, eqs. 15-17):
        $p_\beta(v, h) \propto \exp((1 - \beta)\, \text{base}^\top v - \beta E(v, h))$.
        """
        key_h, key_v = jax.random.split(key)
        h = draw_bits(beta * self.hidden_logits(v), key_h)
        return draw_bits((1 - beta) * base + beta * self.visible_logits(h), key_v)

    def swapped(self) -> "BoltzmannMachine":
        """The same machine with its sides exchanged."""
        return BoltzmannMachine(self.weights.T, self.hidden_bias, self.visible_bias)


def draw_bits(logits: Float[Array, "*shape"], key: Key[Array, ""]) -> Float[Array, "*shape"]:
    """A zero or a one for each logit, as floats, for they are multiplied next."""
    return (jax.random.uniform(key, logits.shape, logits.dtype) < sigmoid(logits)).astype(logits.dtype)


@partial(jax.jit, static_argnames="num")
def sample_chains(
    machine: BoltzmannMachine, base: Float[Array, " x"], steps: Int[Array, ""] | int, key: Key[Array, ""], num: int
) -> Float[Array, "num x"]:
    """The visible units of `num` chains after so many steps, in the first half of which beta rises from 0 to 1."""
    key_start, key_steps = jax.random.split(quick_key(key))

    def step(i: Array, v: Array) -> Array:
        beta = jnp.minimum(1, 2 * (i + 1) / steps).astype(v.dtype)
        return machine.gibbs(v, jax.random.fold_in(key_steps, i), base=base, beta=beta)

    return jax.lax.fori_loop(0, steps, step, draw_bits(jnp.broadcast_to(base, (num, len(base))), key_start))


def base_logits(ones: Shaped[np.ndarray, " x"], num_rows: int) -> Float[Array, " x"]:
    """The logits of columns' rates, from their sums, with a row of each value added, so that they are finite."""
    return jnp.asarray(np.log(ones + 1) - np.log(num_rows - ones + 1), jnp.result_type(float))


def as_bits(owner: str, rows: Any, columns: int | None = None, name: str = "rows") -> UInt8[np.ndarray, "n x"]:
    """Rows of zeros and ones as bytes, or a message that says why not."""
    found = np.asarray(rows)
    if found.ndim != 2 or (columns is not None and found.shape[1] != columns):
        width = "x" if columns is None else columns
        raise ValueError(f"{owner}: expected `{name}` of shape (n, {width}); got {found.shape}. Flatten images first.")
    bad = ~((found == 0) | (found == 1))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{owner}: expected zeros and ones in `{name}`; got {float(found[at]):g} at {at}, and {int(bad.sum())} "
            "such values in all. Binarise them; holes are not supported."
        )
    return found.astype(np.uint8)

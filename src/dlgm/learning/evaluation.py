"""The bound on held-out rows, without training's noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key, Shaped

from dlgm.learning.objective import AbstractObjective, FreeEnergy
from dlgm.model.trainable import AbstractTrainable

_BLOCK = 500  # rows evaluated at a time: what memory grows with


@eqx.filter_jit
def bounds(
    model: AbstractTrainable,
    rows: Shaped[Array, "n x"],
    mask: Bool[Array, "n x"] | None = None,
    *,
    objective: AbstractObjective = FreeEnergy(),
    key: Key[Array, ""],
) -> Float[Array, " n"]:
    r"""A lower bound on $\log p(v)$ of every row, in nats: $-F(v)$, or the negative of another objective."""
    keys = jax.random.split(key, rows.shape[0])

    def one(row: tuple) -> Float[Array, ""]:
        v, m, k = row
        return -objective(model, v.astype(jnp.float32), m, key=k).loss

    return jax.lax.map(one, (rows, mask, keys), batch_size=_BLOCK)


def mean_bound(
    model: AbstractTrainable,
    rows: Shaped[Array, "n x"],
    mask: Bool[Array, "n x"] | None = None,
    *,
    objective: AbstractObjective = FreeEnergy(),
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """The mean of `bounds` over rows."""
    return jnp.mean(bounds(model, rows, mask, objective=objective, key=key))

"""The bound on held-out rows, without training's noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key, Shaped

from dlgm.learning.objective import AbstractObjective, FreeEnergy
from dlgm.model.trainable import AbstractTrainable

_BLOCK = 500  # rows evaluated at a time: what memory grows with
_DRAWS = 8  # of a Bayesian model's parameters


@eqx.filter_jit
def bounds(
    model: AbstractTrainable,
    rows: Shaped[Array, "n x"],
    mask: Bool[Array, "n x"] | None = None,
    *,
    objective: AbstractObjective = FreeEnergy(),
    key: Key[Array, ""],
) -> Float[Array, " n"]:
    r"""A lower bound on $\log p(v)$ of every row, in nats: $-F(v)$, or the negative of another objective.

    That of a Bayesian model is a mean over some draws of the parameters, which all rows share.
    """

    def at(point: AbstractTrainable, key: Key[Array, ""]) -> Float[Array, " n"]:
        def one(row: tuple) -> Float[Array, ""]:
            v, m, k = row
            return -objective(point, v.astype(jnp.float32), m, key=k).loss

        return jax.lax.map(one, (rows, mask, jax.random.split(key, rows.shape[0])), batch_size=_BLOCK)

    if not model.is_bayesian:
        return at(model, key)
    keys = jax.random.split(key, _DRAWS)
    return jnp.mean(jax.lax.map(lambda k: at(model.drawn(jax.random.fold_in(k, 1)), jax.random.fold_in(k, 0)), keys), 0)


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

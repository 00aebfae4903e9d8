"""Cells hidden on purpose: what early stopping asks of a model of a table with holes.

Held-out rows cost a small table dearly, and do not say how well holes are filled. A few cells of every row cost less,
and do: the model learns from the others, and is judged by what it expects in their place.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key, Shaped

from dlgm.learning.linear_start import Inputs
from dlgm.model import AbstractObservation, Model
from dlgm.model.generative import log_standard_normal

_BLOCK = 500  # rows that are looked at together


def hide_some(
    mask: Bool[np.ndarray, "n x"], share: float, *, most: int | None = None, seed: int = 0
) -> Bool[np.ndarray, "n x"]:
    """Which observed cells to hide: that share of them, `most` at most, and never the only one of a row or column."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(mask & (mask.sum(axis=1, keepdims=True) > 1))
    number = int(share * mask.sum()) if most is None else min(most, int(share * mask.sum()))
    hidden = np.zeros(mask.shape, bool)
    left_of_row, left_of_column = mask.sum(axis=1), mask.sum(axis=0)
    for row, column in rng.permutation(cells):
        if number == 0:
            break
        if left_of_row[row] > 1 and left_of_column[column] > 1:
            hidden[row, column] = True
            left_of_row[row] -= 1
            left_of_column[column] -= 1
            number -= 1
    return hidden


class HiddenCells:
    r"""A judge of models: minus the mean squared error of $E[v_i \mid v_o]$ over hidden cells $i$, in encoded units.

    Numbers count as they are encoded, categories as one-hot codes (the Brier score), each divided by its variance, so
    that no column speaks louder than the others. The expectation is taken by self-normalised importance sampling.

    **Arguments**

    - `observation`: the family, which encodes rows.
    - `rows`, `left`: rows, and which of their cells a model is given. `hidden`: which it is asked about.
    - `num_samples`: importance samples a row.
    """

    def __init__(
        self,
        observation: AbstractObservation,
        rows: Shaped[np.ndarray, "n x"],
        left: Bool[np.ndarray, "n x"],
        hidden: Bool[np.ndarray, "n x"],
        *,
        num_samples: int = 50,
        key: Key[Array, ""],
    ) -> None:
        self.scale = jnp.asarray(Inputs(observation, rows, left | hidden).scale, jnp.float32)
        asked = hidden.any(axis=1)
        self.rows, self.left, self.hidden = (jnp.asarray(part[asked]) for part in (rows, left, hidden))
        self.num_samples, self.key = num_samples, key

    def __call__(self, model: Model) -> Float[Array, ""]:
        """The score, higher is better."""
        return _score(model, self.rows, self.left, self.hidden, self.scale, self.key, self.num_samples)


@eqx.filter_jit
def _score(
    model: Model,
    rows: Shaped[Array, "n x"],
    left: Bool[Array, "n x"],
    hidden: Bool[Array, "n x"],
    scale: Float[Array, " i"],
    key: Key[Array, ""],
    num_samples: int,
) -> Float[Array, ""]:
    observation, generative = model.generative.observation, model.generative.folded()
    widths = np.asarray(observation.input_widths)

    def one(row: tuple) -> tuple[Float[Array, " i"], Float[Array, " i"], Bool[Array, " i"]]:
        v, seen, asked, k = row
        v = v.astype(jnp.float32)
        posterior = model.posterior(v, seen)
        xi = jax.vmap(lambda own: posterior.sample(own)[0])(jax.random.split(k, num_samples))
        outputs = jax.vmap(generative.outputs)(xi)
        log_v = jax.vmap(lambda o: jnp.sum(observation.log_prob(v, o, seen)))(outputs)
        w = jax.nn.softmax(log_v + log_standard_normal(xi) - jax.vmap(posterior.log_prob)(xi))
        expected = w @ jax.vmap(observation.expected_inputs)(outputs)
        return expected, observation.encode(v, asked), jnp.repeat(asked, widths, total_repeat_length=int(widths.sum()))

    expected, true, asked = jax.lax.map(
        one, (rows, left, hidden, jax.random.split(key, rows.shape[0])), batch_size=_BLOCK
    )
    return -jnp.mean(((true - expected) / scale) ** 2, where=asked)

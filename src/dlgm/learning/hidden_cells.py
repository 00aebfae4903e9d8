"""Cells hidden on purpose: what early stopping asks of a model of a table with holes.

Held-out rows cost a small table dearly, and do not say how well holes are filled. A few cells of every row cost less,
and do: the model learns from the others, and is judged by what it expects in their place.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, Shaped

from dlgm.model import AbstractObservation, Model
from dlgm.model.generative import log_standard_normal

_BLOCK = 256  # rows that are looked at together


def hide_some(
    mask: Bool[np.ndarray, "n x"], share: float, *, most: int = 2000, seed: int = 0
) -> Bool[np.ndarray, "n x"]:
    """Which observed cells to hide: that share of them, `most` at most, and never the only one of a row or column."""
    hidden, number = np.zeros(mask.shape, bool), min(most, int(share * mask.sum()))
    left_of_row, left_of_column = mask.sum(axis=1), mask.sum(axis=0)
    for row, column in np.random.default_rng(seed).permutation(np.argwhere(mask)):
        if number == 0:
            break
        if left_of_row[row] > 1 and left_of_column[column] > 1:
            hidden[row, column] = True
            left_of_row[row] -= 1
            left_of_column[column] -= 1
            number -= 1
    return hidden


class HiddenCells:
    r"""A judge of models: minus the mean squared error of $E[v_i \mid v_o]$ over hidden cells $i$, in the user's units.

    Each column's error is divided by its variance, so that none speaks louder than the others; of categories it is the
    Brier score, over that of the frequencies. Expectations are taken by self-normalised importance sampling, with the
    same random numbers each time, so that two models are told apart by less than the sampling's error.

    **Arguments**

    - `rows`, `left`: rows, and which of their cells a model is given. `hidden`: which it is asked about.
    - `units`: turns numbers of a column, named by its place, into the user's: `Schema.in_units_of`. Codes that stand
      for no number are their own units.
    - `num_samples`: importance samples a row.
    """

    def __init__(
        self,
        rows: Shaped[np.ndarray, "n x"],
        left: Bool[np.ndarray, "n x"],
        hidden: Bool[np.ndarray, "n x"],
        *,
        units: Callable[[int, np.ndarray], np.ndarray] = lambda i, values: values,
        num_samples: int = 50,
        key: Key[Array, ""],
    ) -> None:
        asked = np.flatnonzero(hidden.any(axis=1))
        self._rows, self._left = jnp.asarray(_padded(rows[asked])), jnp.asarray(_padded(left[asked]))
        self._cells = np.argwhere(hidden[asked])
        self._seen = [rows[(left | hidden)[:, i], i] for i in range(rows.shape[1])]
        self._true = rows[asked][hidden[asked]]
        self._units, self._num_samples, self._key = units, num_samples, key

    def __call__(self, model: Model) -> float:
        """The score, higher is better; minus one is that of the columns' means."""
        observation = model.generative.observation
        of_codes = self._values_of_codes(observation)
        cells = jnp.asarray(_padded(self._cells))
        found = _draws(model, self._rows, self._left, cells, jnp.asarray(of_codes), self._key, self._num_samples)
        drawn, w = (np.array(leaf, np.float64)[:, : len(self._cells)] for leaf in found)
        for i in np.flatnonzero(~_are_ordered(observation)):
            here = self._cells[:, 1] == i
            drawn[:, here] = self._units(int(i), drawn[:, here])
        return -self._error(drawn, w, observation)

    def _values_of_codes(self, observation: AbstractObservation) -> Float[np.ndarray, "x c"]:
        """What each code of an ordered column stands for, in the user's units. Other columns have no use for it."""
        codes = np.arange(max(observation.levels), dtype=np.float64)
        table = np.zeros((len(observation.levels), len(codes)), np.float32)
        for i in np.flatnonzero(_are_ordered(observation)):
            own = codes[: observation.levels[i]]
            table[i, : len(own)] = self._units(int(i), own)
        return table

    def error(
        self,
        values: Float[np.ndarray, "s h"],
        weights: Float[np.ndarray, "s h"],
        observation: AbstractObservation,
    ) -> float:
        """The error of weighted draws of the hidden cells, whoever made them; one is that of the columns' means."""
        drawn = np.array(values, np.float64)
        for i in range(len(observation.levels)):
            here = self._cells[:, 1] == i
            drawn[:, here] = self._units(i, drawn[:, here])
        return self._error(drawn, weights, observation)

    def _error(
        self, values: Float[np.ndarray, "s h"], weights: Float[np.ndarray, "s h"], observation: AbstractObservation
    ) -> float:
        """Of draws in the user's units."""
        errors = np.zeros(len(self._cells))
        for i, (levels, best) in enumerate(zip(observation.levels, observation.best_fills, strict=True)):
            here = self._cells[:, 1] == i
            if here.any():
                judged = _brier if _is_unordered(levels, best) else _squared
                own = partial(self._units, i)
                errors[here] = judged(values[:, here], weights[:, here], own(self._true[here]), own(self._seen[i]))
        return float(errors.mean())


def _padded(array: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "m ..."]:
    """The array with its last row again and again, up to a power of two: a program is compiled for each length."""
    return array[np.minimum(np.arange(1 << (len(array) - 1).bit_length()), len(array) - 1)]


def _is_unordered(levels: int, best_fill: str) -> bool:
    return best_fill == "mode" and levels > 2


def _are_ordered(observation: AbstractObservation) -> Bool[np.ndarray, " x"]:
    """Columns of codes in order."""
    kinds = zip(observation.levels, observation.best_fills, strict=True)
    return np.array([levels > 0 and not _is_unordered(levels, best) for levels, best in kinds])


def _squared(
    values: Float[np.ndarray, "s h"], weights: Float[np.ndarray, "s h"], true: np.ndarray, seen: np.ndarray
) -> Float[np.ndarray, " h"]:
    spread = float(np.var(seen, dtype=np.float64))
    error = (np.sum(weights * values, axis=0) - true) ** 2
    return error / spread if spread > 0 else np.zeros(len(true))


def _brier(
    values: Float[np.ndarray, "s h"], weights: Float[np.ndarray, "s h"], true: np.ndarray, seen: np.ndarray
) -> Float[np.ndarray, " h"]:
    codes, counts = np.unique(seen, return_counts=True)
    chance = 1 - np.sum((counts / counts.sum()) ** 2)
    shares = np.stack([np.sum(weights, axis=0, where=values == code) for code in codes])
    error = np.sum((shares - (codes[:, None] == true)) ** 2, axis=0)
    return error / chance if chance > 0 else np.zeros(len(true))


@eqx.filter_jit
def _draws(
    model: Model,
    rows: Shaped[Array, "n x"],
    left: Bool[Array, "n x"],
    cells: Int[Array, "h 2"],
    of_codes: Float[Array, "x c"],
    key: Key[Array, ""],
    num_samples: int,
) -> tuple[Float[Array, "s h"], Float[Array, "s h"]]:
    """Weighted draws of the hidden cells.

    Of ordered codes, the expectation at each draw of the latents of what they stand for (`of_codes`): a rare code,
    which counts for much when it is missed, would else decide by whether it happened to be drawn.
    """
    observation, generative = model.generative.observation, model.generative.folded()
    ordered = _are_ordered(observation)

    def one(row: tuple) -> tuple[Float[Array, "s x"], Float[Array, " s"]]:
        v, seen, k = row
        v = v.astype(jnp.float32)
        key_xi, key_v = jax.random.split(k)
        posterior = model.posterior(v, seen)
        xi = jax.vmap(lambda own: posterior.sample(own)[0])(jax.random.split(key_xi, num_samples))
        outputs = jax.vmap(generative.outputs)(xi)
        log_v = jax.vmap(lambda o: jnp.sum(observation.log_prob(v, o, seen)))(outputs)
        w = jax.nn.softmax(log_v + log_standard_normal(xi) - jax.vmap(posterior.log_prob)(xi))
        drawn = jax.vmap(observation.sample)(outputs, jax.random.split(key_v, num_samples))
        expected = jax.vmap(lambda o: jnp.sum(observation.probabilities(o) * of_codes, axis=1))(outputs)
        return jnp.where(ordered, expected, drawn), w

    values, w = jax.lax.map(one, (rows, left, jax.random.split(key, rows.shape[0])), batch_size=_BLOCK)
    return values[cells[:, 0], :, cells[:, 1]].T, w[cells[:, 0]].T

"""What a classical method makes of the same cells: shown beside a model of a table, lest it flatter itself."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from dlgm.data.schema import Schema
from dlgm.data.schema.coding import from_inputs
from dlgm.learning.hidden_cells import HiddenCells, hide_some
from dlgm.learning.linear_start import Inputs
from dlgm.model import Model
from dlgm.sizing import best_number_of_factors

_SHARE = 0.2  # of the observed cells of held-out rows that are hidden
_ROWS = 5_000  # that factor analysis learns from
_DRAWS = 200


@dataclass(frozen=True)
class Comparison:
    """Mean squared errors of hidden cells of held-out rows, in the user's units over each column's variance.

    Of categories it is the Brier score over that of their frequencies. So filling in means has an error of about one.
    """

    model: float
    factor_analysis: float
    num_cells: int
    num_factors: int


def compare(
    model: Model,
    schema: Schema,
    train: tuple[np.ndarray, Bool[np.ndarray, "n x"] | None],
    held_out: tuple[np.ndarray, Bool[np.ndarray, "m x"] | None],
    *,
    seed: int = 0,
) -> Comparison | None:
    """The model's fills beside those of factor analysis; None where there is no cell to hide."""
    observation = model.generative.observation
    rows, seen = held_out[0], _seen(*held_out)
    hidden = hide_some(seen, _SHARE, seed=seed)
    if not hidden.any():
        return None
    left = seen & ~hidden
    judge = HiddenCells(rows, left, hidden, units=schema.in_units_of, num_samples=_DRAWS, key=jax.random.key(seed))
    few = np.linspace(0, len(train[0]) - 1, min(len(train[0]), _ROWS)).astype(int)
    together = np.concatenate([train[0][few], rows]), np.concatenate([_seen(*train)[few], left])
    inputs = Inputs(observation, *together)
    # It learns from the rows that the model has learnt from; the others are in the same scaled numbers.
    known = inputs.seen & (np.arange(len(inputs.seen)) < len(few))[:, None]
    k = best_number_of_factors(Inputs(observation, train[0][few], _seen(*train)[few]), seed=seed)
    fitted = inputs.factors(k, known, seed=seed)
    mean, variance = fitted.conditional(inputs.scaled[len(few) :])
    values = _draws(schema, inputs, mean, variance, np.argwhere(hidden), seed)
    own = judge.error(values, np.full(values.shape, 1 / _DRAWS), observation)
    return Comparison(-judge(model), own, int(hidden.sum()), k)


def _seen(rows: np.ndarray, mask: Any) -> Bool[np.ndarray, "n x"]:
    return np.ones(rows.shape, bool) if mask is None else np.asarray(mask, bool)


def _draws(
    schema: Schema,
    inputs: Inputs,
    mean: Float[np.ndarray, "n i"],
    variance: Float[np.ndarray, "n i"],
    cells: np.ndarray,
    seed: int,
) -> Float[np.ndarray, "s h"]:
    """Draws of cells by factor analysis of encoded rows: its Gaussians, and codes by their expected one-hot numbers."""
    observation = schema.observation()
    place = np.cumsum([0, *observation.input_widths])
    rng = np.random.default_rng(seed)
    values = np.empty((_DRAWS, len(cells)))
    for i, column in enumerate(schema.columns):
        here = cells[:, 1] == i
        rows, at = cells[here, 0], slice(place[i], place[i + 1])
        center, scale = inputs.center[at], inputs.scale[at]
        if place[i + 1] - place[i] > 1:  # one-hot codes
            shares = np.clip(center + scale * mean[rows, at], 1e-6, None)
            upto = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
            values[:, here] = (rng.uniform(size=(_DRAWS, len(rows), 1)) > upto).sum(axis=2)
            continue
        noise = np.sqrt(variance[rows, at])[:, 0] * rng.normal(size=(_DRAWS, len(rows)))
        drawn = center + scale * (mean[rows, at][:, 0] + noise)
        values[:, here] = from_inputs(column, drawn)
    return values

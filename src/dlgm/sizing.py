"""A model and a length of training that suit a table's size, without the user's help.

How many latents a table can feed is asked of factor analysis, which answers in closed form: a fifth of the observed
cells is hidden, and the number of factors that expects them best is taken. The rest follows from the number of rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dlgm.baselines.factor_analysis import FactorAnalysis
from dlgm.data.schema import Schema
from dlgm.data.schema.coding import from_inputs
from dlgm.learning.linear_start import Inputs
from dlgm.model import AbstractObservation
from dlgm.recipes import Recipe

_LATENTS = (1, 2, 4, 6, 8, 12, 16, 24, 32)
_ROWS = 2_000  # that are looked at to choose the number of latents
_HIDDEN = 0.2  # share of the observed cells
_NARROW = 32  # columns at most
_TRIED = 8  # factors with which shapes are compared
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # for expectations under a Gaussian
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
_FLOOR = -8.0  # lowest log density that a cell counts with: no single outlier shall decide


def recipe_for_table(
    observation: AbstractObservation,
    rows: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    num_rows: int | None = None,
    seed: int = 0,
) -> Recipe:
    """Settings for encoded rows of a table: a linear path that starts at factor analysis, and a hidden layer.

    `num_rows` is how many there are, where `rows` are but some of them.
    """
    n = num_rows or len(rows)
    few = np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(int)
    inputs = Inputs(observation, rows[few], None if mask is None else mask[few])
    batch = min(n, 128 if n < 10_000 else 256)
    # Tables with many columns have more to learn from each row.
    is_wide = observation.columns > _NARROW
    steps = int(np.clip((4 if is_wide else 2) * n, 800, 8_000))
    epochs = max(1, steps // max(1, n // batch))
    return Recipe(
        {
            "latent": (best_number_of_factors(inputs, seed=seed),),
            "hidden": (64,) if n < 2_000 and not is_wide else (128,),
            "nonlinearity": "tanh",
            "scale": "scalar",
            "linear_path": True,
            "covariance": "cells",
            "kappa": 1.0,
        },
        {
            "epochs": epochs,
            "validate_every": max(1, epochs // 30),
            "patience": max(1, epochs // 3),
            "batch_size": batch,
            "objective": "importance-weighted",
            "learning_rate": 2e-3,
            "warm_up": 0.0,  # the start is no place to wander from
            "averaging": 0.99,
        },
    )


def straightened_if_better(schema: Schema, frame: Any, *, seed: int = 0) -> Schema:
    """The schema, or the same without its columns' powers, whichever lets factor analysis expect hidden cells better.

    In the user's units: a straightened column is better described, but what is expected of it is no longer linear in
    the others. Where some cells pile up at one value, say, a straight line comes closer to them.
    """
    bent = [i for i, column in enumerate(schema.columns) if column.power is not None]
    if not bent:
        return schema
    plain = Schema(tuple(replace(column, power=None, shift=None, spread=None) for column in schema.columns))
    few = frame.iloc[np.linspace(0, len(frame) - 1, min(len(frame), _ROWS)).astype(int)]
    errors = [_error_in_units(own, few, bent, seed) for own in (schema, plain)]
    return schema if errors[0] <= errors[1] else plain


def _error_in_units(schema: Schema, frame: Any, columns: list[int], seed: int) -> float:
    """Mean squared error of hidden cells of some columns, each over its variance."""
    values, mask = schema.encode(frame)
    inputs = Inputs(schema.observation(), values, mask)
    hidden = inputs.hide(_HIDDEN, np.random.default_rng(seed))
    left = inputs.seen & ~hidden
    k = max(1, min(_TRIED, inputs.seen.shape[1] - 1, len(values) // 4))
    fitted = inputs.factors(k, left, iterations=60, seed=seed)
    mean, variance = fitted.conditional(inputs.scaled, left)
    place = np.cumsum([0, *schema.observation().input_widths])
    errors = []
    for i in columns:
        at, here = place[i], hidden[:, place[i]]
        if not here.any():
            continue

        def in_units(scaled: np.ndarray, i: int = i, at: int = at) -> np.ndarray:
            own = inputs.center[at] + inputs.scale[at] * scaled
            return schema.in_units_of(i, from_inputs(schema.columns[i], own))

        nodes = mean[here, at] + np.sqrt(variance[here, at]) * _NODES[:, None]
        # The cells themselves: as inputs they are held at so many standard deviations, of other numbers in each schema.
        cells = schema.in_units_of(i, values[:, i])
        error = np.mean((_NODE_WEIGHTS @ in_units(nodes) - cells[here]) ** 2)
        errors.append(error / max(float(np.var(cells[inputs.seen[:, at]])), 1e-30))
    return float(np.mean(errors)) if errors else 0.0


def best_number_of_factors(inputs: Inputs, *, seed: int = 0) -> int:
    """The smallest number of factors that expects hidden cells, given the others of their rows, as well as the best.

    That is: no worse, in the mean log density of hidden numbers, than by the standard error of the difference.
    """
    hidden = inputs.hide(_HIDDEN, np.random.default_rng(seed))
    left = inputs.seen & ~hidden
    # Fewer than there are cells, however many numbers a code is, for a row has no more to say.
    most = min(len(inputs.widths) - 1, int(inputs.seen.any(axis=1).sum()) // 4)
    scores: dict[int, np.ndarray] = {}
    if not hidden.any():
        return 1
    for k in (k for k in _LATENTS if k <= max(1, most)):
        scores[k] = _densities(inputs.factors(k, left, iterations=60, seed=seed), inputs, left, hidden)
        best = max(scores, key=lambda k: scores[k].mean())
        if k > 3 * best:  # it has been falling for a while
            break

    def as_good(k: int) -> bool:
        less = scores[best] - scores[k]
        return bool(less.mean() <= less.std() / np.sqrt(len(less)))

    return next(k for k in scores if as_good(k))


def _densities(fitted: FactorAnalysis, inputs: Inputs, left: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Log densities of hidden numbers given the others of their rows; of one-hot codes, with unit variance.

    Their own variance would say how rare a code is, not how well it is told.
    """
    mean, variance = fitted.conditional(inputs.scaled, left)
    spread = np.where(inputs.coded, 1.0, variance)[hidden]
    error = (inputs.scaled - mean)[hidden]
    return np.maximum(-0.5 * (np.log(2 * np.pi * spread) + error**2 / spread), _FLOOR)

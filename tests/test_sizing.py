from dataclasses import replace

import numpy as np
import pandas as pd

from dlgm.data.schema import infer_schema
from dlgm.learning.linear_start import Inputs
from dlgm.model import Gaussian
from dlgm.sizing import best_number_of_factors, recipe_for_table, straightened_if_better


def table(factors, n=1000, x=12, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, factors)) @ rng.normal(size=(factors, x)) + 0.3 * rng.normal(size=(n, x))
    return rows, rng.uniform(size=rows.shape) > 0.3


def test_there_are_enough_factors_and_not_many_more():
    # A factor too many costs next to nothing, so chance may prefer the next size; one too few would cost much.
    for factors, either in ((1, (1, 2)), (4, (4, 6))):
        rows, mask = table(factors)
        assert best_number_of_factors(Inputs(Gaussian(12), rows, mask)) in either


def test_columns_that_have_nothing_in_common_get_one():
    rows = np.random.default_rng(0).normal(size=(500, 6))
    assert best_number_of_factors(Inputs(Gaussian(6), rows, None)) == 1


def test_training_grows_with_the_table():
    steps = []
    for n in (50, 1500, 20_000):
        rows, mask = table(2, n=min(n, 2000))
        recipe = recipe_for_table(Gaussian(12), rows, mask, num_rows=n)
        steps.append(recipe.training["epochs"] * max(1, n // recipe.training["batch_size"]))
        assert recipe.model["covariance"] == "cells"
    assert steps == sorted(steps)
    assert 700 < steps[0] < steps[-1] < 9000


def beside_others(y, z, rng):
    """A column beside three that tell of `z`, with some noise."""
    return pd.DataFrame({"y": y, **{f"x{i}": z + 0.3 * rng.normal(size=len(z)) for i in range(3)}})


def test_a_column_that_is_straight_when_bent_stays_straightened():
    """exp(z) - 2 is linear in the others only after its transform."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=600)
    frame = beside_others(np.exp(z + 0.1 * rng.normal(size=600)) - 2, z, rng)
    schema = infer_schema(frame)
    assert [column.power is not None for column in schema.columns] == [True, False, False, False]
    assert straightened_if_better(schema, frame) == schema


def test_a_column_that_piles_up_at_a_value_is_left_as_it_is():
    """Seven cells in ten are zero, and nothing tells which: a line comes nearer, by a few per cent."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    frame = beside_others(np.where(rng.uniform(size=2000) < 0.7, 0.0, 2 + z), z, rng)
    schema = infer_schema(frame, types={"y": "real"})
    assert schema.columns[0].power is not None
    chosen = straightened_if_better(schema, frame)
    # Nothing but the shape is forgotten.
    assert chosen.columns == (replace(schema.columns[0], power=None, shift=None, spread=None), *schema.columns[1:])
    assert straightened_if_better(chosen, frame) is chosen


def test_cells_far_out_count_in_full():
    """Seven cells in ten are zero, and some of the others ten standard deviations out: a line comes nearer to those.

    As inputs they would be held at five, and what a line says of them would look far too high.
    """
    rng = np.random.default_rng(1)
    z = rng.normal(size=600)
    frame = beside_others(np.where(rng.uniform(size=600) < 0.7, 0.0, np.exp(1.5 * z)), z, rng)
    schema = infer_schema(frame, types={"y": "real"})
    assert schema.columns[0].power is not None
    assert straightened_if_better(schema, frame).columns[0].power is None

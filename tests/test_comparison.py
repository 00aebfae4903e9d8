"""What `dlgm fit` shows beside a model of a table."""

import numpy as np
import pandas as pd
import pytest

from dlgm.comparison import compare
from dlgm.data.schema import infer_schema
from dlgm.data.schema.coding import from_inputs
from dlgm.tables import fit_table


def table(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return pd.DataFrame(
        {
            "a": z + 0.3 * rng.normal(size=n),
            "b": z + 0.3 * rng.normal(size=n),
            "c": np.exp(z + 0.3 * rng.normal(size=n)),
            "d": np.where(z + 0.3 * rng.normal(size=n) > 0.7, "x", np.where(z > -0.7, "y", "z")),
            "e": rng.poisson(np.exp(2.5 + 0.3 * z)),
        }
    )


def test_at_its_start_a_linear_model_is_as_good_as_factor_analysis():
    train, held_out = table(400, 0), table(150, 1)
    model = fit_table(train[["a", "b"]], training={"epochs": 0})
    parts = (model.schema.encode(frame) for frame in (train, held_out))
    found = compare(model.model, model.schema, *parts)
    assert found is not None
    # z is told by one of two cells with variance 0.09 each: the other's variance given it is about 0.165 of 1.09.
    assert found.factor_analysis == pytest.approx(0.16, abs=0.06)  # 60 cells: a standard error of 0.03
    assert found.model == pytest.approx(found.factor_analysis, rel=0.1)


def test_every_kind_of_column_has_a_baseline_better_than_means():
    train, held_out = table(400, 0), table(150, 1)
    model = fit_table(train, training={"epochs": 0})
    parts = [model.schema.encode(frame) for frame in (train, held_out)]
    found = compare(model.model, model.schema, *parts)
    assert found is not None
    assert 0.1 < found.factor_analysis < 0.8
    assert found.num_cells == int(0.2 * 150 * 5)


def gains(n):
    """None, for most."""
    return np.where(np.arange(n) % 3 == 0, np.arange(n) + 0.5, 0.0)


def test_what_a_network_sees_is_taken_back():
    schema = infer_schema(table(300, 2).assign(f=np.arange(300) % 7, g=gains(300)), types={"f": "ordinal"})
    assert schema.columns[-1].family == "heaped-log-normal"
    observation = schema.observation()
    values, _ = schema.encode(table(50, 3).assign(f=np.arange(50) % 7, g=gains(50)))
    place = np.cumsum([0, *observation.input_widths])
    for i, column in enumerate(schema.columns):
        if place[i + 1] - place[i] == 1:
            seen = np.array([np.asarray(observation.encode(row))[place[i]] for row in values], np.float64)
            np.testing.assert_allclose(from_inputs(column, seen), values[:, i], rtol=1e-4, atol=1e-5)


def test_nothing_to_hide_is_no_comparison():
    model = fit_table(table(60, 0)[["a", "b"]], training={"epochs": 0})
    part = model.schema.encode(table(2, 1))
    assert compare(model.model, model.schema, part, part) is None


@pytest.mark.parametrize("factors", [1, 3])
def test_factor_analysis_learns_from_the_model_s_rows_only(factors):
    """Columns that tell of nothing in training, and all of each other, or two by two, in the rows held out."""
    rng = np.random.default_rng(0)
    names = list("abcdef")
    train = pd.DataFrame(rng.normal(size=(200, 6)), columns=names)
    held_out = pd.DataFrame(np.repeat(rng.normal(size=(600, factors)), 6 // factors, axis=1), columns=names)
    model = fit_table(train, training={"epochs": 0})
    found = compare(model.model, model.schema, *(model.schema.encode(frame) for frame in (train, held_out)))
    assert found is not None
    assert found.num_factors == 1  # where three are held out as well
    assert found.factor_analysis > 0.8  # where the others would say all if one was learnt from them

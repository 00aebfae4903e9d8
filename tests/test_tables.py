"""How a table is fitted: for as long as its fills get better, judged in the user's units."""

import numpy as np
import pandas as pd
import pytest

from dlgm import tables
from dlgm.tables import fit_table

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"money": np.exp(RNG.normal(size=80)) - 2, "other": RNG.normal(size=80)})


@pytest.mark.parametrize("best", [0, 2])
def test_it_is_trained_again_on_all_cells_for_as_long_as_its_fills_got_better(monkeypatch, best):
    judges, runs, fit = [], [], tables.fit

    class Judge:
        """Of the opinion that the model is best after so many epochs."""

        def __init__(self, rows, left, hidden, *, units, key):
            self.rows, self.left, self.hidden, self.units, self.looks = rows, left, hidden, units, 0
            judges.append(self)

        def __call__(self, model):
            self.looks += 1
            return -abs(self.looks - 1 - best)

    def watched(model, values, mask, **settings):
        runs.append((mask, settings))
        return fit(model, values, mask, **settings)

    monkeypatch.setattr(tables, "HiddenCells", Judge)
    monkeypatch.setattr(tables, "fit", watched)
    model = fit_table(TABLE, model={"latent": (1,), "hidden": (4,)}, training={"epochs": 4, "validate_every": 1})
    assert model.saved.training["summary"]["epochs"] == best
    (judge,) = judges
    assert judge.hidden.sum() == int(tables.HIDDEN * TABLE.size)
    (first, _), (second, settings) = runs
    np.testing.assert_array_equal(first, ~judge.hidden)
    assert second.all()
    assert settings["config"].epochs == 4  # with learning rates as if all of them were to come
    # In the user's units, although the column is straightened.
    assert model.schema.columns[0].power is not None
    np.testing.assert_allclose(judge.units(0, judge.rows[:, 0]), TABLE["money"], rtol=1e-4, atol=1e-4)

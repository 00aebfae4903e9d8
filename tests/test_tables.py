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


def test_a_column_with_a_heap_is_sampled_and_filled_as_one():
    """Two noisy numbers tell how likely the third is to be zero: that probability, by quadrature, beside the fills'.

    Of 600 rows 0.69 are zero, with a standard error of 0.02; 4,000 new rows add 0.007. A table of so many rows leaves
    its own uncertainty about the slope, so that probabilities are asked to be right within 0.06 on average.
    """
    rng = np.random.default_rng(0)
    z = rng.normal(size=600)

    def probability(z):
        return 1 / (1 + np.exp(-(1.2 - 1.5 * z)))

    gain = np.where(rng.random(600) < probability(z), 0.0, np.exp(7 + 0.5 * z + 0.5 * rng.normal(size=600)))
    a, b = np.array([[1], [-1]]) * z + 0.3 * rng.normal(size=(2, 600))
    table = pd.DataFrame({"a": a, "b": b, "gain": gain})
    shape, length = {"latent": (1,), "hidden": (16,)}, {"epochs": 60, "validate_every": 20}
    model = fit_table(table, model=shape, training=length)
    assert model.schema.columns[2].family == "heaped-log-normal"
    new = model.sample(4000, seed=1)["gain"]
    assert abs(np.mean(new == 0) - np.mean(gain == 0)) < 4 * np.hypot(0.02, 0.007)
    assert new[new > 0].quantile([0.1, 0.5, 0.9]).to_numpy() == pytest.approx(
        np.quantile(gain[gain > 0], [0.1, 0.5, 0.9]), rel=0.2
    )
    found = model.impute(table.assign(gain=np.nan), draws=200, seed=2)
    share = np.mean([found[i]["gain"] == 0 for i in range(200)], axis=0)
    variance = 1 / (1 + 2 / 0.09)
    x, w = np.polynomial.hermite_e.hermegauss(21)
    exact = probability(variance * ((a - b) / 0.09)[:, None] + np.sqrt(variance) * x) @ w / w.sum()
    assert np.abs(share - exact).mean() < 0.06
    assert np.corrcoef(share, exact)[0, 1] > 0.97

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


@pytest.mark.parametrize("slope", [0.5, -1.0])
def test_a_column_with_a_heap_is_sampled_and_filled_as_one(slope):
    """Two noisy numbers tell how likely the third is to be zero: that probability, by quadrature, beside the fills'.

    Of 600 rows 0.69 are zero, with a standard error of 0.02; 4,000 new rows add 0.007. A table of so many rows leaves
    its own uncertainty about the slope, so that probabilities are asked to be right within 0.06 on average.
    """
    rng = np.random.default_rng(0)
    z = rng.normal(size=600)

    def probability(z):
        return 1 / (1 + np.exp(-(1.2 - 1.5 * z)))

    gain = np.where(rng.random(600) < probability(z), 0.0, np.exp(7 + slope * z + 0.5 * rng.normal(size=600)))
    a, b = np.array([[1], [-1]]) * z + 0.3 * rng.normal(size=(2, 600))
    table = pd.DataFrame({"a": a, "b": b, "gain": gain})
    shape, length = {"latent": (1,), "hidden": (16,)}, {"epochs": 60, "validate_every": 20}
    model = fit_table(table, model=shape, training=length)
    assert model.schema.columns[2].family == "heaped-log-normal"
    sampled = model.sample(4000, seed=1)
    new = sampled["gain"]
    assert abs(np.mean(new == 0) - np.mean(gain == 0)) < 4 * np.hypot(0.02, 0.007)
    # A tenth, a half, nine tenths of 180 logs have standard errors of an eighth of their spread, or less.
    ours, theirs = (np.log(numbers[numbers > 0]) for numbers in (new, gain))
    levels = [0.1, 0.5, 0.9]
    assert np.quantile(ours, levels) == pytest.approx(np.quantile(theirs, levels), abs=4 * theirs.std() / 8)
    # The others' size goes with the rest of their row as it did: lines through their logs, of which 180 have one with
    # a standard error of 0.06.
    lines = [np.polyfit(rows["a"], np.log(rows["gain"]), 1)[0] for rows in (t[t["gain"] > 0] for t in (table, sampled))]
    assert lines[1] == pytest.approx(lines[0], abs=4 * 0.06)
    found = model.impute(table.assign(gain=np.nan), draws=200, seed=2)
    share = np.mean([found[i]["gain"] == 0 for i in range(200)], axis=0)
    variance = 1 / (1 + 2 / 0.09)
    x, w = np.polynomial.hermite_e.hermegauss(21)
    exact = probability(variance * ((a - b) / 0.09)[:, None] + np.sqrt(variance) * x) @ w / w.sum()
    assert np.abs(share - exact).mean() < 0.06
    assert np.corrcoef(share, exact)[0, 1] > 0.97


@pytest.mark.parametrize("heap", [0.0, None])
def test_no_fill_is_a_mean_that_a_long_tail_has_taken_beyond_the_column(heap):
    """Numbers over five powers of ten: the mean of a log-normal as wide as that is larger than nearly all of them."""
    rng = np.random.default_rng(0)
    cells = 10.0 ** rng.uniform(-4, 1, 400)
    cells = cells if heap is None else np.where(rng.random(400) < 0.4, heap, cells)
    table = pd.DataFrame({"c": cells, "d": rng.normal(size=400)})
    model = fit_table(table, model={"latent": (1,), "hidden": (4,)}, training={"epochs": 0})
    assert model.schema.columns[0].family == ("log-normal" if heap is None else "heaped-log-normal")
    found = model.impute(table.assign(c=np.nan), draws=100, seed=1)
    fills, draws = found.best()["c"], np.stack([found[i]["c"] for i in range(100)])
    np.testing.assert_allclose(fills, draws.mean(axis=0), rtol=1e-6)
    # A law as wide at its ends as in its middle is a little wider than the cells are: half as much again.
    assert cells.mean() / 2 < fills.mean() < 2 * cells.mean()

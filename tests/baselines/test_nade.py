from typing import Any

import numpy as np
import pytest

from dlgm.baselines import NADE, Baseline, Density, EoNADE
from dlgm.learning import AbstractWatcher, Checkpoints, TrainingConfig, fit
from tests.baselines.test_autoregressive import every_row, log_p_by_hand

# Columns 0 and 1 agree, 3 is their exclusive or with 2: what no model of independent columns can say.
BITS = np.random.default_rng(0).integers(0, 2, size=(200, 2)).astype(np.uint8)
ROWS = np.stack([BITS[:, 0], BITS[:, 0], BITS[:, 1], BITS[:, 0] ^ BITS[:, 1]], axis=1)
SETTINGS: dict[str, Any] = {"hidden": 8, "epochs": 100, "batch_size": 20, "learning_rate": 0.05}


class Epochs(AbstractWatcher):
    def __init__(self):
        self.records = []

    def epoch(self, record):
        self.records.append(record)


@pytest.fixture(scope="module")
def shuffled():
    return NADE(**SETTINGS, order="random").fit(ROWS, seed=3)


def test_scores_are_those_of_the_definition_in_the_models_order(shuffled):
    assert sorted(shuffled.order) == [0, 1, 2, 3]
    assert shuffled.order != (0, 1, 2, 3)
    rows = every_row(4)
    expected = [log_p_by_hand(shuffled.network, row[list(shuffled.order)]) for row in rows]
    np.testing.assert_allclose(shuffled.score_samples(rows), expected, rtol=1e-4)


def test_a_law_that_needs_a_hidden_layer_is_learnt(shuffled):
    # Four rows are possible, with the shares they have in the data; the best likelihood is minus their entropy.
    shares = np.unique(ROWS, axis=0, return_counts=True)[1] / len(ROWS)
    best = np.sum(shares * np.log(shares))
    assert best - 0.02 < shuffled.score_samples(ROWS).mean() < best + 1e-6


def test_samples_come_in_the_rows_columns(shuffled):
    # n = 4,000 rows; each of the four shares within 4 standard errors of the model's, false alarm 3e-4.
    drawn, n = shuffled.sample(4_000, seed=5), 4_000
    possible = np.unique(ROWS, axis=0)
    p = np.exp(shuffled.score_samples(possible))
    found = np.array([(drawn == row).all(axis=1).mean() for row in possible])
    assert (np.abs(found - p) < 4 * np.sqrt(p * (1 - p) / n)).all()
    assert p.sum() > 0.97
    np.testing.assert_array_equal(shuffled.sample(7, seed=5), drawn[:7])


def test_the_same_seed_gives_the_same_model_and_an_interrupted_run_ends_alike(tmp_path, shuffled):
    class Failing(AbstractWatcher):
        def epoch(self, record):
            if record["epoch"] == 20:
                raise RuntimeError("as if killed")

    def run(**kwargs):
        folder = Checkpoints(tmp_path / "run", resume=True, every=0.0)
        return NADE(**SETTINGS, order="random").fit(ROWS, seed=3, checkpoints=folder, **kwargs)

    with pytest.raises(RuntimeError, match="as if killed"):
        run(watchers=[Failing()])
    seen = Epochs()
    resumed = run(watchers=[seen])
    assert seen.records[0]["epoch"] == 20
    assert resumed.order == shuffled.order
    np.testing.assert_array_equal(resumed.network.weights, shuffled.network.weights)


def test_validation_rows_choose_the_weights_and_stop_the_training():
    # Rows of the opposite law: the better the fit, the worse the bound on them.
    opposite, seen = ROWS.copy(), Epochs()
    opposite[:, 1] ^= 1
    model = NADE(**SETTINGS, patience=3).fit(ROWS, opposite, watchers=[seen])
    bounds = [record["valid_bound"] for record in seen.records]
    assert len(bounds) == int(np.argmax(bounds)) + 1 + 3 < 100
    assert model.score_samples(opposite).mean() == pytest.approx(max(bounds), rel=1e-5)
    assert seen.records[-1]["kl"] == []
    assert seen.records[-1]["train_bound"] == pytest.approx(-seen.records[-1]["reconstruction"])


def test_the_interface_is_that_of_the_baselines(shuffled):
    assert isinstance(NADE(), Baseline)
    assert isinstance(EoNADE(), Baseline)
    assert isinstance(shuffled, Density)


def test_a_model_of_another_make_needs_an_objective(shuffled):
    with pytest.raises(ValueError, match="objective: expected one that is made for a NADEDensity; got none"):
        fit(shuffled, ROWS, config=TrainingConfig(epochs=1))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: NADE(order="reverse"), r"order: expected one of natural, random; got 'reverse'\."),
        (lambda: NADE(hidden=0), r"NADE: expected `hidden` to be a whole number of at least 1; got 0\."),
        (lambda: NADE(nonlinearity="rely"), "nonlinearity: expected one of .* Did you mean 'relu'"),
        (lambda: NADE(kappa=0.0), r"NADE: expected a positive `kappa`; got 0\.0\."),
        (
            lambda: NADE().fit(np.zeros((2, 3, 3))),
            r"rows: expected \(n, x\) values; got shape \(2, 3, 3\)\. Flatten images first\.",
        ),
        (
            lambda: NADE().fit(np.array([[0, 1], [0.5, np.nan]])),
            r"rows: expected zeros and ones, without holes; got 0\.5 at \(1, 0\), and 2 such values in all\.",
        ),
        (lambda: NADE().fit(ROWS, np.full((1, 4), 2)), "valid: expected zeros and ones, without holes; got 2 at"),
    ],
)
def test_bad_settings_and_rows_are_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_rows_of_another_width_are_refused(shuffled):
    with pytest.raises(ValueError, match=r"rows: expected \(n, 4\) values; got shape \(2, 3\)"):
        shuffled.score_samples(np.zeros((2, 3)))

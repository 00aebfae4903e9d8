"""`dlgm reproduce bayes`, on few rows and for one epoch."""

import json

import numpy as np

from dlgm.data import load_dataset
from dlgm.reproduce import bayes
from tests.cli.test_commands import run


def test_the_study_runs_from_the_command_line(tmp_path, monkeypatch):
    """Every way of asking has its line on the page, and the reference gains nothing over itself."""
    monkeypatch.setitem(bayes.EPOCHS, "quick", 1)
    monkeypatch.setitem(bayes.ROWS, "quick", (20, 10, 6))
    monkeypatch.setattr(bayes, "MODEL", {"latent": (2,), "hidden": (), "recognition_hidden": (3,), "scale": "scalar"})
    two = ("point estimate", "tempered posterior")
    monkeypatch.setattr(bayes, "KINDS", {kind: bayes.KINDS[kind] for kind in two})
    monkeypatch.setattr(bayes, "TRAINING", {**bayes.TRAINING, "batch_size": 10})
    quick = ["--data", "digits", "--budget", "quick", "--json", "--out", tmp_path, "--page", tmp_path / "page.md"]
    found = json.loads(run("reproduce", "bayes", *quick))
    assert found["rows"] == {"train": 20, "valid": 10, "test": 6}
    ways = [f"tempered posterior, {stop} epoch{how}" for stop in ("best", "last") for how in ("", ", at the mean")]
    assert list(found["models"]) == ["point estimate, best epoch", "point estimate, last epoch", *ways]
    reference = found["models"]["point estimate, best epoch"]
    assert reference["gain"] == 0
    for own in found["models"].values():
        assert abs(own["gain"] - (own["log_p"] - reference["log_p"])) < 1e-4
    assert found["models"]["point estimate, last epoch"]["valid_bound"] is None
    page = (tmp_path / "page.md").read_text()
    assert all(f"| {way} | -" in page for way in found["models"])
    assert (tmp_path / "bayes.png").read_bytes().startswith(b"\x89PNG")


def test_rows_to_test_with_are_of_all_classes():
    """Sorted by class, as some sets are, the first of them would be of one."""
    digits = load_dataset("digits")
    few = bayes.few_rows(digits, 20, 10, 5)
    np.testing.assert_array_equal(few.test, digits.test[[0, 62, 124, 186, 249]])
    np.testing.assert_array_equal(few.train, digits.train[:20])
    np.testing.assert_array_equal(few.valid, digits.valid[:10])

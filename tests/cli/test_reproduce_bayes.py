"""`dlgm reproduce bayes`, on few rows and for one epoch."""

import json

from dlgm.reproduce import bayes
from tests.cli.test_commands import run


def test_the_study_runs_from_the_command_line(tmp_path, monkeypatch):
    """Every way of asking has its line on the page, and the reference gains nothing over itself."""
    monkeypatch.setitem(bayes.EPOCHS, "quick", 1)
    monkeypatch.setitem(bayes.ROWS, "quick", (20, 10, 6))
    monkeypatch.setattr(bayes, "MODEL", {"latent": (2,), "hidden": (), "recognition_hidden": (3,), "scale": "scalar"})
    monkeypatch.setattr(bayes, "KINDS", {k: v for k, v in bayes.KINDS.items() if k != "posterior"})
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

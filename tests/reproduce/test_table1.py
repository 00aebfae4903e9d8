"""`dlgm reproduce table1`: rows from training to the page, once each."""

import dataclasses
import json
import re
import shutil

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from dlgm.artifact import load_model
from dlgm.baselines import DBN, BernoulliMixture, LatentBaseline
from dlgm.baselines.training import AbstractTrainedBaseline
from dlgm.cli.app import app
from dlgm.cli.errors import UsageError
from dlgm.data import load_dataset
from dlgm.inference import log_likelihood
from dlgm.reproduce import table1, table1_rows
from dlgm.reproduce.table1_page import markdown
from dlgm.tensorfile import read_tensors

CHEAP = ["--row", "factor-analysis", "--row", "mixture-10"]


def run(*args):
    result = CliRunner().invoke(app, ["reproduce", "table1", *map(str, args)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two cheap rows of digits, end to end: what was printed, and where the files are."""
    out = tmp_path_factory.mktemp("table1")
    page = out / "results.md"
    page.write_text("# Results\n")
    asked = ["--data", "digits", "--budget", "quick", "--out", out / "rows", "--page", page]
    return json.loads(run(*asked, *CHEAP, "--json")), out / "rows", page, asked


def record(done, name):
    return next(row for row in done[0]["rows"] if row["name"] == name)


def test_the_rows_are_the_papers():
    """As printed in table 1; for NADE and EoNADE the best of their rows. The best of ours is not in the paper."""
    printed = {
        "factor-analysis": 106.00,
        "nlgbn": 95.80,
        "wake-sleep": 91.3,
        "dlgm-diagonal": 87.30,
        "dlgm-rank-one": 86.60,
        "dlgm-diagonal-two-samples": 87.30,
        "dlgm-rank-one-two-samples": 86.60,
        "dlgm-diagonal-free-energy": 87.30,
        "dlgm-rank-one-free-energy": 86.60,
        "dlgm-diagonal-no-drop-out": 87.30,
        "dlgm-rank-one-no-drop-out": 86.60,
        "best": None,
        "mixture-10": 168.95,
        "mixture-500": 137.64,
        "rbm": 86.34,
        "dbn": 84.55,
        "nade": 88.33,
        "eonade": 85.10,
    }
    assert {name: row.paper for name, row in table1_rows.ROWS.items()} == printed


@pytest.mark.parametrize("name", table1_rows.ROWS)
def test_a_budget_is_few_epochs_or_all_and_samples(name):
    quick, full = (table1._baseline(table1_rows.ROWS[name], budget) for budget in ("quick", "full"))
    if isinstance(full, LatentBaseline):
        assert (quick.num_samples, full.num_samples) == (100, 5000)
        assert quick.training["epochs"] == 2 < full.training["epochs"]
        assert (quick.preset, quick.model) == (full.preset, full.model)
    elif isinstance(full, BernoulliMixture):
        assert quick.iterations < full.iterations
    elif isinstance(full, AbstractTrainedBaseline):
        assert quick.epochs == 2 < full.epochs
        assert dataclasses.replace(quick, epochs=full.epochs) == full
    else:
        assert quick.hidden == full.hidden
        assert (quick.annealing.temperatures, full.annealing.temperatures) == (100, 10_000)
        several = isinstance(full, DBN)
        if several:
            assert (quick.num_samples, full.num_samples) == (100, 1000)
        for few, all_of_them in zip(*((b.training if several else [b.training]) for b in (quick, full)), strict=True):
            assert few.epochs == 2 < all_of_them.epochs
            assert few.gibbs_steps == all_of_them.gibbs_steps == (1, 5)


def test_numbers_are_those_of_the_models_that_were_kept(done):
    _, out, _, _ = done
    test = load_dataset("digits").test
    found = record(done, "factor-analysis")["found"]
    saved = load_model(out / found["model"])
    assert (saved.data["name"], saved.training["config"]["seed"]) == ("digits", 0)
    scored = log_likelihood(saved.model, test, num_samples=100, key=jax.random.key(0))
    assert found["nats"] == pytest.approx(-scored.log_p.mean(), rel=1e-6)
    assert found["standard_error"] == pytest.approx(scored.log_p.std(ddof=1) / np.sqrt(250), rel=1e-4)
    assert found["monte_carlo_error"] == pytest.approx(np.sqrt((scored.standard_error**2).sum()) / 250, rel=1e-4)
    assert (found["samples"], found["test_rows"], found["epochs"], found["run"]["seed"]) == (100, 250, 2, 0)

    # A mixture written out: log sum_k w_k prod_j p^v (1 - p)^(1 - v).
    found = record(done, "mixture-10")["found"]
    tensors, _ = read_tensors(out / found["model"])
    p = 1 / (1 + np.exp(-tensors["logits"].astype(np.float64)))
    each = tensors["log_weights"] + test @ np.log(p).T + (1 - test.astype(float)) @ np.log1p(-p).T
    assert found["nats"] == pytest.approx(-np.logaddexp.reduce(each, axis=1).mean(), rel=1e-5)
    assert (found["monte_carlo_error"], found["samples"], found["epochs"]) == (None, None, 5)


def test_a_second_call_trains_nothing(done, monkeypatch):
    found, out, _, asked = done
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.name != "table1.json"}
    assert {name.split(".")[-1] for name in before} == {"json", "dlgm", "safetensors"}  # no checkpoints are left

    def refuse(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr("dlgm.learning.fit", refuse)
    monkeypatch.setattr("dlgm.baselines.bernoulli_mixture.fit_mixture_of_bernoullis", refuse)
    assert json.loads(run(*asked, *CHEAP, "--json")) == found
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.name != "table1.json"} == before
    # Another seed is another run.
    with pytest.raises(AssertionError, match="trained again"):
        run(*asked, *CHEAP, "--seed", 1)


@pytest.mark.parametrize("left", ["*.dlgm", "*.checkpoints"])
def test_a_row_cut_short_while_scoring_is_not_trained_again(done, tmp_path, monkeypatch, left):
    """Its model is there, or else its last checkpoint: no epoch follows, and the numbers are the same."""
    row, data = table1_rows.ROWS["factor-analysis"], load_dataset("digits")

    def cut(density, *args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table1, "_scores", cut)
        with pytest.raises(KeyboardInterrupt):
            table1.run_row(row, data, tmp_path, budget="quick", seed=0)
    assert table1.found(row, data, tmp_path, budget="quick", seed=0) is None
    for path in {*tmp_path.iterdir()} - {*tmp_path.glob(left)}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    watcher = table1._Tally()
    monkeypatch.setattr(watcher, "epoch", lambda record: pytest.fail("an epoch was trained"))
    again = table1.run_row(row, data, tmp_path, budget="quick", seed=0, watch=lambda what: [watcher])
    first = record(done, "factor-analysis")["found"]
    assert (again["nats"], again["epochs"]) == (first["nats"], 2)
    assert not list(tmp_path.glob("*.checkpoints"))


def test_the_page_has_every_row(done):
    text = done[2].read_text()
    assert text.startswith(
        "# Results\n\n<!-- written by `dlgm reproduce table1` -->\n\n## Table 1: digits, test -ln p(v)"
    )
    found = record(done, "factor-analysis")["found"]
    assert re.search(rf"\| Factor Analysis \|  \| {found['nats']:.2f} \|  \| {found['standard_error']:.2f} \|", text)
    assert "| importance sampling | 100 | 250 | 0 | 2 |" in text
    assert "| NLGBN |  | not run yet |" in text
    assert "| RBM (500 h, 25 CD steps) approx. |  | not run yet |" in text
    assert '"num_components": 10' in text


def test_the_papers_numbers_stand_beside_ours_on_its_own_data():
    numbers = {
        "nats": 105.5,
        "standard_error": 0.25,
        "monte_carlo_error": 0.004,
        "samples": 5000,
        "epochs": 3,
        "test_rows": 10_000,
    }
    found = {**numbers, "seconds": 1234.5, "revision": "abc", "run": {"seed": 7, "settings": {}}}
    row = {"title": "Factor Analysis", "paper": 106.0, "likelihood": "importance sampling"}
    shown = markdown({"data": "binarized-mnist", "budget": "full", "rows": [row | {"found": found}]})
    assert "| Factor Analysis | 106.00 | 105.50 | -0.50 | 0.25 | 0.004 | importance sampling | 5,000 |" in shown
    assert "| 5,000 | 10,000 | 7 | 3 | 1,234 s |" in shown


def test_wrong_input(tmp_path):
    for arguments, message in (
        (["--row", "nlgb"], "--row: expected one of factor-analysis, nlgbn, wake-sleep, dlgm-diagonal"),
        (["--row", "nlgb"], "got 'nlgb'. Did you mean 'nlgbn'?"),
        (["--budget", "long"], "--budget: expected one of quick, full; got 'long'"),
    ):
        with pytest.raises(UsageError) as caught:
            run("--data", "digits", "--out", tmp_path / "new", *arguments)
        assert message in str(caught.value)


def test_other_scores_need_no_other_training(done, tmp_path, monkeypatch):
    """Every second row or so, with other draws: the numbers are those of the model that was kept."""
    _, out, _, asked = done
    first = record(done, "factor-analysis")["found"]
    monkeypatch.setattr("dlgm.learning.fit", lambda *args, **options: pytest.fail("trained again"))
    page = tmp_path / "page.md"
    other = [*asked[:-1], page, "--row", "factor-analysis", "--score-rows", 100, "--samples", 20, "--json"]
    found = next(row["found"] for row in json.loads(run(*other))["rows"] if row["name"] == "factor-analysis")
    rows = load_dataset("digits").test[np.linspace(0, 249, 100).astype(int)]
    scored = log_likelihood(load_model(out / first["model"]).model, rows, num_samples=20, key=jax.random.key(0))
    assert found["nats"] == pytest.approx(-scored.log_p.mean(), rel=1e-6)
    assert (found["samples"], found["test_rows"]) == (20, 100)
    assert {key: found[key] for key in ("epochs", "seconds", "model")} == {
        key: first[key] for key in ("epochs", "seconds", "model")
    }
    assert "| importance sampling | 20 | 100 | 0 | 2 |" in page.read_text()


def test_the_parts_of_a_model_are_counted_together():
    """A belief network has two runs; the first was resumed when it was done, and says so at its start."""
    tally = table1._Tally()
    assert tally.total("epoch") is None
    tally.start(5, [{"epoch": 4, "seconds": 1.0}, {"epoch": 5, "seconds": 2.0}])
    tally.start(3)
    for epoch in (1, 2, 3):
        tally.epoch({"epoch": epoch, "seconds": 10.0 * epoch})
    assert (tally.total("epoch"), tally.total("seconds")) == (8, 32.0)


def test_a_damaged_result_is_named(tmp_path):
    row, data = table1_rows.ROWS["mixture-10"], load_dataset("digits")
    path = tmp_path / f"{table1.stem(row, data, budget='quick', seed=0)[0]}.json"
    path.write_text("{")
    with pytest.raises(UsageError, match=r"expected JSON; it cannot be read\. Remove it to have the row run again"):
        run("--data", "digits", "--budget", "quick", "--row", "mixture-10", "--out", tmp_path)

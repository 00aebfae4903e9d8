"""`dlgm reproduce samples` and `dlgm reproduce all`: from data to pictures, and on where data is missing."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dlgm.cli import reproduce
from dlgm.cli.app import app
from dlgm.cli.errors import UsageError
from dlgm.data import Dataset
from dlgm.recipes import RECIPES, Recipe
from dlgm.reproduce import samples, training
from tests.cli.test_commands import run
from tests.data.test_sets import NORB_TEST, NORB_TRAIN, put_norb

PNG = b"\x89PNG"
NORB = RECIPES["small-norb"]
SMALL = Recipe({"latent": (2,), "hidden": (3,)}, {"batch_size": 10})


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(training, "QUICK_EPOCHS", 1)
    for name in ("digits", "small-norb"):
        monkeypatch.setitem(RECIPES, name, SMALL)


def test_recipes_of_the_pictured_sets():
    """All have one; NORB's is the paper's: 400 deterministic units, 100 stochastic ones."""
    assert samples.SETS == ("binarized-mnist", "frey-faces", "cifar10-patches", "small-norb")
    assert set(samples.SETS) <= set(RECIPES)
    assert NORB.model == {"latent": (100,), "hidden": (400,)}


def test_the_paper_s_model_of_binarised_mnist_is_the_one_that_comes_with_the_package(tmp_path):
    bits = np.zeros((3, 784), np.uint8)
    data = Dataset("binarized-mnist", bits, bits, bits, (28, 28), "bernoulli")
    found, settings = training.by_recipe(data, RECIPES["best"], tmp_path, budget="full", seed=0)
    assert found.saved.config.latent == (200,)
    assert settings["epochs"] == found.summary["epochs"] == 200
    assert not list(tmp_path.iterdir())  # nothing was trained


def test_nearest_rows_are_found_by_looking_at_each(monkeypatch):
    monkeypatch.setattr(samples, "_TOGETHER", 4)
    rng = np.random.default_rng(0)
    rows, train = rng.random((5, 3)), rng.integers(0, 256, (11, 3)).astype(np.uint8)
    rows[2] = train[9] / 255  # a copy
    expected = [min(np.sqrt(np.mean((row - other / 255.0) ** 2)) for other in train) for row in rows]
    np.testing.assert_allclose(samples.nearest(rows, train, 255.0), expected, atol=1e-7)


def test_sets_that_are_there_are_drawn_and_others_named(tmp_path, monkeypatch):
    """Digits, and NORB in its published format; Frey faces are not there."""
    monkeypatch.setenv("DLGM_DATA", str(tmp_path / "data"))
    pairs = np.random.default_rng(0).integers(0, 256, (30, 2, 96, 96)).astype(np.uint8)
    for prefix in (NORB_TRAIN, NORB_TEST):
        put_norb(tmp_path / "data", prefix, pairs, [0, 1, 2] * 10)
    out, page = tmp_path / "out", tmp_path / "page.md"
    names = [part for name in ("digits", "frey-faces", "small-norb") for part in ("--data", name)]
    asked = ["reproduce", "samples", *names, "--budget", "quick", "--json", "--out", str(out), "--page", str(page)]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found["data"]) == ["digits", "small-norb"]
    assert list(found["missing"]) == ["frey-faces"]
    assert "dlgm: frey-faces is left out: " in result.stderr
    assert found["data"]["digits"]["compared"] == 20
    assert (
        found["data"]["small-norb"]["distance of test rows"]["mean"] < 0.3
    )  # the same pairs, but for those to validate
    for name in found["data"]:
        assert (out / f"{name}.png").read_bytes().startswith(PNG)
        assert f"| {name} | -" in page.read_text()
    assert "Not here, since the files were not: frey-faces." in page.read_text()
    assert str(tmp_path) not in page.read_text()
    # Again: nothing is trained.
    monkeypatch.setattr(training, "fit", lambda *args, **options: pytest.fail("trained again"))
    assert json.loads(run(*asked)) == found


def test_wrong_input(tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    for arguments, message in (
        (["samples", "--data", "digits", "--data", "nothing"], "nothing"),
        (["samples", "--data", "frey-faces"], "none of the data sets is there: frey-faces. "),
        (["samples", "--budget", "long"], "--budget: expected one of quick, full; got 'long'"),
        (["all", "--budget", "long"], "--budget: expected one of quick, full; got 'long'"),
        (["all", "--data", "nothing"], "Expected the name of a data set; got 'nothing'."),
        (["all", "--page", "page.txt"], "--page: expected a name ending in .md; got 'page.txt'"),
        (["variance", "--budget", "long"], "--budget: expected one of quick, full; got 'long'"),
    ):
        with pytest.raises(UsageError) as caught:
            run("reproduce", *arguments, "--out", tmp_path / "new")
        assert message in str(caught.value)
        assert not list(tmp_path.glob("new/*"))


def test_all_goes_on_after_a_study_that_cannot_run(tmp_path, monkeypatch):
    """In order, each in a folder of its own and with what was asked for; what could not run is said at the end."""
    seen = []

    def make(name):
        def study(**given):
            seen.append((name, given))
            if name == "embedding":
                raise UsageError("mnist is not there.")

        return study

    order = ["variance", "posterior", "samples", "embedding", "imputation", "bayes", "table1"]
    assert list(reproduce.STUDIES) == order
    for name in order:
        monkeypatch.setitem(reproduce.STUDIES, name, make(name))
    page = tmp_path / "page.md"
    asked = ["reproduce", "all", "--data", "digits", "--budget", "quick", "--seed", "3", "--json"]
    result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path), "--page", str(page)])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "1 of 7 studies could not run: embedding."
    said = json.loads(result.stdout)
    assert said["could not run"] == {"embedding": "mnist is not there."}
    assert list(said["seconds"]) == [name for name in order if name != "embedding"]
    assert [name for name, _ in seen] == order
    for name, given in seen:
        rest = {"out": tmp_path / name, "budget": "quick", "page": page, "seed": 3, "quiet": True}
        data = {} if name == "variance" else {"data": ["digits"] if name in ("samples", "imputation") else "digits"}
        assert given == {**rest, **data}

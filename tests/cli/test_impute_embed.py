"""`dlgm impute`, `dlgm embed` and the figures of `dlgm reproduce`: from files to files, and wrong input."""

import dataclasses
import importlib
import json

import numpy as np
import pandas as pd
import pytest

from dlgm.cli import rows
from dlgm.cli.errors import UsageError
from dlgm.data import load_dataset
from dlgm.tables import fit_table
from tests.cli.test_commands import model, run  # noqa: F401

embed = importlib.import_module("dlgm.cli.embed")  # the package has a function of this name
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table with holes of every kind, and a model that has hardly been trained on it."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "height": rng.normal(170, 10, 60).round(1),
            "city": rng.choice(["Oslo", "Rome", "Wien"], 60),
            "children": rng.poisson(1.5, 60),
            "smokes": rng.choice(["no", "yes"], 60),
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.to_csv(folder / "people.csv", index=False)
    small = ["--latent", 2, "--hidden", 8, "--epochs", 3, "--type", "children=count", "--quiet"]
    run("fit", folder / "people.csv", "--out", folder / "people.dlgm", *small)
    return folder, frame


FEW = ["--draws", 20, "--warm-up", 2, "--thin", 2]


def test_a_table_comes_back_without_holes_and_otherwise_as_it_was(people, tmp_path):
    folder, frame = people
    asked = ["impute", folder / "people.csv", "--model", folder / "people.dlgm", "--copies", 2, *FEW]
    printed = run(*asked, "--out", tmp_path / "filled")
    assert f"{int(frame.isna().sum().sum())} holes in" in printed
    for name in ("best", "copy-1", "copy-2"):
        filled = pd.read_csv(tmp_path / "filled" / f"{name}.csv")
        assert list(filled.columns) == list(frame.columns)
        assert not filled.isna().any().any()
        for column in frame:
            seen = frame[column].notna()
            assert (filled[column][seen] == frame[column][seen]).all()
        assert set(filled["city"]) <= {"Oslo", "Rome", "Wien"}
        assert (filled["children"] >= 0).all()
        assert (filled["children"] == filled["children"].round()).all()
    cells = pd.read_csv(tmp_path / "filled" / "cells.csv")
    assert len(cells) == frame.isna().sum().sum()
    heights = cells[cells["column"] == "height"]
    assert (heights["low"].astype(float) < heights["high"].astype(float)).all()
    assert heights["mean"].astype(float).between(100, 240).all()
    cities = cells[cells["column"] == "city"]
    assert cities["low"].isna().all()
    assert cities["probability_of_best"].between(1 / 3 - 1e-6, 1).all()
    summary = json.loads((tmp_path / "filled" / "summary.json").read_text())
    assert summary["rows"] == 60
    assert summary["method"] == "resample"  # the model knows about holes
    assert summary["median effective sample size"] > 1
    assert (cells["effective_sample_size"] >= 1).all()
    assert "r_hat" not in cells  # which chains have


def test_errors_of_hidden_numbers_are_told_by_column_and_over_their_spread(people, tmp_path):
    """Recomputed from what is written: the file has the truth, and cells.csv the fills of what was hidden."""
    folder, frame = people
    asked = ["--model", folder / "people.dlgm", "--hide", 0.3, *FEW, "--out", tmp_path / "hidden"]
    printed = run("impute", folder / "people.csv", *asked)
    summary = json.loads((tmp_path / "hidden" / "summary.json").read_text())["hidden"]
    cells = pd.read_csv(tmp_path / "hidden" / "cells.csv")
    squares = {}
    for name in ("height", "children"):
        own = cells[cells["column"] == name]
        errors = own["best"].astype(float).to_numpy() - frame[name].to_numpy()[own["row"]]
        squares[name] = errors[np.isfinite(errors)] ** 2  # some were missing before
        assert summary["root mean squared error by column"][name] == pytest.approx(
            squares[name].mean() ** 0.5, rel=1e-4
        )
    over = np.concatenate([squares[name] / frame[name].var(ddof=0) for name in squares])
    told = summary["root mean squared error over standard deviations"]
    assert told == pytest.approx(over.mean() ** 0.5, rel=1e-4)
    assert f"{told:.3g} standard deviations" in printed


def test_a_column_that_does_not_vary_has_no_error_to_be_told(people, tmp_path):
    """Two rows of the same height, of which one is hidden: its spread is zero."""
    folder, _ = people
    pd.DataFrame({"height": [170.0, 170.0], "city": "Oslo", "children": 1, "smokes": "no"}).to_csv(
        tmp_path / "two.csv", index=False
    )
    asked = ["--model", folder / "people.dlgm", "--hide", 0.7, *FEW, "--out", tmp_path / "hidden"]
    printed = run("impute", tmp_path / "two.csv", *asked)
    assert "intervals" in printed
    assert "root mean squared error" not in printed


def test_new_rows_need_no_refit_and_no_company(people, tmp_path):
    """The second row of the table by itself, its columns in another order, as Parquet: the same fills."""
    folder, frame = people
    row = int(np.flatnonzero(frame.isna().any(axis=1))[1])
    asked = ["--model", folder / "people.dlgm", "--copies", 3, *FEW, "--quiet"]
    run("impute", folder / "people.csv", *asked, "--out", tmp_path / "all")
    frame.iloc[[row]][list(frame)[::-1]].to_parquet(tmp_path / "one.parquet")
    run("impute", tmp_path / "one.parquet", *asked, "--out", tmp_path / "one")
    for name in ("best", "copy-3"):
        among, alone = (
            pd.read_csv(tmp_path / "all" / f"{name}.csv"),
            pd.read_parquet(tmp_path / "one" / f"{name}.parquet"),
        )
        for column in frame:
            value = alone[column].iloc[0]
            assert value == among[column][row] or np.isclose(float(value), float(among[column][row]), rtol=1e-6)


@pytest.mark.parametrize("method", ["chain", "resample"])
def test_images_are_hidden_filled_compared_and_shown(model, tmp_path, method):  # noqa: F811
    asked = ["impute", "digits", "--model", model, "--limit", 5, "--method", method, *FEW, "--json"]
    found = json.loads(run(*asked, "--hide", "square", "--out", tmp_path / "square"))
    assert found["hidden"]["cells"] == 5 * 16
    assert 0 <= found["hidden"]["share of wrong codes"] <= 1
    assert (tmp_path / "square" / "filled.png").read_bytes().startswith(PNG)
    assert np.load(tmp_path / "square" / "best.npy").shape == (5, 64)


def test_rows_are_placed_in_a_plane(model, people, tmp_path):  # noqa: F811
    printed = run("embed", "digits", "--model", model, "--limit", 20, "--out", tmp_path / "map.csv")
    assert "of the variance of 3 latents" in printed
    table = pd.read_csv(tmp_path / "map.csv")
    assert list(table.columns[:5]) == ["row", "label", "x", "y", "latent_1"]
    assert table["row"].tolist() == list(range(20))
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)
    folder, frame = people
    picture = tmp_path / "people.png"
    asked = ["embed", folder / "people.csv", "--model", folder / "people.dlgm", "--label", "city", "--picture", picture]
    run(*asked, "--out", tmp_path / "people-map.csv")
    placed = pd.read_csv(tmp_path / "people-map.csv")
    assert placed["label"].fillna("").tolist() == frame["city"].fillna("").tolist()
    np.testing.assert_allclose(placed[["x", "y"]], placed[["latent_1", "latent_2"]], rtol=1e-6)
    assert picture.read_bytes().startswith(PNG)


def test_figures_are_reproduced(tmp_path, monkeypatch):
    from dlgm.reproduce import embedding, imputation, posterior

    for study in (embedding, posterior):
        monkeypatch.setitem(study.EPOCHS, "quick", 1)
    for study in (imputation, posterior):
        monkeypatch.setitem(study.ROWS, "quick", 2)
    quick = ["--data", "digits", "--budget", "quick", "--json"]
    page = tmp_path / "results.md"
    found = json.loads(run("reproduce", "posterior", *quick, "--out", tmp_path / "p", "--page", page))
    assert found["models"]["rank-one"]["mean divergence"] > 0
    found = json.loads(run("reproduce", "embedding", *quick, "--out", tmp_path / "e", "--page", page))
    assert 0 < found["neighbours of the same class"] <= 1
    began = (tmp_path / "e" / "digits.dlgm").stat().st_mtime_ns
    again = json.loads(run("reproduce", "embedding", *quick, "--out", tmp_path / "e"))
    assert again == found
    assert (tmp_path / "e" / "digits.dlgm").stat().st_mtime_ns == began
    found = json.loads(run("reproduce", "imputation", *quick, "--out", tmp_path / "i", "--page", page))
    assert [record["holes"] for record in found["digits"]["scores"]][::3] == ["40%", "60%", "80%", "square"]
    written = page.read_text()
    assert written.index("## Posteriors over") < written.index("## Two latents") < written.index("## Imputation of")
    assert "revision" in written
    assert '"budget": "quick"' in written
    pictures = [tmp_path / "p/posterior.png", tmp_path / "e/embedding.png", tmp_path / "i/digits-square.png"]
    assert all(path.read_bytes().startswith(PNG) for path in pictures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute", "digits"], "there is no hole in these 250 rows. Hide some cells with --hide 0.5, say"),
        (["impute", "digits", "--hide", "most"], "--hide: expected a share between 0 and 1, or square; got 'most'"),
        (["impute", "digits", "--hide", "0.5", "--method", "mice"], "--method: expected one of metropolis, chain"),
        (["impute", "digits", "--hide", "0.5", "--draws", "10"], "--draws: an interval of 0.9 needs 19 or more"),
        (["impute", "digits", "--hide", "0.5", "--level", "90"], "--level: expected a probability"),
        (["impute", "digits", "--hide", "0.5", "--copies", "200"], "--copies: expected at most as many as draws, 100"),
        (
            ["impute", "digits", "--hide", "0.5", "--draws", "50"],
            "--draws: expected a multiple of the number of chains",
        ),
        (["impute", "digits", "--out", "FILE"], "--out: expected a folder to write to; "),
        (["impute", "none.csv"], "none.csv: no such file"),
        (["embed", "digits", "--label", "city"], "--label: only for your own files"),
        (["embed", "digits", "--out", "map.txt"], "--out: expected a name ending in .csv"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(model, tmp_path, monkeypatch, arguments, message):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"^.{0,400}$") as caught:
        run(*[str(tmp_path / "file") if a == "FILE" else a for a in arguments], "--model", model)
    assert message in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_wrong_input_to_figures(tmp_path):
    for arguments, message in (
        (["posterior", "--data", "digits", "--budget", "long"], "--budget: expected one of quick, full; got 'long'"),
        (["posterior", "--data", "digits", "--row", "9999"], "--row: expected a row below 250; got 9,999"),
    ):
        with pytest.raises(UsageError) as caught:
            run("reproduce", *arguments, "--out", tmp_path / "new")
        assert message in str(caught.value)


def test_other_columns_and_their_order_are_kept(people, tmp_path):
    folder, frame = people
    more = frame.assign(name=[f"person {i}" for i in range(60)], weight=1 / 3)[
        ["name", "smokes", "height", "weight", "city", "children"]
    ]
    more.to_csv(tmp_path / "more.csv", index=False)
    run("impute", tmp_path / "more.csv", "--model", folder / "people.dlgm", *FEW, "--out", tmp_path / "filled")
    filled = pd.read_csv(tmp_path / "filled" / "best.csv")
    assert list(filled.columns) == list(more.columns)
    pd.testing.assert_frame_equal(filled[["name", "weight"]], more[["name", "weight"]])
    assert not filled.isna().any().any()
    more = more.set_axis([f"p{i}" for i in range(len(more))])
    more.to_parquet(tmp_path / "more.parquet")
    run("impute", tmp_path / "more.parquet", "--model", folder / "people.dlgm", *FEW, "--out", tmp_path / "again")
    again = pd.read_parquet(tmp_path / "again" / "best.parquet")
    assert list(again.columns) == list(more.columns)
    assert again.index.equals(more.index)
    for name in ("height", "city"):
        seen = more[name].notna()
        assert (again[name][seen] == more[name][seen]).all()


def test_grey_images_are_asked_about_in_black_and_white(model, tmp_path, monkeypatch):  # noqa: F811
    """A model of bits and a data set of greys: the same answers as for the bits, and a word about it."""
    digits = load_dataset("digits")
    greys = {split: (getattr(digits, split) * 100 + 100).astype(np.uint8) for split in ("train", "valid", "test")}
    grey = dataclasses.replace(digits, name="grey", family="discretised-logistic", **greys)
    monkeypatch.setattr(rows, "load_data", lambda name, **_: grey if name == "grey" else digits)
    monkeypatch.setattr(embed, "load_data", lambda name, **_: digits)
    printed = run("embed", "grey", "--model", model, "--limit", 20, "--out", tmp_path / "grey.csv")
    assert "Note: grey is grey and the model knows black and white, so pixels brighter than half" in printed
    assert "Note" not in run("embed", "digits", "--model", model, "--limit", 20, "--out", tmp_path / "bits.csv")
    assert (tmp_path / "grey.csv").read_text() == (tmp_path / "bits.csv").read_text()


def test_means_of_ordered_numbers_are_the_same_in_cells_and_in_python(tmp_path):
    """Of levels 0, 10 and 1,000 the mean is by their probabilities; the place of the mean code is another number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"o": rng.choice([0, 10, 1000], 60), "b": rng.normal(size=60)})
    table = fit_table(frame, training={"epochs": 0})
    table.save(tmp_path / "o.dlgm")
    holes = frame.astype({"o": "Int64"})
    holes.loc[:9, "o"] = pd.NA
    holes.to_csv(tmp_path / "o.csv", index=False)
    run("impute", tmp_path / "o.csv", "--model", tmp_path / "o.dlgm", "--out", tmp_path / "filled", "--draws", 40)
    cells = pd.read_csv(tmp_path / "filled" / "cells.csv")
    found = table.impute(holes, draws=40, thin=10)
    shares = found.probabilities("o").to_numpy()[:10]
    np.testing.assert_allclose(cells["mean"], shares @ [0, 10, 1000], rtol=1e-4)


def test_chains_and_warm_up_are_the_user_s(tmp_path, monkeypatch):
    """Models of tables have defaults of their own, and no more than that."""
    from dlgm import inference

    asked = []
    real = inference.impute

    def spy(*args, **settings):
        asked.append((settings["chains"], settings["warm_up"]))
        return real(*args, **settings)

    monkeypatch.setattr(inference, "impute", spy)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    fit_table(frame, training={"epochs": 0}).save(tmp_path / "m.dlgm")
    frame.mask(np.eye(40, 2, dtype=bool)).to_csv(tmp_path / "m.csv", index=False)
    command = ["impute", tmp_path / "m.csv", "--model", tmp_path / "m.dlgm", "--out", tmp_path / "out", "--draws", 40]
    run(*command)
    run(*command, "--chains", 2, "--warm-up", 3)
    assert asked == [(1, 0), (2, 3)]

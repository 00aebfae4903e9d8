"""Users' own files at the command line: fit, score, sample, show, and what they say to wrong input."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dlgm.artifact import SavedModel, load_model, save_model
from dlgm.cli.app import app, main
from dlgm.cli.errors import UsageError
from dlgm.cli.rows import rows_to_ask
from dlgm.data import Schema, infer_schema, read_schema, read_table
from dlgm.data.splits import split_at_random
from dlgm.inference import log_likelihood
from dlgm.model import build_model, make_observation, preset
from tests.data import write

SMALL = ["--latent", "2", "--hidden", "8", "--epochs", "2", "--batch-size", "20"]


def run(*args):
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def words(text):
    return " ".join(text.replace("│", " ").replace("┃", " ").split())


def people(number=60):
    rng = np.random.default_rng(3)
    height = rng.normal(170, 10, number).round(1)
    frame = pd.DataFrame({"height": height, "city": rng.choice(["Rome", "Oslo"], number), "weight": 100 - height})
    frame.loc[::7, "height"] = np.nan
    frame.loc[::5, "city"] = None
    return frame


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with people.csv and the model that `dlgm fit` made of it, and what was printed."""
    folder = tmp_path_factory.mktemp("own")
    people().to_csv(folder / "people.csv", index=False)
    here = Path.cwd()
    os.chdir(folder)
    try:
        printed = run("fit", "people.csv", "--family", "student-t", "--seed", "5", "--history", "epochs.jsonl", *SMALL)
    finally:
        os.chdir(here)
    return folder, printed


def test_fit_shows_the_schema_and_keeps_it(fitted):
    folder, printed = fitted
    shown = words(printed)
    assert "people.csv: 60 rows, 3 columns" in shown
    assert "column kind family missing values" in shown
    assert "height real student-t 15.0% mean 1" in shown
    assert "city binary bernoulli 20.0% Oslo, Rome" in shown
    assert "That is in your own units" in printed
    assert "Next: dlgm score people.csv --model people.dlgm" in printed
    saved = load_model(folder / "people.dlgm")
    schema = Schema.from_dict(saved.data["schema"])
    assert schema == infer_schema(people()).with_family("student-t")
    assert saved.data["name"] == "people.csv"
    assert saved.config.observation == schema.observation().config()
    described = words(run("info", folder / "people.dlgm"))
    assert "2 real (student-t), 1 binary (bernoulli)" in described


def test_score_reads_new_files_as_the_model_was_trained(fitted, tmp_path):
    folder, _ = fitted
    new = people().iloc[10:30]
    path = tmp_path / "new.csv"
    new[["weight", "city", "height"]].assign(extra=1).to_csv(path, index=False)
    asked = ["score", path, "--model", folder / "people.dlgm", "--samples", "20"]
    printed = run(*asked, "--out", tmp_path / "scores.csv")
    assert "Note: columns that the schema does not have were left out: extra." in printed
    assert f"{path}: 20 rows, 20 importance samples each" in printed
    saved = load_model(folder / "people.dlgm")
    schema = Schema.from_dict(saved.data["schema"])
    values, mask = schema.encode(new)
    scores = log_likelihood(saved.model, values, mask, num_samples=20, key=jax.random.key(0))
    # In the user's units, by hand: the columns' scales, where a cell was observed.
    height, weight = (np.log(schema.columns[i].scale or 0) for i in (0, 2))
    expected = scores.log_p - np.where(new["height"].isna(), 0, height) - weight
    written = pd.read_csv(tmp_path / "scores.csv")
    np.testing.assert_allclose(written["log_p"], expected, rtol=1e-5)
    np.testing.assert_allclose(written["log_p"] - written["bound"], scores.log_p - scores.bound, atol=1e-4)
    result = json.loads(run(*asked, "--json", "--limit", "7"))
    assert (result["rows"], result["split"]) == (7, None)


def test_units_do_not_matter_to_the_bound(fitted):
    """The summary's bound is in the user's units: the model's own, and the mean log Jacobian of the validation rows."""
    folder, printed = fitted
    summary = load_model(folder / "people.dlgm").training["summary"]
    assert f"Validation bound (importance-weighted) {summary['valid_bound']:.2f} nats a row" in printed
    assert summary["diagnostics"]["gap"] == pytest.approx(
        summary["diagnostics"]["log_p"] - summary["diagnostics"]["bound"], abs=1e-4
    )
    best = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()][summary["best_epoch"] - 1]
    for rows, name in zip(split_at_random(60, 0.1, seed=5), ("train_bound", "valid_bound"), strict=True):
        own = infer_schema(people())
        shift = own.log_jacobian(*own.encode(people().iloc[rows])).mean()
        assert summary[name] - best[name] == pytest.approx(shift)
    side = "lower" if shift > 0 else "higher"
    assert f"the bounds shown while training, of scaled rows, are {abs(shift):.2f} {side}." in printed
    assert summary["diagnostics"]["bound"] == pytest.approx(summary["valid_bound"], abs=1)  # the shift is 4 or so


def test_samples_come_in_the_users_columns(fitted, tmp_path):
    folder, _ = fitted
    run("sample", "--model", folder / "people.dlgm", "--num", "50", "--out", tmp_path / "s.csv")
    drawn = pd.read_csv(tmp_path / "s.csv")
    assert drawn.columns.tolist() == ["height", "city", "weight"]
    assert set(drawn["city"]) == {"Rome", "Oslo"}
    assert 140 < drawn["height"].mean() < 200
    run("sample", "--model", folder / "people.dlgm", "--num", "5", "--means", "--out", tmp_path / "m.csv")
    assert set(pd.read_csv(tmp_path / "m.csv")["city"]) <= {"Rome", "Oslo"}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """Model files with the weights they start with: of images in bytes, of a mixed table, and without a schema."""
    folder = tmp_path_factory.mktemp("untrained")
    pixels = infer_schema(np.arange(12, dtype=np.uint8).reshape(2, 6))
    counts = infer_schema(pd.DataFrame({"n": [3, 1, 2] * 5, "b": [7, 9, 9] * 5}), types={"n": "count"})
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "pixels": (pixels.observation(), {"name": "faces", "shape": [2, 3], "schema": pixels.to_dict()}),
        "counts": (counts.observation(), {"name": "n", "schema": counts.to_dict(), "missing": ["-9"]}),
        "bits": (make_observation("bernoulli", 6), {"name": "toy", "shape": [2, 3], "family": "bernoulli"}),
        "reals": (make_observation("gaussian", 6), {"name": "toy", "shape": [2, 3]}),
    }
    for name, (observation, data) in models.items():
        config = preset("default", observation, latent=(1,), hidden=(4,))
        save_model(folder / f"{name}.dlgm", SavedModel(build_model(config, key=jax.random.key(0)), config, data))
    return folder


def test_samples_of_arrays_and_images(untrained, tmp_path):
    run("sample", "--model", untrained / "pixels.dlgm", "--num", "4", "--out", tmp_path / "s.npy")
    drawn = np.load(tmp_path / "s.npy")
    assert (drawn.shape, drawn.dtype) == ((4, 6), np.uint8)
    run("sample", "--model", untrained / "pixels.dlgm", "--num", "4", "--out", tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"
    run("sample", "--model", untrained / "counts.dlgm", "--num", "4", "--out", tmp_path / "c.csv")
    drawn = pd.read_csv(tmp_path / "c.csv")
    assert [str(dtype) for dtype in drawn.dtypes] == ["int64", "int64"]
    assert set(drawn["b"]) <= {7, 9}
    run("sample", "--model", untrained / "counts.dlgm", "--num", "4", "--means", "--out", tmp_path / "c.npy")
    means = np.load(tmp_path / "c.npy")
    assert ((means[:, 1] > 7) & (means[:, 1] < 9)).all()


def test_a_model_of_a_named_set_scores_files_of_bits(untrained, tmp_path):
    np.save(tmp_path / "bits.npy", np.eye(6)[:3].reshape(3, 2, 3))
    result = json.loads(
        run("score", tmp_path / "bits.npy", "--model", untrained / "bits.dlgm", "--samples", "5", "--json")
    )
    assert result["rows"] == 3


def test_words_for_a_hole_are_kept_with_the_model(untrained, tmp_path):
    path = write.put(tmp_path / "n.csv", b"n,b\n-9,7\n3,unknown\n4,9\n")
    part = rows_to_ask(str(path), load_model(untrained / "counts.dlgm"), None, None, missing=["unknown"])
    assert part.mask is not None
    assert part.mask.tolist() == [[False, True], [True, False], [True, True]]
    assert read_table(path, missing=["-9", "unknown"]).described()["missing"] == ["-9", "unknown"]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def test_show(tables):
    shown = words(run("data", "show", "people.csv", "--out", "schema.json"))
    assert "people.csv: 60 rows, 3 columns" in shown
    assert "city binary bernoulli 20.0% Oslo, Rome" in shown
    assert shown.endswith("Schema written to schema.json. Edit it, then: dlgm fit people.csv --schema schema.json")
    schema = read_schema("schema.json")
    assert schema == infer_schema(people()).without_units()
    described = json.loads(run("data", "show", "people.csv", "--json"))
    assert {
        name: described[name] for name in ("name", "rows", "columns", "missing_cells", "shape", "dtype", "notes")
    } == {
        "name": "people.csv",
        "rows": 60,
        "columns": 3,
        "missing_cells": 21,
        "shape": None,
        "dtype": "float32",
        "notes": [],
    }
    assert Schema.from_dict(described["schema"]) == infer_schema(people())
    assert run("data", "show", "people.csv", "--quiet") == ""


def test_a_users_words_are_no_markup(tables):
    write.put(tables / "a.csv", b"[bold],b\n[red],1.5\n[blue],-2.5\n")
    assert "[bold] binary bernoulli [blue], [red]" in words(run("data", "show", "a.csv"))


def test_show_of_an_array_is_short(tables):
    np.save("a.npy", np.random.default_rng(0).normal(size=(50, 300)))
    lines = run("data", "show", "a.npy").splitlines()
    assert len(lines) < 12
    assert "v0 .. v299 real gaussian mean -0." in words("\n".join(lines))


def test_flags_change_the_schema(tables):
    write.put(tables / "a.csv", b"age;size;note\n3;M;x\n-9;S;y\n7;L;z\n")
    asked = ["--type", "age=count", "--ordinal", "size=S,M,L", "--drop", "note", "--missing", "-9", "--delimiter", ";"]
    schema = json.loads(run("data", "show", "a.csv", "--json", *asked))["schema"]
    assert [(c["name"], c["kind"], c.get("categories")) for c in schema["columns"]] == [
        ("age", "count", None),
        ("size", "ordinal", ["S", "M", "L"]),
    ]
    np.savez("a.npz", x=np.zeros((2, 2)), y=np.arange(4).reshape(2, 2))
    schema = json.loads(run("data", "show", "a.npz", "--json", "--key", "y", "--type", "pixel"))["schema"]
    assert schema["columns"][0]["kind"] == "pixel"
    assert json.loads(run("data", "show", "a.npz:y", "--json"))["schema"]["columns"][0]["kind"] == "count"
    write.put(tables / "b.csv", "a,b\ncafé,1\nthé,2\n".encode("latin-1"))
    described = json.loads(run("data", "show", "b.csv", "--json", "--no-header", "--encoding", "latin-1"))
    assert described["rows"] == 3


def test_a_names_set_comes_before_a_folder_of_that_name(tables):
    (tables / "digits").mkdir()
    assert json.loads(run("data", "show", "digits", "--json"))["splits"]["train"]["rows"] == 1297


def schema_file(**entry):
    return json.dumps({"columns": [entry]}).encode()


FIT = ("fit", "people.csv")
WRONG = {
    ("fit", "none.csv"): "dlgm: none.csv: no such file or folder.",
    ("fit", "./none"): "dlgm: none: no such file or folder.",
    ("fit", "ragged.csv"): "dlgm: ragged.csv: line 3: expected 2 fields, as in the first line; got 1.",
    (
        "fit",
        "people.csv",
        "--type",
        "height=cuont",
    ): "dlgm: Expected NAME=KIND with a kind of real, positive, heaped, count, binary, "
    "categorical, ordinal, pixel; got 'height=cuont'. Did you mean 'count'?",
    (
        *FIT,
        "--type",
        "heigth=real",
    ): "dlgm: people.csv: Expected the name of a column; got 'heigth'. Did you mean 'height'? "
    "There are: height, city, weight.",
    (*FIT, "--ordinal", "city"): "dlgm: Expected NAME=LOWEST,..,HIGHEST, such as size=S,M,L; got 'city'.",
    (
        *FIT,
        "--ordinal",
        "city=Oslo,Bern",
    ): "dlgm: people.csv: column 'city': expected one of the categories Oslo, Bern; got "
    "'Rome' in row 3 (counting from 1). Mend it or mark it missing; a new category needs a schema that has it, and a "
    "new fit.",
    (*FIT, "--family", "poisson"): "dlgm: No column can have the family poisson: their kinds are binary, real.",
    (*FIT, "--valid", "2"): "dlgm: --valid: Expected a share of the rows above 0 and below 1; got 2.0.",
    (*FIT, "--valid", "half"): "dlgm: --valid: expected a share of the rows, such as 0.1, or a file; got 'half'.",
    (*FIT, "--valid", "other.csv"): "dlgm: other.csv: Expected a column 'height'; got a, b. (3 columns are missing.)",
    ("fit", "one.csv"): "dlgm: --valid: Expected at least 2 rows, one to train on and one to hold out; got 1.",
    (
        *FIT,
        "--schema",
        "none.json",
    ): "dlgm: none.json: no such schema file. `dlgm data show FILE --out none.json` writes one.",
    (
        *FIT,
        "--schema",
        "wrong.json",
    ): "dlgm: wrong.json: columns[0] ('city'): unknown entry 'knid'. Did you mean 'kind'?",
    (*FIT, "--schema", "other.json"): "dlgm: people.csv: Expected a column 'age'; got height, city, weight.",
    (*FIT, "--key", "x"): "dlgm: people.csv: has no keys; only .npz and .mat files have. Leave 'x' out.",
    (*FIT, "--latent", "many"): "dlgm: --latent: expected whole numbers with commas, such as 200,200; got 'many'.",
    (*FIT, "--bit-flip", "0.1"): "dlgm: --bit-flip: only binary rows have bits to flip; the family is composite. Use "
    "gaussian_noise.",
    ("fit", "digits", "--type", "a=real"): "dlgm: --type: only for your own files; digits is a data set with a name.",
    ("fit", "digits", "--valid", "0.5"): "dlgm: --valid: only for your own files; digits is a data set with a name.",
    ("score", "people.csv", "--model", "pixels.dlgm"): "dlgm: people.csv: ",
    ("score", "other.csv", "--model", "counts.dlgm"): "dlgm: other.csv: Expected a column 'n'; got a, b.",
    (
        "score",
        "n.csv",
        "--model",
        "counts.dlgm",
    ): "dlgm: n.csv: column 'b': expected one of the categories 7, 9; got 8 in row 1",
    (
        "score",
        "n.csv",
        "--model",
        "reals.dlgm",
    ): "dlgm: The model's file does not say how its gaussian columns are read from a file.",
    (
        "score",
        "other.csv",
        "--model",
        "counts.dlgm",
        "--split",
        "test",
    ): "dlgm: --split: only for data sets with a name; all rows of other.csv are taken.",
    (
        "sample",
        "--model",
        "counts.dlgm",
        "--out",
        "a.png",
    ): "dlgm: --out: a .png needs a model of images, in bits or 8-bit pixels; write a .csv or .npy.",
    (
        "sample",
        "--model",
        "people.dlgm",
        "--out",
        "a.npy",
    ): "dlgm: --out: an .npy file holds numbers, and the column 'city' texts; write a .csv.",
    (
        "data",
        "show",
        "ragged.csv",
        "--out",
        "s.json",
    ): "dlgm: ragged.csv: line 3: expected 2 fields, as in the first line; got 1.",
    ("data", "show", "people.csv", "--out", "s.txt"): "dlgm: --out: expected a name ending in .json; got 's.txt'.",
    (
        "data",
        "show",
        "digits",
        "--out",
        "s.json",
    ): "dlgm: --out: only for your own files; digits is a data set with a name.",
    ("data", "show", "picture.png"): "dlgm: picture.png: expected a folder of images, or a name that ends in .csv",
}


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_wrong_input_is_one_line_and_exit_code_two(args, tables, untrained, fitted, monkeypatch, capsys):
    write.put(tables / "ragged.csv", b"a,b\n1,2\n3\n")
    write.put(tables / "other.csv", b"a,b\n1,2\n3,4\n")
    write.put(tables / "n.csv", b"n,b\n1,8\n")
    write.put(tables / "one.csv", b"a,b\n1,2\n")
    write.put(tables / "picture.png", b"?")
    write.put(tables / "wrong.json", schema_file(name="city", knid="real"))
    write.put(tables / "other.json", schema_file(name="age", kind="real"))
    before = {path.name for path in tables.iterdir()}
    models = {"people.dlgm": fitted[0]} | {f"{name}.dlgm": untrained for name in ("pixels", "counts", "reals", "bits")}
    monkeypatch.setattr("sys.argv", ["dlgm", *(str(models[arg] / arg) if arg in models else arg for arg in args)])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.err.startswith(WRONG[args])
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""
    assert {path.name for path in tables.iterdir()} == before


def test_means_of_straightened_columns_are_refused(tmp_path):
    """The mean of exp(y) is not exp of the mean of y."""
    frame = pd.DataFrame({"a": np.exp(np.random.default_rng(0).normal(size=300)) - 0.5})
    schema = infer_schema(frame)
    assert schema.columns[0].power is not None
    config = preset("default", schema.observation(), latent=(1,), hidden=(4,))
    model = build_model(config, key=jax.random.key(0))
    save_model(tmp_path / "a.dlgm", SavedModel(model, config, {"name": "a", "schema": schema.to_dict()}))
    with pytest.raises(UsageError, match="--means: the column 'a' was straightened"):
        run("sample", "--model", tmp_path / "a.dlgm", "--means", "--out", tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()

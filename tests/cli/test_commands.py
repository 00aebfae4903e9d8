"""`dlgm fit`, `score`, `sample`, `info`, `demo`: from data to files, and what they say to wrong input."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dlgm.cli.app import app, main
from dlgm.cli.errors import UsageError
from dlgm.recipes import RECIPES


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file without the training: weights as they start."""
    import jax

    from dlgm.artifact import SavedModel, save_model
    from dlgm.model import build_model, make_observation, preset

    path = tmp_path_factory.mktemp("model") / "digits.dlgm"
    config = preset("default", make_observation("bernoulli", columns=64), latent=(3,), hidden=(8,))
    data = {"name": "digits", "shape": [8, 8], "family": "bernoulli"}
    save_model(path, SavedModel(build_model(config, key=jax.random.key(0)), config, data))
    return path


def test_fit_writes_a_model_and_says_how_it_went(tmp_path):
    path, history = tmp_path / "new" / "digits.dlgm", tmp_path / "history.jsonl"
    # Two layers: every estimator has to take them.
    small = ["--latent", "3,2", "--hidden", "8", "--epochs", "4", "--batch-size", "100", "--seed", "3"]
    printed = run("fit", "digits", "--out", path, "--history", history, "--gradient-noise", *small)
    assert [json.loads(line)["epoch"] for line in history.read_text().splitlines()] == [1, 2, 3, 4]
    for words in (
        "digits: 4 epochs in",
        "Validation bound -",
        "Latents in use: ",
        "Gradient signal-to-noise, two draws a row, pathwise: ",
        f"dlgm score digits --model {path}",
    ):
        assert words in printed
    described = run("info", path)
    for words in ("latents in use", "4 epochs", "seed 3"):
        assert words in described
    training = json.loads(run("info", path, "--json"))["training"]
    assert training["config"]["seed"] == 3
    assert len(training["summary"]["diagnostics"]["unit_kl"][1]) == 2


def test_the_best_preset_brings_its_training_along(tmp_path):
    """As the recipe has it, in place of the data set's own; what is asked for beside it is changed."""
    path = tmp_path / "best.dlgm"
    run("fit", "digits", "--preset", "best", "--epochs", "1", "--hidden", "6,5", "--out", path, "--quiet")
    said = json.loads(run("info", path, "--json"))
    wanted = {"latent": [50, 50], "hidden": [6, 5], "structure": "directed", "nonlinearity": "gated", "skip": True}
    assert {name: said["config"][name] for name in wanted} == wanted
    training = said["training"]["config"]
    wanted = {**RECIPES["best"].training, "epochs": 1, "image": [8, 8]}
    assert {name: training[name] for name in wanted} == wanted
    assert training["objective"] == "importance-weighted"  # unlike the recipe of the digits


def test_images_are_moved_where_there_are_images(tmp_path):
    small = ["--latent", "1", "--hidden", "4", "--epochs", "1", "--quiet"]
    run("fit", "digits", "--move", "1", "--slant", "0.1", *small, "--out", tmp_path / "m.dlgm")
    training = json.loads(run("info", tmp_path / "m.dlgm", "--json"))["training"]["config"]
    assert (training["move"], training["slant"], training["image"]) == (1, 0.1, [8, 8])
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{i / 7},{i % 3}" for i in range(40)))
    np.save(tmp_path / "f.npy", np.random.default_rng(0).uniform(size=(30, 5, 5)).astype(np.float32))
    for rows in ("t.csv", "f.npy"):  # the pixels of floats are scaled one by one
        for option in ("--move", "--slant"):
            with pytest.raises(
                UsageError, match=rf"{option}: expected images of bits or 8-bit pixels, height by width"
            ):
                run("fit", tmp_path / rows, option, "0.5" if option == "--slant" else "1", *small, "--out", "w.dlgm")


def test_fit_as_json_prints_one_document(tmp_path):
    small = ["--latent", "1", "--hidden", "4", "--epochs", "1", "--family", "gaussian"]
    summary = json.loads(run("fit", "digits", "--out", tmp_path / "m.dlgm", "--json", *small))
    assert (summary["epochs"], summary["gradient_signal_to_noise"], summary["seed"]) == (1, None, 0)


def test_score(model, tmp_path):
    out = tmp_path / "scores.csv"
    asked = ["score", "digits", "--model", model, "--samples", 20, "--limit", 30]
    printed = run(*asked, "--out", out)
    assert "digits, test: 30 rows, 20 importance samples each" in printed
    table = np.genfromtxt(out, delimiter=",", names=True)
    assert table.dtype.names == ("log_p", "standard_error", "effective_sample_size", "bound")
    assert table.shape == (30,)
    assert f"-ln p(v) = {-table['log_p'].mean():.2f} nats a row." in printed
    again = json.loads(run(*asked, "--json"))
    np.testing.assert_allclose(again["mean_log_p"], table["log_p"].mean(), rtol=1e-4)
    assert json.loads(run(*asked, "--json", "--seed", 1))["mean_log_p"] != again["mean_log_p"]
    assert run(*asked, "--quiet") == ""


def test_errors_that_cannot_be_known_are_no_numbers(model):
    printed = run("score", "digits", "--model", model, "--samples", 1, "--limit", 1)
    assert "Standard error unknown over a single row, unknown from a single sample." in printed


def test_sample(model, tmp_path):
    run("sample", "--model", model, "--num", 7, "--out", tmp_path / "s.csv")
    table = np.genfromtxt(tmp_path / "s.csv", delimiter=",", skip_header=1)
    assert table.shape == (7, 64)
    assert set(np.unique(table)) <= {0.0, 1.0}
    run("sample", "--model", model, "--num", 7, "--means", "--out", tmp_path / "s.npy")
    means = np.load(tmp_path / "s.npy")
    assert ((means > 0) & (means < 1)).all()
    run("sample", "--model", model, "--num", 7, "--out", tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_info_notices_a_flipped_bit(model, tmp_path):
    content = bytearray(Path(model).read_bytes())
    content[-10] ^= 4
    (tmp_path / "flipped.dlgm").write_bytes(content)
    with pytest.raises(UsageError, match=r"flipped\.dlgm: not a dlgm model file \(damaged: its contents do not fit"):
        run("info", tmp_path / "flipped.dlgm")


def test_info(model):
    printed = run("info", model)
    for words in ("digits, rows as 8x8", "bernoulli", "rank-one, factorised"):
        assert words in printed
    everything = json.loads(run("info", model, "--json"))
    assert everything["config"]["latent"] == [3]
    # T_0: 3 -> 8 -> 64, and G_1: 3 x 3.
    assert everything["parameters"]["generative"] == (3 * 8 + 8) + (8 * 64 + 64) + 9


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.images, self.headings = [], []
        self._heading = False

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs))
        self._heading = tag == "h2"

    def handle_data(self, data):
        if self._heading:
            self.headings.append(data)
            self._heading = False


def test_demo_writes_its_report(tmp_path):
    printed = run("demo", "--quick", "--out", tmp_path / "demo")
    for words in ("deep latent Gaussian model", "factor analysis", "Bernoullis", "report.html"):
        assert words in printed
    page = Tags()
    html = (tmp_path / "demo" / "report.html").read_text()
    page.feed(html)
    assert len(page.images) == 7
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in page.images)
    for heading in ("How likely", "Learning", "New digits", "Reconstructions", "Holes filled in", "A map"):
        assert any(heading in found for found in page.headings), heading
    assert "http://" not in html
    assert "https://" not in html
    run("info", tmp_path / "demo" / "digits.dlgm")


WRONG = {
    ("fit", "digit"): "Did you mean 'digits'?",
    ("fit", "digits", "--latent", "many"): "--latent: expected whole numbers with commas, such as 200,200; got 'many'.",
    ("fit", "digits", "--latent", ""): "latent: expected a list of positive whole numbers, such as (200, 200); got ().",
    ("fit", "digits", "--covariance", "dense"): "covariance: expected one of diagonal, rank-one, rank-r, full",
    ("fit", "digits", "--preset", "vae"): "preset: expected one of default, factor-analysis",
    ("fit", "digits", "--family", "normal"): "normal",
    ("fit", "digits", "--epochs", "0"): "epochs: expected a whole number of at least 1; got 0.",
    ("fit", "digits", "--drop-out", "1"): "--drop-out: expected a rate of at least 0 and less than 1; got 1.0.",
    ("fit", "digit", "--out", "new/x.dlgm"): "Did you mean 'digits'?",
    ("fit", "digits", "--out", "README/x.dlgm"): "--out: cannot write to README/x.dlgm",
    ("fit", "mnist", "--preset", "factor-analysis"): "DLGM_DATA",
    ("fit", "digits", "--preset", "factor-analysis"): "factor-analysis is for the family gaussian; got bernoulli.",
    ("fit", "digits", "--family", "gaussian", "--bit-flip", "0.1"): "--bit-flip: only binary rows have bits to flip",
    ("fit", "digits", "--rank", "3"): "--rank: only with --covariance rank-r.",
    ("fit", "digits", "--covariance", "rank-r", "--rank", "500"): "rank: expected at most the number of latents, 20",
    ("fit", "digits", "--latent", "99999999999"): "latent: expected widths of at most 1,000,000; got 99,999,999,999.",
    ("fit", "digits", "--out", "model.csv"): "--out: expected a name ending in .dlgm; got 'model.csv'.",
    ("fit", "digits", "--out", "/proc/x.dlgm"): "--out: cannot write to /proc/x.dlgm",
    ("sample", "--model", "MODEL", "--num", "20000", "--out", "a.png"): "--num: expected at most 10,000 images",
    ("info", "."): ".: not a dlgm model file, but a folder.",
    ("fit", "digits", "--out", "."): "--out: expected a file to write to; . is a folder.",
    ("score", "digits", "--model", "none.dlgm"): "none.dlgm: no such model file. `dlgm fit` writes one.",
    ("score", "digits", "--model", "MODEL", "--split", "all"): "--split: expected train, valid or test; got 'all'.",
    ("score", "digits", "--model", "MODEL", "--out", "a.txt"): "--out: expected a name ending in .csv; got 'a.txt'.",
    ("score", "binarized-mnist", "--model", "MODEL"): "DLGM_DATA",
    ("sample", "--model", "MODEL", "--out", "a.jpg"): "expected a name ending in .csv or .parquet or .npy or .png",
    ("info", "README"): "README: not a dlgm model file (not a safetensors file, or a damaged one",
}


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_wrong_input_is_one_line_and_exit_code_two(args, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLGM_DATA", raising=False)
    Path("README").write_text("not a model")
    real = [str(model) if arg == "MODEL" else arg for arg in args]
    monkeypatch.setattr("sys.argv", ["dlgm", *real])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert WRONG[args] in printed.err
    assert "Traceback" not in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"README"}


@pytest.mark.parametrize("command", ["fit", "score", "sample", "info", "demo"])
def test_help_has_an_example_and_the_common_options(command):
    printed = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [command, "--help"]).output
    for words in (f"Example: dlgm {command}", "--seed", "--quiet", "--json"):
        assert words in printed

"""Models that come with the package: found by name, and still what they were."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from dlgm import artifact
from dlgm.artifact import ModelFileError, SavedModel, describe_model, load_model, save_model, shipped_models
from dlgm.cli.errors import UsageError
from dlgm.data import load_dataset
from dlgm.inference import log_likelihood
from dlgm.model import build_model, make_observation, preset
from dlgm.reproduce import shipping
from tests.cli.test_commands import run

SHIP = Path(__file__).parents[1] / "benchmarks" / "ship.py"
SHIPPED = shipped_models()  # the real ones, whatever a test puts in their place


@pytest.fixture(scope="module")
def saved():
    config = preset("default", make_observation("bernoulli", columns=64), latent=(2,), hidden=(4,))
    data = {"name": "digits", "shape": [8, 8], "family": "bernoulli", "path": "of some machine"}
    summary = {"epochs": 7, "seconds": 1.5, "best_epoch": 5, "valid_bound": -20.0}
    training = {"config": {"seed": 3}, "summary": summary, "history": [1, 2, 3]}
    return SavedModel(build_model(config, key=jax.random.key(0)), config, data, training)


@pytest.fixture
def folder(tmp_path, monkeypatch, saved):
    """Two stand-ins for shipped models, and nothing else in the working folder."""
    monkeypatch.setattr(artifact, "SHIPPED", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        save_model(tmp_path / "models" / f"{name}.dlgm", shipping.stripped(saved, load_dataset("digits"), samples=20))
    return tmp_path


def test_a_name_stands_for_the_shipped_file(folder, saved):
    assert load_model("one").config == describe_model("two").config == saved.config
    printed = json.loads(run("score", "digits", "--model", "one", "--limit", 3, "--samples", 20, "--json"))
    assert printed["rows"] == 3
    described = run("info", "one")
    for words in ("7 epochs", "seed 3", "200 test rows of digits"):
        assert words in described


def test_a_file_comes_before_a_shipped_model(folder, saved):
    other = SavedModel(saved.model, saved.config, {"name": "mine"})
    save_model(folder / "one", other)
    assert load_model("one").data == {"name": "mine"}
    (folder / "two").mkdir()  # a folder is no file
    assert load_model("two").data["name"] == "digits"


def test_an_unknown_name_is_told_the_known_ones(folder, monkeypatch):
    expected = "three: no such model file. `dlgm fit` writes one. These come with dlgm: one, two."
    with pytest.raises(ModelFileError) as caught:
        load_model("three")
    assert str(caught.value) == expected
    for command in (["sample", "--model", "three"], ["score", "digits", "--model", "three"], ["info", "three"]):
        with pytest.raises(UsageError) as refused:
            run(*command)
        assert str(refused.value) == expected
    monkeypatch.setattr(artifact, "SHIPPED", folder / "empty")
    with pytest.raises(ModelFileError, match=r"writes one\.$"):
        load_model("one")


def test_what_is_shipped_is_known_again(saved):
    """Weights and a few words; the likelihood is that of evenly spaced rows, written out here."""
    digits = load_dataset("digits")
    shipped = shipping.stripped(saved, digits, samples=50, seed=4)
    assert shipped.data == {"name": "digits", "shape": [8, 8], "family": "bernoulli"}
    assert set(shipped.training) == {"config", "summary", "likelihood"}
    rows = digits.test[np.linspace(0, 249, 200).astype(int)]
    found = log_likelihood(saved.model, rows, num_samples=50, key=jax.random.key(4))
    recorded = shipped.training["likelihood"]
    assert recorded["log_p"] == pytest.approx(np.mean(found.log_p, dtype=np.float64))
    assert recorded["error"] == pytest.approx(np.sqrt(np.sum(np.square(found.standard_error))) / 200)
    assert [recorded[name] for name in ("data", "rows", "samples", "seed")] == ["digits", 200, 50, 4]
    # n = 200 rows, 50 draws each, twice: within 4 standard errors (false alarm 6e-5), and 5 of them away when altered.
    assert abs(shipping.deviation(shipped, digits)) < 4
    for shift in (-5, 5):
        other = {**recorded, "log_p": recorded["log_p"] + shift * 2**0.5 * recorded["error"]}
        altered = SavedModel(shipped.model, shipped.config, shipped.data, {**shipped.training, "likelihood": other})
        assert abs(shipping.deviation(altered, digits)) > 3
    with pytest.raises(ValueError, match="expected the data the model was trained on, 'mine'; got 'digits'"):
        shipping.stripped(SavedModel(saved.model, saved.config, {"name": "mine"}), digits)


def test_the_script_ships_a_file(folder, saved):
    save_model(folder / "trained.dlgm", saved)

    def ship(*args):
        return subprocess.run([sys.executable, SHIP, *args], capture_output=True, text=True)

    done = ship(folder / "trained.dlgm", "three", "--samples", "20", "--folder", folder / "models")
    assert done.returncode == 0, done.stderr
    assert load_model("three").training["likelihood"] == load_model("one").training["likelihood"]
    shutil.rmtree(folder / "models")
    for args, words in (
        ([folder / "trained.dlgm", "a/b"], "name: expected a plain name, such as paper-mnist; got 'a/b'."),
        ([folder / "none.dlgm", "three"], "none.dlgm: no such model file."),
    ):
        refused = ship(*args, "--folder", folder / "models")
        assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
        assert words in refused.stderr
    assert not (folder / "models").exists()


@pytest.mark.skipif(not SHIPPED, reason="no models are shipped yet")
@pytest.mark.skipif("DLGM_DATA" not in os.environ, reason="needs DLGM_DATA")
@pytest.mark.parametrize("name", SHIPPED or ["none"])
def test_shipped_models_have_their_likelihood(name):
    """Within 4 combined standard errors of the Monte Carlo estimates; the seed is fixed."""
    saved = load_model(SHIPPED[name])
    assert abs(shipping.deviation(saved, load_dataset(saved.data["name"]))) < 4

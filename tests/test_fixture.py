"""A model file of format version 1, which every later release must read. python -m tests.test_fixture writes it."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

from dlgm.artifact import SavedModel, describe_model, load_model, save_model
from dlgm.inference import log_likelihood
from dlgm.model import Composite, ModelConfig, build_model, make_observation

FOLDER = Path(__file__).parent / "fixtures"
MODEL, EXPECTED = FOLDER / "version-1.dlgm", FOLDER / "version-1.json"
ROWS = np.array([[0.0, 1.5, 3.0], [1.0, -0.5, 0.0]])


def scores(model):
    return log_likelihood(model, ROWS, num_samples=50, key=jax.random.key(0))


def test_it_is_read_and_gives_the_same_answers():
    saved = load_model(MODEL)
    expected = json.loads(EXPECTED.read_text())
    assert saved.config.to_dict()["latent"] == (2, 1)
    assert describe_model(MODEL).parameters == expected["parameters"]
    assert saved.data["name"] == "fixture"
    np.testing.assert_allclose(scores(saved.model).log_p, expected["log_p"], rtol=1e-4)


def test_a_round_trip_and_a_new_process_change_no_bit(tmp_path):
    saved = load_model(MODEL)
    save_model(tmp_path / "once.dlgm", saved)  # with settings that there were not yet when the file was written
    save_model(tmp_path / "again.dlgm", load_model(tmp_path / "once.dlgm"))
    assert (tmp_path / "again.dlgm").read_bytes() == (tmp_path / "once.dlgm").read_bytes()
    before = np.asarray(scores(saved.model).log_p).tobytes().hex()
    program = (
        "import sys, numpy as np; from tests.test_fixture import load_model, scores; "
        "print(np.asarray(scores(load_model(sys.argv[1]).model).log_p).tobytes().hex())"
    )
    after = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "again.dlgm")], capture_output=True, text=True, check=True
    )
    assert after.stdout.strip() == before


def main():
    mixed = Composite(
        [
            (make_observation("bernoulli", columns=1), (0,)),
            (make_observation("gaussian", columns=1), (1,)),
            (make_observation("poisson", columns=1), (2,)),
        ]
    )
    config = ModelConfig(mixed.config(), latent=(2, 1), hidden=(3,), structure="directed")
    model = build_model(config, key=jax.random.key(7))
    FOLDER.mkdir(exist_ok=True)
    save_model(MODEL, SavedModel(model, config, {"name": "fixture", "shape": []}, {"config": {"seed": 7}}))
    expected = {
        "parameters": describe_model(MODEL).parameters,
        "log_p": np.asarray(scores(load_model(MODEL).model).log_p).tolist(),
    }
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()

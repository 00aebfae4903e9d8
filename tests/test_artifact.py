"""The model file: what goes in comes out, and anything else is refused by name."""

import json

import jax
import numpy as np
import pytest
import safetensors

from dlgm.artifact import ModelFileError, SavedModel, load_model, save_model
from dlgm.model import Composite, ModelConfig, build_model, make_observation
from dlgm.tensorfile import read_tensors, write_tensors
from tests.model.cases import POSTERIORS

OBSERVATION = make_observation("bernoulli", columns=4)


def saved(observation=OBSERVATION, **settings):
    config = ModelConfig(observation.config(), **{"latent": (2, 1), "hidden": (3,), **settings})
    model = build_model(config, key=jax.random.key(7))
    return SavedModel(model, config, {"name": "toy", "shape": [2, 2]}, {"config": {"seed": 7}})


@pytest.mark.parametrize(
    "settings",
    [
        *({"covariance": covariance, "structure": structure} for covariance, structure in POSTERIORS),
        {"nonlinearity": ("gated", "tanh"), "skip": True},
        {"nonlinearity": "gated", "linear_path": True, "latent": (2,), "covariance": "cells"},
    ],
)
def test_every_shape_of_model_comes_back(tmp_path, settings):
    before = saved(**settings)
    save_model(tmp_path / "m.dlgm", before)
    after = load_model(tmp_path / "m.dlgm")
    assert (after.config, after.data, after.training) == (before.config, before.data, before.training)
    assert str(jax.tree.structure(after.model)) == str(jax.tree.structure(before.model))
    for a, b in zip(jax.tree.leaves(after.model), jax.tree.leaves(before.model), strict=True):
        np.testing.assert_array_equal(a, b)


def test_families_by_column_come_back(tmp_path):
    mixed = Composite(
        [(make_observation("gaussian", columns=1), (1,)), (make_observation("poisson", columns=2), (0, 2))]
    )
    before = saved(mixed)
    save_model(tmp_path / "m.dlgm", before)
    after = load_model(tmp_path / "m.dlgm")
    assert after.model.generative.observation.config() == mixed.config()


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "m.dlgm"
    save_model(path, saved())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match=r"m\.dlgm: not a dlgm model file \(not a safetensors file, or a damaged"):
        load_model(path)
    path.write_bytes(b"hello")
    with pytest.raises(ModelFileError, match=r"not a dlgm model file \(not a safetensors file, or a damaged"):
        load_model(path)
    with pytest.raises(ModelFileError, match=r"none\.dlgm: no such model file. `dlgm fit` writes one"):
        load_model(tmp_path / "none.dlgm")
    with pytest.raises(ModelFileError, match="not a dlgm model file"):
        load_model(tmp_path)


def rewrite(path, change_tensors=None, **described):
    """The file with changes, and with a digest that fits them: what a forger would write."""
    tensors, before = read_tensors(path)
    (change_tensors or (lambda t: None))(tensors)
    write_tensors(path, tensors, {k: v for k, v in {**before, **described}.items() if v is not None})


FIRST = "generative.networks.0.layers.0.weight"


@pytest.mark.parametrize(
    ("change", "described", "message"),
    [
        (None, {"format": "other"}, "a safetensors file, but not a dlgm model"),
        (None, {"version": "99"}, "format version 99; this release of dlgm reads version 1"),
        (None, {"config": "{"}, "its description of the model cannot be read"),
        (None, {"config": None}, "its description of the model cannot be read"),
        (lambda t: t.pop(FIRST), {}, f"weights and description disagree about {FIRST}"),
        (
            lambda t: t.update({FIRST: np.zeros((1, 1), np.float32)}),
            {},
            rf"{FIRST}: expected float32 of shape \(3, 2\); got float32 of shape \(1, 1\)",
        ),
        (lambda t: t.update({FIRST: t[FIRST] * np.nan}), {}, f"{FIRST}: expected finite weights; some are not"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, change, described, message):
    path = tmp_path / "m.dlgm"
    save_model(path, saved())
    rewrite(path, change, **described)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_the_description_is_plain_json(tmp_path):
    path = tmp_path / "m.dlgm"
    save_model(path, saved())
    with safetensors.safe_open(path, framework="numpy") as file:
        described = file.metadata()
    assert json.loads(described["config"])["latent"] == [2, 1]
    assert json.loads(described["data"]) == {"name": "toy", "shape": [2, 2]}

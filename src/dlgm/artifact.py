"""The model file: weights as safetensors, and beside them, as JSON, what they are. Loading one can never run code."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from dlgm.files import to_json, write_atomically
from dlgm.model import Model, ModelConfig, build_model

FORMAT, VERSION = "dlgm", 1


class ModelFileError(ValueError):
    """A model file that is absent, damaged, or of another format."""


@dataclass(frozen=True)
class SavedModel:
    """A model with everything needed to use it and to know where it came from."""

    model: Model
    config: ModelConfig
    data: dict[str, Any] = field(default_factory=dict)  # name and shape of the data it was trained on
    training: dict[str, Any] = field(default_factory=dict)  # settings, seed, best epoch, diagnostics


def save_model(path: str | Path, saved: SavedModel) -> None:
    """Write one file, whole or not at all."""
    tensors = {name: np.asarray(leaf) for name, leaf in _named_leaves(saved.model).items()}
    described = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": to_json(saved.config.to_dict(), indent=None),
        "data": to_json(saved.data, indent=None),
        "training": to_json(saved.training, indent=None),
    }
    write_atomically(Path(path), safetensors.numpy.save(tensors, described))


def load_model(path: str | Path) -> SavedModel:
    """Read a file that `save_model` wrote; anything else is refused, by name and reason."""
    path = Path(path)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            described = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such model file. `dlgm fit` writes one.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path}: not a dlgm model file, or damaged ({error}).") from None
    if described.get("format") != FORMAT:
        raise ModelFileError(f"{path}: a safetensors file, but not a dlgm model.")
    if described.get("version") != str(VERSION):
        raise ModelFileError(
            f"{path}: format version {described.get('version')}; this release of dlgm reads version {VERSION}."
        )
    try:
        config = ModelConfig.from_dict(json.loads(described["config"]))
        data, training = json.loads(described["data"]), json.loads(described["training"])
        skeleton = eqx.filter_eval_shape(lambda: build_model(config, key=jax.random.key(0)))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: its description of the model cannot be read ({error}).") from None
    wanted = _named_leaves(skeleton)
    if missing := sorted(set(wanted) ^ set(tensors)):
        raise ModelFileError(f"{path}: weights and description disagree about {', '.join(missing[:3])}.")
    for name, leaf in wanted.items():
        if tensors[name].shape != leaf.shape or tensors[name].dtype != leaf.dtype:
            raise ModelFileError(
                f"{path}: {name}: expected {leaf.dtype} of shape {leaf.shape}; "
                f"got {tensors[name].dtype} of shape {tensors[name].shape}."
            )
        if not np.isfinite(tensors[name]).all():
            raise ModelFileError(f"{path}: {name}: expected finite weights; some are not.")
    leaves = [jnp.asarray(tensors[name]) for name in wanted]
    return SavedModel(jax.tree.unflatten(jax.tree.structure(skeleton), leaves), config, data, training)


def _named_leaves(model: Any) -> dict[str, Any]:
    """The arrays by their place in the model, in the tree's order."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(model)
    }


__all__ = ["ModelFileError", "SavedModel", "load_model", "save_model"]

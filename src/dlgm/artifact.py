"""The model file: weights as safetensors, and beside them, as JSON, what they are. Loading one can never run code."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlgm.files import to_json
from dlgm.model import Model, ModelConfig, build_model
from dlgm.tensorfile import TensorFileError, check_tensors, parse_json, read_description, read_tensors, write_tensors

FORMAT, VERSION = "dlgm", 1
SHIPPED = Path(__file__).parent / "models"  # those that come with the package


class ModelFileError(ValueError):
    """A model file that is absent, damaged, or of another format."""


@dataclass(frozen=True)
class SavedModel:
    """A model with everything needed to use it and to know where it came from."""

    model: Model
    config: ModelConfig
    data: dict[str, Any] = field(default_factory=dict)  # name and shape of the data it was trained on
    training: dict[str, Any] = field(default_factory=dict)  # settings, seed, best epoch, diagnostics


@dataclass(frozen=True)
class ModelDescription:
    """What a model file says of itself."""

    config: ModelConfig
    data: dict[str, Any]
    training: dict[str, Any]
    parameters: dict[str, int]  # how many numbers the generative and the recognition model have


def save_model(path: str | Path, saved: SavedModel) -> None:
    """Write one file, whole or not at all."""
    described = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": to_json(saved.config.to_dict(), indent=None),
        "data": to_json(saved.data, indent=None),
        "training": to_json(saved.training, indent=None),
    }
    write_tensors(Path(path), {name: np.asarray(leaf) for name, leaf in _named_leaves(saved.model).items()}, described)


def shipped_models() -> dict[str, Path]:
    """The models that come with this version of dlgm, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.dlgm"))}


def find_model(path: str | Path) -> Path:
    """A model's file: the one that is named or, where there is no such file, a shipped model of that name."""
    path = Path(path)
    return path if path.is_file() else shipped_models().get(str(path), path)


def describe_model(path: str | Path) -> ModelDescription:
    """What a file that `save_model` wrote, or a shipped model, says of itself, without reading the weights."""
    path = find_model(path)
    with _refused(path):
        shapes, text = read_description(path)
    return _describe(path, shapes, text)


def check_model(path: str | Path) -> None:
    """Refuse a file of which a bit has changed since `save_model` wrote it; the weights are read, but not kept."""
    path = find_model(path)
    with _refused(path):
        check_tensors(path)


def load_model(path: str | Path) -> SavedModel:
    """Read a file that `save_model` wrote, or a shipped model by its name; anything else is refused, and why."""
    path = find_model(path)
    with _refused(path):
        tensors, text = read_tensors(path)
    described = _describe(path, {name: array.shape for name, array in tensors.items()}, text)
    try:
        skeleton = eqx.filter_eval_shape(lambda: build_model(described.config, key=jax.random.key(0)))
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
    model = jax.tree.unflatten(jax.tree.structure(skeleton), leaves)
    return SavedModel(model, described.config, described.data, described.training)


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Inside, what cannot be read becomes a message with the file's name."""
    if path.is_dir():
        raise ModelFileError(f"{path}: not a dlgm model file, but a folder.")
    try:
        yield
    except FileNotFoundError:
        names = ", ".join(shipped_models())
        shipped = f" These come with dlgm: {names}." if names else ""
        raise ModelFileError(f"{path}: no such model file. `dlgm fit` writes one.{shipped}") from None
    except TensorFileError as error:
        raise ModelFileError(f"{path}: not a dlgm model file ({error}).") from None


def _describe(path: Path, shapes: Mapping[str, tuple[int, ...]], text: Mapping[str, str]) -> ModelDescription:
    if text.get("format") != FORMAT:
        raise ModelFileError(f"{path}: a safetensors file, but not a dlgm model.")
    if text.get("version") != str(VERSION):
        raise ModelFileError(
            f"{path}: format version {text.get('version')}; this release of dlgm reads version {VERSION}."
        )
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    try:
        values = parse_json(text["config"])
        _check_plausible(values, num_weights=sum(sizes.values()), num_tensors=len(sizes))
        config = ModelConfig.from_dict(values)
        data, training = parse_json(text["data"]), parse_json(text["training"])
        if not isinstance(data, dict) or not isinstance(training, dict):
            raise TypeError("data and training are not objects")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path}: its description of the model cannot be read ({error}).") from None
    parameters = {
        part: sum(size for name, size in sizes.items() if name.startswith(part))
        for part in ("generative", "recognition")
    }
    return ModelDescription(config, data, training, parameters)


def _check_plausible(value: Any, *, num_weights: int, num_tensors: int) -> None:
    """Refuse sizes that the weights cannot have, before anything of such a size is made.

    Every latent, hidden unit and column has a weight, and every layer an array.
    """
    if isinstance(value, Mapping):
        for name, entry in value.items():
            if name in ("latent", "hidden", "recognition_hidden") and (layers := _num_leaves(entry)) > num_tensors:
                raise ValueError(f"{name}: {layers} layers, and {num_tensors} arrays")
            _check_plausible(entry, num_weights=num_weights, num_tensors=num_tensors)
    elif isinstance(value, list):
        for entry in value:
            _check_plausible(entry, num_weights=num_weights, num_tensors=num_tensors)
    elif isinstance(value, int) and abs(value) > max(num_weights, 1024):
        raise ValueError(f"a size beyond its {num_weights} weights")


def _num_leaves(value: Any) -> int:
    return sum(map(_num_leaves, value)) if isinstance(value, list) else 1


def _named_leaves(model: Any) -> dict[str, Any]:
    """The arrays by their place in the model, in the tree's order."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(model)
    }


__all__ = ["ModelDescription", "ModelFileError", "SavedModel", "describe_model", "load_model", "save_model"]

"""MATLAB's mat format, up to version 7, through SciPy."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from dlgm.data.errors import DataFileError, damaged
from dlgm.data.files import open_content


def read_mat(path: Path, names: tuple[str, ...]) -> list[Shaped[np.ndarray, "..."]]:
    """The variables `names` of a mat file, in order."""
    from scipy.io import loadmat

    with open_content(path) as file:
        try:
            content = loadmat(file)
        # What SciPy raises on a damaged file depends on where the damage is: there is no common base.
        except Exception as error:
            raise _not_mat(path, error) from error
    return [_variable(path, name, content) for name in names]


def read_mat_shape(path: Path, name: str) -> tuple[int, ...]:
    """The shape of one variable, without reading it."""
    from scipy.io import whosmat

    with open_content(path) as file:
        try:
            shapes = {found: shape for found, shape, _ in whosmat(file)}
        except Exception as error:
            raise _not_mat(path, error) from error
    return tuple(_variable(path, name, shapes))


def _not_mat(path: Path, error: Exception) -> DataFileError:
    words = " ".join(str(error).split()).rstrip(".")
    return damaged(path, expected="a MATLAB file", got=f"{type(error).__name__}: {words}".rstrip(": "))


def _variable(path: Path, name: str, content: dict[str, Any]) -> Any:
    if name not in content:
        others = ", ".join(sorted(key for key in content if not key.startswith("__")))
        raise damaged(path, expected=f"a variable {name!r}", got=others or "none")
    return content[name]

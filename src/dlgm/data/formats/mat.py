"""MATLAB's mat format: up to version 7 through SciPy; version 7.3, which is HDF5, through h5py if it is installed."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from dlgm.data.content import Content, Reading, content_of_array
from dlgm.data.errors import DataFileError, damaged, one_line
from dlgm.data.files import open_content
from dlgm.data.formats.arrays import choose_key

_HDF5 = b"\x89HDF\r\n\x1a\n"


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


def read_mat_array(path: Path, how: Reading) -> Content:
    """One matrix of a user's mat file: the one there is, or the one that `key` names."""
    from scipy.io import loadmat, whosmat

    if _is_hdf5(path):
        return content_of_array(path, *_read_hdf5(path, how.key))
    try:
        with open_content(path) as file:
            kinds = {name: kind for name, _, kind in whosmat(file)}
            key = choose_key(path, list(kinds), how.key)
            if kinds[key] == "sparse":  # SciPy trusts a file's indices, and crashes on wrong ones
                raise DataFileError(
                    f"{path}: expected variable {key!r} to be a full matrix; got a sparse one. Save full({key})."
                )
            file.seek(0)
            array = loadmat(file, variable_names=[key])[key]
    except DataFileError:
        raise
    except Exception as error:
        raise DataFileError(f"{path}: expected a MATLAB file; got {one_line(error)}.") from error
    return content_of_array(path, np.asarray(array), f"variable {key!r}")


def _is_hdf5(path: Path) -> bool:
    # MATLAB puts 512 bytes of its own before the HDF5 file.
    with open_content(path) as file:
        return _HDF5 in file.read(520)


def _read_hdf5(path: Path, key: str | None) -> tuple[Shaped[np.ndarray, "..."], str]:
    try:
        import h5py
    except ImportError:
        raise DataFileError(
            f"{path}: a MATLAB file of version 7.3 needs h5py, which is not installed. Install it, or save with -v7."
        ) from None
    with open_content(path) as file, h5py.File(file, "r") as content:
        names = [name for name, entry in content.items() if isinstance(entry, h5py.Dataset)]
        key = choose_key(path, names, key)
        return np.asarray(content[key]).T, f"variable {key!r}"  # MATLAB's axes come in reverse


def _not_mat(path: Path, error: Exception) -> DataFileError:
    words = " ".join(str(error).split()).rstrip(".")
    return damaged(path, expected="a MATLAB file", got=f"{type(error).__name__}: {words}".rstrip(": "))


def _variable(path: Path, name: str, content: dict[str, Any]) -> Any:
    if name not in content:
        others = ", ".join(sorted(key for key in content if not key.startswith("__")))
        raise damaged(path, expected=f"a variable {name!r}", got=others or "none")
    return content[name]

"""NumPy's npy and npz formats. Nothing is ever unpickled: an array of Python objects is refused."""

import zipfile
from pathlib import Path

import numpy as np

from dlgm.data.content import Content, Reading, content_of_array
from dlgm.data.errors import DataFileError, listed, one_line
from dlgm.data.files import open_content


def read_npy(path: Path, how: Reading) -> Content:
    """The array of an npy file; a read-only memory map of it if asked for."""
    if how.mmap and path.suffix == ".gz":
        raise DataFileError(f"{path}: a gzipped file cannot be memory-mapped. Unpack it first.")
    try:
        if how.mmap:
            return content_of_array(path, np.load(path, mmap_mode="r", allow_pickle=False))
        with open_content(path) as file:
            return content_of_array(path, np.lib.format.read_array(file, allow_pickle=False))
    except Exception as error:  # NumPy parses the header as Python: damage there can raise anything
        raise _unreadable(path, "an npy file", error) from error


def read_npz(path: Path, how: Reading) -> Content:
    """One array of an npz file: the one there is, or the one that `key` names."""
    with open_content(path) as file:
        if not zipfile.is_zipfile(file):
            raise DataFileError(f"{path}: expected an npz file, which is a zip archive; this is none.")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                key = choose_key(path, archive.files, how.key)
                return content_of_array(path, archive[key], f"array {key!r}")
        except Exception as error:  # and so can damage in an archive
            raise _unreadable(path, "an npz file", error) from error


def choose_key(path: Path, keys: list[str], key: str | None) -> str:
    """The key asked for, or the only one there is."""
    if not keys:
        raise DataFileError(f"{path}: expected an array; the file holds none.")
    if key is None and len(keys) > 1:
        raise DataFileError(f"{path}: holds several arrays; name one (key, --key). There are: {listed(keys)}.")
    if key is not None and key not in keys:
        raise DataFileError(f"{path}: expected an array {key!r}; there are: {listed(keys)}.")
    return keys[0] if key is None else key


def _unreadable(path: Path, expected: str, error: Exception) -> Exception:
    if isinstance(error, DataFileError | PermissionError):
        return error  # which says it already
    if "allow_pickle" in str(error):
        return DataFileError(f"{path}: holds Python objects, which are never loaded. Save an array of numbers.")
    return DataFileError(f"{path}: expected {expected}; got {one_line(error)}.")

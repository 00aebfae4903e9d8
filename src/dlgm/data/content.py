"""What a reader of users' files takes and gives."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from dlgm.data.errors import DataFileError


@dataclass(frozen=True)
class Reading:
    """How a file is to be read. What is None or empty is found out from the file."""

    key: str | None = None  # which array of several
    delimiter: str | None = None
    decimal: str | None = None  # "." or ","
    header: bool | None = None  # whether the first line holds names
    encoding: str | None = None
    missing: tuple[str, ...] = ()  # further words for a hole
    names: tuple[str, ...] = ()  # columns that should be there, by which a header is known
    texts: tuple[str, ...] = ()  # columns that hold texts, even if they look like numbers
    mmap: bool = False  # leave the array on the disk


class Content(NamedTuple):
    """What is in a file."""

    rows: Any  # a pandas DataFrame, or an array of shape (n, x)
    shape: tuple[int, ...] | None = None  # of one row as an image
    notes: tuple[str, ...] = ()  # what the user should know


def content_of_array(path: Path, array: Shaped[np.ndarray, "..."], what: str = "the array") -> Content:
    """An array whose first axis counts rows; whatever axes follow are one row, and an image if they are several."""
    if array.dtype.kind not in "biuf":
        kind = "Python objects, which are never loaded" if array.dtype.kind == "O" else f"dtype {array.dtype}"
        raise DataFileError(f"{path}: expected {what} to hold numbers; got {kind}. Write tables as CSV or Parquet.")
    if not 1 <= array.ndim <= 4:
        raise DataFileError(f"{path}: expected {what} to be rows or images, of 1 to 4 axes; got shape {array.shape}.")
    if array.size == 0:
        raise DataFileError(f"{path}: expected {what} to have at least one row and one column; got {array.shape}.")
    rows = array.reshape(len(array), math.prod(array.shape[1:]))
    return Content(rows, array.shape[1:] if array.ndim > 2 else None)

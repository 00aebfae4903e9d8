"""What a named data set is: rows in three splits, and how one row is an image."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows for training, validation and test, with what a model needs to know about them.

    Every split is `(n, x)`, uint8 for pixels and bits and float32 otherwise. `shape` is one row as an image, `(28, 28)`
    or `(32, 32, 3)`, whose row-major flattening the row is.

    >>> from dlgm.data import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.train.shape, digits.train.dtype, digits.family
    ((1297, 64), dtype('uint8'), 'bernoulli')
    >>> digits.train[0].reshape(digits.shape).shape
    (8, 8)
    """

    name: str
    train: Shaped[np.ndarray, "n x"]
    valid: Shaped[np.ndarray, "n_valid x"]
    test: Shaped[np.ndarray, "n_test x"]
    shape: tuple[int, ...]
    family: str  # the observation family to model it with by default: "bernoulli" or "discretised-logistic"
    labels: dict[str, Int[np.ndarray, "_"]] = field(default_factory=dict)  # class ids by split; empty without classes

    def described(self) -> dict[str, Any]:
        """Name, shape and family, for a model file."""
        return {"name": self.name, "shape": list(self.shape), "family": self.family}

    def __post_init__(self) -> None:
        num_values = math.prod(self.shape)
        for split in SPLITS:
            rows = getattr(self, split)
            if rows.ndim != 2 or rows.shape[1] != num_values:
                raise ValueError(
                    f"Dataset {self.name!r}: expected `{split}` of shape (n, {num_values}), to fill images of shape "
                    f"{self.shape}; got shape {rows.shape}."
                )
            if self.labels and self.labels[split].shape != (len(rows),):
                raise ValueError(
                    f"Dataset {self.name!r}: expected {len(rows)} labels for `{split}`; "
                    f"got shape {self.labels[split].shape}."
                )


def binarised(data: Dataset, above: int = 127) -> Dataset:
    """Grey images in black and white, by default at half of the brightest; sets of bits as they are."""
    if data.family == "bernoulli":
        return data
    bits = {split: (getattr(data, split) > above).astype(np.uint8) for split in SPLITS}
    return replace(data, **bits, family="bernoulli")


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set without loading it."""

    name: str
    description: str
    shape: tuple[int, ...]
    rows: dict[str, int]  # by split; of the files that are there, or as published where they are not
    family: str
    where: str  # "DLGM_DATA", "cache" or "embedded": where its files were found; empty if they are not here yet
    location: str  # the folder its files are in, or would be fetched to; or "embedded"
    files: tuple[str, ...]  # their names in that folder, each of which may end in .gz
    size: int  # bytes to download
    terms: str
    page: str  # where it is published
    found: bool
    note: str = ""  # what is special about the files found

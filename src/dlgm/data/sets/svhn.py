"""Street View House Numbers, cropped: colour photographs of 32 x 32 pixels, each centred on a digit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from dlgm.data.errors import damaged
from dlgm.data.formats.mat import read_mat, read_mat_shape
from dlgm.data.splits import Splits, check_count, check_labels, one_tenth, sizes_of, split_in_order

FILES = ("train_32x32.mat", "test_32x32.mat")
PUBLISHED = (73_257, 26_032)


def load_svhn(paths: Sequence[Path]) -> Splits:
    """Colours from 0 to 255 and labels 0 to 9; the last tenth of the training rows is for validation."""
    images, labels = zip(*(_read_part(path) for path in paths), strict=True)
    sizes = _sizes(paths, [len(some) for some in images])
    return split_in_order(np.concatenate(images), sizes, np.concatenate(labels))


def count_svhn(paths: Sequence[Path]) -> tuple[dict[str, int], str]:
    """The split sizes, and whether they are the published ones."""
    counts = [_check_shape(path, read_mat_shape(path, "X")) for path in paths]
    note = " and ".join(f"{n:,} of {N:,}" for n, N in zip(counts, PUBLISHED, strict=True) if n != N)
    return _sizes(paths, counts), note and f"{note} rows"


def _read_part(path: Path) -> tuple[UInt8[np.ndarray, "n 3072"], Int[np.ndarray, " n"]]:
    X, y = read_mat(path, ("X", "y"))
    num_rows = _check_shape(path, X.shape)
    if X.dtype != np.uint8:
        raise damaged(path, expected="X to be uint8", got=f"{X.dtype}")
    check_count(path, "labels", y.size, num_rows)
    check_labels(path, y.ravel(), 1, 10)
    labels = y.ravel().astype(np.int64) % 10  # a 10 stands for the digit 0
    return X.transpose(3, 0, 1, 2).reshape(num_rows, 32 * 32 * 3), labels


def _check_shape(path: Path, shape: tuple[int, ...]) -> int:
    if len(shape) != 4 or shape[:3] != (32, 32, 3) or shape[3] == 0:
        raise damaged(path, expected="X of shape (32, 32, 3, n)", got=f"{shape}")
    return shape[3]


def _sizes(paths: Sequence[Path], counts: Sequence[int]) -> dict[str, int]:
    num_train, num_test = counts
    num_valid = one_tenth(paths[0], num_train)
    return sizes_of(num_train - num_valid, num_valid, num_test)

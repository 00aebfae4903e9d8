"""MNIST and Fashion-MNIST, which have the same files, and Larochelle's binarised MNIST."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.formats.amat import read_binary_amat
from dlgm.data.formats.idx import read_idx
from dlgm.data.splits import Splits, check_count, check_labels, sizes_of, split_in_order

SIZES = sizes_of(50_000, 10_000, 10_000)
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
AMAT_FILES = ("binarized_mnist_train.amat", "binarized_mnist_valid.amat", "binarized_mnist_test.amat")


def load_mnist(paths: Sequence[Path]) -> Splits:
    """Grey levels and labels; the last 10,000 of the 60,000 training images are for validation."""
    train_images, train_labels, test_images, test_labels = paths
    images, labels = _read_part(train_images, train_labels, 60_000)
    more_images, more_labels = _read_part(test_images, test_labels, 10_000)
    return split_in_order(np.concatenate([images, more_images]), SIZES, np.concatenate([labels, more_labels]))


def load_binarized_mnist(paths: Sequence[Path]) -> Splits:
    """Bits, with the published split."""
    parts = []
    for path, num_rows in zip(paths, SIZES.values(), strict=True):
        rows = read_binary_amat(path, 28 * 28)
        check_count(path, "rows", len(rows), num_rows)
        parts.append(rows)
    train, valid, test = parts
    return Splits(train, valid, test, labels={})


def _read_part(
    images_path: Path, labels_path: Path, num_rows: int
) -> tuple[UInt8[np.ndarray, "n 784"], UInt8[np.ndarray, " n"]]:
    images, labels = read_idx(images_path, (28, 28)), read_idx(labels_path, ())
    check_count(images_path, "images", len(images), num_rows)
    check_count(labels_path, "labels", len(labels), num_rows)
    check_labels(labels_path, labels, 0, 9)
    return images.reshape(num_rows, 28 * 28), labels

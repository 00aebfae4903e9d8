"""Small NORB: stereo pairs of grey photographs of toys, 96 x 96 pixels, in five categories.

Of each pair the first image, the left camera's, is used, at half the size.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from dlgm.data.errors import damaged
from dlgm.data.formats.norb import read_norb
from dlgm.data.splits import Splits, check_count, check_labels, one_tenth, sizes_of, split_in_order

FILES = tuple(
    f"smallnorb-5x{instances}x9x18x6x2x96x96-{part}-{kind}.mat"
    for instances, part in (("46789", "training"), ("01235", "testing"))
    for kind in ("dat", "cat")
)


def load_small_norb(paths: Sequence[Path]) -> Splits:
    """Grey levels and categories 0 to 4; the last tenth of the training rows is for validation."""
    train_images, train_labels, test_images, test_labels = paths
    images, labels = _read_part(train_images, train_labels)
    more_images, more_labels = _read_part(test_images, test_labels)
    num_valid = one_tenth(train_images, len(images))
    sizes = sizes_of(len(images) - num_valid, num_valid, len(more_images))
    return split_in_order(np.concatenate([images, more_images]), sizes, np.concatenate([labels, more_labels]))


def _read_part(images_path: Path, labels_path: Path) -> tuple[UInt8[np.ndarray, "n 2304"], Int[np.ndarray, " n"]]:
    pairs, labels = read_norb(images_path, "u1", 4), read_norb(labels_path, "<i4", 1)
    if pairs.shape[1:] != (2, 96, 96) or len(pairs) == 0:
        raise damaged(images_path, expected="shape (n, 2, 96, 96)", got=f"{pairs.shape}")
    check_count(labels_path, "labels", len(labels), len(pairs))
    check_labels(labels_path, labels, 0, 4)
    return _halve(pairs[:, 0]).reshape(len(pairs), 48 * 48), labels


def _halve(images: UInt8[np.ndarray, "n 96 96"]) -> UInt8[np.ndarray, "n 48 48"]:
    """The mean of each block of 2 x 2 pixels, rounded to the nearest, halves up."""
    total = np.full((len(images), 48, 48), 2, np.uint16)
    for row in (0, 1):
        for column in (0, 1):
            total += images[:, row::2, column::2]
    return (total // 4).astype(np.uint8)

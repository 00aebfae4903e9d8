"""CIFAR-10, colour photographs of 32 x 32 pixels, and small patches of them.

Any of the five training batches will do. The last tenth of the training rows is for validation. Without the test batch
the last tenth of the rows that are there becomes the test set, before validation takes its tenth of the rest.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.dataset import SPLITS
from dlgm.data.files import present_files
from dlgm.data.formats.cifar import count_cifar, read_cifar
from dlgm.data.splits import Splits, check_labels, one_tenth, sizes_of, split_in_order

TEST_FILE = "test_batch.bin"
FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), TEST_FILE)

PATCH = 8  # pixels a side
PATCHES_AN_IMAGE = 5
MOST_PATCHES = sizes_of(50_000, 5_000, 5_000)


def find_cifar10(folder: Path, names: Sequence[str]) -> list[Path]:
    """Those of the files that are there, the test batch last; none unless a training batch is among them."""
    *batches, test = names
    found = present_files(folder, batches)
    return found + present_files(folder, [test]) if found else []


def load_cifar10(paths: Sequence[Path]) -> Splits:
    """Colours from 0 to 255, red, green and blue of a pixel together, and labels."""
    images, labels = [], []
    for path in paths:
        some_images, some_labels = read_cifar(path)
        check_labels(path, some_labels, 0, 9)
        images.append(some_images.reshape(len(some_images), -1))
        labels.append(some_labels)
    sizes = _sizes(paths, [len(some) for some in images])
    return split_in_order(np.concatenate(images), sizes, np.concatenate(labels))


def count_cifar10(paths: Sequence[Path]) -> tuple[dict[str, int], str]:
    """The split sizes, and which batches they come from."""
    num_batches = len(paths) - _has_test(paths)
    note = "" if num_batches == 5 else f"{num_batches} of 5 training batches"
    if not _has_test(paths):
        note += ", no test batch" if note else "no test batch"
    return _sizes(paths, [count_cifar(path) for path in paths]), note


def load_cifar10_patches(paths: Sequence[Path]) -> Splits:
    """Patches of 8 x 8 pixels at random places: the same ones every time, each split's from its own images."""
    images = load_cifar10(paths)
    train, valid, test = (
        _cut_patches(getattr(images, split).reshape(-1, 32, 32, 3), MOST_PATCHES[split], seed)
        for seed, split in enumerate(SPLITS)
    )
    return Splits(train, valid, test, labels={})


def count_cifar10_patches(paths: Sequence[Path]) -> tuple[dict[str, int], str]:
    """The split sizes, and which batches they come from."""
    sizes, note = count_cifar10(paths)
    return {split: min(PATCHES_AN_IMAGE * sizes[split], MOST_PATCHES[split]) for split in SPLITS}, note


def _cut_patches(images: UInt8[np.ndarray, "n 32 32 3"], most: int, seed: int) -> UInt8[np.ndarray, "m 192"]:
    rng = np.random.default_rng(seed)
    which = rng.permutation(PATCHES_AN_IMAGE * len(images))[:most] // PATCHES_AN_IMAGE
    top, left = rng.integers(0, 32 - PATCH + 1, (2, len(which)))
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
    patches = windows[which, top, left]  # colours come before the window's rows and columns
    return patches.transpose(0, 2, 3, 1).reshape(len(which), PATCH * PATCH * 3)


def _sizes(paths: Sequence[Path], counts: Sequence[int]) -> dict[str, int]:
    if _has_test(paths):
        num_train, num_test = sum(counts[:-1]), counts[-1]
    else:
        num_test = one_tenth(paths[-1], sum(counts))
        num_train = sum(counts) - num_test
    num_valid = one_tenth(paths[0], num_train)
    return sizes_of(num_train - num_valid, num_valid, num_test)


def _has_test(paths: Sequence[Path]) -> bool:
    return paths[-1].name.startswith(TEST_FILE)

"""Dividing rows into training, validation and test."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from dlgm.data.dataset import SPLITS
from dlgm.data.errors import damaged


class Splits(NamedTuple):
    """The rows of each split and, where there are classes, their labels."""

    train: Shaped[np.ndarray, "n x"]
    valid: Shaped[np.ndarray, "n_valid x"]
    test: Shaped[np.ndarray, "n_test x"]
    labels: dict[str, Int[np.ndarray, "_"]]


def split_in_order(
    rows: Shaped[np.ndarray, "n x"], sizes: dict[str, int], labels: Shaped[np.ndarray, " n"] | None = None
) -> Splits:
    """The first rows for training, those after them for validation, the last for test."""
    cuts = np.cumsum([sizes[split] for split in SPLITS])[:-1]
    train, valid, test = np.split(rows, cuts)
    if labels is None:
        return Splits(train, valid, test, {})
    parts = np.split(labels.astype(np.int64), cuts)
    return Splits(train, valid, test, dict(zip(SPLITS, parts, strict=True)))


def sizes_of(train: int, valid: int, test: int) -> dict[str, int]:
    """The number of rows of each split, by its name."""
    return dict(zip(SPLITS, (train, valid, test), strict=True))


def one_tenth(path: Path, num_rows: int) -> int:
    """How many of the rows read from `path` to hold out."""
    if num_rows < 10:
        raise damaged(path, expected="at least 10 rows, to hold out a tenth", got=f"{num_rows}")
    return num_rows // 10


def split_at_random(
    num_rows: int, share: float, seed: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n_valid"]]:
    """The numbers of the rows to train on and of those to hold out, `share` of all; each in order, at least one."""
    if not 0 < share < 1:
        raise ValueError(f"Expected a share of the rows above 0 and below 1; got {share}.")
    if num_rows < 2:
        raise ValueError(f"Expected at least 2 rows, one to train on and one to hold out; got {num_rows}.")
    held_out = min(max(1, round(share * num_rows)), num_rows - 1)
    order = np.random.default_rng(seed).permutation(num_rows)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def check_count(path: Path, what: str, got: int, expected: int) -> None:
    """Refuse a file with a different number of things than expected."""
    if got != expected:
        raise damaged(path, expected=f"{expected:,} {what}", got=f"{got:,}")


def check_labels(path: Path, labels: Shaped[np.ndarray, " n"], smallest: int, largest: int) -> None:
    """Refuse class ids out of range."""
    wrong = labels[~np.isin(labels, np.arange(smallest, largest + 1))]
    if wrong.size:
        raise damaged(path, expected=f"labels from {smallest} to {largest}", got=f"{wrong[0]}")

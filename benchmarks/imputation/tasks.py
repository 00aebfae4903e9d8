"""The tables, and which of their cells are hidden.

A table is an array of numbers, with codes 0, 1, .. where a column holds categories or ordered levels: every method is
given the same array, and the kinds of its columns.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

MASKS = 5  # different ones for each table
SHARE = 0.5  # of the cells that is hidden where we hide them


@dataclass(frozen=True)
class Task:
    """Rows to learn from and to fill, the truth behind their holes, and rows that are met after training only."""

    table: str
    holes: str
    seed: int
    kinds: tuple[str, ...]  # of each column: number, ordinal or category
    levels: tuple[int, ...]  # of each column that is not a number; else 0
    truth: np.ndarray
    hidden: np.ndarray  # cells that are scored
    absent: np.ndarray  # cells whose truth nobody knows
    new: np.ndarray | None = None  # the truth of the rows met later
    new_hidden: np.ndarray | None = None
    target: np.ndarray | None = None  # what a regressor or a classifier is to tell from the rows
    new_target: np.ndarray | None = None

    @property
    def rows(self) -> np.ndarray:
        """What a method is given."""
        return np.where(self.hidden | self.absent, np.nan, self.truth)

    @property
    def new_rows(self) -> np.ndarray:
        """What a method is given later."""
        assert self.new is not None
        assert self.new_hidden is not None
        return np.where(self.new_hidden, np.nan, self.new)


def folder() -> Path:
    """Where the tables are that do not come with scikit-learn."""
    return Path(os.environ.get("DLGM_DATA", "data")) / "tables"


def _breast() -> tuple[np.ndarray, np.ndarray]:
    return datasets.load_breast_cancer(return_X_y=True)


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    return datasets.load_diabetes(return_X_y=True)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    return datasets.load_digits(return_X_y=True)


def _white_wine() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(folder() / "winequality-white.csv", sep=";")
    return frame.to_numpy(float), frame["quality"].to_numpy(float)  # the quality is one of the columns


def _yeast() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(folder() / "yeast.data", sep=r"\s+", header=None)
    return frame.iloc[:, 1:-1].to_numpy(float), pd.factorize(frame.iloc[:, -1])[0]


NUMBERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast": _breast,
    "white wine": _white_wine,
    "yeast": _yeast,
    "diabetes": _diabetes,
    "digits": _digits,
}
DOWNSTREAM = {"breast": "classifier", "yeast": "classifier", "diabetes": "regressor"}
MIXED = {"adult, mixed": "adult", "breast, mixed": "breast"}
FROZEN = tuple(f"{share}_{i}" for share in (20, 50) for i in (1, 2, 3))


def numbers(table: str, seed: int) -> Task:
    """The protocol of MIWAE's paper: z-scores, and exactly half of all cells hidden completely at random."""
    truth = z_scored(NUMBERS[table]()[0])
    hidden = hide(truth.shape, seed)
    absent = np.zeros_like(hidden)
    return Task(table, "half at random", seed, *_all_numbers(truth), truth, hidden, absent)


def unseen(table: str, seed: int) -> Task:
    """A fifth of the rows is kept back, with its holes, till training is over."""
    values, target = NUMBERS[table]()
    stratify = target if DOWNSTREAM[table] == "classifier" else None
    if stratify is not None and np.bincount(stratify).min() < 2:
        stratify = None
    split = train_test_split(values, target, test_size=0.2, random_state=seed, stratify=stratify)
    mean, scale = split[0].mean(axis=0), split[0].std(axis=0)
    seen, new = (split[0] - mean) / scale, (split[1] - mean) / scale
    hidden = hide((len(values), values.shape[1]), seed)
    absent = np.zeros(seen.shape, bool)
    parts = hidden[: len(seen)], absent, new, hidden[len(seen) :]
    return Task(table, "half at random, new rows", seed, *_all_numbers(seen), seen, *parts, split[2], split[3])


def mixed(table: str, mask: str) -> Task:
    """Mixed types and frozen masks, as they come with HI-VAE's paper; codes there start from 1, and here from 0."""
    where = folder() / MIXED[table]
    truth = pd.read_csv(where / "data.csv", header=None).to_numpy(float)
    described = pd.read_csv(where / "data_types.csv")
    kinds = tuple({"cat": "category", "ordinal": "ordinal"}.get(kind, "number") for kind in described["type"])
    levels = []
    for i, kind in enumerate(kinds):
        levels.append(0 if kind == "number" else int(described["nclass"][i]))
        if kind != "number":
            known = ~np.isnan(truth[:, i])
            truth[:, i] -= truth[known, i].min()
    absent = _cells(where / "MissingTrue.csv", truth.shape) | np.isnan(truth)
    hidden = _cells(where / f"Missing{mask}.csv", truth.shape) & ~absent
    return Task(table, f"{mask[:2]} %", int(mask[3:]), kinds, tuple(levels), truth, hidden, absent)


def hide(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Exactly the share of all cells."""
    number = shape[0] * shape[1]
    hidden = np.zeros(number, bool)
    hidden[np.random.default_rng(seed).permutation(number)[: int(SHARE * number)]] = True
    return hidden.reshape(shape)


def z_scored(values: np.ndarray) -> np.ndarray:
    """Mean zero and variance one; constant columns are zero."""
    scale = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def _all_numbers(truth: np.ndarray) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return ("number",) * truth.shape[1], (0,) * truth.shape[1]


def _cells(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(shape, bool)
    pairs = pd.read_csv(path, header=None).to_numpy(int) - 1
    found[pairs[:, 0], pairs[:, 1]] = True
    return found

"""Rows of mixed kinds as the numbers that classical methods take, and back."""

import numpy as np


class Coded:
    """Numbers and ordered codes scaled to unit variance, categories as one-hot columns, missing all together."""

    def __init__(self, rows: np.ndarray, kinds: tuple[str, ...], levels: tuple[int, ...]) -> None:
        self.kinds, self.levels = kinds, levels
        self.center, self.scale = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        self.scale[~(self.scale > 0)] = 1.0

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The matrix."""
        parts = []
        for i, kind in enumerate(self.kinds):
            if kind == "category":
                hot = (rows[:, i, None] == np.arange(self.levels[i])).astype(float)
                parts.append(np.where(np.isnan(rows[:, i, None]), np.nan, hot))
            else:
                parts.append(((rows[:, i] - self.center[i]) / self.scale[i])[:, None])
        return np.hstack(parts)

    def decode(self, matrix: np.ndarray) -> np.ndarray:
        """The rows: the largest of a category's columns, the nearest level."""
        rows, at = np.empty((len(matrix), len(self.kinds))), 0
        for i, kind in enumerate(self.kinds):
            if kind == "category":
                rows[:, i] = np.argmax(matrix[:, at : at + self.levels[i]], axis=1)
                at += self.levels[i]
            else:
                rows[:, i] = matrix[:, at] * self.scale[i] + self.center[i]
                at += 1
            if kind == "ordinal":
                rows[:, i] = np.clip(np.rint(rows[:, i]), 0, self.levels[i] - 1)
        return rows


def kept(rows: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Observed cells as they are, and fills in the holes."""
    return np.where(np.isnan(rows), filled, rows)

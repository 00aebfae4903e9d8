"""A table with holes, as numpy: its checks, and the column statistics that families start from."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Cells(NamedTuple):
    """The cells of a table: `values` as they came, `observed` true where they count."""

    values: Float[np.ndarray, "n x"]
    observed: Bool[np.ndarray, "n x"]
    start: int = 0  # the number of the first row, for messages

    def of(self, columns: Any) -> "Cells":
        """Some of the columns."""
        return Cells(self.values[:, columns], self.observed[:, columns], self.start)

    def thinned(self, at_most: int = 10_000) -> "Cells":
        """Evenly spaced rows, for fits that iterate."""
        step = -(-max(len(self.values), 1) // at_most)
        return Cells(self.values[::step], self.observed[::step])

    @property
    def sizes(self) -> Float[np.ndarray, " x"]:
        """How many cells of each column were observed."""
        return self.observed.sum(axis=0).astype(float)

    def total(self, values: np.ndarray) -> Float[np.ndarray, " x"]:
        """Each column's sum of `values`, one for each cell, over the observed ones."""
        return np.asarray(np.sum(values, axis=0, where=self.observed, dtype=np.float64))

    def moments(self) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
        """Mean and variance by column; 0 where nothing was observed, and 1 with fewer than two cells."""
        count = np.maximum(self.sizes, 1)
        mean = self.total(self.values) / count
        variance = self.total((np.where(self.observed, self.values, 0) - mean) ** 2) / count
        return mean, np.where(self.sizes < 2, 1.0, variance)

    def refuse(self, owner: str, expected: str, bad: np.ndarray, numbers: np.ndarray, advice: str) -> None:
        """A `ValueError` about the first observed cell that is bad, if there is one."""
        bad = bad & self.observed
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"{owner}: expected {expected} in every observed cell; got {float(self.values[row, column])} "
                f"at row {row + self.start}, column {int(numbers[column])}. {advice}"
            )

    def refuse_non_finite(self, owner: str, numbers: np.ndarray) -> None:
        """Refuse NaN and infinity."""
        self.refuse(owner, "a number", np.isnan(self.values), numbers, "Mark it missing in the mask.")
        self.refuse(owner, "finite numbers", np.isinf(self.values), numbers, "Mark it missing in the mask, or mend it.")


def as_cells(owner: str, columns: int, rows: Any, mask: Any) -> Cells:
    """Rows and mask as arrays of one shape, or a `ValueError`."""
    values = np.asarray(rows)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: expected rows of real numbers; got dtype {values.dtype}.")
    if values.ndim != 2 or values.shape[1] != columns:
        raise ValueError(f"{owner}: expected rows of {columns} values, shape (n, {columns}); got shape {values.shape}.")
    if values.dtype.kind != "f":
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    if mask is None:
        return Cells(values, np.ones(values.shape, bool))
    observed = np.asarray(mask)
    if observed.shape != values.shape or observed.dtype != bool:
        raise ValueError(
            f"{owner}: expected `mask` of booleans, true where observed, of the rows' shape {values.shape}; "
            f"got shape {observed.shape} of {observed.dtype}."
        )
    return Cells(values, observed)

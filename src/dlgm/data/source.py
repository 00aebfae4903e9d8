"""Rows that are read a part at a time, so that there may be more of them than memory holds."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Shaped


@runtime_checkable
class RowSource(Protocol):
    """Rows that are read a part at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        ...

    def read(self, index: Int[np.ndarray, " k"]) -> tuple[Shaped[np.ndarray, "k x"], Bool[np.ndarray, "k x"] | None]:
        """The rows with these numbers, which rise, and what of them was observed; `None`, always, for all of it."""
        ...


class ArraySource:
    """A source of the rows of an array, for instance one that is mapped into memory and stays on the disk.

    Without a mask, NaN means a hole; `complete` says that there is none. (Finding out would mean to read everything.)
    """

    def __init__(
        self, rows: Shaped[np.ndarray, "n x"], mask: Bool[np.ndarray, "n x"] | None = None, *, complete: bool = False
    ) -> None:
        self.rows, self.mask = rows, mask
        self._searched = mask is None and rows.dtype.kind == "f" and not complete

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.rows.shape

    def read(self, index: Int[np.ndarray, " k"]) -> tuple[Shaped[np.ndarray, "k x"], Bool[np.ndarray, "k x"] | None]:
        """The rows with these numbers."""
        rows = np.asarray(self.rows[index])
        if self._searched:
            return rows, ~np.isnan(rows)
        return rows, None if self.mask is None else np.asarray(self.mask[index])


def rows_named(
    index: Int[np.ndarray, " k"], check: Callable[..., tuple[Any, Any]], rows: Any, mask: Any
) -> tuple[Any, Any]:
    """`check(rows, mask)`; a row that it refuses is named by its number in the source, from `index`."""
    try:
        return check(rows, mask)
    except ValueError:
        for i, number in enumerate(index):
            check(rows[i : i + 1], None if mask is None else mask[i : i + 1], start=int(number))
        raise

"""What goes wrong with data, each a message of one line."""

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any


class DataError(Exception):
    """A data set cannot be had. The message is for the person at the keyboard."""


class DataNotFoundError(DataError, FileNotFoundError):
    """A data set's file is not where it was looked for."""


class DataFileError(DataError, ValueError):
    """A file does not hold what its format promises, or what can be made rows of."""


class DataFetchError(DataError, OSError):
    """A data set's file could not be fetched, or not be written."""


class UnknownDatasetError(DataError, ValueError):
    """No data set has this name."""


class SchemaError(DataError, ValueError):
    """A schema is not what it should be, or rows do not fit it."""


class CellError(SchemaError):
    """A cell that its column cannot hold, in `row`, counted from 0."""

    def __init__(self, column: str, expected: str, got: str, row: int, advice: str) -> None:
        super().__init__(
            f"column {column!r}: expected {expected}; got {got} in row {row + 1:,} (counting from 1). {advice}"
        )
        self.row = row
        self._rest = column, expected, got, advice

    def at(self, row: int) -> "CellError":
        """The same cell, of a part of a table, by its row in the whole."""
        column, expected, got, advice = self._rest
        return CellError(column, expected, got, row, advice)


def damaged(path: Path, *, expected: str, got: str) -> DataFileError:
    """The error to raise for a file that is not what it should be."""
    return DataFileError(f"{path}: expected {expected}; got {got}. Fetch the file again.")


def one_line(error: Exception) -> str:
    """Another library's words on what went wrong, fit to stand inside a message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")


def listed(names: "list[str] | tuple[str, ...]", most: int = 10) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def first_twin(values: Iterable[Hashable]) -> tuple[Any, ...]:
    """The first value that has come before, alone in a tuple; an empty one if there is none."""
    seen = set()
    for value in values:
        if value in seen:
            return (value,)
        seen.add(value)
    return ()

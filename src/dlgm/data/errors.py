"""What goes wrong with data, each a message of one line."""

from pathlib import Path


class DataError(Exception):
    """A data set cannot be had. The message is for the person at the keyboard."""


class DataNotFoundError(DataError, FileNotFoundError):
    """A data set's file is not where it was looked for."""


class DataFileError(DataError, ValueError):
    """A data set's file does not hold what its format promises."""


class DataFetchError(DataError, OSError):
    """A data set's file could not be fetched, or not be written."""


class UnknownDatasetError(DataError, ValueError):
    """No data set has this name."""


def damaged(path: Path, *, expected: str, got: str) -> DataFileError:
    """The error to raise for a file that is not what it should be."""
    return DataFileError(f"{path}: expected {expected}; got {got}. Fetch the file again.")

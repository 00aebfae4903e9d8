"""Where the published files are, and opening them whether or not they are gzipped."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from dlgm.data.errors import DataNotFoundError, damaged

VARIABLE = "DLGM_DATA"
CACHE_VARIABLE = "DLGM_CACHE"


def data_folder() -> Path | None:
    """The folder that `DLGM_DATA` names, with a folder for each data set in it; None if it names none."""
    root = os.environ.get(VARIABLE)
    if not root:
        return None
    if not Path(root).is_dir():
        raise DataNotFoundError(
            f"Expected {VARIABLE} to name a folder; got {root}. Set it to the folder that has the data sets' folders "
            "in it, or unset it."
        )
    return Path(root)


def cache_folder() -> Path:
    """The folder where fetched files are kept: what `DLGM_CACHE` names, or the system's place for such things."""
    root = os.environ.get(CACHE_VARIABLE)
    if root:
        return Path(root)
    import pooch

    return Path(pooch.os_cache("dlgm"))


def find_files(folder: Path, names: Sequence[str]) -> list[Path]:
    """All of the files in a folder, each as `name` or `name.gz`; an empty list unless all are there."""
    found = present_files(folder, names)
    return found if len(found) == len(names) else []


def present_files(folder: Path, names: Sequence[str]) -> list[Path]:
    """Those of the files that are there."""
    candidates = ((folder / name, folder / f"{name}.gz") for name in names)
    return [next(path for path in pair if path.is_file()) for pair in candidates if any(p.is_file() for p in pair)]


@contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """The file's content as a binary stream, decompressed if its name ends in .gz."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as stream:
            yield cast(IO[bytes], stream)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, expected="a whole gzip file", got=f"{type(error).__name__}: {error}".rstrip(".")) from error


def read_content(path: Path) -> bytes:
    """All of the file's content."""
    with open_content(path) as file:
        return file.read()


def content_size(path: Path) -> int:
    """How many bytes of content the file has."""
    with open_content(path) as file:
        return file.seek(0, os.SEEK_END)

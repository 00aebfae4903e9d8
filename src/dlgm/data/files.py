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


def expected_folder(name: str) -> str:
    """Where the data set folder `name` belongs, as a person would write it."""
    root = os.environ.get(VARIABLE)
    return str(Path(root) / name) if root else f"${VARIABLE}/{name}"


def find_file(name: str) -> Path:
    """The file `name`, or `name.gz`, in the folder that `DLGM_DATA` names."""
    root = os.environ.get(VARIABLE)
    if not root:
        raise DataNotFoundError(
            f"Looked for {name} (or {name}.gz), but {VARIABLE} is not set. Set it to the folder that has {name} in it."
        )
    if not Path(root).is_dir():
        raise DataNotFoundError(
            f"Looked for {name} (or {name}.gz) in {root}, which is no folder. "
            f"Set {VARIABLE} to the folder that has {name} in it."
        )
    for path in (Path(root, name), Path(root, f"{name}.gz")):
        if path.is_file():
            return path
    raise DataNotFoundError(
        f"Looked for {name} (or {name}.gz) in {root}, and it is not there. "
        f"Put it there, or set {VARIABLE} to the folder that has it."
    )


def find_files(names: Sequence[str]) -> list[Path]:
    """All of the files, in order."""
    return [find_file(name) for name in names]


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

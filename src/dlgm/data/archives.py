"""Unpacking an archive without trusting it."""

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from dlgm.data.errors import damaged


def unpack(archive: Path, members: Iterable[str], folder: Path) -> None:
    """Write the `members` of a tar.gz file, and nothing else that is in it, to `folder`.

    The names are the caller's, never the archive's, so nothing can be written elsewhere. A member has to be a plain
    file: a link could stand for any file there is.
    """
    missing = set(members)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for entry in tar:
                if entry.name not in missing:
                    continue
                content = tar.extractfile(entry) if entry.isreg() else None
                if content is None:
                    raise damaged(archive, expected=f"{entry.name} to be a plain file", got="a link or a folder")
                missing.remove(entry.name)
                path = folder / entry.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        words = " ".join(str(error).split()).rstrip(".")
        raise damaged(archive, expected="a whole tar.gz file", got=f"{type(error).__name__}: {words}") from error
    if missing:
        raise damaged(archive, expected=f"{', '.join(sorted(missing))} in it", got="an archive without")

"""Fetching published files into the cache: whole and right under their names, or not there at all.

A file is downloaded into a folder of its own beside its place, compared with its checksum (or read, where none is
known) and only then renamed. Whatever happens before that, the place holds what it held before.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from dlgm.data.archives import unpack
from dlgm.data.bars import download_bar
from dlgm.data.errors import DataError, DataFetchError, DataFileError, DataNotFoundError
from dlgm.data.sources import PublishedFile, Source, size_in_words
from dlgm.files import flush_folder
from dlgm.locking import only_one

OFFLINE_VARIABLE = "DLGM_OFFLINE"
PARTIAL = ".partial-"
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces
PIECE = 2**18  # bytes

Check = Callable[[Path], object]


def forbidden() -> bool:
    """Whether `DLGM_OFFLINE` forbids fetching."""
    return os.environ.get(OFFLINE_VARIABLE, "").lower() not in ("", "0", "false", "no")


def to_stderr(line: str) -> None:
    """Tell the person at the keyboard."""
    print(line, file=sys.stderr, flush=True)


def silence(line: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Fetcher:
    """How to fetch: what is allowed, whom to tell, how patient to be."""

    offline: bool = field(default_factory=forbidden)
    tell: Callable[[str], None] = to_stderr
    bars: bool = True  # progress bars, if stderr is a terminal
    pauses: tuple[float, ...] = (1.0, 4.0)  # seconds before the second and the third round over the mirrors
    sleep: Callable[[float], None] = time.sleep

    def fetch(self, source: Source, root: Path, *, check: Check | None = None, force: bool = False) -> bool:
        """See to it that all files of `source` are in its folder of `root`, whole; true if any had to be fetched.

        Files that are there are compared with their checksums. `check` raises `DataFileError` for a file that is not
        what it should be; it stands in for a checksum. With `force` everything is fetched anew.
        """
        folder = root / source.folder
        wanted = source.files if force else _lacking(source, folder, check, self.tell)
        if not wanted:
            return False
        if self.offline:
            wanted = [file for file in wanted if not _by_hand(folder, file)]
            if wanted:
                raise DataNotFoundError(_offline(source, folder, wanted))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with only_one(folder / ".lock", lambda: self.tell(f"Another process is fetching {source.name}.")) as alone:
                if alone:  # then nobody is using these
                    for left in folder.glob(f"{PARTIAL}*"):
                        rmtree(left, ignore_errors=True)
                wanted = source.files if force else _lacking(source, folder, check)
                if wanted and not self.offline:
                    self.tell(
                        f"Fetching {source.name}: {size_in_words(sum(file.size for file in wanted))} from "
                        f"{source.addresses()[0]} to {folder}. Terms: {source.terms}, see {source.page}"
                    )
                for file in wanted:
                    self._install(source, file, folder, check)
        except DataError:
            raise
        except OSError as error:
            raise DataFetchError(
                f"{source.name}: cannot write to {folder}: {error.strerror or error}. Make room or give permission "
                "there, or set DLGM_CACHE to another folder."
            ) from error
        return bool(wanted)  # unless another process was quicker

    def _install(self, source: Source, file: PublishedFile, folder: Path, check: Check | None) -> None:
        with TemporaryDirectory(prefix=PARTIAL, dir=folder, ignore_cleanup_errors=True) as scratch:
            staging = Path(scratch)
            if _by_hand(folder, file):
                unpack(folder / file.name, file.members, staging)
            else:
                self._download(source, file, staging, folder, check)
                if file.members:
                    unpack(staging / file.name, file.members, staging)
            if file.members:
                for name, sha256 in file.members.items():
                    _verify(staging / name, sha256, check)
            for name in file.kept:
                _move(staging / name, folder / name)

    def _download(self, source: Source, file: PublishedFile, staging: Path, folder: Path, check: Check | None) -> None:
        """To `staging`, from the first mirror that has it; all are tried in turn, and again after a pause."""
        addresses = [f"{mirror}{file.name}" for mirror in source.addresses()]
        reasons: dict[str, str] = {}
        path = staging / file.name
        for pause in (None, *self.pauses):
            if pause is not None and addresses:
                self.tell(f"Trying again in {pause:g} s.")
                self.sleep(pause)
            for address in list(addresses):
                reason, hopeless = self._attempt(address, path, file, check)
                if reason is None:
                    return
                reasons[address] = reason
                self.tell(f"{address}: {reason}.")
                if hopeless:
                    addresses.remove(address)
        failures = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        raise DataFetchError(
            f"{source.name}: could not fetch {file.name}: {failures}. Try later, or put it in {folder} by hand."
        )

    def _attempt(self, address: str, path: Path, file: PublishedFile, check: Check | None) -> tuple[str | None, bool]:
        """Download and verify: None, or why not and whether that is final."""
        from requests import RequestException

        try:
            self._transfer(address, path)
            # An archive is checked by what is in it, unless its own checksum is known.
            _verify(path, file.sha256, None if file.members else check)
        except (RequestException, ConnectionError, TimeoutError) as error:
            return _why(error)
        except DataFileError as error:
            return str(error).removeprefix(f"{path}: ").removesuffix(". Fetch the file again."), True
        return None, False

    def _transfer(self, address: str, path: Path) -> None:
        import pooch

        answers: list[Any] = []

        def as_published(answer: Any, *args: Any, **kwargs: Any) -> None:
            """Keep a gzipped file gzipped: some servers declare it a way of sending, to be undone on arrival."""
            answers.append(answer)
            answer.raw.headers.pop("Content-Encoding", None)

        with download_bar(path.name, shown=self.bars) as bar:
            download = pooch.HTTPDownloader(
                progressbar=bar,
                chunk_size=PIECE,
                timeout=TIMEOUT,
                headers={"Accept-Encoding": "identity"},
                hooks={"response": as_published},
            )
            try:
                download(address, str(path), None)
            finally:
                for answer in answers:
                    answer.close()


def _lacking(
    source: Source, folder: Path, check: Check | None, tell: Callable[[str], None] | None = None
) -> list[PublishedFile]:
    """The published files of which something is missing from the folder, or damaged."""
    lacking = []
    for file in source.files:
        try:
            for name, sha256 in file.kept.items():
                _verify(folder / name, sha256, check)
        except FileNotFoundError:
            lacking.append(file)
        except DataFileError as error:
            lacking.append(file)
            if tell:
                tell(str(error).removesuffix(" Fetch the file again."))
    return lacking


def _verify(path: Path, sha256: str | None, check: Check | None) -> None:
    """Raise `FileNotFoundError` or `DataFileError` unless the file is there and what it should be."""
    if not path.is_file():
        raise FileNotFoundError(path)
    if sha256 is not None:
        import pooch

        got = pooch.file_hash(str(path), alg="sha256")
        if got != sha256:
            raise DataFileError(f"{path}: expected SHA-256 {sha256}; got {got}. Fetch the file again.")
    elif check is not None:
        check(path)


def _by_hand(folder: Path, file: PublishedFile) -> bool:
    """Whether a person has put this archive, whole, where its files belong."""
    if not (file.members and (folder / file.name).is_file()):
        return False
    try:
        _verify(folder / file.name, file.sha256, None)
    except DataFileError:
        return False
    return True


def _move(staged: Path, path: Path) -> None:
    """Rename into place, once the content is sure to be on the disk."""
    with staged.open("rb+") as file:
        os.fsync(file.fileno())
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(staged, path)
    flush_folder(path.parent)


def _offline(source: Source, folder: Path, wanted: Sequence[PublishedFile]) -> str:
    names = ", ".join(file.name for file in wanted)
    inner = Path(source.folder, next(iter(source.files[0].kept))).parent
    return (
        f"{source.name}: expected {names} in {folder}; missing or damaged, and fetching is off (--offline or "
        f"{OFFLINE_VARIABLE}). Put {'it' if len(wanted) == 1 else 'them'} there by hand, from {source.mirrors[0]}, "
        f"or set DLGM_DATA to a folder that has the set in {inner}."
    )


def _why(error: Exception) -> tuple[str, bool]:
    """In a few words, what went wrong with a transfer, and whether trying again is pointless."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"{status} {error.response.reason}", 400 <= status < 500 and status not in (408, 425, 429)
    if isinstance(error, requests.Timeout | TimeoutError):
        return "no answer in time", False
    if isinstance(error, requests.exceptions.SSLError):
        return "no trusted connection", False
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer broke off", False
    if isinstance(error, requests.ConnectionError | ConnectionError):
        return "no connection", False
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": "), True

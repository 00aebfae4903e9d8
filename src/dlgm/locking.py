"""One process at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not everywhere
    fcntl = None  # type: ignore[assignment]


@contextmanager
def only_one(path: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Inside, no other process is, if the value is true: some systems and file systems have no locks.

    `path` is a file made for the purpose. The lock goes with the process, so that one that was killed leaves none.
    `waiting` is called once if another process has it.
    """
    with path.open("ab") as file:  # closing it gives the lock back
        yield _lock(file, waiting)


def _lock(file: IO[bytes], waiting: Callable[[], None]) -> bool:
    if fcntl is None:
        return False
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        return False
    return True

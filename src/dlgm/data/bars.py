"""Progress of a download."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def download_bar(name: str, *, shown: bool) -> Iterator[Any]:
    """A progress bar on stderr in the form that pooch wants, or False."""
    if not (shown and sys.stderr.isatty()):
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress, progress.add_task(name, total=None))


class _Bar:
    """The four things that pooch asks of a progress bar."""

    def __init__(self, progress: Any, task: Any):
        self._progress, self._task = progress, task

    @property
    def total(self) -> int:
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, num_bytes: int) -> None:
        self._progress.update(self._task, total=num_bytes or None)

    def update(self, num_bytes: int) -> None:
        self._progress.update(self._task, advance=num_bytes)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """The last call; Rich takes the bar away by itself."""

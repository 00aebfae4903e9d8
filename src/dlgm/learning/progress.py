"""Watching a run: a progress bar, plain lines where there is no terminal, and a file of records."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from dlgm.files import to_json

_SILENCE = 30.0  # seconds after which a run says something, where there is no terminal
# One epoch, as plain numbers: see `fit` for the entries.
Record = Mapping[str, Any]


class AbstractWatcher(ABC):
    """Told of each epoch. Used as a context, so that bars are cleared and files closed however training ends."""

    def __enter__(self) -> "AbstractWatcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, epochs: int, before: Sequence[Record] = ()) -> None:  # noqa: B027
        """Before the first epoch of `epochs`; `before` are those of a run that is being resumed."""

    @abstractmethod
    def epoch(self, record: Record) -> None:
        """After an epoch."""

    def close(self) -> None:  # noqa: B027
        """After the last, or when training fails."""


class JsonlHistory(AbstractWatcher):
    """A file with a line of JSON an epoch, written through as it happens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def start(self, epochs: int, before: Sequence[Record] = ()) -> None:
        """Open the file, and write what was before: the file of a run that was killed may know more, or less."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8")
        for record in before:
            self.epoch(record)

    def epoch(self, record: Record) -> None:
        """One line, written through."""
        assert self._file is not None
        self._file.write(to_json(record, indent=None) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class TerminalProgress(AbstractWatcher):
    """On a terminal a bar with the loss, the validation bound, rows/s and time left; elsewhere a line now and then."""

    def __init__(self, description: str = "training") -> None:
        self.description = description

    def start(self, epochs: int, before: Sequence[Record] = ()) -> None:
        """Draw the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._epochs, self._last_line, self._valid_bound = epochs, 0, None
        self._printed = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(self.description, total=epochs, completed=len(before), numbers="compiling")
        self._bar.start()

    def epoch(self, record: Record) -> None:
        """Move the bar, or print a line at every twentieth of the run, and each half minute."""
        # Not every epoch looks at the validation rows: between looks the last bound stays in sight.
        if record.get("valid_bound") is not None:
            self._valid_bound = record["valid_bound"]
        numbers = summary_line({**record, "valid_bound": self._valid_bound})
        self._bar.update(self._task, completed=record["epoch"], numbers=numbers)
        due = record["epoch"] * 20 // self._epochs
        silent = time.monotonic() - self._printed
        if not self._console.is_terminal and (due > self._last_line or silent > _SILENCE):
            self._last_line, self._printed = due, time.monotonic()
            print(f"{self.description}: epoch {record['epoch']}/{self._epochs}  {numbers}", file=self._console.file)

    def close(self) -> None:
        """Clear the bar."""
        if hasattr(self, "_bar"):
            self._bar.stop()


def summary_line(record: Record) -> str:
    """The record's chief numbers."""
    valid = "" if record.get("valid_bound") is None else f"  valid bound {record['valid_bound']:.2f}"
    return f"loss {record['loss']:.2f}{valid}  {record['rows_per_second']:,.0f} rows/s"


__all__ = ["AbstractWatcher", "JsonlHistory", "Record", "TerminalProgress", "summary_line"]

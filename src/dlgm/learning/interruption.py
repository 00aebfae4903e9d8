"""How training ends early: on request, by a signal that is noted and obeyed when the step is done and the state saved;
or because it met a value that is not finite.
"""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(Exception):  # noqa: N818
    """Training was asked to stop, and did so with its state saved. `signal` is the one that asked."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


class NonFiniteError(ArithmeticError):
    """Training met a value that is not finite and stopped. `model` holds the last good weights."""

    def __init__(self, message: str, step: int, model: Any) -> None:
        super().__init__(message)
        self.step = step
        self.model = model


class Signals:
    """A context in which SIGINT and SIGTERM are noted in `received`. A second one acts as it would have before."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        # Python hands signals to the main thread alone, and only there may a handler be set.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *exception: object) -> None:
        self._restore()


__all__ = ["Interrupted", "NonFiniteError", "Signals"]

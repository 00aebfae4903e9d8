"""The same limit of time for every method."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 1800  # seconds for fitting and filling, after which a method has failed


@contextmanager
def time_limit(seconds: float = PATIENCE) -> Iterator[None]:
    """Stop what runs inside after so many seconds, by an alarm that raises `TimeoutError`; in the main thread only.

    An alarm is heard between two steps of Python: a call of compiled code first runs to its end. What came to its end
    too late is too late all the same, or a method would gain by being a single call.
    """

    def give_up(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds:g} seconds")

    began = time.perf_counter()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if time.perf_counter() - began > seconds:  # a library may have caught the alarm
        give_up()

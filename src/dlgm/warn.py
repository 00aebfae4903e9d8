"""Warnings that name the user's line, however deep in ours they come up."""

import sys
import warnings

_WRAPPERS = ("sklearn", "jaxtyping")  # which call our functions for the user


def warn(message: str) -> None:
    """A `UserWarning` at the line that has called ours, past what is wrapped around it."""
    frame = found = sys._getframe(1)
    was_ours = True
    while frame.f_back is not None:
        frame = frame.f_back
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package == __name__.split(".")[0]:
            was_ours = True
        elif was_ours and package not in _WRAPPERS:
            found, was_ours = frame, False
    registry = found.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, found.f_code.co_filename, found.f_lineno, registry=registry)

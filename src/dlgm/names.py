"""Choosing by name, and refusing bad options."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches


def closest(name: object, known: Iterable[str]) -> str:
    """A question to end a message with, or nothing when no known name is near."""
    found = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def require_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Refuse anything but one of the known names, as the value of a setting called `name`."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}; got {value!r}.{closest(value, known)}")


def require_whole(owner: str, name: str, value: object, least: int) -> None:
    """Refuse anything but a whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise ValueError(f"{owner}: expected `{name}` to be a whole number of at least {least}; got {value!r}.")

"""Numbers of the studies in a page of Markdown: each study writes its own section, and no hand does."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlgm.files import write_atomically

FIGURES = "figures"  # the folder of a page's pictures, beside it


def put_section(page: Path, name: str, text: str, *, by: str | None = None) -> None:
    """Put `text` between the marks of section `name`, in place of what was there; at the end, if there are none.

    The marks name the command that wrote it, `by`: one of `dlgm reproduce`, unless another is given.
    """
    begin, end = f"<!-- written by `{by or f'dlgm reproduce {name}'}` -->", f"<!-- end of {name} -->"
    written = f"{begin}\n\n{text.strip()}\n\n{end}"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    before, mark, rest = old.partition(begin)
    if mark and end not in rest:
        raise ValueError(f"{page}: the section of {name} begins and has no end; put {end!r} behind it.")
    after = rest.partition(end)[2] if mark else "\n"
    start = before if mark else f"{before.rstrip()}\n\n" if before.strip() else ""
    write_atomically(page, f"{start}{written}{after}".encode())


def put_pictures(page: Path, study: str, pictures: Mapping[str, bytes]) -> str:
    """Write PNG files into the folder `figures` beside the page, and return the lines that show them there."""
    names = {picture: picture if picture == study else f"{study}-{picture}" for picture in pictures}
    for picture, png in pictures.items():
        write_atomically(page.parent / FIGURES / f"{names[picture]}.png", png)
    return "\n\n".join(f"![{name.replace('-', ' ')}]({FIGURES}/{name}.png)" for name in names.values())


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; None is an empty cell, and numbers are as the caller formats them."""
    lines = [[_cell(value) for value in line] for line in (headings, *rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], ["---"] * len(headings), *lines[1:]))


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|")


def provenance(seconds: float, settings: Mapping[str, Any]) -> str:
    """How the numbers came about: version, revision, time, settings."""
    from importlib.metadata import version

    shown = json.dumps(dict(settings), sort_keys=True)
    return f"dlgm {version('dlgm')}, revision {revision()}, {seconds:,.0f} s of wall time. Settings: `{shown}`"


def revision() -> str:
    """The source's git revision, with a plus sign if files differ from it; `unknown` where there is no repository."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=10, check=True)
        return run.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ":/src")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"

"""Users' own files at the command line: the options for reading them, and showing what was found."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import users_mistakes

if TYPE_CHECKING:
    from dlgm.data import Schema, Table
    from dlgm.data.stream import LargeTable

_FILES = "Of your own file"  # the panel of --help
# Bytes beyond which a file stays on the disk. Parquet is packed, to a tenth and less.
LARGE = {".npy": 2**30, ".parquet": 2**27}
ChunkRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Leave a .npy or .parquet file on the disk and hold so many rows at a time. Large ones stay there anyway.",
        rich_help_panel=_FILES,
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="A schema file: see `dlgm data show`.", rich_help_panel=_FILES)
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=KIND",
        help="A column's kind: real, positive, heaped, count, binary, categorical, ordinal, pixel. Without "
        "NAME=: all columns.",
        rich_help_panel=_FILES,
    ),
]
Ordinal = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=A,B,C", help="An ordinal column's categories, lowest first.", rich_help_panel=_FILES),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A column to leave out.", rich_help_panel=_FILES)]
Missing = Annotated[
    list[str] | None,
    typer.Option(metavar="TOKEN", help="What means a missing cell, beside the usual.", rich_help_panel=_FILES),
]
Key = Annotated[str | None, typer.Option(help="Which array of a .npz or .mat file.", rich_help_panel=_FILES)]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Between the fields of a text file: a character, tab or space.", rich_help_panel=_FILES),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a text file's first line holds names.", rich_help_panel=_FILES),
]
Encoding = Annotated[str | None, typer.Option(help="Of a text file, such as latin-1.", rich_help_panel=_FILES)]


def is_file(data: str) -> bool:
    """Whether DATA is a path rather than the name of a data set. A known name is a name, even if a file has it too."""
    from dlgm.data.registry import TABLE
    from dlgm.data.table import is_table_path

    return is_table_path(data) and data not in {entry.name for entry in TABLE}


def load_table(
    path: str,
    *,
    schema: "Schema | Path | None" = None,
    types: list[str] | None = None,
    ordinal: list[str] | None = None,
    **reading: Any,
) -> "Table":
    """A user's file, or a message."""
    from dlgm.data import read_table

    with users_mistakes():
        given = {name: value for name, value in reading.items() if value is not None}
        return read_table(path, **_columns(schema, types, ordinal), **given)


def _columns(schema: "Schema | Path | None", types: list[str] | None, ordinal: list[str] | None) -> dict[str, Any]:
    """What the user says of the columns, as the readers take it."""
    from dlgm.data import read_schema
    from dlgm.data.schema import parse_ordinal, parse_types

    return {
        "schema": read_schema(schema) if isinstance(schema, Path) else schema,
        "types": parse_types(types or []),
        "ordinal": parse_ordinal(ordinal or []),
    }


def is_large(path: str, chunk_rows: int | None) -> bool:
    """Whether a file's rows are to stay on the disk: asked for, or because there are so many."""
    from dlgm.data.stream import STREAMED

    if chunk_rows is not None:
        return True
    file = Path(path)
    return file.suffix in STREAMED and file.is_file() and file.stat().st_size > LARGE[file.suffix]


def load_large(
    path: str,
    *,
    schema: "Schema | Path | None" = None,
    types: list[str] | None = None,
    ordinal: list[str] | None = None,
    drop: list[str] | None = None,
    missing: list[str] | None = None,
    **reading: Any,
) -> "LargeTable":
    """A user's file whose rows stay on the disk, or a message."""
    from dlgm.data.stream import open_large

    for name, value in reading.items():
        if value is not None:
            raise UsageError(f"--{name}: not for a file that is read in parts.")
    with users_mistakes():
        return open_large(path, **_columns(schema, types, ordinal), drop=drop or (), missing=missing or ())


def refuse_for_named(data: str, **options: object) -> None:
    """Options that are about files make no sense for a named data set."""
    for name, value in options.items():
        if value is not None and value != []:
            raise UsageError(f"--{name}: only for your own files; {data} is a data set with a name.")


def stem(path: str) -> str:
    """A file's name without its folder and ending."""
    name = Path(path).resolve().name
    return name.removesuffix(".gz").rsplit(".", 1)[0] or name


def print_schema(table: "Table | LargeTable") -> None:
    """What each column is taken to be, and what else is worth knowing."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    from dlgm.data.schema import HEADINGS, listing

    title = f"{table.name}: {_count(len(table), 'row')}, {_count(len(table.schema.columns), 'column')}"
    grid = Grid(*HEADINGS, title=escape(title))
    for line in listing(table.schema, table.mask):
        grid.add_row(*map(escape, line))  # a user's words are no markup
    Console().print(grid)
    print_notes(table.notes)


def print_notes(notes: Iterable[str]) -> None:
    """What is worth knowing about a file, a line each."""
    for note in notes:
        typer.echo(f"Note: {note}.")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

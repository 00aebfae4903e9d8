"""Text tables: one row a line, fields separated by a delimiter. Parsed by pandas, once the lines have been checked."""

import warnings
from pathlib import Path
from typing import Any

from dlgm.data.content import Content, Reading
from dlgm.data.errors import DataFileError, first_twin, one_line
from dlgm.data.formats.dialect import MISSING, WHITESPACE, Dialect, check_lines, find_dialect, open_text
from dlgm.data.formats.parquet import narrowed
from dlgm.data.schema.entries import generated_names


def read_csv(path: Path, how: Reading) -> Content:
    """A file of comma-separated values, or semicolons, tabs or bars."""
    return _read(path, how, find_dialect(path, how, delimiter=None, whitespace=False))


def read_tsv(path: Path, how: Reading) -> Content:
    """A file of tab-separated values."""
    return _read(path, how, find_dialect(path, how, delimiter="\t", whitespace=False))


def read_text(path: Path, how: Reading) -> Content:
    """A text file whose fields are separated by any of these, or by spaces."""
    return _read(path, how, find_dialect(path, how, delimiter=None, whitespace=True))


def _read(path: Path, how: Reading, dialect: Dialect) -> Content:
    check_lines(path, dialect)
    names, unnamed = _names(path, dialect)
    frame = parse(path, dialect, names, how)
    if not len(frame):
        raise DataFileError(f"{path}: expected rows; there is only a header.")
    notes = []
    if dialect.decimal == "," and how.decimal is None:
        notes.append("decimal commas were read as such")
    for name in unnamed:
        if _says_nothing(frame[name]):
            frame = frame.drop(columns=name)
            notes.append(f"{name}, which has no name and holds row numbers or nothing, was left out")
    if not frame.shape[1]:
        raise DataFileError(f"{path}: expected at least one column that holds something; there is none.")
    return Content(frame, notes=tuple(notes))


def parse(path: Path, dialect: Dialect, names: list[str], how: Reading) -> Any:
    """The lines as a DataFrame."""
    import pandas as pd

    spaces = dialect.delimiter == WHITESPACE
    with open_text(path, dialect.encoding) as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                file,
                sep=r"\s+" if spaces else dialect.delimiter,
                quoting=3 if spaces else 0,  # quotes mean nothing among spaces
                decimal=dialect.decimal,
                header=0 if dialect.header else None,
                names=names,
                index_col=False,
                skipinitialspace=True,
                dtype=dict.fromkeys(set(how.texts) & set(names), "str"),
                na_values=sorted(MISSING | set(how.missing)),
                dtype_backend="numpy_nullable",
                low_memory=False,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError, OverflowError) as error:
            raise DataFileError(f"{path}: expected a table of text; got {one_line(error)}.") from error
    return narrowed(frame)


def _names(path: Path, dialect: Dialect) -> tuple[list[str], list[str]]:
    """The columns' names, and those among them that had to be made up for the header lacks them."""
    if not dialect.header:
        return generated_names(len(dialect.first)), []
    made_up = {i: f"column {i + 1}" for i, name in enumerate(dialect.first) if not name}
    names = [made_up.get(i, name) for i, name in enumerate(dialect.first)]
    for twin in first_twin(names):
        first, second = [i + 1 for i, name in enumerate(names) if name == twin][:2]
        raise DataFileError(f"{path}: expected every column name once; got {twin!r} in columns {first} and {second}.")
    return names, list(made_up.values())


def _says_nothing(column: Any) -> bool:
    """Whether a column is empty, as a delimiter at the end of each line makes it, or numbers its rows."""
    if column.isna().all():
        return True
    counting = range(len(column))
    start = column.iloc[0]
    return str(column.dtype) == "int64" and start in (0, 1) and bool((column - start == list(counting)).all())

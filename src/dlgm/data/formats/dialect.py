"""How a text file writes its table: encoding, delimiter, decimal sign, header. Found out from its first lines."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO

from dlgm.data.content import Reading
from dlgm.data.errors import DataFileError
from dlgm.data.files import open_content
from dlgm.data.schema.entries import generated_names

WHITESPACE = " "  # any run of it separates
# A decimal comma makes a semicolon and a comma equally regular; then the semicolon is the delimiter.
_DELIMITERS = ("\t", ";", "|", ",")
_NAMES = {"tab": "\t", "\\t": "\t", "space": WHITESPACE, "comma": ",", "semicolon": ";"}
_SAMPLE = 200  # lines looked at

# What pandas takes for missing, and the question mark of many published tables.
MISSING = {
    *("", "?", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN"),
    *("-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
}
_DECIMAL_COMMA, _DECIMAL_POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+")


@dataclass(frozen=True)
class Dialect:
    """What was found out."""

    encoding: str
    delimiter: str
    decimal: str
    first: list[str]  # the fields of the first line
    header: bool  # whether those are names


def find_dialect(path: Path, how: Reading, delimiter: str | None, whitespace: bool) -> Dialect:
    """The dialect of a file, as far as `how` leaves it open; `whitespace` says whether that may separate fields."""
    encoding = how.encoding or _encoding(path)
    with open_text(path, encoding) as file:
        lines = [line for line in islice(file, _SAMPLE) if line.strip()]
    if not lines:
        raise DataFileError(f"{path}: expected a table; the file is empty.")
    asked = how.delimiter if how.delimiter is not None else delimiter
    delimiter = _sniff(lines, whitespace) if asked is None else _NAMES.get(asked, asked)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DataFileError(f"{path}: expected a delimiter of one character, or tab or space; got {asked!r}.")
    sample = [fields for fields in _split(lines, delimiter) if fields]
    fields = [field for line in sample for field in line]
    comma = delimiter != "," and any(map(_DECIMAL_COMMA.fullmatch, fields))
    decimal = how.decimal or ("," if comma and not any(map(_DECIMAL_POINT.fullmatch, fields)) else ".")
    header = _has_header(sample, how.names, decimal) if how.header is None else how.header
    return Dialect(encoding, delimiter, decimal, [field.strip() for field in sample[0]], header)


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The file's text, with line ends as they are."""
    with open_content(path) as content:
        try:
            yield TextIOWrapper(content, encoding, newline="")
        except UnicodeError as error:
            raise DataFileError(f"{path}: {_where_undecodable(path, encoding, error)}") from None
        except LookupError:
            raise DataFileError(f"{path}: expected the name of an encoding; got {encoding!r}.") from None


def check_lines(path: Path, dialect: Dialect) -> None:
    """Refuse a file with a line that has more or fewer fields than the first, or a quote that is never closed."""
    width = len(dialect.first)
    with open_text(path, dialect.encoding) as file:
        if dialect.delimiter == WHITESPACE:
            for number, line in enumerate(file, 1):
                _check_width(path, number, len(line.split()), width)
            return
        reader = csv.reader(file, delimiter=dialect.delimiter, skipinitialspace=True, strict=True)
        try:
            for fields in reader:
                _check_width(path, reader.line_num, len(fields), width)
        except csv.Error as error:
            raise DataFileError(f"{path}: line {reader.line_num:,}: {error}.") from None


def _check_width(path: Path, number: int, fields: int, width: int) -> None:
    if fields not in (0, width):  # none: a blank line, which is skipped
        raise DataFileError(
            f"{path}: line {number:,}: expected {width:,} fields, as in the first line; got {fields:,}."
        )


def _encoding(path: Path) -> str:
    with open_content(path) as file:
        start = file.read(4)
    if start[:2] == b"\x1f\x8b":
        raise DataFileError(f"{path}: expected text; got a gzipped file. Let its name end in .gz.")
    return "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _where_undecodable(path: Path, encoding: str, error: UnicodeError) -> str:
    if encoding == "utf-8-sig":
        with open_content(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as found:
                    byte = line[found.start]
                    return (
                        f"line {number:,}: expected text in UTF-8; got the byte 0x{byte:02x}. Save the file as UTF-8, "
                        "or name its encoding (encoding, --encoding: latin-1, say)."
                    )
    return f"expected text in {encoding}; got {error}."


def _split(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    if delimiter == WHITESPACE:
        return [line.split() for line in lines]
    try:
        return list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line.split(delimiter) for line in lines]  # check_lines will say what is wrong, and where


def _sniff(lines: Sequence[str], whitespace: bool) -> str:
    """The delimiter that cuts all lines into equally many fields; failing that, the one that cuts the first most."""
    candidates = (*_DELIMITERS, WHITESPACE) if whitespace else _DELIMITERS
    # The sample's last line may be cut inside a quoted field.
    counts = {d: [len(fields) for fields in _split(lines, d) if fields] for d in candidates}
    regular = [d for d in candidates if len(set(counts[d])) == 1 and counts[d][0] > 1]
    if regular:
        return regular[0]
    most = max(candidates, key=lambda d: counts[d][0])
    return most if counts[most][0] > 1 else ","


def _has_header(sample: Sequence[Sequence[str]], names: Sequence[str], decimal: str) -> bool:
    """Whether the first line holds names.

    If the columns' names are known, it does if one of them is there, and does not if they were made up. Otherwise, a
    text above numbers is a name; if there is none of these, a number in the first line is data, and so is a text that
    comes again in its column.
    """
    first, rest = [field.strip() for field in sample[0]], sample[1:]
    if not set(names).isdisjoint(first):
        return True
    if names and list(names) == generated_names(len(names)):
        return False
    columns = [[line[i].strip() for line in rest if i < len(line)] for i in range(len(first))]
    seen = [[field for field in column if field not in MISSING] for column in columns]
    above = [
        not _is_number(field, decimal)
        and field not in MISSING
        and bool(column)
        and all(_is_number(other, decimal) for other in column)
        for field, column in zip(first, seen, strict=True)
    ]
    if any(above):
        return True
    if any(_is_number(field, decimal) for field in first):
        return False
    return not any(field in column for field, column in zip(first, seen, strict=True))


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True

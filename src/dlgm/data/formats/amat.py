"""The amat format: text, one row a line, numbers separated by a space. Those of published sets are 0 and 1."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.content import Content, Reading, content_of_array
from dlgm.data.errors import DataFileError, damaged
from dlgm.data.files import read_content
from dlgm.data.formats.delimited import parse
from dlgm.data.formats.dialect import WHITESPACE, check_lines, find_dialect
from dlgm.data.schema.cells import plain
from dlgm.data.schema.entries import generated_names


def read_binary_amat(path: Path, num_columns: int) -> UInt8[np.ndarray, "n x"]:
    """The 0s and 1s of an amat file, `num_columns` a line."""
    lines = [line.rstrip() for line in read_content(path).splitlines()]
    # Values have one digit, so a good line has one length, and digits and spaces take turns.
    length = 2 * num_columns - 1
    for number, line in enumerate(lines, 1):
        if len(line) != length:
            raise _wrong_line(path, number, line, num_columns)
    text = np.frombuffer(b"".join(lines), np.uint8).reshape(len(lines), length)
    values = text[:, ::2] - np.uint8(ord("0"))  # below "0" wraps around to above 1
    good = (values <= 1).all(axis=1) & (text[:, 1::2] == ord(" ")).all(axis=1)
    if not good.all():
        first = int(np.argmin(good))
        raise _wrong_line(path, first + 1, lines[first], num_columns)
    return values


def read_amat(path: Path, how: Reading) -> Content:
    """A user's amat file: bits if it holds nothing else, otherwise any numbers."""
    how = replace(how, header=False, delimiter=WHITESPACE)
    dialect = find_dialect(path, how, delimiter=None, whitespace=True)
    if set(dialect.first) <= {"0", "1"}:
        with suppress(DataFileError):  # it starts with bits: probably all are, which is read far faster
            return content_of_array(path, read_binary_amat(path, len(dialect.first)))
    check_lines(path, dialect)
    names = generated_names(len(dialect.first))
    frame = parse(path, dialect, names, how)
    for name in frame.columns[frame.dtypes == "str"]:
        plain(name, frame[name]).as_numbers()  # refuses the first word that is none
    return content_of_array(path, frame.to_numpy(np.float64, na_value=np.nan))


def _wrong_line(path: Path, number: int, line: bytes, num_columns: int) -> DataFileError:
    values = line.split()
    if len(values) != num_columns:
        return damaged(path, expected=f"{num_columns} values in line {number}", got=f"{len(values)}")
    wrong = [value for value in values if value not in (b"0", b"1")]
    if wrong:
        return damaged(path, expected=f"only 0 and 1 in line {number}", got=ascii(wrong[0].decode("latin-1")))
    return damaged(path, expected=f"one space between the values of line {number}", got="something else")

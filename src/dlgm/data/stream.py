"""Users' files that are larger than memory: .npy files stay where they are, Parquet files are unpacked to the disk."""

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from dlgm.data.errors import CellError, DataFileError, SchemaError, one_line
from dlgm.data.formats.parquet import column_names, frame_of, open_parquet
from dlgm.data.schema import Schema, infer_schema
from dlgm.data.schema.column import Category
from dlgm.data.source import ArraySource, RowSource
from dlgm.data.table import choose_columns, read_table

STREAMED = (".npy", ".parquet")
_BATCH = 16_384  # rows of a Parquet file unpacked at a time
_SAMPLE = 50_000  # rows of a Parquet file from which its schema is learnt


@dataclass(frozen=True, eq=False)
class LargeTable:
    """Rows that stay on the disk, and what their columns are."""

    name: str
    source: RowSource
    schema: Schema
    shape: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # values that meant a hole, beside the usual ones
    mask: None = None  # where the holes are is seen when rows are read

    def __len__(self) -> int:
        return self.source.shape[0]

    def described(self) -> dict[str, Any]:
        """Name, shape and schema, for a model file."""
        return {
            "name": self.name,
            "shape": list(self.shape or ()),
            "schema": self.schema.to_dict(),
            "missing": list(self.missing),
        }


class EncodedSource:
    """Rows of a mapped array, as a model's numbers. Arrays of floats may have holes, and so always come with a mask."""

    def __init__(self, name: str, rows: Shaped[np.ndarray, "n x"], schema: Schema, missing: Sequence[str] = ()) -> None:
        self.name, self.rows, self.schema, self.missing = name, rows, schema, tuple(missing)
        self._holes = rows.dtype.kind == "f" or bool(missing)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.rows.shape

    def read(self, index: Int[np.ndarray, " k"]) -> tuple[Shaped[np.ndarray, "k x"], Bool[np.ndarray, "k x"] | None]:
        """The rows with these numbers."""
        try:
            values, mask = self.schema.encode(np.asarray(self.rows[index]), missing=self.missing)
        except CellError as error:
            raise SchemaError(f"{self.name}: {error.at(int(index[error.row]))}") from None
        return values, np.ones(values.shape, bool) if mask is None and self._holes else mask


class WithoutRows:
    """A source without some of its rows: those held out."""

    def __init__(self, source: RowSource, left_out: Int[np.ndarray, " m"]) -> None:
        self.source = source
        # Of the rows that stay, number k is k + j, where j counts the rows left out before it.
        self._shifts = np.sort(left_out) - np.arange(len(left_out))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        n, x = self.source.shape
        return n - len(self._shifts), x

    def read(self, index: Int[np.ndarray, " k"]) -> tuple[Shaped[np.ndarray, "k x"], Bool[np.ndarray, "k x"] | None]:
        """The rows with these numbers."""
        return self.source.read(index + np.searchsorted(self._shifts, index, side="right"))


def open_large(
    path: str | Path,
    *,
    schema: Schema | None = None,
    types: Mapping[str, str] | None = None,
    ordinal: Mapping[str, Sequence[Category]] | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> LargeTable:
    """A .npy or .parquet file whose rows are read as they are needed.

    What is left open of the schema is learnt from some thousand rows, evenly spaced. A category that they do not show
    is refused where it comes up, and so is a number that the column's kind cannot have: say so in a schema file.

    A Parquet file is read a part at a time (twice, if its schema has to be learnt), and its rows as a model sees them
    are put into a temporary folder (TMPDIR), which is removed with the table: 4 bytes a cell, and 1 more for holes.
    """
    path = Path(path)
    if path.suffix not in STREAMED:
        raise DataFileError(f"{path}: expected a file that ends in .npy or .parquet to be read in parts.")
    if path.suffix == ".npy":
        table = read_table(path, schema=schema, types=types, ordinal=ordinal, drop=drop, missing=missing, mmap=True)
        encoded_source = EncodedSource(str(path), table.values, table.schema, missing)
        return LargeTable(table.name, encoded_source, table.schema, table.shape, table.notes, tuple(missing))
    import pandas as pd

    with open_parquet(path) as file:
        num_rows = file.metadata.num_rows
        if not num_rows:
            raise DataFileError(f"{path}: expected at least one row; there is none.")
        try:
            columns, notes = choose_columns(column_names(file.schema_arrow), schema, drop)
            if schema is None or not schema.complete or types or ordinal:
                step = -(-num_rows // _SAMPLE)
                sample = pd.concat([frame.iloc[-start % step :: step] for start, frame in _frames(path, file, columns)])
                schema = infer_schema(sample, schema=schema, types=types, ordinal=ordinal, missing=missing)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None
        folder = TemporaryDirectory(prefix="dlgm-")
        try:
            source = _unpacked(path, file, schema, columns, missing, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
    weakref.finalize(source, folder.cleanup)
    return LargeTable(path.name, source, schema, notes=notes, missing=tuple(missing))


def _unpacked(
    path: Path, file: Any, schema: Schema, columns: list[str], missing: Sequence[str], folder: Path
) -> ArraySource:
    shape = (file.metadata.num_rows, len(schema.columns))
    values: Any = None
    try:
        mask = _allocated(folder / "mask.npy", np.dtype(bool), shape)
        for start, frame in _frames(path, file, columns):
            try:
                encoded, observed = schema.encode(frame, missing=missing)
            except CellError as error:
                raise SchemaError(f"{path}: {error.at(start + error.row)}") from None
            except SchemaError as error:
                raise SchemaError(f"{path}: {error}") from None
            if values is None:
                values = _allocated(folder / "values.npy", encoded.dtype, shape)
            values[start : start + len(frame)] = encoded
            mask[start : start + len(frame)] = True if observed is None else observed
    except OSError as error:
        raise DataFileError(
            f"{path}: cannot be unpacked into {folder.parent} ({error.strerror}). It takes 5 bytes a cell, "
            f"{5 * shape[0] * shape[1] / 1e6:,.0f} MB; set TMPDIR to a folder with room."
        ) from None
    return ArraySource(values, mask)


def _allocated(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """An array mapped to a new file whose room on the disk is sure: a disk found full later would kill the process."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _frames(path: Path, file: Any, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """The file's rows as DataFrames one after another, each with the number of its first row."""
    start = 0
    batches = file.iter_batches(_BATCH, columns=columns)
    while True:
        try:
            batch = next(batches, None)
            frame = None if batch is None else frame_of(batch, columns)
        except Exception as error:
            raise DataFileError(f"{path}: damaged after row {start} ({one_line(error)}).") from error
        if frame is None:
            return
        yield start, frame
        start += len(frame)


__all__ = ["EncodedSource", "LargeTable", "WithoutRows", "open_large"]

"""Users' files that are larger than memory: .npy files stay where they are, Parquet files are unpacked to the disk."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from dlgm.data.errors import DataFileError, SchemaError, one_line
from dlgm.data.formats.parquet import narrowed
from dlgm.data.schema import Schema, infer_schema
from dlgm.data.schema.column import Category
from dlgm.data.source import ArraySource, RowSource
from dlgm.data.table import read_table

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

    def __init__(self, rows: Shaped[np.ndarray, "n x"], schema: Schema, missing: Sequence[str] = ()) -> None:
        self.rows, self.schema, self.missing = rows, schema, tuple(missing)
        self._holes = rows.dtype.kind == "f" or bool(missing)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.rows.shape

    def read(self, index: Int[np.ndarray, " k"]) -> tuple[Shaped[np.ndarray, "k x"], Bool[np.ndarray, "k x"] | None]:
        """The rows with these numbers."""
        values, mask = self.schema.encode(np.asarray(self.rows[index]), missing=self.missing)
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
    is refused where it comes up: name it in a schema file.

    A Parquet file is read once, a part at a time, and its rows as a model sees them are put into a temporary folder,
    which is removed with the table: 4 bytes a cell, and 1 more for holes.
    """
    path = Path(path)
    if path.suffix not in STREAMED:
        raise DataFileError(f"{path}: expected a file that ends in .npy or .parquet to be read in parts.")
    if path.suffix == ".npy":
        table = read_table(path, schema=schema, types=types, ordinal=ordinal, drop=drop, missing=missing, mmap=True)
        encoded_source = EncodedSource(table.values, table.schema, missing)
        return LargeTable(table.name, encoded_source, table.schema, table.shape, table.notes, tuple(missing))
    import pandas as pd

    with _parquet(path) as file:
        num_rows = file.metadata.num_rows
        if not num_rows:
            raise DataFileError(f"{path}: expected at least one row; there is none.")
        if schema is None or not schema.complete or types or ordinal:
            step = -(-num_rows // _SAMPLE)
            sample = pd.concat([frame.iloc[-start % step :: step] for start, frame in _frames(path, file, drop)])
            schema = infer_schema(sample, schema=schema, types=types, ordinal=ordinal, missing=missing)
        folder = TemporaryDirectory(prefix="dlgm-")
        try:
            source = _unpacked(path, file, schema, drop, missing, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
    weakref.finalize(source, folder.cleanup)
    return LargeTable(path.name, source, schema, missing=tuple(missing))


def _unpacked(
    path: Path, file: Any, schema: Schema, drop: Sequence[str], missing: Sequence[str], folder: Path
) -> ArraySource:
    shape = (file.metadata.num_rows, len(schema.columns))
    values: Any = None
    mask = np.lib.format.open_memmap(folder / "mask.npy", mode="w+", dtype=bool, shape=shape)
    for start, frame in _frames(path, file, drop):
        try:
            encoded, observed = schema.encode(frame, missing=missing)
        except SchemaError as error:
            raise SchemaError(f"{path}: rows {start} to {start + len(frame) - 1}: {error}") from None
        if values is None:
            values = np.lib.format.open_memmap(folder / "values.npy", mode="w+", dtype=encoded.dtype, shape=shape)
        values[start : start + len(frame)] = encoded
        mask[start : start + len(frame)] = True if observed is None else observed
    return ArraySource(values, mask)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except PermissionError:
        raise
    except Exception as error:  # what damage raises depends on where it is
        raise DataFileError(f"{path}: expected a Parquet file; got {one_line(error)}.") from error


def _frames(path: Path, file: Any, drop: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """The file's rows as DataFrames one after another, each with the number of its first row."""
    start = 0
    columns = [name for name in file.schema_arrow.names if name not in set(drop) and not name.startswith("__index")]
    batches = file.iter_batches(_BATCH, columns=columns)
    while True:
        try:
            batch = next(batches, None)
        except Exception as error:
            raise DataFileError(f"{path}: damaged after row {start} ({one_line(error)}).") from error
        if batch is None:
            return
        import pandas as pd

        frame = narrowed(batch.to_pandas(types_mapper=_nullable(pd)))
        yield start, frame.reset_index(drop=True)
        start += len(frame)


def _nullable(pd: Any) -> Any:
    """Pandas' own nullable types for integers and truth values, as when a file is read whole."""
    import pyarrow as pa

    known = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.string(): pd.StringDtype(),
        pa.large_string(): pd.StringDtype(),
    }
    return known.get


__all__ = ["EncodedSource", "LargeTable", "WithoutRows", "open_large"]

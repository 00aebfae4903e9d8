"""Parquet files, through pandas and pyarrow."""

import io
import re
from functools import cache
from pathlib import Path
from typing import Any

from dlgm.data.content import Content, Reading
from dlgm.data.errors import DataFileError, first_twin, one_line
from dlgm.data.files import read_content

_LEVEL = re.compile(r"__index_level_\d+__")  # what an index without a name is called in a file


def read_parquet(path: Path, how: Reading) -> Content:
    """The table of a Parquet file, with its rows' index if that has no name."""
    from pandas import MultiIndex

    source: Any = io.BytesIO(read_content(path)) if path.suffix == ".gz" else path
    with open_parquet(path, source) as file:
        try:
            rows = file.read()
            frame = frame_of(rows, column_names(file.schema_arrow))
            levels = [rows[name].to_pandas().rename(None) for name in rows.schema.names if _LEVEL.fullmatch(name)]
            if levels:
                frame = frame.set_axis(levels[0] if len(levels) == 1 else MultiIndex.from_arrays(levels))
            return Content(frame)
        except Exception as error:
            raise DataFileError(f"{path}: damaged ({one_line(error)}).") from error


def open_parquet(path: Path, source: Any = None) -> Any:
    """The file, opened by pyarrow, once its columns' names have been looked at."""
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path if source is None else source)
    except PermissionError:
        raise
    except Exception as error:  # what damage raises depends on where it is
        raise DataFileError(f"{path}: expected a Parquet file; got {one_line(error)}.") from error
    if twin := first_twin(file.schema_arrow.names):
        raise DataFileError(f"{path}: expected every column name once; got {twin[0]!r} twice.")
    return file


def frame_of(rows: Any, columns: list[str]) -> Any:
    """Columns of Arrow's rows, all or some of a file's, as a DataFrame.

    Integers and truth values with holes stay what they are.
    """
    return narrowed(rows.select(columns).to_pandas(types_mapper=_nullable().get, ignore_metadata=True))


def column_names(schema: Any) -> list[str]:
    """Those of an Arrow schema. An index with a name is a column like any other, and the first; one without is none."""
    named = [name for name in schema.names if not _LEVEL.fullmatch(name)]
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return sorted(named, key=lambda name: name not in index)


@cache
def _nullable() -> dict[Any, Any]:
    """Pandas' types that can hold what is missing, for Arrow's."""
    import pandas as pd
    import pyarrow as pa

    return {
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


def narrowed(frame: Any) -> Any:
    """The frame with pandas' nullable types kept only where a plain one could not hold what is missing."""
    wanted = {}
    for name, dtype, holes in zip(frame.columns, map(str, frame.dtypes), frame.isna().any(), strict=True):
        if dtype == "string":
            wanted[name] = "str"
        elif dtype.startswith("Float") or ("Int" in dtype and not holes):
            wanted[name] = dtype.lower()
        elif dtype == "boolean" and not holes:
            wanted[name] = "bool"
    return frame.astype(wanted)

"""Parquet files, through pandas and pyarrow."""

import io
from pathlib import Path
from typing import Any

from dlgm.data.content import Content, Reading
from dlgm.data.errors import DataFileError, one_line
from dlgm.data.files import read_content


def read_parquet(path: Path, how: Reading) -> Content:
    """The table of a Parquet file. Integers and truth values with holes stay what they are."""
    import pandas as pd

    source: Any = io.BytesIO(read_content(path)) if path.suffix == ".gz" else path
    try:
        frame = pd.read_parquet(source, engine="pyarrow", dtype_backend="numpy_nullable")
    except PermissionError:
        raise
    except Exception as error:  # what damage raises depends on where it is
        raise DataFileError(f"{path}: expected a Parquet file; got {one_line(error)}.") from error
    if not isinstance(frame.index, pd.RangeIndex):  # a named index is a column like any other
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        twin = frame.columns[frame.columns.duplicated()][0]
        raise DataFileError(f"{path}: expected every column name once; got {twin!r} twice.")
    return Content(narrowed(frame))


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

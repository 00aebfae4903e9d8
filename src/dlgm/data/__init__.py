"""Named data sets, read from the files their authors published, and users' own files.

The files of named sets are looked for in the folder that the environment variable `DLGM_DATA` names, then in the
package's cache, and are fetched if need be; `digits` needs none. `read_table` reads a user's file; its `Schema` says
what each column is.
"""

from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import (
    DataError,
    DataFetchError,
    DataFileError,
    DataNotFoundError,
    SchemaError,
    UnknownDatasetError,
)
from dlgm.data.masks import hide_at_random, hide_by_others, hide_by_themselves, hide_square
from dlgm.data.registry import Fetched, Located, fetch_datasets, find_dataset, list_datasets, load_dataset
from dlgm.data.schema import Column, Schema, infer_schema, read_schema, write_schema
from dlgm.data.source import ArraySource, RowSource
from dlgm.data.table import Table, read_column, read_frame, read_table

__all__ = [
    "ArraySource",
    "Column",
    "DataError",
    "DataFetchError",
    "DataFileError",
    "DataNotFoundError",
    "Dataset",
    "DatasetInfo",
    "Fetched",
    "Located",
    "RowSource",
    "Schema",
    "SchemaError",
    "Table",
    "UnknownDatasetError",
    "fetch_datasets",
    "find_dataset",
    "hide_at_random",
    "hide_by_others",
    "hide_by_themselves",
    "hide_square",
    "infer_schema",
    "list_datasets",
    "load_dataset",
    "read_column",
    "read_frame",
    "read_schema",
    "read_table",
    "write_schema",
]

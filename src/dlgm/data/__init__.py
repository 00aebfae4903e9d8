"""Named data sets, read from the files their authors published, and users' own files.

The files of named sets are looked for in the folder that the environment variable `DLGM_DATA` names; `digits` needs
none. `read_table` reads a user's file; its `Schema` says what each column is.
"""

from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import DataError, DataFileError, DataNotFoundError, SchemaError, UnknownDatasetError
from dlgm.data.registry import list_datasets, load_dataset
from dlgm.data.schema import Column, Schema, infer_schema, read_schema, write_schema
from dlgm.data.table import Table, read_table

__all__ = [
    "Column",
    "DataError",
    "DataFileError",
    "DataNotFoundError",
    "Dataset",
    "DatasetInfo",
    "Schema",
    "SchemaError",
    "Table",
    "UnknownDatasetError",
    "infer_schema",
    "list_datasets",
    "load_dataset",
    "read_schema",
    "read_table",
    "write_schema",
]

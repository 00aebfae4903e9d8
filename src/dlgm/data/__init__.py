"""Named data sets, read from the files their authors published.

The files are looked for in the folder that the environment variable `DLGM_DATA` names, then in the package's cache, and
are fetched if need be; `digits` needs none.
"""

from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import DataError, DataFetchError, DataFileError, DataNotFoundError, UnknownDatasetError
from dlgm.data.registry import Fetched, Located, fetch_datasets, find_dataset, list_datasets, load_dataset
from dlgm.data.source import ArraySource, RowSource

__all__ = [
    "ArraySource",
    "DataError",
    "DataFetchError",
    "DataFileError",
    "DataNotFoundError",
    "Dataset",
    "DatasetInfo",
    "Fetched",
    "Located",
    "RowSource",
    "UnknownDatasetError",
    "fetch_datasets",
    "find_dataset",
    "list_datasets",
    "load_dataset",
]

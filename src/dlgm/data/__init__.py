"""Named data sets, read from the files their authors published.

The files are looked for in the folder that the environment variable `DLGM_DATA` names; `digits` needs none.
"""

from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import DataError, DataFileError, DataNotFoundError, UnknownDatasetError
from dlgm.data.registry import list_datasets, load_dataset

__all__ = [
    "DataError",
    "DataFileError",
    "DataNotFoundError",
    "Dataset",
    "DatasetInfo",
    "UnknownDatasetError",
    "list_datasets",
    "load_dataset",
]

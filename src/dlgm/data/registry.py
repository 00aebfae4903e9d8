"""The table of named data sets, and the two functions that read it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import DataFileError, DataNotFoundError, UnknownDatasetError
from dlgm.data.files import expected_folder, find_files
from dlgm.data.sets import cifar10, digits, frey_faces, mnist, small_norb, svhn
from dlgm.data.splits import Splits, sizes_of

BITS, PIXELS = "bernoulli", "discretised-logistic"


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    name: str
    description: str
    shape: tuple[int, ...]
    family: str
    rows: dict[str, int]  # by split, as published
    load: Callable[[Sequence[Path]], Splits]
    folder: str = ""  # under the data folder; empty for a set that needs no files
    files: tuple[str, ...] = ()
    find: Callable[[Sequence[str]], list[Path]] = find_files
    count: Callable[[Sequence[Path]], tuple[dict[str, int], str]] | None = None  # for sets whose files may be partial

    def paths(self) -> list[Path]:
        """Where the set's files are, or `DataNotFoundError`."""
        return self.find([f"{self.folder}/{name}" for name in self.files]) if self.files else []


TABLE = (
    Entry(
        "digits",
        "handwritten digits carried by scikit-learn, 1 where a pixel is 8 or more of 16",
        (8, 8),
        BITS,
        digits.SIZES,
        digits.load_digits,
    ),
    Entry(
        "binarized-mnist",
        "handwritten digits, Larochelle's fixed binarisation and split",
        (28, 28),
        BITS,
        mnist.SIZES,
        mnist.load_binarized_mnist,
        "binarized_mnist",
        mnist.AMAT_FILES,
    ),
    Entry(
        "mnist",
        "handwritten digits, grey; validation is the last 10,000 of training",
        (28, 28),
        PIXELS,
        mnist.SIZES,
        mnist.load_mnist,
        "mnist",
        mnist.IDX_FILES,
    ),
    Entry(
        "fashion-mnist",
        "articles of clothing, grey; validation is the last 10,000 of training",
        (28, 28),
        PIXELS,
        mnist.SIZES,
        mnist.load_mnist,
        "fashion_mnist",
        mnist.IDX_FILES,
    ),
    Entry(
        "frey-faces",
        "one man's face in a video, grey; validation and test are the last 400 frames",
        (28, 20),
        PIXELS,
        frey_faces.SIZES,
        frey_faces.load_frey_faces,
        "frey_faces",
        frey_faces.FILES,
    ),
    Entry(
        "cifar10",
        "small colour photographs; validation is the last tenth of the training batches present",
        (32, 32, 3),
        PIXELS,
        sizes_of(45_000, 5_000, 10_000),
        cifar10.load_cifar10,
        "cifar10/cifar-10-batches-bin",
        cifar10.FILES,
        cifar10.find_cifar10,
        cifar10.count_cifar10,
    ),
    Entry(
        "cifar10-patches",
        "patches of 8 x 8 pixels at fixed random places of cifar10, at most 5 an image",
        (8, 8, 3),
        PIXELS,
        cifar10.MOST_PATCHES,
        cifar10.load_cifar10_patches,
        "cifar10/cifar-10-batches-bin",
        cifar10.FILES,
        cifar10.find_cifar10,
        cifar10.count_cifar10_patches,
    ),
    Entry(
        "svhn",
        "house numbers in colour; validation is the last tenth of training",
        (32, 32, 3),
        PIXELS,
        sizes_of(65_932, 7_325, 26_032),
        svhn.load_svhn,
        "svhn",
        svhn.FILES,
        count=svhn.count_svhn,
    ),
    Entry(
        "small-norb",
        "toys seen by the left camera, grey, at half size; validation is the last tenth of training",
        (48, 48),
        PIXELS,
        sizes_of(21_870, 2_430, 24_300),
        small_norb.load_small_norb,
        "small_norb",
        small_norb.FILES,
    ),
)
_BY_NAME = {entry.name: entry for entry in TABLE}


def load_dataset(name: str) -> Dataset:
    """Read the data set called `name`; `list_datasets` says which there are.

    Raises a `DataError`: `UnknownDatasetError` for a name that is not in the list, `DataNotFoundError` when a file is
    not in the folder that `DLGM_DATA` names, `DataFileError` when one is damaged.

    >>> load_dataset("digits").test.shape
    (250, 64)
    """
    entry = _BY_NAME.get(name)
    if entry is None:
        close = get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownDatasetError(
            f"Expected the name of a data set; got {name!r}.{hint} There are: {', '.join(_BY_NAME)}."
        )
    splits = entry.load(entry.paths())
    return Dataset(
        name, splits.train, splits.valid, splits.test, shape=entry.shape, family=entry.family, labels=splits.labels
    )


def list_datasets() -> list[DatasetInfo]:
    """What there is, and whether it can be loaded here and now.

    >>> for info in list_datasets()[:2]:
    ...     print(info.name, info.shape, info.rows["train"])
    digits (8, 8) 1297
    binarized-mnist (28, 28) 50000
    """
    return [_describe(entry) for entry in TABLE]


def _describe(entry: Entry) -> DatasetInfo:
    rows, note, found = entry.rows, "", True
    try:
        paths = entry.paths()
        if entry.count is not None:
            rows, note = entry.count(paths)
    except DataNotFoundError:
        found = False
    except (DataFileError, OSError) as error:
        note = str(error)
    return DatasetInfo(
        name=entry.name,
        description=entry.description,
        shape=entry.shape,
        rows=dict(rows),
        family=entry.family,
        location=expected_folder(entry.folder) if entry.files else "embedded",
        files=entry.files,
        found=found,
        note=note,
    )

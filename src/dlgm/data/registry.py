"""The table of named data sets, and the functions that read it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dlgm.data import sources
from dlgm.data.dataset import Dataset, DatasetInfo
from dlgm.data.errors import DataError, DataFileError, DataNotFoundError, UnknownDatasetError
from dlgm.data.files import VARIABLE, cache_folder, data_folder, find_files
from dlgm.data.sets import cifar10, digits, frey_faces, mnist, small_norb, svhn
from dlgm.data.sources import Source
from dlgm.data.splits import Splits, sizes_of
from dlgm.names import closest

BITS, PIXELS = "bernoulli", "discretised-logistic"
EMBEDDED, CACHE = "embedded", "cache"


class Located(NamedTuple):
    """Where a data set's files are."""

    where: str  # "DLGM_DATA", "cache" or "embedded"
    folder: Path | None
    paths: list[Path]


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    name: str
    description: str
    shape: tuple[int, ...]
    family: str
    rows: dict[str, int]  # by split, as published
    load: Callable[[Sequence[Path]], Splits]
    source: Source | None = None  # None for a set that needs no files
    folder: str = ""  # under the data folder
    files: tuple[str, ...] = ()
    find: Callable[[Path, Sequence[str]], list[Path]] = find_files
    count: Callable[[Sequence[Path]], tuple[dict[str, int], str]] | None = None  # for sets whose files may be partial
    check: Callable[[Path], object] | None = None  # raises for a wrong file; for files without a known checksum

    def locate(self) -> Located | None:
        """The files in the folder that `DLGM_DATA` names, else those in the cache."""
        if self.source is None:
            return Located(EMBEDDED, None, [])
        root = data_folder()
        if root is not None and (paths := self.find(root / self.folder, self.files)):
            return Located(VARIABLE, root / self.folder, paths)
        folder = cache_folder() / self.folder
        paths = find_files(folder, self.files)  # what is ours is whole or not there
        return Located(CACHE, folder, paths) if paths else None


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
        sources.BINARIZED_MNIST,
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
        sources.MNIST,
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
        sources.FASHION_MNIST,
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
        sources.FREY_FACES,
        "frey_faces",
        frey_faces.FILES,
        check=frey_faces.read_faces,
    ),
    Entry(
        "cifar10",
        "small colour photographs; validation is the last tenth of the training batches present",
        (32, 32, 3),
        PIXELS,
        sizes_of(45_000, 5_000, 10_000),
        cifar10.load_cifar10,
        sources.CIFAR10,
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
        sources.CIFAR10,
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
        sources.SVHN,
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
        sources.SMALL_NORB,
        "small_norb",
        small_norb.FILES,
    ),
)
_BY_NAME = {entry.name: entry for entry in TABLE}


def load_dataset(name: str, *, offline: bool = False, quiet: bool = False) -> Dataset:
    """Read the data set called `name`; `list_datasets` says which there are.

    The files are looked for in the folder that `DLGM_DATA` names, then in the cache (`DLGM_CACHE`), and are fetched
    into the cache if they are in neither, with a line on stderr unless `quiet`. `offline`, or the environment variable
    `DLGM_OFFLINE`, forbids that.

    Raises a `DataError`: `UnknownDatasetError` for a name that is not in the list, `DataNotFoundError` when a file is
    not there and may not be fetched, `DataFetchError` when it could not be, `DataFileError` when one is damaged.

    >>> load_dataset("digits").test.shape
    (250, 64)
    """
    entry = _entry(name)
    located = entry.locate()
    if located is None:
        _fetch(entry, force=False, offline=offline, quiet=quiet)
        located = find_dataset(name)
    splits = entry.load(located.paths)
    return Dataset(
        name, splits.train, splits.valid, splits.test, shape=entry.shape, family=entry.family, labels=splits.labels
    )


def find_dataset(name: str) -> Located:
    """Where the files of a data set are: which of the places, the folder, and the paths. Nothing is fetched.

    >>> find_dataset("digits")
    Located(where='embedded', folder=None, paths=[])
    """
    entry = _entry(name)
    located = entry.locate()
    if located is None:
        root = data_folder()
        given = f"{root / entry.folder} ({VARIABLE})" if root else f"the folder {VARIABLE} names (it is not set)"
        raise DataNotFoundError(
            f"Expected the files of {name} in {given} or in {cache_folder() / entry.folder}; they are not there. "
            f"`dlgm data fetch {name}` fetches them."
        )
    return located


class Fetched(NamedTuple):
    """What came of fetching a data set."""

    name: str
    status: str  # "fetched", "whole" (was there, and is as published), "found" (in DLGM_DATA), "embedded" or "failed"
    located: Located | None
    message: str = ""  # why it failed


def fetch_datasets(
    names: Iterable[str], *, force: bool = False, offline: bool = False, quiet: bool = False
) -> Iterator[Fetched]:
    """Fetch the files of data sets into the cache, one after the other; those there are compared with their checksums.

    Files in the folder that `DLGM_DATA` names are their owner's: they are neither checked nor changed. With `force`
    everything is fetched anew, into the cache. A set that fails does not keep the others from being fetched.

    >>> [fetched.status for fetched in fetch_datasets(["digits"])]
    ['embedded']
    """
    anew: set[str] = set()
    for entry in [_entry(name) for name in names]:
        try:
            located = entry.locate()
            if entry.source is None or (located is not None and located.where == VARIABLE and not force):
                yield Fetched(entry.name, "found" if entry.source else EMBEDDED, located)
                continue
            # Two sets may share their files, which need not be fetched twice.
            done = _fetch(entry, force=force and entry.folder not in anew, offline=offline, quiet=quiet)
            anew.add(entry.folder)
            yield Fetched(entry.name, "fetched" if done or force else "whole", find_dataset(entry.name))
        except DataError as error:
            yield Fetched(entry.name, "failed", None, str(error))


def list_datasets() -> list[DatasetInfo]:
    """What there is, and whether it can be loaded here and now.

    >>> for info in list_datasets()[:2]:
    ...     print(info.name, info.shape, info.rows["train"])
    digits (8, 8) 1297
    binarized-mnist (28, 28) 50000
    """
    return [_describe(entry) for entry in TABLE]


def _entry(name: str) -> Entry:
    entry = _BY_NAME.get(name)
    if entry is None:
        hint = closest(name.lower(), _BY_NAME)
        raise UnknownDatasetError(
            f"Expected the name of a data set; got {name!r}.{hint} There are: {', '.join(_BY_NAME)}."
        )
    return entry


def _fetch(entry: Entry, *, force: bool, offline: bool, quiet: bool) -> bool:
    from dlgm.data.fetching import Fetcher, forbidden, silence, to_stderr

    assert entry.source is not None
    fetcher = Fetcher(offline or forbidden(), silence if quiet else to_stderr, bars=not quiet)
    return fetcher.fetch(entry.source, cache_folder(), check=entry.check, force=force)


def _describe(entry: Entry) -> DatasetInfo:
    rows, note, located = entry.rows, "", None
    try:
        located = entry.locate()
        if located is not None and entry.count is not None:
            rows, note = entry.count(located.paths)
    except (DataNotFoundError, DataFileError, OSError) as error:
        note = str(error)
    folder = located.folder if located else cache_folder() / entry.folder
    return DatasetInfo(
        name=entry.name,
        description=entry.description,
        shape=entry.shape,
        rows=dict(rows),
        family=entry.family,
        where=located.where if located else "",
        location=EMBEDDED if folder is None else str(folder),
        files=entry.files,
        size=entry.source.size if entry.source else 0,
        terms=entry.source.terms if entry.source else "as scikit-learn",
        page=entry.source.page if entry.source else "",
        found=located is not None,
        note=note,
    )

"""Where a named data set's files are found, and what is said when they are nowhere."""

import sys

import numpy as np
import pytest

from dlgm.data import (
    DataError,
    DataNotFoundError,
    UnknownDatasetError,
    find_dataset,
    list_datasets,
    load_dataset,
)
from dlgm.data.files import cache_folder
from tests.data.test_sets import info_of, put_cifar, put_mat


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("DLGM_DATA", raising=False)
    monkeypatch.setenv("DLGM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_svhn(folder, number):
    """Both files, with `number` for every pixel."""
    for part in ("train", "test"):
        put_mat(folder / f"{part}_32x32.mat", X=np.full((32, 32, 3, 10), number, np.uint8), y=np.ones((10, 1)))


@pytest.mark.parametrize("variable", ["", None], ids=["empty", "not set"])
def test_files_nowhere(cache, monkeypatch, variable):
    if variable is not None:
        monkeypatch.setenv("DLGM_DATA", variable)
    with pytest.raises(DataNotFoundError) as caught:
        load_dataset("svhn")
    assert str(caught.value) == (
        f"svhn: expected train_32x32.mat, test_32x32.mat in {cache}/svhn; missing or damaged, and fetching is off "
        "(--offline or DLGM_OFFLINE). Put them there by hand, from http://ufldl.stanford.edu/housenumbers/, or set "
        "DLGM_DATA to a folder that has the set in svhn."
    )
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, DataError)
    assert not cache.exists()


def test_variable_names_no_folder(cache, tmp_path, monkeypatch):
    """Told at once, though the cache has the set: whoever sets the variable means it."""
    put_svhn(cache / "svhn", 3)
    monkeypatch.setenv("DLGM_DATA", str(tmp_path / "nowhere"))
    words = (
        f"Expected DLGM_DATA to name a folder; got {tmp_path}/nowhere. Set it to the folder that has the data sets' "
        "folders in it, or unset it."
    )
    for function in (load_dataset, find_dataset):
        with pytest.raises(DataNotFoundError) as caught:
            function("svhn")
        assert str(caught.value) == words
    assert (info_of("svhn").found, info_of("svhn").note) == (False, words)
    assert load_dataset("digits").train.shape == (1297, 64)


def test_first_the_variable_then_the_cache(cache, tmp_path, monkeypatch):
    put_svhn(cache / "svhn", 3)
    assert load_dataset("svhn").train[0, 0] == 3
    assert (info_of("svhn").where, info_of("svhn").location) == ("cache", f"{cache}/svhn")
    root = tmp_path / "data"
    monkeypatch.setenv("DLGM_DATA", str(root))
    put_svhn(root / "svhn", 7)
    assert load_dataset("svhn").train[0, 0] == 7
    assert (info_of("svhn").where, info_of("svhn").location) == ("DLGM_DATA", f"{root}/svhn")
    (root / "svhn/test_32x32.mat").unlink()  # one place has it all, or is passed over
    assert load_dataset("svhn").train[0, 0] == 3


def test_in_the_cache_a_set_is_whole(cache):
    """Some batches in `DLGM_DATA` are a choice; in the cache they are what an interruption has left."""
    put_cifar(cache, "data_batch_1", range(30))
    assert not info_of("cifar10").found
    with pytest.raises(DataNotFoundError):
        load_dataset("cifar10")


def test_find(cache, tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError) as caught:
        find_dataset("svhn")
    assert str(caught.value) == (
        f"Expected the files of svhn in the folder DLGM_DATA names (it is not set) or in {cache}/svhn; they are not "
        "there. `dlgm data fetch svhn` fetches them."
    )
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    with pytest.raises(
        DataNotFoundError, match=rf"^Expected the files of svhn in {tmp_path}/svhn \(DLGM_DATA\) or in "
    ):
        find_dataset("svhn")
    put_svhn(cache / "svhn", 3)
    names = ("train_32x32.mat", "test_32x32.mat")
    assert find_dataset("svhn") == ("cache", cache / "svhn", [cache / "svhn" / name for name in names])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("minst", " Did you mean 'mnist'?"),
        ("Binarized_MNIST", " Did you mean 'binarized-mnist'?"),
        ("zebra crossing", ""),
    ],
)
def test_unknown_name(name, hint):
    with pytest.raises(UnknownDatasetError) as caught:
        load_dataset(name)
    assert str(caught.value) == (
        f"Expected the name of a data set; got '{name}'.{hint} There are: digits, binarized-mnist, mnist, "
        "fashion-mnist, frey-faces, cifar10, cifar10-patches, svhn, small-norb."
    )
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DataError)


def test_list_without_files(cache):
    digits, *others = list_datasets()
    assert (digits.name, digits.where, digits.location, digits.files) == ("digits", "embedded", "embedded", ())
    assert (digits.found, digits.size) == (True, 0)
    assert digits.rows == {"train": 1297, "valid": 250, "test": 250}
    assert not any(info.found or info.where for info in others)
    assert {info.name: (info.location, sum(info.rows.values())) for info in others} == {
        "binarized-mnist": (f"{cache}/binarized_mnist", 70_000),
        "mnist": (f"{cache}/mnist", 70_000),
        "fashion-mnist": (f"{cache}/fashion_mnist", 70_000),
        "frey-faces": (f"{cache}/frey_faces", 1_965),
        "cifar10": (f"{cache}/cifar10/cifar-10-batches-bin", 60_000),
        "cifar10-patches": (f"{cache}/cifar10/cifar-10-batches-bin", 60_000),
        "svhn": (f"{cache}/svhn", 99_289),
        "small-norb": (f"{cache}/small_norb", 48_600),
    }
    assert not cache.exists()


def test_the_systems_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("DLGM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    cache = cache_folder()
    assert cache.name in ("dlgm", "Cache")
    if sys.platform == "linux":
        assert cache == tmp_path / ".cache/dlgm"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        assert cache_folder() == tmp_path / "elsewhere/dlgm"

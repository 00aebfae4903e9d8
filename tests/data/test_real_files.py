"""The published files themselves, where `DLGM_DATA` has them."""

import hashlib

import numpy as np
import pytest

from dlgm.data import fetch_datasets, find_dataset, list_datasets, load_dataset
from dlgm.data.files import content_size, read_content
from dlgm.data.sources import BINARIZED_MNIST, CIFAR10
from tests.data.server import Server


def real(name):
    info = next(info for info in list_datasets() if info.name == name)
    if not info.found:
        pytest.skip(f"no files for {name}: DLGM_DATA names the folder they are looked for in")
    dataset = load_dataset(name)
    splits = {split: getattr(dataset, split) for split in ("train", "valid", "test")}
    assert {split: len(rows) for split, rows in splits.items()} == info.rows
    assert {rows.dtype for rows in splits.values()} == {np.dtype(np.uint8)}
    return dataset, {split: int(rows.sum(dtype=np.int64)) for split, rows in splits.items()}


def test_binarized_mnist():
    dataset, sums = real("binarized-mnist")
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (50_000, 10_000, 10_000)
    assert sums == {"train": 5_118_041, "valid": 1_028_036, "test": 1_038_896}
    assert dataset.train.max() == 1
    assert (dataset.family, dataset.labels) == ("bernoulli", {})


def test_fetching_binarized_mnist(tmp_path, monkeypatch):
    """The files themselves, served on this machine, have the sizes and the checksums that the table claims."""
    real("binarized-mnist")
    paths = find_dataset("binarized-mnist").paths
    with Server() as server:
        for path, file in zip(paths, BINARIZED_MNIST.files, strict=True):
            server.files[f"/binarized_mnist/{file.name}"] = read_content(path)
            assert content_size(path) == file.size
        for variable in ("DLGM_DATA", "DLGM_OFFLINE"):
            monkeypatch.delenv(variable)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("DLGM_MIRROR", server.address)
        monkeypatch.setenv("DLGM_CACHE", str(tmp_path))
        (fetched,) = fetch_datasets(["binarized-mnist"], quiet=True)
        assert (fetched.status, fetched.message) == ("fetched", "")
        assert len(server.seen) == 3
    assert find_dataset("binarized-mnist").where == "cache"


def test_cifar10_checksums():
    real("cifar10")
    for path in find_dataset("cifar10").paths:
        if path.suffix == ".bin":
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            assert content == CIFAR10.files[0].members[f"cifar-10-batches-bin/{path.name}"]


def test_mnist():
    dataset, sums = real("mnist")
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (50_000, 10_000, 10_000)
    # The mean grey levels everyone standardises with.
    assert (sums["train"] + sums["valid"]) / (60_000 * 784 * 255) == pytest.approx(0.1306604762738429, rel=1e-12)
    assert sums["test"] / (10_000 * 784 * 255) == pytest.approx(0.13251460584233693, rel=1e-12)
    assert dataset.labels["train"][:5].tolist() == [5, 0, 4, 1, 9]
    assert dataset.labels["test"][:5].tolist() == [7, 2, 1, 0, 4]
    counts = [np.bincount(dataset.labels[split]).tolist() for split in ("train", "valid", "test")]
    assert counts[1] == [991, 1064, 990, 1030, 983, 915, 967, 1090, 1009, 961]
    assert counts[2] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert counts[0][0] + counts[1][0] == 5923
    # Row 5 of the first five: its top stroke is at the right.
    assert dataset.train[0].reshape(28, 28)[5, 12:17].tolist() == [3, 18, 18, 18, 126]


def test_fashion_mnist():
    dataset, sums = real("fashion-mnist")
    assert (sums["train"] + sums["valid"]) / (60_000 * 784 * 255) == pytest.approx(0.2860, abs=1e-4)
    assert dataset.labels["train"][:5].tolist() == [9, 0, 0, 3, 0]


def test_frey_faces():
    dataset, sums = real("frey-faces")
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (1565, 200, 200)
    assert sums == {"train": 134_828_028, "valid": 17_431_989, "test": 17_708_724}
    assert dataset.train[0, :5].tolist() == [81, 136, 167, 185, 187]
    # Read with rows and columns exchanged, neighbouring pixels would be less alike.
    faces = dataset.train.astype(float)
    right, wrong = faces.reshape(-1, 28, 20), faces.reshape(-1, 20, 28)
    assert np.abs(np.diff(right, axis=1)).mean() < 0.7 * np.abs(np.diff(wrong, axis=1)).mean()


def test_cifar10():
    dataset, _ = real("cifar10")
    if dataset.labels["train"][:5].tolist() != [6, 9, 9, 4, 1]:
        pytest.skip("data_batch_1.bin, whose first images are known, is not there")
    frog = dataset.train[0].reshape(dataset.shape)
    assert frog[0, :2].tolist() == [[59, 62, 63], [43, 46, 45]]
    assert frog[31, 31].tolist() == [123, 92, 72]


def test_cifar10_patches():
    dataset, _ = real("cifar10-patches")
    assert dataset.train.shape[1] == 192
    assert len(dataset.train) <= 50_000
    images, _ = real("cifar10")
    assert dataset.train.mean() == pytest.approx(images.train.mean(), rel=0.02)


def test_svhn():
    dataset, _ = real("svhn")
    assert dataset.labels["train"][:5].tolist() == [1, 9, 2, 3, 2]
    assert dataset.labels["test"][:5].tolist() == [5, 2, 1, 0, 6]
    assert set(dataset.labels["train"].tolist()) == set(range(10))
    # The third image is a bright two on blue.
    red, green, blue = dataset.train[2].reshape(-1, 3).mean(axis=0)
    assert blue > green > red


def test_small_norb():
    dataset, _ = real("small-norb")
    assert np.bincount(dataset.labels["test"]).tolist() == [4860] * 5

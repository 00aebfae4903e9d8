"""Named data sets on files made here: how rows are laid out and split, and what is said when a file is wrong."""

import struct
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from dlgm.data import (
    DataFileError,
    DataNotFoundError,
    Dataset,
    list_datasets,
    load_dataset,
)
from dlgm.data.sets import cifar10
from tests.data import write

NORB_TRAIN = "small_norb/smallnorb-5x46789x9x18x6x2x96x96-training"
NORB_TEST = "small_norb/smallnorb-5x01235x9x18x6x2x96x96-testing"
BATCHES = "cifar10/cifar-10-batches-bin"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    return tmp_path


def info_of(name):
    return next(info for info in list_datasets() if info.name == name)


def put_mat(path, **variables):
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, variables)


def put_cifar(root, batch, numbers, gzipped=False):
    """Records numbered by their blue, with the row as red and the column as green; the number's last digit labels."""
    records = [write.cifar_record(n % 10, lambda row, column, n=n: (row, column, n)) for n in numbers]
    write.put(root / BATCHES / f"{batch}.bin", b"".join(records), gzipped)


# digits


def test_digits():
    digits = load_dataset("digits")
    assert (digits.train.shape, digits.valid.shape, digits.test.shape) == ((1297, 64), (250, 64), (250, 64))
    assert (digits.shape, digits.family, digits.train.dtype) == ((8, 8), "bernoulli", np.uint8)
    # The first row is a five.
    assert digits.labels["train"][0] == 5
    assert ["".join(".#"[bit] for bit in row) for row in digits.train[0].reshape(8, 8)] == [
        "...####.",
        "..####..",
        "..#.....",
        "..##....",
        "..###...",
        "...##...",
        "...##...",
        "..##....",
    ]
    assert [digits.labels[split][:5].tolist() for split in ("train", "valid", "test")] == [
        [5, 7, 6, 5, 7],
        [5, 3, 1, 0, 1],
        [7, 8, 0, 0, 2],
    ]


def test_digits_are_scikit_learns_binarised_once_each():
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    assert pixels[0, :6].tolist() == [0, 0, 5, 13, 9, 1]  # so 13 and 9 are ones
    expected = sorted([*map(float, row > 7.5), float(label)] for row, label in zip(pixels, labels, strict=True))
    digits = load_dataset("digits")
    rows = np.concatenate([digits.train, digits.valid, digits.test])
    ids = np.concatenate([digits.labels[split] for split in ("train", "valid", "test")])
    assert sorted([*map(float, row), float(label)] for row, label in zip(rows, ids, strict=True)) == expected


def test_same_rows_every_time():
    one, two = load_dataset("digits"), load_dataset("digits")
    for split in ("train", "valid", "test"):
        np.testing.assert_array_equal(getattr(one, split), getattr(two, split))
        np.testing.assert_array_equal(one.labels[split], two.labels[split])


# MNIST's formats


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])
def test_fashion_mnist(root, gzipped):
    """The first pixels of an image spell its number, so that rows can be told apart."""
    for part, num_rows in (("train", 60_000), ("t10k", 10_000)):
        images = np.zeros((num_rows, 784), np.uint8)
        images[:, 0], images[:, 1] = np.arange(num_rows) // 256, np.arange(num_rows) % 256
        labels = np.arange(num_rows) % 10
        folder = root / "fashion_mnist"
        write.put(folder / f"{part}-images-idx3-ubyte", write.idx([num_rows, 28, 28], b"") + images.tobytes(), gzipped)
        write.put(folder / f"{part}-labels-idx1-ubyte", write.idx([num_rows], labels.tolist()), gzipped)
    fashion = load_dataset("fashion-mnist")
    assert (fashion.shape, fashion.family, fashion.train.dtype) == ((28, 28), "discretised-logistic", np.uint8)
    numbers = {split: 256 * getattr(fashion, split)[:, 0].astype(int) + getattr(fashion, split)[:, 1] for split in
               ("train", "valid", "test")}  # fmt: skip
    assert numbers["train"].tolist() == list(range(50_000))
    assert numbers["valid"].tolist() == list(range(50_000, 60_000))
    assert numbers["test"].tolist() == list(range(10_000))
    for split, number in numbers.items():
        assert fashion.labels[split].tolist() == (number % 10).tolist()
    assert {split: len(number) for split, number in numbers.items()} == info_of("fashion-mnist").rows


def test_mnist_with_other_counts(root):
    for part in ("train", "t10k"):
        write.put(root / "mnist" / f"{part}-images-idx3-ubyte", write.idx([2, 28, 28], bytes(2 * 784)))
        write.put(root / "mnist" / f"{part}-labels-idx1-ubyte", write.idx([2], [0, 1]))
    with pytest.raises(DataFileError) as caught:
        load_dataset("mnist")
    assert str(caught.value) == (
        f"{root}/mnist/train-images-idx3-ubyte: expected 60,000 images; got 2. Fetch the file again."
    )


def test_mnist_with_wrong_labels(root):
    write.put(root / "mnist/train-images-idx3-ubyte", write.idx([60_000, 28, 28], bytes(60_000 * 784)))
    write.put(root / "mnist/t10k-images-idx3-ubyte", b"")
    write.put(root / "mnist/t10k-labels-idx1-ubyte", b"")
    path = write.put(root / "mnist/train-labels-idx1-ubyte", write.idx([59_999], bytes(59_999)))
    with pytest.raises(DataFileError, match=r"ubyte: expected 60,000 labels; got 59,999\. Fetch the file again\.$"):
        load_dataset("mnist")
    path.write_bytes(write.idx([60_000], bytes(59_999) + b"\x0a"))
    with pytest.raises(DataFileError, match=r"ubyte: expected labels from 0 to 9; got 10\. Fetch the file again\.$"):
        load_dataset("mnist")


def test_binarized_mnist_with_other_counts(root):
    line = b"0 " * 783 + b"1\n"
    for split in ("train", "valid", "test"):
        write.put(root / f"binarized_mnist/binarized_mnist_{split}.amat", 3 * line, gzipped=split == "train")
    with pytest.raises(DataFileError) as caught:
        load_dataset("binarized-mnist")
    assert str(caught.value) == (
        f"{root}/binarized_mnist/binarized_mnist_train.amat.gz: expected 50,000 rows; got 3. Fetch the file again."
    )


# Frey's face


def test_frey_faces(root):
    frames = np.arange(1965)
    ff = np.zeros((560, 1965), np.uint8)
    ff[0], ff[1], ff[21] = frames // 256, frames % 256, 9  # pixel 21 is row 1, column 1
    put_mat(root / "frey_faces/frey_rawface.mat", ff=ff)
    faces = load_dataset("frey-faces")
    assert (faces.shape, faces.family, faces.train.dtype, faces.labels) == (
        (28, 20), "discretised-logistic", np.uint8, {}
    )  # fmt: skip
    assert faces.train[7].reshape(faces.shape)[1, 1] == 9
    numbers = [256 * rows[:, 0].astype(int) + rows[:, 1] for rows in (faces.train, faces.valid, faces.test)]
    assert [(part[0], part[-1], len(part)) for part in numbers] == [
        (0, 1564, 1565),
        (1565, 1764, 200),
        (1765, 1964, 200),
    ]
    assert np.concatenate(numbers).tolist() == list(range(1965))


@pytest.mark.parametrize(
    ("ff", "got"),
    [
        (np.zeros((560, 9), np.uint8), "uint8 of shape (560, 9)"),
        (np.zeros((560, 1965)), "float64 of shape (560, 1965)"),
    ],
    ids=["few", "floats"],
)
def test_frey_faces_of_another_shape(root, ff, got):
    put_mat(root / "frey_faces/frey_rawface.mat", ff=ff)
    with pytest.raises(DataFileError) as caught:
        load_dataset("frey-faces")
    assert str(caught.value) == (
        f"{root}/frey_faces/frey_rawface.mat: expected ff to be uint8 of shape (560, 1965); got {got}. "
        "Fetch the file again."
    )


# CIFAR-10


def numbers_in(rows, shape):
    """Which image each row came from: its blue, the same everywhere."""
    blue = rows.reshape(-1, *shape)[..., 2]
    assert (blue == blue[:, :1, :1]).all()
    return blue[:, 0, 0].tolist()


def test_cifar10_with_a_test_batch(root):
    put_cifar(root, "data_batch_4", range(12, 20), gzipped=True)
    put_cifar(root, "data_batch_2", range(12))
    put_cifar(root, "test_batch", range(100, 103))
    cifar = load_dataset("cifar10")
    assert (cifar.shape, cifar.family, cifar.train.dtype) == ((32, 32, 3), "discretised-logistic", np.uint8)
    assert cifar.train[3].reshape(cifar.shape)[4, 30].tolist() == [4, 30, 3]
    assert numbers_in(cifar.train, cifar.shape) == list(range(18))
    assert numbers_in(cifar.valid, cifar.shape) == [18, 19]
    assert numbers_in(cifar.test, cifar.shape) == [100, 101, 102]
    assert cifar.labels["train"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7]
    assert (cifar.labels["valid"].tolist(), cifar.labels["test"].tolist()) == ([8, 9], [0, 1, 2])
    info = info_of("cifar10")
    assert (info.found, info.note) == (True, "2 of 5 training batches")
    assert info.rows == {"train": 18, "valid": 2, "test": 3}


def test_cifar10_without_a_test_batch(root):
    put_cifar(root, "data_batch_1", range(30))
    cifar = load_dataset("cifar10")
    assert numbers_in(cifar.train, cifar.shape) == list(range(25))
    assert numbers_in(cifar.valid, cifar.shape) == [25, 26]
    assert numbers_in(cifar.test, cifar.shape) == [27, 28, 29]
    info = info_of("cifar10")
    assert info.note == "1 of 5 training batches, no test batch"
    assert info.rows == {"train": 25, "valid": 2, "test": 3}


def test_cifar10_complete_needs_no_note(root):
    for batch in range(1, 6):
        put_cifar(root, f"data_batch_{batch}", [1, 2, 3])
    assert info_of("cifar10").note == "no test batch"
    put_cifar(root, "test_batch", [3])
    assert info_of("cifar10").note == ""
    assert info_of("cifar10").rows == {"train": 14, "valid": 1, "test": 1}


def test_cifar10_with_only_a_test_batch(root):
    put_cifar(root, "test_batch", [3])
    assert not info_of("cifar10").found
    with pytest.raises(DataNotFoundError, match=r"^cifar10: expected cifar-10-binary\.tar\.gz in "):
        load_dataset("cifar10")


def test_cifar10_patches_lie_in_images_of_their_split(root):
    """Red is the row, green the column: a patch says where it was cut, and blue from which image."""
    put_cifar(root, "data_batch_1", range(30))
    patches = load_dataset("cifar10-patches")
    assert (patches.shape, patches.family, patches.labels) == ((8, 8, 3), "discretised-logistic", {})
    images = {"train": range(25), "valid": [25, 26], "test": [27, 28, 29]}
    places = set()
    for split, numbers in images.items():
        rows = getattr(patches, split)
        assert rows.dtype == np.uint8
        assert sorted(numbers_in(rows, (8, 8, 3))) == [n for n in numbers for _ in range(5)]
        for patch in rows.reshape(-1, 8, 8, 3).astype(int):
            top, left = patch[0, 0, :2]
            assert (patch[..., 0] == top + np.arange(8)[:, None]).all()
            assert (patch[..., 1] == left + np.arange(8)[None, :]).all()
            places.add((int(top), int(left)))
    tops, lefts = zip(*places, strict=True)
    assert (min(tops), max(tops), min(lefts), max(lefts)) == (0, 24, 0, 24)
    assert len(places) > 100  # of 150
    assert info_of("cifar10-patches").rows == {"train": 125, "valid": 10, "test": 15}
    again = load_dataset("cifar10-patches")
    np.testing.assert_array_equal(again.train, patches.train)
    np.testing.assert_array_equal(again.test, patches.test)


def test_cifar10_patches_are_capped(root, monkeypatch):
    monkeypatch.setattr(cifar10, "MOST_PATCHES", {"train": 40, "valid": 3, "test": 100})
    put_cifar(root, "data_batch_1", range(30))
    patches = load_dataset("cifar10-patches")
    assert (len(patches.train), len(patches.valid), len(patches.test)) == (40, 3, 15)
    assert info_of("cifar10-patches").rows == {"train": 40, "valid": 3, "test": 15}
    assert len(set(numbers_in(patches.train, (8, 8, 3)))) > 15  # of 25 images; the first 8 would have filled the cap


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x0b" + bytes(3072), "labels from 0 to 9; got 11"),
        (bytes(9 * 3073), "at least 10 rows, to hold out a tenth; got 9"),
        (bytes(3074), "records of 3,073 bytes; got 3,074 bytes, 1 more than 1 records"),
    ],
    ids=["label", "few", "cut"],
)
def test_damaged_cifar10(root, content, words):
    write.put(root / BATCHES / "data_batch_1.bin", content)
    with pytest.raises(DataFileError) as caught:
        load_dataset("cifar10")
    assert str(caught.value) == f"{root}/{BATCHES}/data_batch_1.bin: expected {words}. Fetch the file again."


def test_list_says_which_file_is_damaged(root):
    write.put(root / BATCHES / "data_batch_1.bin", bytes(7))
    info = info_of("cifar10")
    assert info.found
    assert info.note == (
        f"{root}/{BATCHES}/data_batch_1.bin: expected records of 3,073 bytes; got 7 bytes, 7 more than 0 records. "
        "Fetch the file again."
    )
    assert info.rows == {"train": 45_000, "valid": 5_000, "test": 10_000}


# SVHN


def test_svhn(root):
    for part, first, num_rows in (("train", 0, 20), ("test", 100, 4)):
        X = np.zeros((32, 32, 3, num_rows), np.uint8)
        X[:, :, 0], X[:, :, 1] = np.arange(32)[:, None, None], np.arange(32)[None, :, None]
        X[:, :, 2] = first + np.arange(num_rows)
        put_mat(root / f"svhn/{part}_32x32.mat", X=X, y=1 + np.arange(num_rows, dtype=np.uint8)[:, None] % 10)
    svhn = load_dataset("svhn")
    assert (svhn.shape, svhn.family, svhn.train.dtype) == ((32, 32, 3), "discretised-logistic", np.uint8)
    assert svhn.train[3].reshape(svhn.shape)[4, 30].tolist() == [4, 30, 3]
    assert numbers_in(svhn.train, svhn.shape) == list(range(18))
    assert numbers_in(svhn.valid, svhn.shape) == [18, 19]
    assert numbers_in(svhn.test, svhn.shape) == [100, 101, 102, 103]
    # The published label 10 is the digit 0.
    assert svhn.labels["train"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert (svhn.labels["valid"].tolist(), svhn.labels["test"].tolist()) == ([9, 0], [1, 2, 3, 4])
    info = info_of("svhn")
    assert info.rows == {"train": 18, "valid": 2, "test": 4}
    assert info.note == "20 of 73,257 and 4 of 26,032 rows"


IMAGES = np.zeros((32, 32, 3, 12), np.uint8)
SVHN_DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "planes first": ({"X": np.zeros((12, 3, 32, 32), np.uint8)}, "X of shape (32, 32, 3, n); got (12, 3, 32, 32)"),
    "no images": ({"X": np.zeros((32, 32, 3, 0), np.uint8)}, "X of shape (32, 32, 3, n); got (32, 32, 3, 0)"),
    "floats": ({"X": IMAGES.astype(float)}, "X to be uint8; got float64"),
    "few labels": ({"y": np.ones((11, 1))}, "12 labels; got 11"),
    "digit 0": ({"y": np.zeros((12, 1))}, "labels from 1 to 10; got 0.0"),
    "no number": ({"y": np.full((12, 1), np.nan)}, "labels from 1 to 10; got nan"),
    "half": ({"y": np.full((12, 1), 1.5)}, "labels from 1 to 10; got 1.5"),
    "too few": ({"X": IMAGES[..., :9], "y": np.ones((9, 1))}, "at least 10 rows, to hold out a tenth; got 9"),
}


@pytest.mark.parametrize("case", SVHN_DAMAGED)
def test_damaged_svhn(root, case):
    variables, words = SVHN_DAMAGED[case]
    good: dict[str, Any] = {"X": IMAGES, "y": np.ones((12, 1))}
    put_mat(root / "svhn/train_32x32.mat", **(good | variables))
    put_mat(root / "svhn/test_32x32.mat", **good)
    with pytest.raises(DataFileError) as caught:
        load_dataset("svhn")
    assert str(caught.value) == f"{root}/svhn/train_32x32.mat: expected {words}. Fetch the file again."


# Small NORB


def put_norb(root, prefix, pairs, labels, gzipped=False):
    write.put(root / f"{prefix}-dat.mat", write.norb(0x1E3D4C55, pairs.shape, pairs.tobytes()), gzipped)
    values = struct.pack(f"<{len(labels)}i", *labels)
    write.put(root / f"{prefix}-cat.mat", write.norb(0x1E3D4C54, (len(labels),), values), gzipped)


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])
def test_small_norb(root, gzipped):
    train, test = np.zeros((11, 2, 96, 96), np.uint8), np.zeros((2, 2, 96, 96), np.uint8)
    train[:, 1], test[:, 1] = 77, 77  # the right camera, not to be seen
    train[:, 0, 2:4, 10:12] = np.array([[0, 9], [0, 2]])  # 11 / 4 is 2.75, to the nearest 3
    train[:, 0, 2:4, 12:14] = np.array([[0, 0], [10, 0]])  # 10 / 4 is 2.5, halves up
    train[:, 0, 2:4, 14:16] = np.array([[9, 0], [0, 0]])  # 9 / 4 is 2.25
    train[:, 0, 94:, 94:] = 255
    train[:, 0, :2, :2] = np.arange(11)[:, None, None]
    test[:, 0] = 200
    put_norb(root, NORB_TRAIN, train, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 2], gzipped)
    put_norb(root, NORB_TEST, test, [4, 3], gzipped)
    norb = load_dataset("small-norb")
    assert (norb.shape, norb.family, norb.train.dtype) == ((48, 48), "discretised-logistic", np.uint8)
    assert norb.train[6].reshape(norb.shape)[1, 4:9].tolist() == [0, 3, 3, 2, 0]
    assert norb.train[6].reshape(norb.shape)[47, 47] == 255
    assert norb.train[:, 0].tolist() == list(range(10))
    assert norb.valid[:, 0].tolist() == [10]
    assert norb.test.tolist() == [[200] * 2304] * 2
    assert norb.labels["train"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert (norb.labels["valid"].tolist(), norb.labels["test"].tolist()) == ([2], [4, 3])
    assert info_of("small-norb").found


@pytest.mark.parametrize(
    ("pairs", "labels", "kind", "words"),
    [
        (np.zeros((10, 1, 96, 96), np.uint8), [0] * 10, "dat", "shape (n, 2, 96, 96); got (10, 1, 96, 96)"),
        (np.zeros((0, 2, 96, 96), np.uint8), [], "dat", "shape (n, 2, 96, 96); got (0, 2, 96, 96)"),
        (np.zeros((10, 2, 96, 96), np.uint8), [0] * 9, "cat", "10 labels; got 9"),
        (np.zeros((10, 2, 96, 96), np.uint8), [0] * 9 + [-1], "cat", "labels from 0 to 4; got -1"),
    ],
    ids=["no pairs", "none", "few labels", "label"],
)
def test_damaged_small_norb(root, pairs, labels, kind, words):
    put_norb(root, NORB_TRAIN, pairs, labels)
    put_norb(root, NORB_TEST, pairs, labels)
    with pytest.raises(DataFileError) as caught:
        load_dataset("small-norb")
    assert str(caught.value) == f"{root}/{NORB_TRAIN}-{kind}.mat: expected {words}. Fetch the file again."


# The record


def test_rows_must_fill_the_image():
    rows = np.zeros((3, 4), np.uint8)
    with pytest.raises(ValueError) as caught:
        Dataset("mine", rows, rows, rows, shape=(2, 3), family="bernoulli")
    assert str(caught.value) == (
        "Dataset 'mine': expected `train` of shape (n, 6), to fill images of shape (2, 3); got shape (3, 4)."
    )


def test_every_row_has_a_label():
    rows, labels = np.zeros((3, 4), np.uint8), np.arange(3)
    with pytest.raises(ValueError) as caught:
        Dataset("mine", rows, rows, rows, (2, 2), "bernoulli", {"train": labels, "valid": labels[:2], "test": labels})
    assert str(caught.value) == "Dataset 'mine': expected 3 labels for `valid`; got shape (2,)."

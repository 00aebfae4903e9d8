"""Readers of file formats: values and messages spelled by hand, on files of a few bytes."""

import io
import struct

import numpy as np
import pytest
from scipy.io import savemat

from dlgm.data.errors import DataError, DataFileError
from dlgm.data.files import content_size, read_content
from dlgm.data.formats.amat import read_binary_amat
from dlgm.data.formats.cifar import count_cifar, read_cifar
from dlgm.data.formats.idx import read_idx
from dlgm.data.formats.mat import read_mat, read_mat_shape
from dlgm.data.formats.norb import read_norb
from tests.data import write

either = pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])

BYTES, INTEGERS = 0x1E3D4C55, 0x1E3D4C54


def mat(**variables):
    file = io.BytesIO()
    savemat(file, variables, do_compression=True)
    return file.getvalue()


@either
def test_idx(tmp_path, gzipped):
    content = bytes.fromhex("00000803 00000002 00000002 00000003 010203 040506 0708ff 000a0b")
    images = read_idx(write.put(tmp_path / "images", content, gzipped), (2, 3))
    assert images.dtype == np.uint8
    assert images.tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 255], [0, 10, 11]]]
    labels = read_idx(write.put(tmp_path / "labels", bytes.fromhex("00000801 00000003 050009"), gzipped), ())
    assert labels.tolist() == [5, 0, 9]


@either
@pytest.mark.parametrize("text", [b"0 1 1\n1 0 0\n", b"0 1 1\r\n1 0 0\r\n", b"0 1 1 \n1 0 0"])
def test_amat(tmp_path, gzipped, text):
    rows = read_binary_amat(write.put(tmp_path / "rows.amat", text, gzipped), 3)
    assert rows.dtype == np.uint8
    assert rows.tolist() == [[0, 1, 1], [1, 0, 0]]


@either
def test_mat(tmp_path, gzipped):
    path = write.put(tmp_path / "a.mat", mat(X=np.array([[1, 2, 3], [4, 5, 6]], np.uint8), y=[[7.0]]), gzipped)
    X, y = read_mat(path, ("X", "y"))
    assert X.dtype == np.uint8
    assert X.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert y.tolist() == [[7.0]]
    assert read_mat_shape(path, "X") == (2, 3)


@either
def test_cifar(tmp_path, gzipped):
    content = write.cifar_record(3, lambda row, column: (row, column, 200))
    content += write.cifar_record(9, lambda row, column: (100, row, 2 * column))
    path = write.put(tmp_path / "batch.bin", content, gzipped)
    images, labels = read_cifar(path)
    assert labels.tolist() == [3, 9]
    assert images.shape == (2, 32, 32, 3)
    assert images[0, 5, 17].tolist() == [5, 17, 200]
    assert images[1, 30, 2].tolist() == [100, 30, 4]
    assert count_cifar(path) == 2


@either
def test_norb(tmp_path, gzipped):
    pairs = bytes.fromhex("554c3d1e 04000000 02000000 02000000 01000000 02000000") + bytes(range(8))
    assert read_norb(write.put(tmp_path / "dat", pairs, gzipped), "u1", 4).tolist() == [
        [[[0, 1]], [[2, 3]]],
        [[[4, 5]], [[6, 7]]],
    ]
    # One axis, and yet three sizes are written.
    labels = bytes.fromhex("544c3d1e 01000000 02000000 01000000 01000000 04000000 ffffffff")
    assert read_norb(write.put(tmp_path / "cat", labels, gzipped), "<i4", 1).tolist() == [4, -1]


def test_content_of_several_gzip_members(tmp_path):
    one = write.put(tmp_path / "a", b"abc", gzipped=True)
    one.write_bytes(2 * one.read_bytes())
    assert read_content(one) == b"abcabc"
    assert content_size(one) == 6


READERS = {
    "idx": lambda path: read_idx(path, (2, 3)),
    "amat": lambda path: read_binary_amat(path, 3),
    "mat": lambda path: read_mat(path, ("X",)),
    "mat shape": lambda path: read_mat_shape(path, "X"),
    "cifar": read_cifar,
    "cifar count": count_cifar,
    "norb": lambda path: read_norb(path, "u1", 4),
    "norb labels": lambda path: read_norb(path, "<i4", 1),
}

DAMAGED = {
    "idx, empty": ("idx", b"", "an idx file with magic number 00000803; got an empty file"),
    "idx, other axes": ("idx", write.idx([3], [1, 2, 3]), "an idx file with magic number 00000803; got 00000801"),
    "idx, still gzipped": (
        "idx",
        bytes.fromhex("1f8b0800 00000000"),
        "an idx file with magic number 00000803; got 1f8b0800",
    ),
    "idx, cut in the header": ("idx", write.idx([1, 2, 3], [])[:13], "a header of 16 bytes; got 13 bytes"),
    "idx, other images": ("idx", write.idx([1, 3, 2], range(6)), "entries of shape (2, 3); got (3, 2)"),
    "idx, cut": ("idx", write.idx([2, 2, 3], range(11)), "12 values, for shape (2, 2, 3); got 11"),
    "idx, too long": ("idx", write.idx([2, 2, 3], range(13)), "12 values, for shape (2, 2, 3); got 13"),
    "idx, absurd size": (
        "idx",
        write.idx([2**32 - 1, 2, 3], []),
        "25,769,803,770 values, for shape (4294967295, 2, 3); got 0",
    ),
    "amat, two": ("amat", b"0 1 1\n0 2 1\n", "only 0 and 1 in line 2; got '2'"),
    "amat, below zero": ("amat", b"0 1 /\n", "only 0 and 1 in line 1; got '/'"),
    "amat, fraction": ("amat", b"0 1 1\n1 1 1\n0.5 1 1\n", "only 0 and 1 in line 3; got '0.5'"),
    "amat, not text": ("amat", b"0 \xff 1\n", "only 0 and 1 in line 1; got '\\xff'"),
    "amat, cut": ("amat", b"0 1 1\n0 1", "3 values in line 2; got 2"),
    "amat, too many": ("amat", b"0 1 1 0\n", "3 values in line 1; got 4"),
    "amat, blank line": ("amat", b"0 1 1\n\n1 1 1\n", "3 values in line 2; got 0"),
    "amat, joined": ("amat", b"01  1\n", "3 values in line 1; got 2"),
    "amat, tab": ("amat", b"0\t1 1\n", "one space between the values of line 1; got something else"),
    "mat, other variables": ("mat", mat(ff=1, gg=2), "a variable 'X'; got ff, gg"),
    "mat, no variables": ("mat", mat(), "a variable 'X'; got none"),
    "mat shape, other variables": ("mat shape", mat(ff=1, gg=2), "a variable 'X'; got ff, gg"),
    "cifar, empty": ("cifar", b"", "records of 3,073 bytes; got an empty file"),
    "cifar, cut": ("cifar", bytes(5000), "records of 3,073 bytes; got 5,000 bytes, 1,927 more than 1 records"),
    "cifar count, cut": (
        "cifar count",
        bytes(5000),
        "records of 3,073 bytes; got 5,000 bytes, 1,927 more than 1 records",
    ),
    "norb, cut in the header": (
        "norb",
        write.norb(BYTES, (1, 2, 96, 96), b"")[:20],
        "a header of 24 bytes; got 20 bytes",
    ),
    "norb, integers": (
        "norb",
        write.norb(INTEGERS, (1, 2, 96, 96), b""),
        "a NORB matrix with magic number 1e3d4c55; got 1e3d4c54",
    ),
    "norb, big-endian": (
        "norb",
        struct.pack(">6i", BYTES, 4, 1, 2, 96, 96),
        "a NORB matrix with magic number 1e3d4c55; got 554c3d1e",
    ),
    "norb, other axes": ("norb", write.norb(BYTES, (1, 2, 96), bytes(9)), "a matrix of 4 axes; got 3"),
    "norb, cut": (
        "norb",
        write.norb(BYTES, (1, 2, 1, 2), bytes(3)),
        "4 bytes of values, for shape (1, 2, 1, 2); got 3",
    ),
    "norb labels, too long": (
        "norb labels",
        write.norb(INTEGERS, (2,), bytes(12)),
        "8 bytes of values, for shape (2,); got 12",
    ),
}


@either
@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files(tmp_path, case, gzipped):
    reader, content, words = DAMAGED[case]
    path = write.put(tmp_path / "file", content, gzipped)
    with pytest.raises(DataFileError) as caught:
        READERS[reader](path)
    assert str(caught.value) == f"{path}: expected {words}. Fetch the file again."
    assert isinstance(caught.value, DataError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("reader", ["mat", "mat shape"])
@pytest.mark.parametrize(
    "content",
    [b"", b"no MATLAB at all" * 20, mat(X=1)[:100], mat(X=1)[:150], bytes(300)],
    ids=["empty", "text", "cut in the header", "cut", "zeros"],
)
def test_damaged_mat(tmp_path, reader, content):
    """SciPy's own words follow, whatever they are, on the same line."""
    path = write.put(tmp_path / "file.mat", content)
    with pytest.raises(DataFileError) as caught:
        READERS[reader](path)
    assert str(caught.value).startswith(f"{path}: expected a MATLAB file; got ")
    assert str(caught.value).endswith(". Fetch the file again.")
    assert "\n" not in str(caught.value)


def test_cut_mat(tmp_path):
    whole = mat(X=np.random.default_rng(0).integers(0, 255, 5000))
    path = write.put(tmp_path / "file.mat", whole[:3000])
    with pytest.raises(DataFileError, match="expected a MATLAB file; got "):
        read_mat(path, ("X",))


@pytest.mark.parametrize("reader", ["idx", "amat", "cifar", "cifar count", "norb"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: b"0 1 0\n", "BadGzipFile: Not a gzipped file (b'0 ')"),
        (
            lambda content: content[:-10],
            "EOFError: Compressed file ended before the end-of-stream marker was reached",
        ),
        (lambda content: content[:-8] + bytes(8), "BadGzipFile: CRC check failed 0x0 != 0x"),
        (lambda content: content[:10] + b"\xff" * 20, "error: Error -3 while decompressing data: invalid block type"),
    ],
    ids=["not gzip", "cut", "checksum", "garbage"],
)
def test_damaged_gzip(tmp_path, reader, damage, words):
    path = write.put(tmp_path / "file", b"0 1 1\n" * 1000, gzipped=True)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataFileError) as caught:
        READERS[reader](path)
    assert str(caught.value).startswith(f"{path}: expected a whole gzip file; got {words}")
    assert str(caught.value).endswith(". Fetch the file again.")

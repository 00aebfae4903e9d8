"""Users' files, format by format: what is in a file of a few cells comes out, gzipped or not."""

import io
import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.io import savemat

from dlgm.data import read_frame, read_table
from tests.data import write

either = pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])

NAN = float("nan")
NUMBERS = np.array([[1.5, -2.0], [NAN, 4.25], [-0.5, -1.0]])


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def mat(**variables):
    file = io.BytesIO()
    savemat(file, variables)
    return file.getvalue()


def parquet(frame):
    file = io.BytesIO()
    frame.to_parquet(file, engine="pyarrow")
    return file.getvalue()


def png(pixels, mode=None, kind="PNG", **options):
    file = io.BytesIO()
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    (image if mode is None else image.convert(mode)).save(file, kind, **options)
    return file.getvalue()


FILES = {
    "a.csv": b"a,b\n1.5,-2\n,4.25\n-0.5,-1\n",
    "a.tsv": b"a\tb\n1.5\t-2\nNA\t4.25\n-0.5\t-1\n",
    "a.txt": b"a b\n1.5   -2\n?  4.25\n  -0.5 -1\n",
    "a.data": b"1.5,-2\nnull,4.25\n-0.5,-1\n",
    "a.dat": b"1.5|-2\n|4.25\n-0.5|-1\n",
    "a.amat": b"1.5 -2\nNaN 4.25\n-0.5 -1\n",
    "a.npy": npy(NUMBERS),
    "fortran.npy": npy(np.asfortranarray(NUMBERS)),
    "big-endian.npy": npy(NUMBERS.astype(">f8")),
    "a.npz": npz(x=NUMBERS),
    "a.mat": mat(x=NUMBERS),
    "a.parquet": parquet(pd.DataFrame(NUMBERS, columns=["a", "b"])),
    "CAPITALS.CSV": b"a,b\n1.5,-2\n,4.25\n-0.5,-1\n",
}


@either
@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(tmp_path, name, gzipped):
    table = read_table(write.put(tmp_path / name, FILES[name], gzipped))
    assert [column.kind for column in table.schema.columns] == ["real", "real"]
    assert table.values.dtype == np.float32
    assert table.mask is not None
    assert table.mask.tolist() == [[True, True], [False, True], [True, True]]
    assert (table.shape, table.name, len(table)) == (None, f"{name}.gz" if gzipped else name, 3)
    center, scale = np.array([0.5, 1.25 / 3]), np.array([1.0, np.sqrt((4 + 4.25**2 + 1) / 3 - (1.25 / 3) ** 2)])
    np.testing.assert_allclose(table.values, np.where(table.mask, (NUMBERS - center) / scale, 0), rtol=1e-6)
    np.testing.assert_allclose(table.frame().to_numpy(), NUMBERS, rtol=1e-6)


@either
def test_idx(tmp_path, gzipped):
    images = write.put(tmp_path / "t10k-images-idx3-ubyte", write.idx([2, 2, 3], range(100, 112)), gzipped)
    table = read_table(images)
    assert (table.schema.kind, table.shape, table.values.dtype) == ("pixel", (2, 3), np.uint8)
    assert table.values.tolist() == [list(range(100, 106)), list(range(106, 112))]
    labels = read_table(write.put(tmp_path / "t10k-labels-idx1-ubyte", write.idx([3], [7, 2, 9]), gzipped))
    assert (labels.values.tolist(), labels.shape, labels.mask) == ([[7], [2], [9]], None, None)
    assert (
        read_table(write.put(tmp_path / "bits.idx", write.idx([2, 2], [0, 1, 1, 0]), gzipped)).schema.kind == "binary"
    )


@either
def test_amat_of_bits_is_compact(tmp_path, gzipped):
    table = read_table(write.put(tmp_path / "a.amat", b"0 1 1\n1 0 0\n", gzipped))
    assert (table.schema.kind, table.values.dtype) == ("binary", np.uint8)
    assert table.values.tolist() == [[0, 1, 1], [1, 0, 0]]
    # A file that only begins with bits is numbers like any other.
    other = read_table(write.put(tmp_path / "b.amat", b"0 1 1\n1 0.5 -3\n", gzipped))
    np.testing.assert_allclose(other.frame().to_numpy(), [[0.0, 1.0, 1.0], [1.0, 0.5, -3.0]], atol=1e-6)


def test_keys(tmp_path):
    path = write.put(tmp_path / "a.npz", npz(x=NUMBERS, y=np.zeros((4, 1))))
    assert len(read_table(path, key="y")) == len(read_table(f"{path}:y")) == 4
    assert len(read_table(f"{path}:x")) == 3
    # A key given by itself is the one that counts; a file whose own name has a colon is found first.
    assert len(read_table(f"{path}:x", key="y")) == 4
    assert len(read_table(write.put(tmp_path / "b:c.csv", b"a\n1\n2\n"))) == 2
    assert len(read_table(write.put(tmp_path / "a.mat", mat(x=NUMBERS, y=np.zeros((4, 1)))), key="y")) == 4


class H5:
    """As much of h5py as is needed: a file with a dataset, whose axes MATLAB writes in reverse."""

    class Dataset:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    def __init__(self, file, mode):
        self.content = {"x": H5.Dataset(NUMBERS.T), "#refs#": object()}

    def __enter__(self):
        return self.content

    def __exit__(self, *_):
        pass


@either
def test_mat_of_version_7_3(tmp_path, gzipped, monkeypatch):
    path = write.put(tmp_path / "a.mat", b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n", gzipped)
    module = ModuleType("h5py")
    module.File, module.Dataset = H5, H5.Dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "h5py", module)
    np.testing.assert_allclose(read_table(path).frame().to_numpy(), NUMBERS, rtol=1e-6)


def test_parquet_keeps_types(tmp_path):
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["M", "S", None, "M"], categories=["S", "M", "L"], ordered=True),
            "colour": pd.Categorical(["red", "green", "blue", "red"]),
            "children": pd.array([1, None, 3, 0], dtype="Int16"),
            "member": [True, False, None, True],
            "level": np.array([3, 1, 2, 200], np.uint8),
            "weight": np.array([1.5, 2.5, -3.0, 0.25], np.float32),
            "city": ["Rome", None, "Oslo", "Rome"],
        },
        index=pd.Index([10, 20, 30, 40], name="id"),
    )
    table = read_table(write.put(tmp_path / "a.parquet", parquet(frame)), drop=["id"])
    kinds = {column.name: column.kind for column in table.schema.columns}
    assert kinds == {
        "size": "ordinal",
        "colour": "categorical",
        "children": "count",
        "member": "binary",
        "level": "count",
        "weight": "real",
        "city": "binary",
    }
    back = table.frame()
    assert [str(dtype) for dtype in back.dtypes] == [
        "category",
        "category",
        "Int16",
        "boolean",
        "uint8",
        "float32",
        "str",
    ]
    assert back["size"].cat.categories.tolist() == ["S", "M", "L"]
    expected = frame.reset_index(drop=True).astype({"member": "boolean"})
    pd.testing.assert_frame_equal(back, expected, rtol=1e-6, check_categorical=True)


@pytest.mark.parametrize("index", [["r0", "r1"], [(1, "a"), (1, "b")], [0, 1]])
def test_parquet_with_an_index_that_has_no_name(tmp_path, index):
    frame = pd.DataFrame({"x": [0.5, 1.5]}, index=pd.Index(index))
    path = write.put(tmp_path / "a.parquet", parquet(frame))
    table = read_table(path)
    assert table.schema.names == ["x"]
    pd.testing.assert_index_equal(read_frame(path, table.schema).index, frame.index, exact="equiv")


def test_parquet_with_an_index_of_its_own(tmp_path):
    frame = pd.DataFrame({"x": [0.5, -1.5]}, index=pd.Index(["p", "q"], name="who"))
    assert read_table(write.put(tmp_path / "a.parquet", parquet(frame))).schema.names == ["who", "x"]


@pytest.mark.parametrize(("suffix", "kind"), [(".png", "PNG"), (".PNG", "PNG"), (".jpg", "JPEG"), (".jpeg", "JPEG")])
def test_folder_of_grey_images(tmp_path, suffix, kind):
    # Flat images survive JPEG.
    for name, level in (("b", 200), ("a", 100), ("c", 0)):
        write.put(tmp_path / "faces" / f"{name}{suffix}", png(np.full((2, 3), level), kind=kind))
    write.put(tmp_path / "faces" / "notes.txt", b"hello")
    write.put(tmp_path / "faces" / ".hidden", b"hello")
    table = read_table(tmp_path / "faces")
    assert table.values.tolist() == [[100] * 6, [200] * 6, [0] * 6]
    assert (table.schema.kind, table.shape, table.name) == ("pixel", (2, 3), "faces")
    assert table.notes == ("files left out that are neither PNG nor JPEG: 1",)


def test_folder_of_other_images(tmp_path):
    colour = np.arange(18).reshape(2, 3, 3) * 10
    write.put(tmp_path / "rgb" / "0.png", png(colour))
    write.put(tmp_path / "rgb" / "1.png", png(colour + 5))
    table = read_table(tmp_path / "rgb")
    assert (table.shape, table.values[1].tolist()) == ((2, 3, 3), (colour + 5).ravel().tolist())
    write.put(tmp_path / "palette" / "0.png", png(colour, "P"))
    assert read_table(tmp_path / "palette", types={"*": "pixel"}).shape == (2, 3, 3)
    write.put(tmp_path / "bits" / "0.png", png([[0, 255], [255, 0]], "1"))
    bits = read_table(tmp_path / "bits")
    assert (bits.schema.kind, bits.shape, bits.values.tolist()) == ("binary", (2, 2), [[0, 1, 1, 0]])


@pytest.mark.parametrize(
    ("array", "shape", "rows"),
    [
        (np.array([1.5, -2.5, 0.5]), None, [[1.5], [-2.5], [0.5]]),
        (np.arange(12).reshape(2, 2, 3), (2, 3), [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]),
        (np.arange(12.0).reshape(1, 2, 2, 3), (2, 2, 3), [list(range(12))]),
    ],
)
def test_axes_after_the_first_are_one_row(tmp_path, array, shape, rows):
    table = read_table(write.put(tmp_path / "a.npy", npy(array)))
    assert table.shape == shape
    np.testing.assert_allclose(table.frame().to_numpy(), rows, atol=1e-6)

"""Files that cannot be read: one line that names the path and the place, spelled by hand."""

import gzip
import sys
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from scipy.sparse import csc_array

from dlgm.data import DataError, DataFileError, DataNotFoundError, SchemaError, read_table
from tests.data import write
from tests.data.test_tables_formats import FILES, mat, npy, npz, parquet

GREY = np.zeros((2, 3))
MANY = np.random.default_rng(0).normal(size=(2000, 3))


def arrow(**columns):
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()


# Name, content, options of read_table, and what follows the path in the message.
TEXT: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "empty": ("a.csv", b"", {}, "expected a table; the file is empty."),
    "blank": ("a.csv", b"\n \r\n\n", {}, "expected a table; the file is empty."),
    "only a header": ("a.csv", b"a,b\n", {}, "expected rows; there is only a header."),
    "too many fields": ("a.csv", b"a,b\n1,2\n1,2,3\n", {}, "line 3: expected 2 fields, as in the first line; got 3."),
    "too few fields": (
        "a.csv",
        b"a,b,c\n1,2,3\n\n1,2\n",
        {},
        "line 4: expected 3 fields, as in the first line; got 2.",
    ),
    "ragged, far down": (
        "a.csv",
        b"a,b\n" + b"1,2\n" * 5000 + b"1\n",
        {},
        "line 5,002: expected 2 fields, as in the first line; got 1.",
    ),
    "ragged after a quoted line end": (
        "a.csv",
        b'a,b\n"x\ny",2\n3\n',
        {},
        "line 4: expected 2 fields, as in the first line; got 1.",
    ),
    "ragged, by spaces": ("a.txt", b"1 2 3\n1  2\n", {}, "line 2: expected 3 fields, as in the first line; got 2."),
    "ragged amat": ("a.amat", b"1 2 3\n1 2\n", {}, "line 2: expected 3 fields, as in the first line; got 2."),
    "open quote": ("a.csv", b'a,b\n1,"2\n3,4\n', {}, "line 3: unexpected end of data."),
    "text after a quote": ("a.csv", b'a,b\n1,"2"3\n', {}, "line 2: ',' expected after '\"'."),
    "two names alike": (
        "a.csv",
        b"a,b, a\n1,2,3\n",
        {},
        "expected every column name once; got 'a' in columns 1 and 3.",
    ),
    "not UTF-8": (
        "a.csv",
        b"a,b\n1,x\n2,caf\xe9\n",
        {},
        "line 3: expected text in UTF-8; got the byte 0xe9. Save the file as UTF-8, or name its encoding "
        "(encoding, --encoding: latin-1, say).",
    ),
    "not UTF-8, far down": (
        "a.csv",
        b"a,b\n" + b"1,x\n" * 5000 + b"\xff,x\n",
        {},
        "line 5,002: expected text in UTF-8; got the byte 0xff. Save the file as UTF-8, or name its encoding "
        "(encoding, --encoding: latin-1, say).",
    ),
    "not the encoding named": (
        "a.csv",
        "a,b\n1,ü\n".encode(),
        {"encoding": "ascii"},
        "expected text in ascii; got 'ascii' codec can't decode byte 0xc3 in position 6: ordinal not in range(128).",
    ),
    "no encoding": (
        "a.csv",
        b"a,b\n1,2\n",
        {"encoding": "utf-9"},
        "expected the name of an encoding; got 'utf-9'.",
    ),
    "gzipped, but not named so": (
        "a.csv",
        b"\x1f\x8b\x08\x00",
        {},
        "expected text; got a gzipped file. Let its name end in .gz.",
    ),
    "a delimiter of two": (
        "a.csv",
        b"a,b\n1,2\n",
        {"delimiter": "::"},
        "expected a delimiter of one character, or tab or space; got '::'.",
    ),
    "no columns that say anything": (
        "a.csv",
        b"x,\n",
        {"header": False, "drop": ["v0", "v1"]},
        "Expected at least one column; there is none.",
    ),
    "row numbers only": (
        "a.csv",
        b'""\n0\n1\n2\n',
        {"header": True},
        "expected at least one column that holds something; there is none.",
    ),
    "infinite": (
        "a.csv",
        b"a,b\n1,2.5\n3,-inf\n",
        {},
        "column 'b': expected finite numbers (up to 1e100); got -inf in row 2 (counting from 1). Mend it or "
        "mark it missing.",
    ),
    "all missing": (
        "a.csv",
        b"a,b,c\n1,NA,\n2,?,\n",
        {},
        "column 'b': expected at least one observed cell; all are missing (and in 1 more: c). There is nothing to "
        "learn from it: leave it out (drop, --drop).",
    ),
    "words in an amat": (
        "a.amat",
        b"1 2.5\n1 x\n",
        {},
        "column 'v1': expected numbers; got 'x' in row 2 (counting from 1). Mend it or mark it missing.",
    ),
    "a slip among numbers": (
        "a.csv",
        b"a,b\n" + b"".join(b"%d,%d\n" % (i, i) for i in range(200)) + b"17x,3\n",
        {},
        "column 'a': expected numbers, as in most of its rows; got '17x' in row 201 (counting from 1). Mend it, or "
        "name it as missing.",
    ),
    "an identifier": (
        "a.csv",
        b"a,b\n" + b"".join(b"id%d,%d\n" % (i, i) for i in range(30)),
        {},
        "column 'a': expected numbers, or at most 100 different texts; got 30 different ones in 30 rows, such as "
        "'id0'. Leave the column out (drop, --drop), or type it as categorical.",
    ),
    "a key": ("a.csv", b"a\n1\n", {"key": "x"}, "has no keys; only .npz and .mat files have. Leave 'x' out."),
    "a map": ("a.csv", b"a\n1\n", {"mmap": True}, "only .npy files can be memory-mapped."),
    "dropping a stranger": (
        "a.csv",
        b"a,b\n1,2\n",
        {"drop": ["c"]},
        "Expected the names of columns to drop; got 'c'. There are: a, b.",
    ),
    "typing a stranger": (
        "a.csv",
        b"age,b\n1,2\n",
        {"types": {"agr": "count"}},
        "Expected the name of a column; got 'agr'. Did you mean 'age'? There are: age, b.",
    ),
    "typed wrongly": (
        "a.csv",
        b"a,b\n1,2\n2.5,3\n",
        {"types": {"a": "count"}},
        "column 'a': expected counts 0, 1, 2, .. up to 16,777,216; got 2.5 in row 2 (counting from 1). Type the column "
        "as real, or mend it.",
    ),
    "texts typed as numbers": (
        "a.csv",
        b"a,b\n1,x\n2,y\n",
        {"types": {"b": "real"}},
        "column 'b': expected numbers in a real column; got 'x' in row 1 (counting from 1). Mend it or mark it "
        "missing.",
    ),
    "zero in a positive column": (
        "a.csv",
        b"a\n1.5\n0\n",
        {"types": {"a": "positive"}},
        "column 'a': expected numbers above zero (up to 1e100); got 0 in row 2 (counting from 1). Mend it, mark it "
        "missing, or type the columns otherwise.",
    ),
    "zero in a positive column beside others": (
        "a.csv",
        b"a,b\n1.5,x\n0,y\n",
        {"types": {"a": "positive"}},
        "column 'a': expected numbers above zero in a positive column; got 0 in row 2 (counting from 1). Mend it, or "
        "type the column as real.",
    ),
    "ordinal texts without order": (
        "a.csv",
        b"a\nS\nM\n",
        {"types": {"a": "ordinal"}},
        "column 'a': texts have an order only if you give it; name the categories, lowest first.",
    ),
    "binary with three values": (
        "a.csv",
        b"a\n1\n2\n3\n",
        {"types": {"a": "binary"}},
        "column 'a': expected two different values in a binary column; got 3.",
    ),
}
ARRAYS: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "npy, empty": ("a.npy", b"", {}, "expected an npy file; got"),
    "npy, text": ("a.npy", b"hello, this is text", {}, "expected an npy file; got ValueError: the magic string"),
    "npy, cut": ("a.npy", npy(np.zeros((5, 5)))[:-8], {}, "expected an npy file; got ValueError: "),
    "npy, cut, mapped": ("a.npy", npy(np.zeros((5, 5)))[:-8], {"mmap": True}, "expected an npy file; got ValueError: "),
    "npy, objects": (
        "a.npy",
        npy(np.array([{}, 1], object)),
        {},
        "holds Python objects, which are never loaded. Save an array of numbers.",
    ),
    "npy, texts": (
        "a.npy",
        npy(np.array([["a", "b"]])),
        {},
        "expected the array to hold numbers; got dtype <U1. Write tables as CSV or Parquet.",
    ),
    "npy, complex": (
        "a.npy",
        npy(np.array([[1j]])),
        {},
        "expected the array to hold numbers; got dtype complex128. Write tables as CSV or Parquet.",
    ),
    "npy, no axes": (
        "a.npy",
        npy(np.array(3.0)),
        {},
        "expected the array to be rows or images, of 1 to 4 axes; got shape ().",
    ),
    "npy, five axes": (
        "a.npy",
        npy(np.zeros((1, 1, 1, 1, 1))),
        {},
        "expected the array to be rows or images, of 1 to 4 axes; got shape (1, 1, 1, 1, 1).",
    ),
    "npy, no rows": (
        "a.npy",
        npy(np.zeros((0, 4))),
        {},
        "expected the array to have at least one row and one column; got (0, 4).",
    ),
    "npy, no columns": (
        "a.npy",
        npy(np.zeros((4, 0))),
        {},
        "expected the array to have at least one row and one column; got (4, 0).",
    ),
    "npy, infinite": (
        "a.npy",
        npy(np.array([[1.0, 2], [3, np.inf]])),
        {},
        "column 'v1': expected finite numbers (up to 1e100); got inf in row 2 (counting from 1). Mend it, mark it "
        "missing, or type the columns otherwise.",
    ),
    "npy, a column without a cell": (
        "a.npy",
        npy(np.array([[1.0, np.nan], [3, np.nan]])),
        {},
        "column 'v1': expected at least one observed cell; all are missing. There is nothing to learn from it: leave "
        "it out (drop, --drop).",
    ),
    "npy, typed wrongly": (
        "a.npy",
        npy(np.array([[1.0, 2], [300, 3]])),
        {"types": {"*": "pixel"}},
        "column 'v0': expected 8-bit pixels, whole numbers from 0 to 255; got 300 in row 2 (counting from 1). Mend it, "
        "mark it missing, or type the columns otherwise.",
    ),
    "npy, dropping": (
        "a.npy",
        npy(np.zeros((2, 2))),
        {"drop": ["v0"]},
        "Only columns with names can be dropped; the file is an array.",
    ),
    "npz, several": (
        "a.npz",
        npz(x=GREY, y=GREY),
        {},
        "holds several arrays; name one (key, --key). There are: x, y.",
    ),
    "npz, another key": ("a.npz", npz(x=GREY), {"key": "z"}, "expected an array 'z'; there are: x."),
    "npz, none": ("a.npz", npz(), {}, "expected an array; the file holds none."),
    "npz, objects": (
        "a.npz",
        npz(x=np.array([None])),
        {},
        "holds Python objects, which are never loaded. Save an array of numbers.",
    ),
    "npz, text": ("a.npz", b"no archive", {}, "expected an npz file, which is a zip archive; this is none."),
    "npz, cut": (
        "a.npz",
        npz(x=np.zeros((5, 5)))[:40],
        {},
        "expected an npz file, which is a zip archive; this is none.",
    ),
    "npz, an npy": ("a.npz", npy(GREY), {}, "expected an npz file, which is a zip archive; this is none."),
    "npz, damaged inside": ("a.npz", npz(x=MANY)[:90] + bytes(9) + npz(x=MANY)[99:], {}, "expected an npz file; got "),
    "mat, several": (
        "a.mat",
        mat(x=GREY, y=GREY),
        {},
        "holds several arrays; name one (key, --key). There are: x, y.",
    ),
    "mat, another key": ("a.mat", mat(x=GREY), {"key": "z"}, "expected an array 'z'; there are: x."),
    "mat, cells": (
        "a.mat",
        mat(x=np.array([[1, "a"]], object)),
        {},
        "expected variable 'x' to hold numbers; got Python objects, which are never loaded. Write tables as CSV or "
        "Parquet.",
    ),
    "mat, sparse": (
        "a.mat",
        mat(x=csc_array(GREY)),
        {},
        "expected variable 'x' to be a full matrix; got a sparse one. Save full(x).",
    ),
    "mat, text": ("a.mat", b"hello" * 50, {}, "expected a MATLAB file; got "),
    "mat, cut": ("a.mat", mat(x=np.zeros((9, 9)))[:300], {}, "expected a MATLAB file; got "),
    "mat, empty": ("a.mat", b"", {}, "expected a MATLAB file; got "),
    "idx, empty": ("a.idx", b"", {}, "expected an idx file with magic number 000008..; got an empty file."),
    "idx, other type": (
        "a-idx3-ubyte",
        bytes([0, 0, 13, 3]) + bytes(12),
        {},
        "expected an idx file with magic number 000008..; got 00000d03.",
    ),
    "idx, no axes": (
        "a.idx",
        bytes([0, 0, 8, 0]),
        {},
        "expected an idx file with magic number 000008..; got 00000800.",
    ),
    "idx, cut": ("a.idx", write.idx([2, 3], range(5)), {}, "expected 6 values, for shape (2, 3); got 5."),
    "parquet, text": ("a.parquet", b"hello, this is no table", {}, "expected a Parquet file; got "),
    "parquet, empty": ("a.parquet", b"", {}, "expected a Parquet file; got "),
    "parquet, cut": ("a.parquet", parquet(pd.DataFrame({"a": range(9)}))[:-20], {}, "expected a Parquet file; got "),
    "parquet, no rows": (
        "a.parquet",
        parquet(pd.DataFrame({"a": np.zeros(0)})),
        {},
        "Expected at least one row; there is none.",
    ),
    "parquet, no columns": (
        "a.parquet",
        parquet(pd.DataFrame(index=range(3))),
        {},
        "Expected at least one column; there is none.",
    ),
    "parquet, dates": (
        "a.parquet",
        arrow(when=pyarrow.array([0, 1], pyarrow.timestamp("ns"))),
        {},
        "column 'when': expected numbers, truth values or texts; got datetime64 (datetime64[ns]). Turn it into one of "
        "these, or leave the column out (drop, --drop).",
    ),
    "parquet, lists": (
        "a.parquet",
        arrow(pair=[[1, 2], [3]]),
        {},
        "column 'pair': expected numbers, truth values or texts; got mixed (object). Turn it into one of these, or "
        "leave the column out (drop, --drop).",
    ),
}


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("case", [*TEXT, *ARRAYS])
def test_malformed_files(tmp_path, case, gzipped):
    name, content, options, words = {**TEXT, **ARRAYS}[case]
    path = write.put(tmp_path / name, content, gzipped)
    with pytest.raises(DataError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    if gzipped and "mmap" in options and name == "a.npy":
        words = "a gzipped file cannot be memory-mapped. Unpack it first."
    assert message.startswith(f"{path}: {words}")
    # Where the words end in a full stop, nothing more follows but the known advice about damaged files.
    assert message in (f"{path}: {words}", f"{path}: {words} Fetch the file again.") or words.endswith(
        (" ", "got", "string")
    )
    assert "\n" not in message
    assert isinstance(caught.value, DataFileError | SchemaError)


WHOLE = {
    "a.csv": b"0,1,1\n" * 1000,
    "a.amat": b"0 1 1\n" * 1000,
    "a.npy": npy(MANY),
    "a.npz": npz(x=MANY),
    "a.mat": mat(x=MANY),
    "a.idx": write.idx([500, 2], bytes(1000)),
    "a.parquet": parquet(pd.DataFrame({"a": MANY[:, 0]})),
}


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("name", FILES)
@hypothesis.given(at=st.floats(0, 1), damage=st.binary(min_size=1, max_size=8), cut=st.booleans())
@hypothesis.settings(max_examples=30)
def test_whatever_happens_to_a_file_it_is_read_or_refused(tmp_path_factory, name, gzipped, at, damage, cut):
    """Somewhere some bytes are overwritten, and the rest is perhaps lost: that is never a crash."""
    content = gzip.compress(FILES[name]) if gzipped else FILES[name]
    place = int(at * len(content))
    changed = content[:place] + damage + (b"" if cut else content[place + len(damage) :])
    path = tmp_path_factory.getbasetemp() / (f"{name}.gz" if gzipped else name)
    path.write_bytes(changed)
    message = f"{path}: "
    try:
        read_table(path)
    except DataError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


@pytest.mark.parametrize("name", WHOLE)
def test_damaged_gzip(tmp_path, name):
    path = write.put(tmp_path / name, WHOLE[name], gzipped=True)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: expected a whole gzip file; got EOFError")
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataNotFoundError) as caught:
        read_table(tmp_path / "none.csv")
    assert str(caught.value) == f"{tmp_path}/none.csv: no such file or folder."


@pytest.mark.parametrize(
    ("name", "more"), [("a.xlsx", ""), ("a.png", " One image is no table: name the folder that has them.")]
)
def test_other_names(tmp_path, name, more):
    path = write.put(tmp_path / name, b"?")
    with pytest.raises(DataFileError) as caught:
        read_table(path)
    assert str(caught.value) == (
        f"{path}: expected a folder of images, or a name that ends in .csv, .tsv, .txt, .data, .dat, .parquet, .npy, "
        f".npz, .mat, .amat, .idx, -ubyte (and .gz).{more}"
    )


def test_mat_of_version_7_3_without_its_reader(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    path = write.put(tmp_path / "a.mat", b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(DataFileError) as caught:
        read_table(path)
    assert str(caught.value) == (
        f"{path}: a MATLAB file of version 7.3 needs h5py, which is not installed. Install it, or save with -v7."
    )

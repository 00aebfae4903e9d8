"""Files that stay on the disk: the same rows as when they are read whole, a part at a time."""

import errno
import gc
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dlgm.cli.app import app
from dlgm.cli.errors import UsageError
from dlgm.data import ArraySource, DataError, read_table, stream
from dlgm.data.stream import WithoutRows, open_large

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": RNG.choice(["S", "M", "L"], 300),
        "weight": np.where(RNG.random(300) < 0.2, np.nan, RNG.normal(70, 10, 300)),
        "children": pd.Series(RNG.poisson(2, 300)).mask(RNG.random(300) < 0.1).astype("Int64"),
        "member": RNG.random(300) < 0.5,
    }
)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(stream, "_BATCH", 70)


def test_parquet_is_unpacked_as_it_would_be_read(tmp_path, small_batches):
    path = tmp_path / "people.parquet"
    FRAME.to_parquet(path, row_group_size=100)
    whole, large = read_table(path), open_large(path)
    assert large.schema == whole.schema
    assert len(large) == 300
    values, mask = large.source.read(np.arange(300))
    np.testing.assert_array_equal(values, whole.values)
    np.testing.assert_array_equal(mask, whole.mask)
    values, _ = large.source.read(np.array([3, 299]))
    np.testing.assert_array_equal(values, whole.values[[3, 299]])


def test_the_unpacked_rows_go_with_the_table(tmp_path, small_batches):
    path = tmp_path / "people.parquet"
    FRAME.to_parquet(path)
    large = open_large(path)
    assert isinstance(large.source, ArraySource)
    assert isinstance(large.source.rows, np.memmap)
    folder = Path(str(large.source.rows.filename)).parent
    assert folder.exists()
    del large
    gc.collect()
    assert not folder.exists()


def test_a_category_that_comes_up_late_is_named(tmp_path, small_batches):
    path = tmp_path / "people.parquet"
    schema = open_large_schema(tmp_path)
    late = FRAME.copy()
    late.loc[250, "size"] = "XL"
    late.to_parquet(path)
    with pytest.raises(DataError, match=r"people\.parquet: column 'size': .*'XL' in row 251 "):
        open_large(path, schema=schema)


def test_an_index_is_a_column_if_it_has_a_name(tmp_path, small_batches):
    path = tmp_path / "people.parquet"
    for name, names in (("who", ["who", *FRAME.columns]), (None, list(FRAME.columns))):
        FRAME.set_axis(pd.Index(RNG.permutation(300), name=name)).to_parquet(path)
        assert read_table(path).schema.names == open_large(path).schema.names == names


def test_a_column_to_drop_that_is_not_there(tmp_path):
    path = tmp_path / "people.parquet"
    FRAME.to_parquet(path)
    assert open_large(path, drop=["size"]).schema.names == ["weight", "children", "member"]
    for reader in (read_table, open_large):
        with pytest.raises(DataError, match=r"people\.parquet: Expected the names of columns to drop; got 'nope'"):
            reader(path, drop=["nope"])


def test_columns_that_the_schema_does_not_have(tmp_path, small_batches):
    schema = open_large_schema(tmp_path)
    FRAME.assign(more=1).to_parquet(tmp_path / "more.parquet")
    assert open_large(tmp_path / "more.parquet", schema=schema).notes == (
        "columns that the schema does not have were left out: more",
    )


def test_no_room_to_unpack(tmp_path, monkeypatch):
    def full(descriptor, start, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    FRAME.to_parquet(tmp_path / "people.parquet")
    with pytest.raises(DataError, match=r"people\.parquet: cannot be unpacked into .* \(No space left on device\)\."):
        open_large(tmp_path / "people.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


def open_large_schema(folder):
    FRAME.to_parquet(folder / "first.parquet")
    return open_large(folder / "first.parquet").schema


@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_arrays_are_encoded_as_they_are_read(tmp_path, dtype):
    path = tmp_path / "rows.npy"
    rows = RNG.normal(5, 2, (50, 3)) if dtype is np.float64 else RNG.integers(0, 255, (50, 3))
    array = rows.astype(dtype)
    if dtype is np.float64:
        array[7, 1] = np.nan
    np.save(path, array)
    whole, large = read_table(path), open_large(path)
    values, mask = large.source.read(np.array([0, 7, 49]))
    np.testing.assert_allclose(values, whole.values[[0, 7, 49]], rtol=1e-6)
    assert (mask is None) == (dtype is np.uint8)
    if mask is not None and whole.mask is not None:
        np.testing.assert_array_equal(mask, whole.mask[[0, 7, 49]])


def test_rows_left_out():
    source = ArraySource(np.arange(10)[:, None])
    rest = WithoutRows(source, np.array([0, 4, 5, 9]))
    assert rest.shape == (6, 1)
    assert rest.read(np.arange(6))[0].ravel().tolist() == [1, 2, 3, 6, 7, 8]
    assert rest.read(np.array([3]))[0].ravel().tolist() == [6]


@pytest.mark.parametrize("name", ["people.csv", "people.npz"])
def test_other_files_are_refused(tmp_path, name):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"expected a file that ends in \.npy or \.parquet to be read in parts"):
        open_large(tmp_path / name)


def test_damaged_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"x\.parquet: expected a Parquet file"):
        open_large(tmp_path / "x.parquet")


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_fit_and_score_a_file_on_the_disk(tmp_path, small_batches, monkeypatch):
    """In parts or whole: about the same bounds, and for one model the same scores."""
    monkeypatch.chdir(tmp_path)
    FRAME.to_parquet("people.parquet", row_group_size=100)
    small = ["--latent", "1", "--hidden", "3", "--epochs", "3", "--batch-size", "50"]
    summary = json.loads(run("fit", "people.parquet", "--json", "--chunk-rows", "100", *small))
    assert np.isfinite(summary["valid_bound"])
    asked = ["score", "people.parquet", "--model", "people.dlgm", "--samples", "5", "--json"]
    whole = json.loads(run(*asked))
    monkeypatch.setattr("dlgm.cli.tables.LARGE", {".npy": 0, ".parquet": 0})
    parts = json.loads(run(*asked))
    assert parts["rows"] == 300
    np.testing.assert_allclose(parts["mean_log_p"], whole["mean_log_p"], rtol=1e-6)


@pytest.mark.parametrize("bad", [1234, 1233])  # the first one is held out
def test_a_bad_cell_is_named_by_its_row_in_the_file(bad, tmp_path, monkeypatch):
    """Wherever it stands in a chunk, with rows held out before it, or held out itself."""
    rows = RNG.normal(size=(2_000, 3))
    np.save(tmp_path / "good.npy", rows)
    rows[bad, 2] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dlgm.data.table._SAMPLE", 100)  # few rows are looked at before training
    monkeypatch.setattr("dlgm.learning.loop._SAMPLE", 300)
    monkeypatch.setattr("dlgm.cli.tables.LARGE", {".npy": 0, ".parquet": 0})
    small = ["--latent", "1", "--hidden", "2", "--epochs", "1", "--quiet"]
    assert CliRunner().invoke(app, ["fit", "good.npy", "--out", "m.dlgm", *small]).exit_code == 0
    for command in (["fit", "rows.npy", "--out", "n.dlgm", "--chunk-rows", "300", *small], SCORE):
        with pytest.raises(UsageError, match=rf"rows\.npy: column 'v2': .*; got inf in row {bad + 1:,} "):
            CliRunner().invoke(app, command, catch_exceptions=False)


SCORE = ["score", "rows.npy", "--model", "m.dlgm", "--samples", "5"]

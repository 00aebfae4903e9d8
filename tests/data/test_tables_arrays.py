"""Large numeric arrays: handled as a whole, or left on the disk."""

import time

import numpy as np
import pytest

from dlgm.data import Table, infer_schema, read_table
from dlgm.data.schema import arrays
from dlgm.data.splits import split_at_random


def large(kind):
    rng = np.random.default_rng(0)
    return rng.integers(0, {"binary": 2, "pixel": 256}[kind], (50_000, 784), np.uint8)


@pytest.mark.parametrize("kind", ["binary", "pixel"])
def test_a_large_array_takes_no_time(tmp_path, kind):
    array = large(kind)
    np.save(tmp_path / "a.npy", array)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        table = read_table(tmp_path / "a.npy")
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 1  # about 0.05 s on a laptop; the best of three, for the machine may be busy
    assert (table.schema.kind, table.values.dtype, table.mask) == (kind, np.uint8, None)
    np.testing.assert_array_equal(table.values, array)


@pytest.mark.parametrize(
    "change", [lambda a: a, lambda a: a - 0.5, lambda a: a + 1.0, lambda a: np.where(a > 2, a, np.nan)]
)
def test_no_column_of_an_array_is_looked_at_by_itself(tmp_path, monkeypatch, change):
    def never(*_):
        raise AssertionError("a column was taken out of the array")

    for module in ("infer", "schema"):
        monkeypatch.setattr(f"dlgm.data.schema.{module}.plain", never)
    np.save(tmp_path / "a.npy", change(np.random.default_rng(0).integers(0, 9, (40, 784), np.uint8)))
    table = read_table(tmp_path / "a.npy")
    assert table.schema.kind is not None


def test_blocks_are_seamless(monkeypatch):
    array = np.random.default_rng(0).normal(size=(101, 7))
    array[array < -1.5] = np.nan
    whole = infer_schema(array)
    values, mask = whole.encode(array)
    monkeypatch.setattr(arrays, "_CELLS", 70)  # ten rows at a time
    parts = infer_schema(array)
    for mine, theirs in zip(parts.columns, whole.columns, strict=True):
        assert (mine.center, mine.scale) == pytest.approx((theirs.center, theirs.scale), rel=1e-12)
    again, again_mask = whole.encode(array)
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(again_mask, mask)


def test_bytes_are_not_copied():
    array = np.array([[0, 200], [3, 4]], np.uint8)
    values, _ = infer_schema(array).encode(array)
    assert np.shares_memory(values, array)


def test_a_map_is_left_on_the_disk(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    np.save(tmp_path / "a.npy", array)
    table = read_table(tmp_path / "a.npy", mmap=True)
    assert isinstance(table.values, np.memmap)
    assert not table.values.flags.writeable
    assert (table.schema.kind, table.shape, table.mask, table.encoded) == ("pixel", (2, 3), None, False)
    np.testing.assert_array_equal(table.values[1:3].reshape(2, 2, 3), array[1:3])
    np.testing.assert_array_equal(table.frame().to_numpy(), array.reshape(4, 6))


def test_a_map_is_not_scanned(tmp_path, monkeypatch):
    """Its schema comes from some of its rows, and holes are found when rows are encoded."""
    array = np.random.default_rng(0).normal(2, 3, size=(25_000, 2)).astype(np.float32)
    array[1] = np.nan
    np.save(tmp_path / "a.npy", array)
    monkeypatch.setattr("dlgm.data.table._SAMPLE", 1000)
    table = read_table(tmp_path / "a.npy", mmap=True)
    assert table.mask is None
    sampled = infer_schema(array[::25])
    assert table.schema == sampled
    values, mask = table.schema.encode(table.values[:3])
    assert mask is not None
    assert mask.tolist() == [[True, True], [False, False], [True, True]]
    np.testing.assert_allclose(table.schema.decode(values, mask).to_numpy(), array[:3], rtol=1e-5)


@pytest.mark.parametrize(("rows", "share", "held_out"), [(100, 0.1, 10), (7, 0.5, 4), (2, 0.99, 1), (3, 0.001, 1)])
def test_random_splits(rows, share, held_out):
    train, valid = split_at_random(rows, share, seed=3)
    assert sorted([*train, *valid]) == list(range(rows))
    assert len(valid) == held_out
    assert (np.diff(train) > 0).all()
    again = split_at_random(rows, share, seed=3)
    assert again[1].tolist() == valid.tolist()
    if rows == 100:
        assert split_at_random(rows, share, seed=4)[1].tolist() != valid.tolist()
        assert valid.tolist() != list(range(10))


def test_rows_can_be_taken():
    array = np.array([[0.5, np.nan], [1.5, 2], [-2, 3]])
    schema = infer_schema(array)
    table = Table("a", *schema.encode(array), schema)
    assert table.take(np.array([1, 2])).mask is None
    some = table.take(np.array([0]))
    assert some.mask is not None
    assert some.mask.tolist() == [[True, False]]
    np.testing.assert_array_equal(some.values, table.values[:1])

"""Rows larger than memory: each once an epoch, well mixed, and the same run where one chunk holds all."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from dlgm.data import ArraySource
from dlgm.learning import TrainingConfig, fit, loop, make_mesh
from dlgm.learning.feed import ResidentFeed, StreamedFeed
from tests.learning.killing import told
from tests.learning.test_fit import MODEL, QUICK, ROWS

KEY = jax.random.key(5)


def streamed(num_rows, batch_size, chunk_rows):
    rows = np.arange(num_rows, dtype=np.float32)[:, None]
    return StreamedFeed(
        ArraySource(rows),
        lambda r, m: (r, m),
        key=KEY,
        batch_size=batch_size,
        chunk_rows=chunk_rows,
        epochs=5,
        mesh=make_mesh(1),
    )


def epoch_of(feed, epoch, steps):
    """The rows' numbers, step by step, of an epoch."""
    batches = []
    for n in range(steps):
        held, stop = feed.batches(epoch, n)
        assert n < stop <= steps
        batches.append(np.asarray(held.batch(n)[0])[:, 0])
    feed.close()
    return np.array(batches, int)


@pytest.mark.parametrize(("num_rows", "batch_size", "chunk_rows"), [(1000, 10, 300), (1003, 50, 128), (700, 7, 10_000)])
def test_an_epoch_has_every_row_once(num_rows, batch_size, chunk_rows):
    """But for those left over after the last whole batch."""
    order = epoch_of(streamed(num_rows, batch_size, chunk_rows), 3, num_rows // batch_size).ravel()
    assert len(set(order)) == len(order) == num_rows // batch_size * batch_size
    assert set(order) <= set(range(num_rows))


def test_rows_are_shuffled_within_and_across_chunks():
    """Every chunk holds rows from all over the source, in an order that differs from epoch to epoch."""
    first, second = (epoch_of(streamed(10_000, 100, 2_500), epoch, 100).reshape(4, -1) for epoch in (0, 1))
    for chunk in (*first, *second):
        # 39 pieces of 64 rows, drawn without replacement from 156: 5 standard errors of their mean place.
        error = 10_000 / np.sqrt(12) / np.sqrt(39) * np.sqrt(3 / 4)
        assert abs(chunk.mean() - 5_000) < 5 * error
        assert abs(np.corrcoef(np.arange(len(chunk)), chunk)[0, 1]) < 0.1
    assert len(set(first[0]) & set(second[0])) < 0.5 * len(first[0])


def test_one_chunk_has_the_order_of_resident_rows():
    rows = np.arange(103, dtype=np.float32)[:, None]
    resident = ResidentFeed(rows, None, key=KEY, batch_size=10, mesh=make_mesh(1))
    for epoch in (0, 4):
        np.testing.assert_array_equal(epoch_of(streamed(103, 10, 200), epoch, 10), epoch_of(resident, epoch, 10))


def test_a_mapped_file_gives_the_run_of_the_array(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert told(fit(MODEL, mapped, valid=ROWS[:30], config=QUICK)) == told(
        fit(MODEL, ROWS, valid=ROWS[:30], config=QUICK)
    )


def test_chunks_are_learned_from_and_holes_travel_with_their_rows():
    mask = np.random.default_rng(3).random(ROWS.shape) < 0.7
    config = TrainingConfig(epochs=3, batch_size=20, learning_rate=0.01)
    runs = [
        fit(MODEL, ArraySource(np.where(mask, ROWS, other).astype(np.float32), mask), config=config, chunk_rows=60)
        for other in (np.nan, 1.0)
    ]
    assert told(runs[0]) == told(runs[1])
    assert runs[0].history[-1]["loss"] < runs[0].history[0]["loss"]


def test_a_bad_row_far_into_the_file_is_named(monkeypatch):
    rows = np.zeros((30_000, 6), np.uint8)
    rows[20_001, 3] = 7
    monkeypatch.setattr(loop, "_SAMPLE", 600)
    with pytest.raises(ValueError, match=r"bernoulli: expected 0 or 1 .* at row 20001, column 3"):
        fit(MODEL, ArraySource(rows), config=TrainingConfig(epochs=1, batch_size=100), chunk_rows=1000)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on a process's own memory is Linux's")
def test_a_file_larger_than_the_memory_allowed(tmp_path):
    """A file of six times the memory that the process may still take; its zeros lie nowhere on the disk."""
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(130_000, 784)).flush()
    program = [sys.executable, "-m", "tests.learning.limited", str(path)]
    # Here there is much to compute; and one heap for all threads, since it is our own memory that is measured.
    optimised = {**os.environ, "XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "MALLOC_ARENA_MAX": "1"}
    run = subprocess.run(program, capture_output=True, text=True, env=optimised)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["6", "130", "40000"]

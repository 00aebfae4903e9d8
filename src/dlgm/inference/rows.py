"""Rows of any number, a block at a time, with randomness that belongs to the row."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key, Shaped, UInt32

from dlgm.data.source import ArraySource, RowSource, rows_named
from dlgm.keys import quick_key
from dlgm.model.trainable import AbstractTrainable

_READ = 2048  # rows of a source held at a time


def as_rows(
    model: AbstractTrainable, rows: Any, mask: Any, name: str = "rows", start: int = 0
) -> tuple[Shaped[np.ndarray, "n x"], Bool[np.ndarray, "n x"] | None]:
    """Rows the model can be asked about and their mask, or a message that says why not.

    Without a mask, NaN means a hole; with one, it says where they are. Bytes stay bytes, which
    saves memory; everything else becomes float32. `start` is the number of the first row, for messages.
    """
    rows = np.asarray(rows)
    observation = model.observation
    if rows.ndim != 2 or rows.shape[1] != observation.columns:
        hint = " Flatten images first." if rows.ndim > 2 else " Put one row into a list." if rows.ndim == 1 else ""
        raise ValueError(f"{name}: expected (n, {observation.columns}) values; got shape {rows.shape}.{hint}")
    if mask is None and rows.dtype.kind == "f" and (holes := np.isnan(rows)).any():
        mask = ~holes
    if mask is not None:
        mask = np.asarray(mask)
        if mask.shape != rows.shape or mask.dtype != bool:
            raise ValueError(
                f"{name}: expected a mask of booleans, true where observed, of shape {rows.shape}; "
                f"got {mask.dtype} of shape {mask.shape}."
            )
    if rows.dtype not in (np.uint8, np.int8, bool):
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)  # before the check: what is finite in float64 may not be here
    if len(rows):
        observation.check(rows, mask, start)
    return rows, mask


def row_hashes(rows: Shaped[np.ndarray, "n x"], mask: Bool[np.ndarray, "n x"] | None) -> UInt32[np.ndarray, "n 2"]:
    """64 bits a row, from what was observed of it: the same wherever the row stands, and whatever lies in its holes."""
    # Adding zero turns -0.0, which equals 0.0, into it.
    values = rows.astype(np.float32) + np.float32(0)
    values = values if mask is None else np.where(mask, values, np.float32(0))
    bits = None if mask is None or mask.all() else np.packbits(mask, axis=1)
    hashes = np.empty((len(rows), 2), np.uint32)
    for i, row in enumerate(values):
        # A complete row has one hash, with a mask or without.
        holes = b"" if bits is None or mask[i].all() else bits[i].tobytes()  # type: ignore[index]
        hashes[i] = np.frombuffer(hashlib.blake2b(row.tobytes() + holes, digest_size=8).digest(), np.uint32)
    return hashes


def row_key(key: Key[Array, ""], row_hash: UInt32[Array, "2"]) -> Key[Array, ""]:
    """The key of one row."""
    return jax.random.fold_in(jax.random.fold_in(quick_key(key), row_hash[0]), row_hash[1])


Block = tuple[Float[np.ndarray, "b x"], Bool[np.ndarray, "b x"] | None, UInt32[np.ndarray, "b 2"]]


def blocks(
    rows: Shaped[np.ndarray, "n x"], mask: Bool[np.ndarray, "n x"] | None, size: int
) -> Iterator[tuple[Block, int]]:
    """Blocks of exactly `size` rows, the last one filled up with copies of its last row, and how many rows are real.

    One shape means one compilation, and a row's numbers do not depend on how many others came with it.
    """
    for start in range(0, len(rows), size):
        index = np.minimum(np.arange(start, start + size), len(rows) - 1)
        piece = rows[index].astype(np.float32)
        piece_mask = None if mask is None else mask[index]
        real = min(size, len(rows) - start)
        yield (piece, piece_mask, row_hashes(piece, piece_mask)), real


def map_rows(
    model: AbstractTrainable,
    f: Callable[..., Any],
    rows: Any,
    mask: Any,
    size: int,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """`f(rows, mask, hashes)` over blocks of rows, its results put together; `progress` is told the rows done.

    Rows of a source, or of an array mapped from a file, are read some thousand at a time, the next in the background.
    """
    if isinstance(rows, np.memmap) and rows.ndim == 2:
        rows, mask = ArraySource(rows, mask), None
    if not isinstance(rows, RowSource):
        return _map_blocks(f, *as_rows(model, rows, mask), size, progress)
    each, results = max(1, _READ // size) * size, []

    def read(start: int) -> tuple[Any, Any]:
        index = np.arange(start, min(start + each, rows.shape[0]))
        return rows_named(index, partial(as_rows, model), *rows.read(index))

    with ThreadPoolExecutor(1, thread_name_prefix="dlgm-reader") as reader:
        ahead = reader.submit(read, 0)
        for start in range(0, max(1, rows.shape[0]), each):
            piece = ahead.result()
            if start + each < rows.shape[0]:
                ahead = reader.submit(read, start + each)
            told = None if progress is None else lambda done, start=start: progress(start + done)
            results.append(_map_blocks(f, *piece, size, told))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *results)


def _map_blocks(
    f: Callable[..., Any],
    rows: Shaped[np.ndarray, "n x"],
    mask: Bool[np.ndarray, "n x"] | None,
    size: int,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """`f(rows, mask, hashes)` over blocks, its results put together on the host; `progress` is told the rows done."""
    if len(rows) == 0:
        nothing = np.zeros((size, rows.shape[1]), np.float32)
        shapes = jax.eval_shape(f, nothing, None if mask is None else nothing > 0, np.zeros((size, 2), np.uint32))
        return jax.tree.map(lambda leaf: np.zeros((0, *leaf.shape[1:]), leaf.dtype), shapes)
    pieces, done = [], 0
    for block, real in blocks(rows, mask, size):
        pieces.append(jax.tree.map(lambda leaf, real=real: np.asarray(leaf)[:real], f(*block)))
        done += real
        if progress is not None:
            progress(done)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *pieces)

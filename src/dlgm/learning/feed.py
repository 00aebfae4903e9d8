"""Where a run's batches come from: rows that stay on the device, or chunks of a source larger than memory.

Both take the rows of an epoch in an order that depends on the run's key and the epoch alone, so that a run can be taken
up at any step, by any number of processes. Rows that fit into one chunk have the same order either way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Bool, Int, Key, Shaped

from dlgm.data.source import RowSource, rows_named
from dlgm.learning.mesh import over_batches, replicated
from dlgm.learning.step import Batches, Chunk, Resident, epoch_order

# Rows that lie together in a source and are read together: enough for the disk, few enough to mix well.
_PIECE = 64
# Apart from the numbers of chunks, which are folded into the same key.
_PIECES = 2**31 - 1


class AbstractFeed(ABC):
    """Batches for any step."""

    chunk_steps: int  # steps between one shuffle and the next, on which the order of rows depends

    @abstractmethod
    def batches(self, epoch: int, n: int) -> tuple[Batches, int]:
        """What step `n` of an epoch (both from 0) needs, and the first step after it that needs something else."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is being read ahead."""


class ResidentFeed(AbstractFeed):
    """All rows on every device: nothing moves between host and device but the order of an epoch."""

    def __init__(
        self,
        rows: Shaped[np.ndarray, "n x"],
        mask: Bool[np.ndarray, "n x"] | None,
        *,
        key: Key[Array, ""],
        batch_size: int,
        mesh: Mesh,
    ) -> None:
        self._rows, self._mask = replicated((rows, mask), mesh)
        self._key, self._num_rows, self._batch_size, self._mesh = key, len(rows), batch_size, mesh
        self._steps = self.chunk_steps = len(rows) // batch_size
        self._now: tuple[int, Resident] | None = None

    def batches(self, epoch: int, n: int) -> tuple[Batches, int]:
        """The same rows for the whole epoch."""
        if self._now is None or self._now[0] != epoch:
            order = epoch_order(self._key, epoch, num_rows=self._num_rows)
            order = order[: self._steps * self._batch_size].reshape(self._steps, self._batch_size)
            self._now = epoch, Resident(self._rows, self._mask, replicated(order, self._mesh))
        return self._now[1], self._steps


class StreamedFeed(AbstractFeed):
    """Chunks of a source, the next one read in the background while one is being learned from.

    An epoch goes through all rows: pieces of neighbouring rows are dealt out to chunks at random, and the rows of a
    chunk are shuffled. Whatever the size of the source, one chunk is in memory, and a second one, which is being read.
    Every process reads the rows of its own devices alone.
    """

    def __init__(
        self,
        source: RowSource,
        check: Callable[[Any, Any], tuple[Any, Any]],
        *,
        key: Key[Array, ""],
        batch_size: int,
        chunk_rows: int,
        epochs: int,
        mesh: Mesh,
    ) -> None:
        self._source, self._check, self._batch_size, self._mesh = source, check, batch_size, mesh
        self._key, self._epochs = key, epochs
        self._num_rows = source.shape[0]
        self._steps = self._num_rows // batch_size
        own = [i for i, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
        if not own:
            raise ValueError("mesh: expected a device of every process; this one has none in it.")
        each = batch_size // mesh.size
        # The places in a batch that belong to this process's devices, and where among them each device's begin.
        self._slots = np.concatenate([np.arange(i * each, (i + 1) * each) for i in own])
        self._starts = {i * each: slice(k * each, (k + 1) * each) for k, i in enumerate(own)}
        num_chunks = max(1, -(-self._steps * batch_size // max(chunk_rows, batch_size)))
        self.chunk_steps = -(-self._steps // num_chunks)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="dlgm-reader")
        self._ahead: dict[tuple[int, int], Future[Chunk]] = {}
        self._now: tuple[tuple[int, int], Chunk] | None = None

    def batches(self, epoch: int, n: int) -> tuple[Batches, int]:
        """The chunk that holds step `n`; the reading of the one after it begins."""
        c = n // self.chunk_steps
        stop = min((c + 1) * self.chunk_steps, self._steps)
        if self._now is None or self._now[0] != (epoch, c):
            self._now = None  # its memory is free for the next
            reading = self._ahead.pop((epoch, c), None) or self._reader.submit(self._read, epoch, c)
            self._now = (epoch, c), reading.result()
            after = (epoch, c + 1) if stop < self._steps else (epoch + 1, 0)
            self._ahead = {after: self._reader.submit(self._read, *after)} if after[0] < self._epochs else {}
        return self._now[1], stop

    def _read(self, epoch: int, c: int) -> Chunk:
        slots = self._order(epoch, c)[:, self._slots]
        index, place = np.unique(slots, return_inverse=True)
        rows, mask = rows_named(index, self._check, *self._source.read(index))
        place = place.reshape(slots.shape)
        sharding = over_batches(self._mesh)

        def put(array: np.ndarray) -> Array:
            ordered = array[place]
            if len(ordered) < self.chunk_steps:  # one shape for all, so that one program serves them
                ordered = np.concatenate(
                    [ordered, np.zeros((self.chunk_steps - len(ordered), *ordered.shape[1:]), ordered.dtype)]
                )
            shape = (self.chunk_steps, self._batch_size, array.shape[1])

            def part(index: Any) -> np.ndarray:
                return ordered[:, self._starts[index[1].start or 0]]

            return jax.make_array_from_callback(shape, sharding, part)

        first = replicated(jnp.asarray(c * self.chunk_steps), self._mesh)
        return Chunk(put(rows), None if mask is None else put(mask), first)

    def _order(self, epoch: int, c: int) -> Int[np.ndarray, "steps b"]:
        """The rows of a chunk, step by step."""
        size, num_chunks = self.chunk_steps * self._batch_size, -(-self._steps // self.chunk_steps)
        last = c == num_chunks - 1
        steps = self._steps - c * self.chunk_steps if last else self.chunk_steps
        if num_chunks == 1:
            members = np.arange(self._num_rows)
        else:
            pieces = np.asarray(_order(self._key, epoch, _PIECES, -(-self._num_rows // _PIECE)), np.int64)
            members = np.sort(_dealt(pieces, self._num_rows, c * size, self._num_rows if last else (c + 1) * size))
        shuffled = members[np.asarray(_order(self._key, epoch, c, len(members)))]
        return shuffled[: steps * self._batch_size].reshape(steps, self._batch_size)

    def close(self) -> None:
        """Stop reading ahead."""
        self._reader.shutdown(wait=True, cancel_futures=True)


def _dealt(pieces: Int[np.ndarray, " p"], num_rows: int, start: int, stop: int) -> Int[np.ndarray, " k"]:
    """The rows from place `start` to `stop` when the pieces are laid end to end in this order."""
    lengths = np.minimum(num_rows - pieces * _PIECE, _PIECE)  # the last piece of the source may be a short one
    ends = np.cumsum(lengths)
    first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(ends, stop, side="left")
    rows = np.concatenate(
        [
            np.arange(_PIECE)[:length] + p * _PIECE
            for p, length in zip(pieces[first : last + 1], lengths[first : last + 1], strict=True)
        ]
    )
    begin = start - (ends[first] - lengths[first])
    return rows[begin : begin + stop - start]


def _order(key: Key[Array, ""], epoch: int, part: int, num_rows: int) -> Int[Array, " n"]:
    """The order in a part of an epoch; in the first, the order of an epoch of one part."""
    return epoch_order(key if part == 0 else jax.random.fold_in(key, part), epoch, num_rows=num_rows)

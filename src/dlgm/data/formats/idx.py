"""The idx format of MNIST: a magic number, the sizes, then the values, row-major, all big-endian.

The magic number is 0, 0, the type of a value (8 for an unsigned byte, the only one published), the number of axes.
"""

import math
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.content import Content, Reading, content_of_array
from dlgm.data.errors import damaged
from dlgm.data.files import read_content


def read_idx(path: Path, entry_shape: tuple[int, ...] | None = None) -> UInt8[np.ndarray, "n ..."]:
    """The array in an idx file of bytes whose entries have shape `entry_shape`: `(28, 28)` images, or `()` labels.

    None takes entries of any shape.
    """
    content = read_content(path)
    magic = content[:4]
    num_axes = magic[3] if entry_shape is None and len(magic) == 4 else 1 + len(entry_shape or ())
    if magic != bytes([0, 0, 8, num_axes]) or num_axes == 0:
        raise damaged(
            path,
            expected=f"an idx file with magic number 000008{'..' if entry_shape is None else f'{num_axes:02x}'}",
            got=magic.hex() or "an empty file",
        )
    header = 4 + 4 * num_axes
    if len(content) < header:
        raise damaged(path, expected=f"a header of {header} bytes", got=f"{len(content)} bytes")
    sizes = tuple(int(size) for size in np.frombuffer(content, ">u4", num_axes, offset=4))
    if entry_shape is not None and sizes[1:] != entry_shape:
        raise damaged(path, expected=f"entries of shape {entry_shape}", got=f"{sizes[1:]}")
    if len(content) - header != math.prod(sizes):
        raise damaged(
            path,
            expected=f"{math.prod(sizes):,} values, for shape {sizes}",
            got=f"{len(content) - header:,}",
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(sizes)


def read_idx_array(path: Path, how: Reading) -> Content:
    """A user's idx file: images, or a column of labels."""
    return content_of_array(path, read_idx(path))

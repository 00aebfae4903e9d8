"""NORB's binary matrix format, little-endian: a magic number for the type, the number of axes, sizes, then values.

At least three sizes are written, whatever the number of axes; those beyond it mean nothing.
"""

import math
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from dlgm.data.errors import damaged
from dlgm.data.files import read_content

MAGIC = {"u1": 0x1E3D4C55, "<i4": 0x1E3D4C54}


def read_norb(path: Path, dtype: str, num_axes: int) -> Shaped[np.ndarray, "n ..."]:
    """The matrix in a file of bytes (`dtype="u1"`) or of 32-bit integers (`dtype="<i4"`)."""
    content = read_content(path)
    header = 8 + 4 * max(3, num_axes)
    if len(content) < header:
        raise damaged(path, expected=f"a header of {header} bytes", got=f"{len(content)} bytes")
    magic, axes = (int(number) for number in np.frombuffer(content, "<u4", 2))
    if magic != MAGIC[dtype]:
        raise damaged(path, expected=f"a NORB matrix with magic number {MAGIC[dtype]:08x}", got=f"{magic:08x}")
    if axes != num_axes:
        raise damaged(path, expected=f"a matrix of {num_axes} axes", got=f"{axes}")
    sizes = tuple(int(size) for size in np.frombuffer(content, "<u4", num_axes, offset=8))
    num_bytes = math.prod(sizes) * np.dtype(dtype).itemsize
    if len(content) - header != num_bytes:
        raise damaged(
            path, expected=f"{num_bytes:,} bytes of values, for shape {sizes}", got=f"{len(content) - header:,}"
        )
    return np.frombuffer(content, dtype, offset=header).reshape(sizes)

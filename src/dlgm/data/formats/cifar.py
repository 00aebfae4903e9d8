"""The binary version of CIFAR-10: records of one label byte, then 32 x 32 red bytes, green bytes, blue bytes."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.errors import damaged
from dlgm.data.files import content_size, read_content

RECORD = 1 + 3 * 32 * 32


def read_cifar(path: Path) -> tuple[UInt8[np.ndarray, "n 32 32 3"], UInt8[np.ndarray, " n"]]:
    """The images, colours last, and their labels."""
    content = read_content(path)
    num_records = _count(path, len(content))
    records = np.frombuffer(content, np.uint8).reshape(num_records, RECORD)
    planes = records[:, 1:].reshape(num_records, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0]


def count_cifar(path: Path) -> int:
    """How many records a file has, without reading them."""
    return _count(path, content_size(path))


def _count(path: Path, size: int) -> int:
    num_records, rest = divmod(size, RECORD)
    if size == 0:
        raise damaged(path, expected=f"records of {RECORD:,} bytes", got="an empty file")
    if rest:
        raise damaged(
            path,
            expected=f"records of {RECORD:,} bytes",
            got=f"{size:,} bytes, {rest:,} more than {num_records:,} records",
        )
    return num_records

"""Small files in the published formats, written byte by byte and independently of the readers."""

import gzip
import struct


def put(path, content, gzipped=False):
    """Write `content` to `path`, or gzipped to `path.gz`, and return where it went."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if gzipped:
        path = path.with_name(f"{path.name}.gz")
        content = gzip.compress(content, 1)
    path.write_bytes(content)
    return path


def idx(sizes, values):
    return bytes([0, 0, 8, len(sizes)]) + b"".join(struct.pack(">I", size) for size in sizes) + bytes(values)


def norb(magic, sizes, values):
    written = (*sizes, 1, 1)[: max(3, len(sizes))]
    return struct.pack(f"<{2 + len(written)}i", magic, len(sizes), *written) + values


def cifar_record(label, pixel):
    """One record, from the function `pixel(row, column)` giving red, green and blue."""
    places = [(row, column) for row in range(32) for column in range(32)]
    return bytes([label]) + bytes(pixel(row, column)[colour] for colour in range(3) for row, column in places)

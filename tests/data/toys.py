"""A published file to fetch, and what is left in a folder afterwards."""

import hashlib

from dlgm.data.sources import PublishedFile, Source

CONTENT = bytes(range(256)) * 4096  # 1 MiB, in several pieces


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def toy(*mirrors, content=CONTENT, known=True, name="a.bin", members=None):
    file = PublishedFile(name, len(content), sha256(content) if known else None, members or {})
    return Source("toy", "toy", "http://toys.example", "for play", mirrors, (file,))


def everything_in(folder):
    """Files and folders below, hidden ones too, but not the lock."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock")

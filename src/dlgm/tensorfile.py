"""Files of named arrays with a description, as safetensors: nothing in one is ever run.

A digest of everything a file says is part of it, so that a single flipped bit is noticed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors import SafetensorError

from dlgm.files import write_atomically

_DIGEST = "digest"
_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint32": "U32",
    "uint8": "U8",
    "bool": "BOOL",
}


class TensorFileError(ValueError):
    """A file that is absent, damaged, or of another format. The message says what of it, without the file's name."""


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], described: Mapping[str, str]) -> None:
    """Write one file, whole or not at all."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    write_atomically(path, _serialised(arrays, {**described, _DIGEST: _digest(arrays, arrays.__getitem__, described)}))


def _serialised(arrays: Mapping[str, np.ndarray], described: Mapping[str, str]) -> bytes:
    """The format by hand, for the library puts the description into an order of its own each time.

    Eight bytes with the header's length, the header as JSON, the arrays end to end, those of wide types first.
    """
    header: dict[str, Any] = {"__metadata__": dict(sorted(described.items()))}
    names, end = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)), 0
    for name in names:
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _TYPES[arrays[name].dtype.name],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(arrays[name].tobytes() for name in names)])


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the description, once the digest has been seen to fit them."""
    with _opened(path) as file:
        described = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    _compare(described.pop(_DIGEST, None), tensors, tensors.__getitem__, described)
    return tensors, described


def check_tensors(path: Path) -> None:
    """Whether the digest fits, with one array at a time in memory; an error if not."""
    with _opened(path) as file:
        described = dict(file.metadata() or {})
        _compare(described.pop(_DIGEST, None), file.keys(), file.get_tensor, described)


def _compare(
    declared: str | None, names: Iterable[str], array_of: Callable[[str], np.ndarray], described: Mapping[str, str]
) -> None:
    if declared is None:
        raise TensorFileError("a safetensors file without a digest: not one of dlgm's")
    if declared != _digest(names, array_of, described):
        raise TensorFileError("damaged: its contents do not fit its digest")


def read_description(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """The arrays' shapes and the description, without reading the arrays."""
    with _opened(path) as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        return shapes, {name: text for name, text in (file.metadata() or {}).items() if name != _DIGEST}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            yield file
    except (FileNotFoundError, TensorFileError):
        raise
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TensorFileError(f"not a safetensors file, or a damaged one: {error}") from None


def parse_json(text: str) -> Any:
    """JSON from a file that may be anyone's: too deep a nesting is an error like any other."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _digest(names: Iterable[str], array_of: Callable[[str], np.ndarray], described: Mapping[str, str]) -> str:
    """Over names, types, shapes, bytes and texts, each with its length, so that nothing can move between them."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    for name in sorted(described):
        add(name.encode())
        add(described[name].encode())
    for name in sorted(names):
        array = array_of(name)
        add(name.encode())
        add(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

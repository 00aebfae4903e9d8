"""Brendan Frey's face: the 1,965 frames of a video, 28 x 20 pixels each."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from dlgm.data.errors import damaged
from dlgm.data.formats.mat import read_mat
from dlgm.data.splits import Splits, sizes_of, split_in_order

SIZES = sizes_of(1_565, 200, 200)
FILES = ("frey_rawface.mat",)


def load_frey_faces(paths: Sequence[Path]) -> Splits:
    """Grey levels in the order of the video.

    No split was published. A frame is nearly its neighbour, so random test frames would have been seen in training.
    The last 200 frames are the test set, the 200 before them validation, which keeps test and training apart.
    """
    (path,) = paths
    return split_in_order(read_faces(path), SIZES)


def read_faces(path: Path) -> UInt8[np.ndarray, "1965 560"]:
    """The frames, one a row."""
    (faces,) = read_mat(path, ("ff",))
    if faces.shape != (560, 1965) or faces.dtype != np.uint8:
        raise damaged(path, expected="ff to be uint8 of shape (560, 1965)", got=f"{faces.dtype} of shape {faces.shape}")
    return np.ascontiguousarray(faces.T)

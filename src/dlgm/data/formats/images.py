"""A folder of images, one a row, in the order of their names."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from dlgm.data.content import Content, Reading, content_of_array
from dlgm.data.errors import DataFileError, one_line

SUFFIXES = (".png", ".jpg", ".jpeg")
# Pillow's names for what pixels can be, and what to do about those that are none of ours.
_COLOURS = {"L": "grey", "1": "black and white", "RGB": "RGB"}
_ADVICE = {
    "RGBA": "has an alpha channel. Lay it over a background first",
    "LA": "has an alpha channel. Lay it over a background first",
    "PA": "has an alpha channel. Lay it over a background first",
    "I;16": "has 16-bit pixels. Scale them to 8 bits first",
    "I": "has 32-bit pixels. Scale them to 8 bits first",
    "F": "has floating-point pixels. Scale them to 8 bits first",
}


def read_images(folder: Path, how: Reading) -> Content:
    """All PNG and JPEG images of a folder: one size, and all grey, all RGB, or all black and white (0 and 1)."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    paths = [path for path in files if path.suffix.lower() in SUFFIXES]
    if not paths:
        inner = sum(path.is_dir() for path in folder.iterdir())
        where = f" Subfolders ({inner}) are not looked into." if inner else ""
        raise DataFileError(f"{folder}: expected a folder with PNG or JPEG images in it; there are none.{where}")
    first, colour = _read(paths[0])
    images = np.empty((len(paths), *first.shape), np.uint8)
    images[0] = first
    for i, path in enumerate(paths[1:], 1):
        image, own = _read(path)
        if own != colour:
            raise DataFileError(f"{path}: expected a {colour} image, like {paths[0].name}; got {own}.")
        if image.shape != first.shape:
            raise DataFileError(f"{path}: expected {_size(first)} pixels, like {paths[0].name}; got {_size(image)}.")
        images[i] = image
    others = len(files) - len(paths)
    notes = (f"files left out that are neither PNG nor JPEG: {others:,}",) if others else ()
    return content_of_array(folder, images)._replace(shape=first.shape, notes=notes)


def _read(path: Path) -> tuple[UInt8[np.ndarray, "..."], str]:
    from PIL import Image

    try:
        with Image.open(path) as opened:
            image: Any = opened
            mode = "RGBA" if "transparency" in image.info else image.mode
            if mode == "P":  # colours from a list
                image, mode = image.convert("RGB"), "RGB"
            if mode not in _COLOURS:
                advice = _ADVICE.get(mode, f"has {mode} pixels. Convert it to grey or RGB first")
                raise DataFileError(f"{path}: expected a grey or RGB image; this one {advice}.")
            pixels = np.asarray(image)
    except (DataFileError, PermissionError):
        raise
    except Exception as error:  # what damage raises depends on where it is
        raise DataFileError(f"{path}: expected a whole PNG or JPEG image; got {one_line(error)}.") from error
    return pixels.astype(np.uint8), _COLOURS[mode]


def _size(image: UInt8[np.ndarray, "..."]) -> str:
    return f"{image.shape[1]} x {image.shape[0]}"

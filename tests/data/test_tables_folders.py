"""Folders of images that cannot be read: each is refused in a line that names the image and what to do."""

import numpy as np
import pytest

from dlgm.data import DataFileError, read_table
from tests.data import write
from tests.data.test_tables_formats import png

GREY, COLOUR = np.zeros((2, 3)), np.zeros((2, 3, 3))
ALPHA = "expected a grey or RGB image; this one has an alpha channel. Lay it over a background first."
IMAGES = {
    "alpha": ({"0.png": png(COLOUR, "RGBA")}, "0.png", ALPHA),
    "grey with alpha": ({"0.png": png(GREY), "1.png": png(GREY, "LA")}, "1.png", ALPHA),
    "grey with a transparent level": ({"0.png": png(GREY, transparency=0)}, "0.png", ALPHA),
    "another size": (
        {"0.png": png(GREY), "1.png": png(np.zeros((3, 3)))},
        "1.png",
        "expected 3 x 2 pixels, like 0.png; got 3 x 3.",
    ),
    "another colour": (
        {"0.png": png(GREY), "1.png": png(COLOUR)},
        "1.png",
        "expected a grey image, like 0.png; got RGB.",
    ),
    "16 bits": (
        {"0.png": png(GREY, "I;16")},
        "0.png",
        "expected a grey or RGB image; this one has 16-bit pixels. Scale them to 8 bits first.",
    ),
    "four inks": (
        {"0.jpg": png(COLOUR, "CMYK", "JPEG")},
        "0.jpg",
        "expected a grey or RGB image; this one has CMYK pixels. Convert it to grey or RGB first.",
    ),
    "no image": ({"0.png": b"hello"}, "0.png", "expected a whole PNG or JPEG image; got UnidentifiedImageError: "),
    "cut": (
        {"0.png": png(np.random.default_rng(0).integers(0, 255, (64, 64)))[:2000]},
        "0.png",
        "expected a whole PNG",
    ),
    "none": ({"a.txt": b"hello"}, ".", "expected a folder with PNG or JPEG images in it; there are none."),
    "none but inside": (
        {"cats/0.png": png(GREY)},
        ".",
        "expected a folder with PNG or JPEG images in it; there are none. Subfolders (1) are not looked into.",
    ),
}


@pytest.mark.parametrize("case", IMAGES)
def test_malformed_folders(tmp_path, case):
    files, at_fault, words = IMAGES[case]
    for name, content in files.items():
        write.put(tmp_path / name, content)
    with pytest.raises(DataFileError) as caught:
        read_table(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / at_fault}: {words}")
    assert "\n" not in str(caught.value)

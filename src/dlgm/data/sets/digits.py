"""The handwritten digits that scikit-learn carries: 1,797 images of 8 x 8 pixels with values 0 to 16."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dlgm.data.splits import Splits, sizes_of, split_in_order

SIZES = sizes_of(1_297, 250, 250)
THRESHOLD = 8  # half of the largest value; a pixel from here on is a 1


def load_digits(paths: Sequence[Path]) -> Splits:
    """The digits as bits, in a fixed shuffled order, so that the splits are alike."""
    # The file itself: importing scikit-learn to have it read takes ten times as long.
    (folder,) = find_spec("sklearn").submodule_search_locations  # type: ignore[union-attr, misc]
    table = np.loadtxt(Path(folder, "datasets", "data", "digits.csv.gz"), delimiter=",", dtype=np.int64)
    pixels, labels = table[:, :-1], table[:, -1]
    order = np.random.default_rng(1797).permutation(len(pixels))
    bits = (pixels >= THRESHOLD).astype(np.uint8)
    return split_in_order(bits[order], SIZES, labels[order])

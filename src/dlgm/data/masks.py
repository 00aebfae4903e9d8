"""Holes to try an imputer with: which cells of complete rows to hide."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool


def hide_at_random(shape: tuple[int, int], share: float, rng: np.random.Generator) -> Bool[np.ndarray, "n x"]:
    """A mask, true where a cell stays: each is hidden with probability `share`, whatever it holds."""
    if not 0 < share < 1:
        raise ValueError(f"share: expected a share of the cells between 0 and 1; got {share}.")
    return rng.random(shape) >= share


def hide_square(num_rows: int, image: Sequence[int], side: float = 0.5) -> Bool[np.ndarray, "n x"]:
    """A mask that hides the middle of images of shape `(height, width, ..)`: a square, `side` of their shorter one."""
    if len(image) not in (2, 3):
        raise ValueError(
            f"square: expected images, (height, width) or (height, width, 3); rows have shape {tuple(image)}."
        )
    if not 0 < side < 1:
        raise ValueError(f"side: expected a share of the image's side between 0 and 1; got {side}.")
    mask = np.ones(tuple(image), bool)
    size = max(1, round(side * min(image[:2])))
    top, left = ((extent - size) // 2 for extent in image[:2])
    mask[top : top + size, left : left + size] = False
    return np.tile(mask.reshape(1, -1), (num_rows, 1))

"""Holes to try an imputer with: which cells of complete rows to hide."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float


def hide_at_random(shape: tuple[int, int], share: float, rng: np.random.Generator) -> Bool[np.ndarray, "n x"]:
    """A mask, true where a cell stays: each is hidden with probability `share`, whatever it holds."""
    _check_share(share)
    return rng.random(shape) >= share


def hide_by_others(
    rows: Float[np.ndarray, "n x"],
    share: float,
    rng: np.random.Generator,
    *,
    always: float | int = 0.3,
    strength: float | int = 1.0,
) -> Bool[np.ndarray, "n x"]:
    """A mask by which cells are missing at random: how likely a cell is to go depends on what is seen of its row.

    A share `always` of the columns, one at least, is never hidden. In the others, the log odds of hiding are a random
    combination of those, of standard deviation `strength`, moved so that a share `share` of all their cells goes.
    """
    _check_share(share)
    values = _scaled(rows)
    x = values.shape[1]
    if x < 2:
        raise ValueError("hide_by_others: expected two columns or more: what one hides, another must tell.")
    order = rng.permutation(x)
    seen, hidden = np.split(order, [min(x - 1, max(1, round(always * x)))])
    weights = rng.normal(size=(len(seen), len(hidden)))
    odds = _scaled(values[:, seen] @ weights) * strength
    mask = np.ones(values.shape, bool)
    mask[:, hidden] = _hidden_by(odds, share, rng)
    return mask


def hide_by_themselves(
    rows: Float[np.ndarray, "n x"], share: float, rng: np.random.Generator, *, strength: float | int = 1.0
) -> Bool[np.ndarray, "n x"]:
    """A mask by which cells are missing not at random: the larger a cell of a column is, the likelier it goes.

    The log odds of hiding are the cell, scaled to standard deviation `strength`, moved so that a share `share` of each
    column goes. With a negative `strength` it is the small ones.
    """
    _check_share(share)
    return _hidden_by(_scaled(rows) * strength, share, rng)


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"share: expected a share of the cells between 0 and 1; got {share}.")


def _scaled(values: Float[np.ndarray, "n x"]) -> Float[np.ndarray, "n x"]:
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError("rows: expected complete rows of finite numbers, of shape (n, x).")
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _chance(log_odds: Float[np.ndarray, "n x"]) -> Float[np.ndarray, "n x"]:
    return 0.5 * (1 + np.tanh(log_odds / 2))


def _hidden_by(odds: Float[np.ndarray, "n x"], share: float, rng: np.random.Generator) -> Bool[np.ndarray, "n x"]:
    """Cells stay where a coin with these log odds, moved by a constant in each column, says so."""
    low, high = np.full(odds.shape[1], -50.0), np.full(odds.shape[1], 50.0)
    for _ in range(60):  # the expected share rises with the constant: halve the interval it lies in
        middle = (low + high) / 2
        above = _chance(odds + middle).mean(axis=0) > share
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return rng.random(odds.shape) >= _chance(odds + (low + high) / 2)


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

"""Images: in grids, beside each other, and with their holes filled in."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from numpy.typing import ArrayLike

from dlgm.plots.canvas import WIDTH, axes_or_new

_HOLE = "#e0559c"  # neither a grey nor a colour that photographs have much of
_GAP = 5  # pixels of a picture between a frame and the end of its tile
_FRAME = 0.8  # the grey of the lines between images
_LETTER = 0.6 / 72  # inches: the width of a letter, for each point of its size


def image_grid(images: ArrayLike, columns: int, titles: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Images in rows of `columns`: `(n, height, width)` greys, or `(n, height, width, 3)` colours, within [0, 1]."""
    tiles = _as_images("image_grid", "images", images)
    if columns < 1:
        raise ValueError(f"image_grid: expected `columns` of at least 1; got {columns}.")
    if titles is not None and len(titles) != len(tiles):
        raise ValueError(f"image_grid: expected {len(tiles)} titles, one an image; got {len(titles)}.")
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    longest = max(map(len, titles or [""]))
    inches = min(WIDTH / columns, max(1.1, min(longest * _LETTER * 9, 2.2)))
    size = float(np.clip(inches / (_LETTER * max(longest, 1)), 6, 9))
    aspect = tiles.shape[1] / tiles.shape[2]
    over = 0.0 if titles is None else 0.24
    height = rows * (inches * aspect + over)
    ax = axes_or_new(ax, columns * inches + 0.1, height + 0.1)
    # Titles have a strip of their own above each row, as high as `over` inches are in pixels of the picture.
    strip = round(over / inches * _tile(tiles[:1], 1)[1][1])
    picture, (high, wide) = _tile(tiles, columns, strip)
    _show(ax, picture)
    for at, title in enumerate(titles or ()):
        row, column = divmod(at, columns)
        fits = max(int(inches / (_LETTER * size)), 2)
        short = title if len(title) <= fits else title[: fits - 1] + "…"
        ax.text((column + 0.5) * wide, row * high + strip * 0.92, short, ha="center", va="bottom", fontsize=size)
    return ax


def side_by_side(groups: Mapping[str, ArrayLike], *, ax: Axes | None = None) -> Axes:
    """Grids of images beside each other under their names, e.g. `{"data": ..., "samples": ...}`; three to a line."""
    if not groups:
        raise ValueError("side_by_side: expected at least one group of images; got none.")
    grids = {name: _as_images("side_by_side", name, images) for name, images in groups.items()}
    columns = int(np.ceil(np.sqrt(max(len(images) for images in grids.values()))))
    pictures = {name: _tile(images, columns)[0] for name, images in grids.items()}
    across = min(len(grids), 3)
    inches = min(WIDTH / across, 3.8)
    # Every grid is as wide as the widest, in units of its own width; between them a little room, above them a name.
    heights = [picture.shape[0] / picture.shape[1] for picture in pictures.values()]
    gap, name_height, high = 0.04, 0.3 / inches, max(heights)
    down = -(-len(grids) // across)
    ax = axes_or_new(ax, across * inches, down * inches * (high + name_height) + 0.1)
    for at, ((name, picture), height) in enumerate(zip(pictures.items(), heights, strict=True)):
        row, column = divmod(at, across)
        left, top = column * (1 + gap), row * (high + name_height) + name_height
        ax.imshow(picture, extent=(left, left + 1, top + height, top))
        ax.text(left + 0.5, top - 0.25 * name_height, name, ha="center", va="bottom", fontsize="large")
    ax.set_xlim(0, across * (1 + gap) - gap)
    ax.set_ylim(down * (high + name_height), 0)
    ax.set_axis_off()
    return ax


def filled_in(
    truth: ArrayLike,
    observed_mask: ArrayLike,
    filled_draws: ArrayLike,
    mean: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    show_truth: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Images with holes and their fills, an image a column: the original, what was given, some fills, their mean.

    - `truth`, `mean`: `(n, height, width)` greys or `(n, height, width, 3)` colours, within [0, 1].
    - `observed_mask`: true where a pixel was given; the shape of `truth`, with or without its colour axis.
    - `filled_draws`: `(s, n, ...)`, with as many draws as are to be shown.
    - `names`: of the draws; "fill 1", "fill 2" and so on by default.
    - `show_truth`: false where nobody knows it; `truth` then needs to be right only where pixels were given.
    """
    original, average = (_as_images("filled_in", name, images) for name, images in (("truth", truth), ("mean", mean)))
    draws = [_as_images("filled_in", "filled_draws", images) for images in np.asarray(filled_draws)]
    for name, shape in [("mean", average.shape), *(("filled_draws", draw.shape) for draw in draws)]:
        if shape != original.shape:
            raise ValueError(f"filled_in: expected `{name}` of images like `truth`, {original.shape}; got {shape}.")
    given = np.asarray(observed_mask, bool)
    if given.shape == original.shape:
        given = np.all(given, axis=-1)
    elif given.shape != original.shape[:3]:
        expected = original.shape[:3]
        raise ValueError(f"filled_in: expected `observed_mask` of shape {expected}; got {given.shape}.")
    with_holes = np.where(given[..., None], original, to_rgb(_HOLE))
    if names is None:
        names = ["fill"] if len(draws) == 1 else [f"fill {at}" for at in range(1, len(draws) + 1)]
    rows = {"original": original} if show_truth else {}
    rows |= {"given": with_holes, **dict(zip(names, draws, strict=True)), "mean": average}

    n, high, wide = original.shape[:3]
    inches = min((WIDTH - 0.8) / n, 1.0)
    ax = axes_or_new(ax, n * inches + 0.9, len(rows) * inches * high / wide + 0.2)
    picture, (pitch, _) = _tile(np.concatenate(list(rows.values())), n)
    _show(ax, picture)
    ax.set_axis_on()
    ax.set_xticks([])
    ax.set_yticks([(at + 0.5) * pitch for at in range(len(rows))], list(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def _as_images(owner: str, name: str, images: ArrayLike) -> np.ndarray:
    """Images as `(n, height, width, 3)`, once their shape and range have been looked at."""
    array = np.asarray(images, float)
    if array.ndim == 4 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[-1] != 3):
        raise ValueError(
            f"{owner}: expected `{name}` of shape (n, height, width), or (n, height, width, 3) for colours; "
            f"got {np.shape(images)}. Reshape rows to images first."
        )
    if not array.size:
        raise ValueError(f"{owner}: expected at least one image in `{name}`; got shape {array.shape}.")
    low, high = array.min(), array.max()
    if not (low >= -1e-6 and high <= 1 + 1e-6):
        raise ValueError(
            f"{owner}: expected values of `{name}` within [0, 1]; got {low:g} to {high:g}. Rescale or clip them first."
        )
    if array.ndim == 3:
        array = np.repeat(array[..., None], 3, axis=-1)
    return np.clip(array, 0, 1)


def _tile(images: np.ndarray, columns: int, strip: int = 0) -> tuple[np.ndarray, tuple[int, int]]:
    """One RGBA picture of all images, each in a thin frame with a gap around it, and the height and width one takes up.

    Small images are enlarged by a whole factor, so that frames stay thin beside them. Without the gap, dark images in a
    grid run into each other. `strip` leaves empty pixels above each row.
    """
    n, high, wide = images.shape[:3]
    factor = -(-96 // max(high, wide))
    large = np.pad(
        images.repeat(factor, axis=1).repeat(factor, axis=2), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=_FRAME
    )
    rows = -(-n // columns)
    top, gap = strip + _GAP, _GAP
    H, W = high * factor + 2 + top + gap, wide * factor + 2 + 2 * gap
    picture = np.zeros((rows, columns, H, W, 4))
    picture.reshape(-1, H, W, 4)[:n, top:-gap, gap:-gap, :3] = large
    picture.reshape(-1, H, W, 4)[:n, top:-gap, gap:-gap, 3] = 1
    return picture.transpose(0, 2, 1, 3, 4).reshape(rows * H, columns * W, 4), (H, W)


def _show(ax: Axes, picture: np.ndarray) -> None:
    ax.imshow(picture, extent=(0, picture.shape[1], picture.shape[0], 0))
    ax.set_axis_off()

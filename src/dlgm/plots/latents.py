"""The plane of two latents: rows as points, what the points decode to, and the posterior of a row."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from dlgm.plots.canvas import BLUE, GREEN, ORANGE, RED, axes_or_new, tidy

# Ten classes, told apart by lightness as well as by hue, and by their markers besides.
_CLASS_COLOURS = (BLUE, ORANGE, "#2b2b2b", "#6cc0ea", RED, "#c9a20e", GREEN, "#9a5fc0", "#7a5a30", "#e87fb0")
_CLASS_MARKERS = "os^DvPX<>*"
_MOST_CLASSES = 100
MOST_NAMED = 20  # more different numbers than that are shown on a scale


def embedding(points: ArrayLike, labels: ArrayLike | Sequence[Any] | None = None, *, ax: Axes | None = None) -> Axes:
    """Rows as points of the plane, shape `(n, 2)`, in the colour and with the marker of their class.

    Labels that are numbers, more than 20 different ones, are shown on a scale of colours; NaN is grey.
    """
    xy = np.asarray(points, float)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"embedding: expected `points` of shape (n, 2); got {xy.shape}.")
    classes = None if labels is None else np.asarray(labels)
    if classes is not None and classes.shape != xy.shape[:1]:
        raise ValueError(f"embedding: expected {len(xy)} labels, one a point; got shape {classes.shape}.")
    if classes is not None and classes.dtype.kind in "iuf" and len(np.unique(classes)) > MOST_NAMED:
        return _on_a_scale(xy, classes.astype(float), tidy(axes_or_new(ax, 7.0, 6.0)))
    if classes is not None and len(np.unique(classes)) > _MOST_CLASSES:
        raise ValueError(
            f"embedding: expected labels of at most {_MOST_CLASSES} classes; got {len(np.unique(classes))} values."
        )
    ax = tidy(axes_or_new(ax, 7.0, 6.0))
    size = _size(xy)
    kinds: Sequence[Any] = ["all"] if classes is None else list(np.unique(classes))
    for at, kind in enumerate(kinds):
        here = xy if classes is None else xy[classes == kind]
        # Past ten classes the markers shift against the colours, so that each pair is new.
        marker = _CLASS_MARKERS[(at + at // 10) % 10]
        colour = _CLASS_COLOURS[at % 10]
        ax.scatter(
            here[:, 0],
            here[:, 1],
            s=size,
            marker=marker,
            color=colour,
            alpha=0.75,
            linewidths=0,
            label=str(kind) or "(none)",
        )
        if classes is not None and len(kinds) <= 12:
            halo = [withStroke(linewidth=3, foreground="white")]
            x, y = np.median(here, axis=0)
            ax.text(x, y, str(kind), ha="center", va="center", fontsize=13, fontweight="bold", path_effects=halo)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xlabel="latent 1", ylabel="latent 2")
    if classes is not None:
        columns = -(-len(kinds) // 20)
        legend = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), title="class", ncols=columns)
        for handle in legend.legend_handles:
            if handle is not None:
                handle.set_alpha(1)
                handle.set(sizes=[45])
    return ax


def _size(xy: np.ndarray) -> float:
    """Of a point: smaller, the more there are."""
    return float(np.clip(30_000 / max(len(xy), 1), 4, 40))


def _on_a_scale(xy: np.ndarray, numbers: np.ndarray, ax: Axes) -> Axes:
    known = np.isfinite(numbers)
    x, y = xy.T
    ax.scatter(x[~known], y[~known], s=_size(xy), color="0.75", linewidths=0)
    drawn = ax.scatter(x[known], y[known], s=_size(xy), c=numbers[known], cmap="viridis", alpha=0.85, linewidths=0)
    ax.figure.colorbar(drawn, ax=ax, label="label")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xlabel="latent 1", ylabel="latent 2")
    return ax


def latent_grid(
    decode: Callable[[np.ndarray], np.ndarray],
    shape: Sequence[int],
    *,
    across: int = 20,
    low: ArrayLike = (-3.0, -3.0),
    high: ArrayLike = (3.0, 3.0),
    ax: Axes | None = None,
) -> Axes:
    """What the plane looks like: the images that evenly spaced points of it are decoded to, each in its place.

    `decode` takes points `(n, 2)` to images `(n, ...)` within [0, 1] that have `shape` when reshaped.
    """
    (left, lower), (right, upper) = (np.asarray(corner, float) for corner in (low, high))
    x, y = np.linspace(left, right, across), np.linspace(lower, upper, across)
    points = np.stack(np.meshgrid(x, y[::-1]), axis=-1).reshape(-1, 2)  # the first image is at the upper left
    images = np.clip(np.asarray(decode(points), float).reshape(-1, *shape), 0, 1)
    # A thin line below and to the right of each, or neighbours would run into each other.
    images = np.pad(images, ((0, 0), (0, 1), (0, 1), *((0, 0),) * (len(shape) - 2)), constant_values=0.35)
    tiles = images.reshape(across, across, *images.shape[1:])
    picture = np.moveaxis(tiles, 2, 1).reshape(across * tiles.shape[2], across * tiles.shape[3], *shape[2:])
    ax = axes_or_new(ax, 6.0, 6.0)
    wide, tall = (right - left) / (across - 1) / 2, (upper - lower) / (across - 1) / 2
    extent = (left - wide, right + wide, lower - tall, upper + tall)
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=extent, aspect="auto")
    ax.set(xlabel="latent 1", ylabel="latent 2")
    return ax


def posterior_plane(
    log_density: ArrayLike,
    extent: tuple[float, float, float, float],
    *,
    prior: ArrayLike | None = None,
    draws: ArrayLike | None = None,
    mode: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A row's true posterior over two latents, with draws of the prior and of the recognition model, and its mode.

    - `log_density`: on an even grid, first axis upwards, second to the right.
    - `extent`: left, right, lower, upper end of the grid.
    - `prior`, `draws`: points, shape `(n, 2)`; `mode`: one.
    """
    log_p = np.asarray(log_density, float)
    ax = axes_or_new(ax, 4.0, 4.0)
    x, y = (np.linspace(*ends, size) for ends, size in ((extent[:2], log_p.shape[1]), (extent[2:], log_p.shape[0])))
    ax.pcolormesh(x, y, np.exp(log_p - log_p.max()), cmap="Greys", shading="nearest", rasterized=True)
    for points, colour, size, name in ((prior, ORANGE, 5, "prior"), (draws, BLUE, 5, "recognition model")):
        if points is not None:
            at = np.asarray(points)
            ax.scatter(at[:, 0], at[:, 1], s=size, color=colour, alpha=0.5, linewidths=0, label=name)
    if mode is not None:
        edge = [withStroke(linewidth=3, foreground="white")]
        ax.plot(*np.asarray(mode), "+", color=RED, markersize=11, markeredgewidth=2, path_effects=edge, label="mode")
    ax.set_xlim(*extent[:2])
    ax.set_ylim(*extent[2:])
    ax.set_aspect("equal")
    return ax

"""The pictures of a trained model. Each function returns a matplotlib `Figure`, made without pyplot or a display."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

BLUE, ORANGE, GREEN, RED = "#1f5fa8", "#d9822b", "#3a8f5c", "#b0353b"
# Ten classes, told apart by lightness as well as by hue, and by their markers besides.
_CLASS_COLOURS = (BLUE, ORANGE, "#2b2b2b", "#6cc0ea", RED, "#c9a20e", GREEN, "#9a5fc0", "#7a5a30", "#e87fb0")
_CLASS_MARKERS = "os^DvPX<>*"
_HOLE = "#e0559c"  # neither a grey nor a colour that photographs have much of
_GAP = 5  # pixels of a picture between a frame and the end of its tile
_FRAME = 0.8  # the grey of the lines between images
_WIDTH = 8.0  # inches: what a page holds
_LETTER = 0.6 / 72  # inches: the width of a letter, for each point of its size


def training_curves(history: Sequence[Mapping[str, Any]]) -> Figure:
    """The bound by epoch, with the best epoch marked, and beside it what the training did meanwhile.

    Each record has `epoch` and `train_bound` (nats a row, higher is better), and may have `valid_bound`, `beta`,
    `learning_rate` and `rows_per_second`; a value may be absent or `None` in some epochs. The best epoch is that of
    the highest `valid_bound`, or of the highest `train_bound` where nothing was held out.
    """
    if not history:
        raise ValueError("training_curves: expected at least one record; got an empty history.")
    train, valid = _series(history, "train_bound"), _series(history, "valid_bound")
    if not len(train[0]) and not len(valid[0]):
        raise ValueError("training_curves: expected a finite `train_bound` in some record; found none.")
    names = {"beta": "KL weight $\\beta$", "learning_rate": "learning rate", "rows_per_second": "rows a second"}
    sides = {label: series for name, label in names.items() if len((series := _series(history, name))[0])}

    figure = _figure(_WIDTH, 4.0)
    grid = figure.add_gridspec(max(len(sides), 1), 2 if sides else 1, width_ratios=(2.2, 1) if sides else None)
    ax = _tidy(figure.add_subplot(grid[:, 0]))
    for (x, y), name, colour, marker in ((train, "training", BLUE, "o"), (valid, "validation", ORANGE, "s")):
        if len(x):
            ax.plot(x, y, color=colour, marker=marker if len(x) <= 30 else None, markersize=4, label=name)
    best_x, best_y, which = (*valid, "validation") if len(valid[0]) else (*train, "training")
    at = int(np.argmax(best_y))
    label = f"best {which}: {_number(best_y[at])}, epoch {best_x[at]:g}"
    ax.plot(best_x[at], best_y[at], "*", color=RED, markersize=13, markeredgecolor="white", zorder=3, label=label)
    ax.axvline(best_x[at], color=RED, linewidth=1, linestyle=":", zorder=0)
    ax.set(xlabel="epoch", ylabel="bound on log p, nats a row")
    ax.set_title("Bound (higher is better)", loc="left")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right", edgecolor="none", framealpha=1)
    _leave_out_the_start(ax, train, valid)
    if len(history) == 1:
        ax.set_xlim(best_x[at] - 1, best_x[at] + 1)

    for row, (label, (x, y)) in enumerate(sides.items()):
        side = _tidy(figure.add_subplot(grid[row, 1]))
        side.plot(x, y, color="0.35", marker="o" if len(x) <= 30 else None, markersize=3, linewidth=1.2)
        side.set_title(label, fontsize="medium", loc="left")
        side.set_ylim(bottom=0, top=1.15 * max(y.max(), 1e-12))
        side.set_xlim(ax.get_xlim())
        side.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        side.yaxis.set_major_locator(MaxNLocator(3))
        side.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:g}")
        )
        side.tick_params(labelbottom=row == len(sides) - 1)
        if row == len(sides) - 1:
            side.set_xlabel("epoch")
    return figure


def image_grid(images: ArrayLike, columns: int, titles: Sequence[str] | None = None) -> Figure:
    """Images in rows of `columns`: `(n, height, width)` greys, or `(n, height, width, 3)` colours, within [0, 1]."""
    tiles = _as_images("image_grid", "images", images)
    if columns < 1:
        raise ValueError(f"image_grid: expected `columns` of at least 1; got {columns}.")
    if titles is not None and len(titles) != len(tiles):
        raise ValueError(f"image_grid: expected {len(tiles)} titles, one an image; got {len(titles)}.")
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    longest = max(map(len, titles or [""]))
    inches = min(_WIDTH / columns, max(1.1, min(longest * _LETTER * 9, 2.2)))
    size = float(np.clip(inches / (_LETTER * max(longest, 1)), 6, 9))
    aspect = tiles.shape[1] / tiles.shape[2]
    over = 0.0 if titles is None else 0.24
    height = rows * (inches * aspect + over)
    figure = Figure(figsize=(columns * inches + 0.1, height + 0.1), layout="constrained")
    ax = figure.add_subplot()
    # Titles have a strip of their own above each row, as high as `over` inches are in pixels of the picture.
    strip = round(over / inches * _tile(tiles[:1], 1)[1][1])
    picture, (high, wide) = _tile(tiles, columns, strip)
    _show(ax, picture)
    for at, title in enumerate(titles or ()):
        row, column = divmod(at, columns)
        fits = max(int(inches / (_LETTER * size)), 2)
        short = title if len(title) <= fits else title[: fits - 1] + "…"
        ax.text((column + 0.5) * wide, row * high + strip * 0.92, short, ha="center", va="bottom", fontsize=size)
    return figure


def side_by_side(groups: Mapping[str, ArrayLike]) -> Figure:
    """Grids of images beside each other under their names, e.g. `{"data": ..., "samples": ...}`."""
    if not groups:
        raise ValueError("side_by_side: expected at least one group of images; got none.")
    grids = {name: _as_images("side_by_side", name, images) for name, images in groups.items()}
    columns = int(np.ceil(np.sqrt(max(len(images) for images in grids.values()))))
    across = min(len(grids), 3)
    down = -(-len(grids) // across)
    heights = [-(-len(images) // columns) * images.shape[1] / (columns * images.shape[2]) for images in grids.values()]
    inches = min(_WIDTH / across, 3.8)
    figure = _figure(across * inches, down * (inches * max(heights) + 0.4))
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax, (name, images) in zip(axes, grids.items(), strict=False):
        _show(ax, _tile(images, columns)[0])
        ax.set_title(name)
        ax.set_anchor("N")
    for ax in axes[len(grids) :]:
        ax.set_axis_off()
    return figure


def embedding(points: ArrayLike, labels: ArrayLike | Sequence[Any] | None = None) -> Figure:
    """Rows as points of the plane, shape `(n, 2)`, in the colour and with the marker of their class."""
    xy = np.asarray(points, float)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"embedding: expected `points` of shape (n, 2); got {xy.shape}.")
    classes = None if labels is None else np.asarray(labels)
    if classes is not None and classes.shape != xy.shape[:1]:
        raise ValueError(f"embedding: expected {len(xy)} labels, one a point; got shape {classes.shape}.")
    figure = _figure(7.0, 6.0)
    ax = _tidy(figure.add_subplot())
    size = float(np.clip(30_000 / max(len(xy), 1), 4, 40))
    kinds: Sequence[Any] = ["all"] if classes is None else list(np.unique(classes))
    for at, kind in enumerate(kinds):
        here = xy if classes is None else xy[classes == kind]
        # Past ten classes the markers shift against the colours, so that each pair is new.
        marker = _CLASS_MARKERS[(at + at // 10) % 10]
        colour = _CLASS_COLOURS[at % 10]
        ax.scatter(
            here[:, 0], here[:, 1], s=size, marker=marker, color=colour, alpha=0.75, linewidths=0, label=str(kind)
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
    return figure


def filled_in(truth: ArrayLike, observed_mask: ArrayLike, filled_draws: ArrayLike, mean: ArrayLike) -> Figure:
    """Images with holes and their fills, an image a column: the original, what was given, some fills, their mean.

    - `truth`, `mean`: `(n, height, width)` greys or `(n, height, width, 3)` colours, within [0, 1].
    - `observed_mask`: true where a pixel was given; the shape of `truth`, with or without its colour axis.
    - `filled_draws`: `(s, n, ...)`, with as many draws as are to be shown.
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
    names = ["fill"] if len(draws) == 1 else [f"fill {at}" for at in range(1, len(draws) + 1)]
    rows = {"original": original, "given": with_holes, **dict(zip(names, draws, strict=True)), "mean": average}

    n, high, wide = original.shape[:3]
    inches = min((_WIDTH - 0.8) / n, 1.0)
    figure = _figure(n * inches + 0.9, len(rows) * inches * high / wide + 0.2)
    ax = figure.add_subplot()
    picture, (pitch, _) = _tile(np.concatenate(list(rows.values())), n)
    _show(ax, picture)
    ax.set_axis_on()
    ax.set_xticks([])
    ax.set_yticks([(at + 0.5) * pitch for at in range(len(rows))], list(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return figure


def likelihood_bars(
    entries: Iterable[tuple[str, float, float | None]], label: str = "log likelihood, nats a row: higher is better"
) -> Figure:
    """Models beside each other: `(name, mean, standard error)`, in the order given, the best one in blue.

    Bars start at zero. Where the models differ by little of their distance from zero, bars would all look alike, so
    there they are dots, on an axis that begins elsewhere. The error bars are two standard errors to either side.
    """
    items = list(entries)
    if not items:
        raise ValueError("likelihood_bars: expected at least one entry; got none.")
    names, means = [name for name, _, _ in items], np.array([mean for _, mean, _ in items], float)
    errors = np.array([0.0 if error is None or not np.isfinite(error) else error for _, _, error in items])
    figure = _figure(_WIDTH, 1.2 + 0.36 * len(items))
    ax = _tidy(figure.add_subplot())
    y = np.arange(len(items))
    colours = np.where(means == means.max(), BLUE, "#a9bdd4")
    spread = np.ptp(means) + 4 * errors.max()
    if len(items) > 1 and spread < 0.25 * np.abs(means).max():
        pad = 0.12 * max(spread, 1e-9)
        low, high = (means - 2 * errors).min() - pad, (means + 2 * errors).max() + pad
        ax.set_xlim(low, high)
        ax.hlines(y, low, high, color="0.9", linewidth=1, zorder=0)
        ax.scatter(means, y, s=60, color=colours, zorder=2)
        ax.xaxis.set_major_locator(MaxNLocator(6))
        label += " (the axis does not start at 0)"
    else:
        ax.barh(y, means, color=colours, height=0.62)
        ax.axvline(0, color="0.3", linewidth=0.8)
    shown = errors > 0
    ax.errorbar(means[shown], y[shown], xerr=2 * errors[shown], fmt="none", ecolor="0.15", capsize=3, linewidth=1.2)
    for at, (mean, error) in enumerate(zip(means, errors, strict=True)):
        value = _number(mean) + (f" ± {error:.2f}" if error > 0 else "")
        weight = "bold" if mean == means.max() else "normal"
        ax.text(1.02, at, value, va="center", transform=ax.get_yaxis_transform(), fontweight=weight)
    if shown.any():
        ax.set_title("mean ± standard error; whiskers: two of them", loc="right", fontsize="small", color="0.4")
    ax.set_yticks(y, names)
    ax.set_ylim(len(items) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(label)
    return figure


def unit_kl(kl: Mapping[str, ArrayLike] | Sequence[ArrayLike], threshold: float = 0.01) -> Figure:
    """The divergence of each latent unit from its prior, nats a row, largest first, a panel a layer.

    A unit below the `threshold` carries next to nothing of the row: it is set apart. Layers without names are
    numbered from 1.
    """
    layers = kl if isinstance(kl, Mapping) else {f"layer {at}": values for at, values in enumerate(kl, 1)}
    if not layers:
        raise ValueError("unit_kl: expected at least one layer; got none.")
    figure = _figure(_WIDTH, 0.4 + 2.2 * len(layers))
    for ax, (name, values) in zip(figure.subplots(len(layers), 1, squeeze=False)[:, 0], layers.items(), strict=True):
        heights = np.sort(np.asarray(values, float))[::-1]
        if heights.ndim != 1 or not len(heights):
            raise ValueError(f"unit_kl: expected one number a unit in {name!r}; got shape {np.shape(values)}.")
        active = heights >= threshold
        num, size = int(active.sum()), len(heights)
        at = np.arange(1, size + 1)
        _tidy(ax).bar(at[active], heights[active], width=0.85 if size < 80 else 1.0, color=BLUE)
        if num < size:
            ax.axvspan(num + 0.5, size + 0.5, color=ORANGE, alpha=0.16, linewidth=0)
            ax.bar(at[~active], heights[~active], width=0.85 if size < 80 else 1.0, color=ORANGE)
            share = (size - num) / size
            middle = (num + size + 1) / 2
            if share > 0.15:
                ax.text(
                    middle,
                    0.5,
                    f"below {threshold:g}",
                    color="#8a4b0c",
                    ha="center",
                    transform=ax.get_xaxis_transform(),
                )
        ax.set_xlim(0.5, size + 0.5)
        ax.set_ylim(bottom=0, top=None if heights[0] > 0 else 1)
        ax.set(ylabel="KL, nats a row")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(
            f"{name}: {heights.sum():.1f} nats in all; {num} of {size} units with {threshold:g} or more", loc="left"
        )
    ax.set_xlabel("unit, largest first")
    return figure


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def _tidy(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _series(history: Sequence[Mapping[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and values of one column, where there is a finite value."""
    pairs = [(record["epoch"], record[name]) for record in history if record.get(name) is not None]
    x, y = np.array(pairs, float).reshape(-1, 2).T
    return x[np.isfinite(y)], y[np.isfinite(y)]


def _leave_out_the_start(ax: Axes, *curves: tuple[np.ndarray, np.ndarray]) -> None:
    """Frame the bounds where the training spent its time, and say so, if the first epochs would flatten the rest."""
    x, y = (np.concatenate(parts) for parts in zip(*curves, strict=True))
    low, high = np.quantile(y, 0.1), y.max()
    floor = low - 0.5 * (high - low)
    outside = x[y < floor]
    if len(x) < 20 or not len(outside) or high - y.min() < 4 * (high - low):
        return
    ax.set_ylim(floor, high + 0.08 * (high - floor))
    ax.set_title(f"the start, down to {_number(y.min(), 0)}, is not shown", loc="right", fontsize="small", color="0.4")


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


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

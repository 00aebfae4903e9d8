"""How a training went, and what it left behind."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from dlgm.plots.canvas import BLUE, ORANGE, RED, WIDTH, axes_or_new, number, tidy

_COURSES = {"beta": "KL weight $\\beta$", "learning_rate": "learning rate", "rows_per_second": "rows a second"}


def training_curves(history: Sequence[Mapping[str, Any]], *, ax: Axes | None = None) -> Axes:
    """The bound by epoch, with the best epoch marked.

    Each record has `epoch` and `train_bound` (nats a row, higher is better), and may have `valid_bound`; a value may be
    absent or `None` in some epochs. The best epoch is that of the highest `valid_bound`, or of the highest
    `train_bound` where nothing was held out.
    """
    if not history:
        raise ValueError("training_curves: expected at least one record; got an empty history.")
    train, valid = _series(history, "train_bound"), _series(history, "valid_bound")
    if not len(train[0]) and not len(valid[0]):
        raise ValueError("training_curves: expected a finite `train_bound` in some record; found none.")
    ax = tidy(axes_or_new(ax, 6.0, 4.0))
    for (x, y), name, colour, marker in ((train, "training", BLUE, "o"), (valid, "validation", ORANGE, "s")):
        if len(x):
            ax.plot(x, y, color=colour, marker=marker if len(x) <= 30 else None, markersize=4, label=name)
    best_x, best_y, which = (*valid, "validation") if len(valid[0]) else (*train, "training")
    at = int(np.argmax(best_y))
    label = f"best {which}: {number(best_y[at])}, epoch {best_x[at]:g}"
    ax.plot(best_x[at], best_y[at], "*", color=RED, markersize=13, markeredgecolor="white", zorder=3, label=label)
    ax.axvline(best_x[at], color=RED, linewidth=1, linestyle=":", zorder=0)
    ax.set(xlabel="epoch", ylabel="bound on log p, nats a row")
    ax.set_title("Bound (higher is better)", loc="left")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right", edgecolor="none", framealpha=1)
    _leave_out_the_start(ax, train, valid)
    if len(history) == 1:
        ax.set_xlim(best_x[at] - 1, best_x[at] + 1)
    return ax


def training_course(history: Sequence[Mapping[str, Any]], name: str, *, ax: Axes | None = None) -> Axes:
    """What the training did meanwhile: one of `beta`, `learning_rate` and `rows_per_second`, by epoch."""
    x, y = _series(history, name)
    if not len(x):
        raise ValueError(f"training_course: expected a finite `{name}` in some record; found none.")
    ax = tidy(axes_or_new(ax, 3.0, 1.5))
    ax.plot(x, y, color="0.35", marker="o" if len(x) <= 30 else None, markersize=3, linewidth=1.2)
    ax.set_title(_COURSES.get(name, name), fontsize="medium", loc="left")
    ax.set_ylim(bottom=0, top=1.15 * max(y.max(), 1e-12))
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:g}"))
    return ax


def unit_kl(kl: ArrayLike, name: str = "layer 1", *, threshold: float = 0.01, ax: Axes | None = None) -> Axes:
    """The divergence of each latent unit of a layer from its prior, nats a row, largest first.

    A unit below the `threshold` carries next to nothing of the row: it is set apart.
    """
    heights = np.sort(np.asarray(kl, float))[::-1]
    if heights.ndim != 1 or not len(heights):
        raise ValueError(f"unit_kl: expected one number a unit in {name!r}; got shape {np.shape(kl)}.")
    ax = tidy(axes_or_new(ax, WIDTH, 2.6))
    active = heights >= threshold
    num, size = int(active.sum()), len(heights)
    at, width = np.arange(1, size + 1), 0.85 if size < 80 else 1.0
    ax.bar(at[active], heights[active], width=width, color=BLUE)
    if num < size:
        ax.axvspan(num + 0.5, size + 0.5, color=ORANGE, alpha=0.16, linewidth=0)
        ax.bar(at[~active], heights[~active], width=width, color=ORANGE)
        if size - num > 0.15 * size:
            middle, across = (num + size + 1) / 2, ax.get_xaxis_transform()
            ax.text(middle, 0.5, f"below {threshold:g}", color="#8a4b0c", ha="center", transform=across)
    ax.set_xlim(0.5, size + 0.5)
    ax.set_ylim(bottom=0, top=None if heights[0] > 0 else 1)
    ax.set(xlabel="unit, largest first", ylabel="KL, nats a row")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(
        f"{name}: {heights.sum():.1f} nats in all; {num} of {size} units with {threshold:g} or more", loc="left"
    )
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
    ax.set_title(f"the start, down to {number(y.min(), 0)}, is not shown", loc="right", fontsize="small", color="0.4")

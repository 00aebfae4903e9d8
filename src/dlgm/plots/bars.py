"""Models beside each other."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dlgm.plots.canvas import BLUE, WIDTH, axes_or_new, number, tidy


def likelihood_bars(
    entries: Iterable[tuple[str, float, float | None]],
    label: str = "log likelihood, nats a row: higher is better",
    *,
    ax: Axes | None = None,
) -> Axes:
    """Models beside each other: `(name, mean, standard error)`, in the order given, the best one in blue.

    Bars start at zero. Where the models differ by little of their distance from zero, bars would all look alike, so
    there they are dots, on an axis that begins elsewhere. The error bars are two standard errors to either side.
    """
    items = list(entries)
    if not items:
        raise ValueError("likelihood_bars: expected at least one entry; got none.")
    names, means = [name for name, _, _ in items], np.array([mean for _, mean, _ in items], float)
    errors = np.array([0.0 if error is None or not np.isfinite(error) else error for _, _, error in items])
    ax = tidy(axes_or_new(ax, WIDTH, 1.2 + 0.36 * len(items)))
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
        value = number(mean) + (f" ± {error:.2f}" if error > 0 else "")
        weight = "bold" if mean == means.max() else "normal"
        ax.text(1.02, at, value, va="center", transform=ax.get_yaxis_transform(), fontweight=weight)
    if shown.any():
        ax.set_title("mean ± standard error; whiskers: two of them", loc="right", fontsize="small", color="0.4")
    ax.set_yticks(y, names)
    ax.set_ylim(len(items) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(label)
    return ax

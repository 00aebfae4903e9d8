"""How chains moved."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dlgm.plots.canvas import BLUE, GREEN, ORANGE, RED, axes_or_new, tidy


def trace(draws: ArrayLike, name: str = "", *, truth: float | None = None, ax: Axes | None = None) -> Axes:
    """The draws of a cell, shape `(chains, draws)`: a line a chain. Chains that have mixed cannot be told apart."""
    lines = np.asarray(draws, float)
    if lines.ndim != 2 or not lines.size:
        raise ValueError(f"trace: expected draws of shape (chains, draws); got {lines.shape}.")
    ax = tidy(axes_or_new(ax, 6.0, 2.2))
    colours = (BLUE, ORANGE, GREEN, RED)
    for at, line in enumerate(lines):
        marker = "o" if lines.shape[1] <= 30 else None
        x = np.arange(1, len(line) + 1)
        ax.plot(x, line, color=colours[at % 4], linewidth=1, alpha=0.8, marker=marker, markersize=3)
    if truth is not None:
        ax.axhline(truth, color="0.3", linestyle="--", linewidth=1, label="truth")
        ax.legend(frameon=False)
    ax.set(xlabel="draw", ylabel=name)
    return ax

"""The map of a data set as a page of its own: rows as points, and for images what the points decode to."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dlgm.plots.canvas import new_figure
from dlgm.plots.latents import embedding, latent_grid


def draw_map(
    points: ArrayLike,
    labels: ArrayLike | Sequence[Any] | None,
    decode: Callable[[np.ndarray], np.ndarray],
    images: tuple[tuple[int, ...], float] | None,
    axis: str = "latent",
) -> Figure:
    """Points in their classes' colours; beside them, for images of this shape and white, what points decode to."""
    figure = new_figure(7.0 if images is None else 13.0, 6.0)
    left, *rest = figure.subplots(1, 1 if images is None else 2, squeeze=False)[0]
    names = {"xlabel": f"{axis} 1", "ylabel": f"{axis} 2"}
    embedding(points, labels, ax=left).set(**names)
    if images is not None:
        shape, white = images
        low, high = np.quantile(np.asarray(points), [0.005, 0.995], axis=0)
        high = np.maximum(high, low + 1e-3)  # points may lie on a line
        latent_grid(lambda at: decode(at) / white, shape, low=low, high=high, ax=rest[0])
        rest[0].set(**names, title="what points decode to")
    return figure

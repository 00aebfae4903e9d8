"""Pictures, made without pyplot or a display.

Each function draws on the axes it is given, or on those of a new figure, and returns them.
"""

from dlgm.plots.bars import likelihood_bars
from dlgm.plots.canvas import as_png, figure_of, new_figure
from dlgm.plots.images import filled_in, image_grid, side_by_side
from dlgm.plots.latents import embedding, latent_grid, posterior_plane
from dlgm.plots.traces import trace
from dlgm.plots.training import training_course, training_curves, unit_kl

__all__ = [
    "as_png",
    "embedding",
    "figure_of",
    "filled_in",
    "image_grid",
    "latent_grid",
    "likelihood_bars",
    "new_figure",
    "posterior_plane",
    "side_by_side",
    "trace",
    "training_course",
    "training_curves",
    "unit_kl",
]

"""What the pictures share: colours, a new figure where no axes are given, and small habits."""

from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

BLUE, ORANGE, GREEN, RED = "#1f5fa8", "#d9822b", "#3a8f5c", "#b0353b"
WIDTH = 8.0  # inches: what a page holds


def new_figure(width: float, height: float) -> Figure:
    """A figure without pyplot or a display."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes to draw on: those given, or those of a new figure of this size."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def figure_of(picture: Axes | Figure) -> Figure:
    """The figure that axes are in."""
    figure = picture.get_figure(root=True) if isinstance(picture, Axes) else picture
    assert isinstance(figure, Figure)
    return figure


def as_png(picture: Axes | Figure, dpi: float = 150.0) -> bytes:
    """A picture as a PNG file; the same one gives the same bytes."""
    buffer = BytesIO()
    figure_of(picture).savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def tidy(ax: Axes) -> Axes:
    """Without the frame's upper and right sides."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def number(value: float, digits: int = 2) -> str:
    """A number with a proper minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")

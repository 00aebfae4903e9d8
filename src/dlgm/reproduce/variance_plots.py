"""The pictures of the variance study. Each function draws on the axes it is given and returns them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from dlgm.reproduce.variance import LARGE_K, MANY, ONE

_BLUE, _ORANGE, _GREEN, _RED = "#1f5fa8", "#d9822b", "#3a8f5c", "#b0353b"


def formulas(ax: Axes, results: dict[str, Any]) -> Axes:
    """Measured variances of app. D.2 against their formulas."""
    markers = {"Bonnet, d/dmu": ("o", _BLUE), "Pathwise, d/dsigma": ("s", _GREEN), "REINFORCE, d/dmu": ("^", _RED)}
    everything = []
    for name, (marker, colour) in markers.items():
        cells = [row["variances"][name] for row in results["quadratic"]]
        x, y = ([cell[what] for cell in cells] for what in ("formula", "measured"))
        ax.plot(x, y, marker, color=colour, label=name, markersize=5, alpha=0.75, linestyle="none")
        everything += x
    ends = [min(everything), max(everything)]
    ax.plot(ends, ends, color="0.4", linewidth=1, zorder=0, label="formula")
    ax.set(xscale="log", yscale="log", xlabel="formula (app. D.2)", ylabel="measured variance")
    ax.set_title("$f = c\\,\\xi^2/2$: measured against formula")
    ax.legend(frameon=False)
    return ax


def ratio(ax: Axes, results: dict[str, Any]) -> Axes:
    """REINFORCE's variance over Bonnet's, with the bound of 5/2."""
    rows = results["ratio"]["rows"]
    x = np.array([abs(row["mu_over_sigma"]) for row in rows])
    line = np.linspace(0, x.max(), 200)
    ax.plot(line, 2.5 + 2 * line**2, color="0.4", linewidth=1, label="$5/2 + 2\\,(\\mu/\\sigma)^2$")
    errors = [2 * row["standard_error"] for row in rows]
    ax.errorbar(x, [r["measured"] for r in rows], errors, fmt="^", color=_RED, markersize=5, label="measured, ±2 s.e.")
    ax.axhline(2.5, color=_BLUE, linewidth=1, linestyle="--", label="lower bound 5/2")
    ax.set(xlabel="$|\\mu| / \\sigma$", ylabel="Var REINFORCE / Var Bonnet", yscale="log")
    ax.set_title("REINFORCE's variance is at least 5/2 of Bonnet's")
    ax.legend(frameon=False, loc="upper left")
    return ax


def growth(ax: Axes, results: dict[str, Any]) -> Axes:
    """Variance of one gradient entry against the number of latents."""
    rows, exponents = results["growth"]["rows"], results["growth"]["exponents"]
    K = [row["K"] for row in rows]
    for name, marker, colour in (("REINFORCE", "^", _RED), ("Bonnet", "o", _BLUE)):
        label = f"{name}: $K^{{{exponents[name]:z.2f}}}$ for $K \\geq {LARGE_K}$"
        ax.plot(K, [row[name]["measured"] for row in rows], marker, color=colour, label=label)
        ax.plot(K, [row[name]["formula"] for row in rows], color=colour, linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="latents $K$", ylabel="variance of $d/d\\mu_1$")
    ax.set_title("Growth with the number of latents (lines: formula)")
    ax.legend(frameon=False)
    return ax


def comparison(ax: Axes, results: dict[str, Any], law: str = ONE) -> Axes:
    """Every estimator's variance on the wave function, one mark a parameter."""
    rows = [row for row in results["comparison"] if row["law"] == law]
    parameters = {ONE: ("mu", "sigma"), MANY: ("mean", "log_d", "u")}[law]
    y = np.arange(len(rows))
    for parameter, marker, colour in zip(parameters, "osD", (_BLUE, _ORANGE, _GREEN), strict=False):
        x = [row[parameter]["variance"] if row[parameter] else np.nan for row in rows]
        ax.plot(x, y, marker, color=colour, label=parameter, markersize=7)
    for at, row in enumerate(rows):
        missing = [parameter for parameter in parameters if row[parameter] is None]
        if missing:
            why = f"{missing[0]}: diverges" if law == ONE else "for one variable only"
            ax.text(0.98, at, why, va="center", ha="right", color="0.4", transform=ax.get_yaxis_transform())
    ax.set_yticks(y, [row["estimator"] for row in rows])
    ax.invert_yaxis()
    ax.grid(axis="y", color="0.9")
    ax.grid(axis="x", which="both", color="0.95")
    ax.set_axisbelow(True)
    ax.set(xscale="log", xlabel="variance of one sample's gradient" + ("" if law == ONE else ", summed over latents"))
    ax.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    ax.xaxis.set_major_formatter(LogFormatter())
    ax.set_title({ONE: "$f = \\cos 2x + x$ under $N(0.5, 0.8^2)$", MANY: f"The same, summed: {MANY}"}[law])
    ax.legend(frameon=False, title="gradient in", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def draw_all(results: dict[str, Any]) -> dict[str, Figure]:
    """A figure for each measurement, by file name. Made without pyplot, so that no display is touched."""
    figures = {}
    for name, draw in (("formulas", formulas), ("ratio", ratio), ("growth", growth)):
        figure = Figure(figsize=(6, 4.2), layout="constrained")
        draw(figure.add_subplot(), results)
        figures[name] = figure
    figure = Figure(figsize=(8, 8), layout="constrained")
    top, bottom = figure.subplots(2, 1)
    comparison(top, results, ONE)
    comparison(bottom, results, MANY)
    return figures | {"comparison": figure}

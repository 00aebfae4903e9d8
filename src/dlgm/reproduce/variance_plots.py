"""The pictures of the variance study. Each function draws on the axes it is given and returns them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    ax.set_title("REINFORCE is never within a factor 5/2")
    ax.legend(frameon=False, loc="upper left")
    return ax


def growth(ax: Axes, results: dict[str, Any]) -> Axes:
    """Variance of one gradient entry against the number of latents."""
    rows, exponents = results["growth"]["rows"], results["growth"]["exponents"]
    K = [row["K"] for row in rows]
    for name, marker, colour in (("REINFORCE", "^", _RED), ("Bonnet", "o", _BLUE)):
        label = f"{name}: $K^{{{exponents[name]:.2f}}}$ for $K \\geq {LARGE_K}$"
        ax.plot(K, [row[name]["measured"] for row in rows], marker, color=colour, label=label)
        ax.plot(K, [row[name]["formula"] for row in rows], color=colour, linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="latents $K$", ylabel="variance of $d/d\\mu_1$")
    ax.set_title("Growth with the number of latents (lines: formula)")
    ax.legend(frameon=False)
    return ax


def comparison(ax: Axes, results: dict[str, Any], law: str = ONE) -> Axes:
    """Every estimator's variance on the wave function, one bar a parameter."""
    rows = [row for row in results["comparison"] if row["law"] == law]
    parameters = {ONE: ("mu", "sigma"), MANY: ("mean", "log_d", "u")}[law]
    height = 0.8 / len(parameters)
    y = np.arange(len(rows))
    for i, parameter in enumerate(parameters):
        widths = [row[parameter]["variance"] if row[parameter] else np.nan for row in rows]
        ax.barh(y + i * height, widths, height, color=(_BLUE, _ORANGE, _GREEN)[i], label=parameter)
        for at, row in zip(y, rows, strict=True):
            if row[parameter] is None:
                ax.text(
                    0.01, at + i * height, _why_not(row), va="center", fontsize=7, color="0.4",
                    transform=ax.get_yaxis_transform(),
                )  # fmt: skip
    ax.set_yticks(y + height * (len(parameters) - 1) / 2, [row["estimator"] for row in rows])
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="variance of one sample's gradient" + ("" if law == ONE else ", summed over latents"))
    ax.set_title(f"$f = \\sum_i \\cos 2x_i + x_i$, {law}")
    ax.legend(frameon=False, title="gradient in", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def _why_not(row: dict[str, Any]) -> str:
    return "diverges" if row["law"] == ONE else "one variable only"


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

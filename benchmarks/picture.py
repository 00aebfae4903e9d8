"""What was measured, as a picture."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from table import PEERS


def draw(results: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(17, 9), layout="constrained")
    for axis, name in zip(axes.flat, ("step", "likelihood", "chain"), strict=False):
        bars(axis, name, results.get(name))
    curves(axes[1, 0], "Posterior alone: a draw, KL and gradient, a row", "K", "posteriors", "seconds a row", results)
    curves(axes[1, 1], "Training step against latents", "K", "growth", "seconds by latents", results)
    axis = axes[1, 2]
    for what in ("layers", "batch"):
        if curve := results.get("growth", {}).get(f"seconds by {what}"):
            axis.loglog(list(map(int, curve)), [1e3 * s for s in curve.values()], "o-", label=f"against {what}")
            axis.legend(frameon=False)
    axis.set(title="Training step, rank-one", xlabel="layers of 50 latents, or rows in a batch", ylabel="ms")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def bars(axis: Axes, name: str, part: dict[str, Any] | None) -> None:
    title, unit, factor = PEERS[name]
    axis.set(title=title, xlabel=unit)
    if part is None:
        return
    labels = list(part["seconds"])
    values = [factor * part["seconds"][label]["median"] for label in labels]
    spread = [
        [v - factor * part["seconds"][label]["quarter"] for v, label in zip(values, labels, strict=True)],
        [factor * part["seconds"][label]["three_quarters"] - v for v, label in zip(values, labels, strict=True)],
    ]
    colours = ["C0" if x.startswith("dlgm") else "0.8" if x.startswith("products") else "C1" for x in labels]
    axis.barh(labels, values, xerr=spread, color=colours, error_kw={"lw": 1})
    axis.invert_yaxis()


def curves(axis: Axes, title: str, label: str, part: str, what: str, results: dict[str, Any]) -> None:
    axis.set(title=title, xlabel=label, ylabel="ms")
    for name, curve in results.get(part, {}).get(what, {}).items():
        axis.loglog(list(map(int, curve)), [1e3 * s for s in curve.values()], "o-", label=name)
    if axis.lines:
        axis.legend(frameon=False)

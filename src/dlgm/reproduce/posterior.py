r"""True and approximate posteriors of a model with two latents (paper, fig. 2a, b).

One model with a diagonal recognition model and one with a rank-one, each with its own generative model. The true
posterior of a row is evaluated on a grid; the recognition model's distance from it, $KL(q \,\|\, p)$, is
$\log p(v)$ less the bound, and is summed over the grid too.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dlgm import plots
from dlgm.data import Dataset
from dlgm.inference import PosteriorGrid, posterior_grid
from dlgm.learning import AbstractWatcher, TrainingConfig
from dlgm.model import Model, make_observation, preset
from dlgm.reproduce.page import markdown_table
from dlgm.reproduce.training import spread, trained

COVARIANCES = ("diagonal", "rank-one")
ZOOMS = (5.0, 2.0, 0.8, 0.3)  # half the width of each view
EPOCHS = {"quick": 5, "full": 100}
ROWS = {"quick": 10, "full": 100}  # whose divergence is averaged


def run(
    data: Dataset,
    out: Path,
    *,
    budget: str,
    seed: int,
    row: int,
    watcher: Callable[[str], Sequence[AbstractWatcher]] = lambda what: (),
) -> tuple[dict[str, Any], Figure]:
    """Train both models, look at the posterior of a test row, and at KL(q || p) over some evenly spaced ones."""
    observation = make_observation(data.family, columns=data.train.shape[1])
    settings = TrainingConfig(epochs=EPOCHS[budget], optimiser="adam", learning_rate=2e-3, validate_every=5, seed=seed)
    key = jax.random.key(seed)
    results: dict[str, Any] = {"data": data.name, "row": row, "settings": settings.to_dict(), "models": {}}
    views: dict[str, list[Any]] = {}
    for covariance in COVARIANCES:
        config = preset("visualisation", observation, covariance=covariance)
        found = trained(
            out / f"{data.name}-{covariance}.dlgm", data, config, settings, watcher(f"{covariance} posterior")
        )
        model = found.saved.model
        divergences = [divergence(model, v) for v in spread(data.test, ROWS[budget])]
        wide = posterior_grid(model, data.test[row], half_width=ZOOMS[0])
        views[covariance] = [_view(model, data.test[row], wide, half, key) for half in ZOOMS]
        results["models"][covariance] = {
            **found.summary,
            "log_p": wide.log_p,
            "mode": wide.mode.tolist(),
            "divergence of the row": divergence(model, data.test[row]),
            "rows": len(divergences),
            "mean divergence": float(np.mean(divergences)),
            "standard error": float(np.std(divergences, ddof=1) / len(divergences) ** 0.5),
        }
    return results, draw(views)


def markdown(results: dict[str, Any]) -> str:
    """The numbers as a section of the results page."""
    rows = [
        (
            name,
            f"{found['valid_bound']:.2f}",
            f"{found['mean divergence']:.3f} ({found['standard error']:.3f}, {found['rows']} rows)",
            f"{found['divergence of the row']:.3f}",
            f"{found['epochs']} ({found['seconds']:.0f} s)",
        )
        for name, found in results["models"].items()
    ]
    headings = ["posterior", "validation bound", "mean KL(q || p) (standard error)", "of the row shown", "epochs"]
    return f"""## Posteriors over two latents: {results["data"]} (fig. 2a, b)

The paper shows posteriors that are round or elliptical, some not Gaussian; a diagonal recognition model lies along the
axes, a rank-one model along the ellipse. Here: true posterior on a grid by exact evaluation, MAP, prior and recognition
draws, in four zooms; test row
{results["row"]}, seed {results["settings"]["seed"]}.

{markdown_table(headings, rows)}"""


def divergence(model: Model, v: np.ndarray) -> float:
    r"""$KL(q \,\|\, p(\xi \mid v))$, summed over a fine grid around $q$; beyond it, a coarse one is added to $p(v)$."""
    q = model.posterior(jnp.asarray(v, jnp.float32)).gaussian(jax.random.key(0))
    centre, half = np.asarray(q.mean, np.float64), 7 * float(jnp.sqrt(jnp.max(q.variance)))
    near = posterior_grid(model, v, centre=centre, half_width=half, size=401)
    wide = posterior_grid(model, v, half_width=8.0)
    axis = np.linspace(-8.0, 8.0, wide.log_density.shape[0])
    far = np.maximum(*np.abs(np.stack(np.meshgrid(axis - centre[0], axis - centre[1])))) > half
    beyond = wide.log_density[far] + wide.log_p
    log_p = np.logaddexp(near.log_p, np.logaddexp.reduce(beyond, initial=-np.inf) + 2 * np.log(axis[1] - axis[0]))
    axes = [np.linspace(c - half, c + half, 401) for c in centre]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    log_q = np.asarray(jax.vmap(q.log_prob)(jnp.asarray(points, jnp.float32)), np.float64)
    weight = np.exp(log_q)
    log_posterior = near.log_density.ravel() + near.log_p - log_p
    return float(np.sum(weight * (log_q - log_posterior)) / np.sum(weight))


def _view(model: Model, v: np.ndarray, wide: PosteriorGrid, half: float, key: Any) -> dict[str, Any]:
    centre = (0.0, 0.0) if half == ZOOMS[0] else tuple(wide.mode)
    grid = posterior_grid(model, v, centre=centre, half_width=half)
    posterior = model.posterior(jnp.asarray(v, jnp.float32))
    draws = np.asarray(jax.vmap(lambda k: posterior.sample(k)[0])(jax.random.split(key, 300)))
    prior = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (300, 2)))
    return {"grid": grid, "draws": draws, "prior": prior, "mode": wide.mode}


def draw(views: dict[str, list[Any]]) -> Figure:
    """A line of views for each model, from the whole plane to the neighbourhood of the mode."""
    figure = plots.new_figure(11.5, 3.0 * len(views))
    axes = figure.subplots(len(views), len(ZOOMS), squeeze=False)
    for line, (name, seen) in zip(axes, views.items(), strict=True):
        for ax, view, half in zip(line, seen, ZOOMS, strict=True):
            grid = view["grid"]
            plots.posterior_plane(
                grid.log_density, grid.extent, prior=view["prior"], draws=view["draws"], mode=view["mode"], ax=ax
            )
            ax.set_title(f"{name}, ±{half:g}", fontsize="medium")
    axes[0, 0].legend(loc="upper left", fontsize="small", framealpha=0.9)
    return figure

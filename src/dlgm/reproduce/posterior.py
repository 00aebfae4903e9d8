r"""True and approximate posteriors of a model with two latents (paper, fig. 2a, b).

One model with a diagonal recognition model and one with a rank-one, each with its own generative model. The true
posterior of a row is evaluated on a grid; the recognition model's distance from it, $KL(q \,\|\, p)$, is
$\log p(v)$ less the bound, and is summed over the grid too. One row is shown in four zooms, as in the paper, and some
others close up.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dlgm import plots
from dlgm.data import Dataset
from dlgm.gaussians import AbstractGaussian
from dlgm.inference import PosteriorGrid, posterior_grid
from dlgm.learning import AbstractWatcher, TrainingConfig
from dlgm.model import Model, make_observation, preset
from dlgm.reproduce.page import markdown_table
from dlgm.reproduce.training import spread, trained

COVARIANCES = ("diagonal", "rank-one")
ZOOMS = (5.0, 2.0, 0.8, 0.3)  # half the width of each view
EPOCHS = {"quick": 5, "full": 100}
ROWS = {"quick": 10, "full": 100}  # evenly spaced test rows whose divergences and correlations are told
CLOSE_UPS = 6  # of these, shown close up


def run(
    data: Dataset,
    out: Path,
    *,
    budget: str,
    seed: int,
    row: int,
    watcher: Callable[[str], Sequence[AbstractWatcher]] = lambda what: (),
) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Train both models, look at the posterior of a test row, and at KL(q || p) over some evenly spaced ones."""
    observation = make_observation(data.family, columns=data.train.shape[1])
    # Drop-out, the paper's regularisation, since the rows that are looked at are new to the recognition model.
    settings = TrainingConfig(
        epochs=EPOCHS[budget], optimiser="adam", learning_rate=2e-3, drop_out=0.1, validate_every=5, seed=seed
    )
    key = jax.random.key(seed)
    results: dict[str, Any] = {"data": data.name, "row": row, "settings": settings.to_dict(), "models": {}}
    zooms: dict[str, list[_View]] = {}
    close_ups: dict[str, list[_View]] = {}
    numbers = spread(np.arange(len(data.test)), ROWS[budget])
    for covariance in COVARIANCES:
        config = preset("visualisation", observation, covariance=covariance)
        found = trained(
            out / f"{data.name}-{covariance}.dlgm", data, config, settings, watcher(f"{covariance} posterior")
        )
        model, v = found.saved.model, data.test[row]
        shown, rows = close_up(model, v), [close_up(model, data.test[number]) for number in numbers]
        divergences = [
            divergence(model, data.test[number], near.log_p) for number, near in zip(numbers, rows, strict=True)
        ]
        centres = [(0.0, 0.0)] + [tuple(shown.grid.mode)] * (len(ZOOMS) - 1)
        zooms[covariance] = [
            _view(f"{covariance}, ±{half:g}", model, v, posterior_grid(model, v, centre=centre, half_width=half), key)
            for half, centre in zip(ZOOMS, centres, strict=True)
        ]
        close_ups[covariance] = [
            _view(f"{covariance}, row {numbers[at]}", model, data.test[numbers[at]], rows[at].grid, key)
            for at in spread(np.arange(len(numbers)), CLOSE_UPS)
        ]
        results["models"][covariance] = {
            **found.summary,
            "log_p": shown.log_p,
            "mode": shown.grid.mode.tolist(),
            "divergence of the row": divergence(model, v, shown.log_p),
            "rows": len(divergences),
            "mean divergence": float(np.mean(divergences)),
            "standard error": float(np.std(divergences, ddof=1) / len(divergences) ** 0.5),
            "median divergence": float(np.median(divergences)),
            "mean |correlation|, true": float(np.mean([abs(near.true) for near in rows])),
            "mean |correlation|, q": float(np.mean([abs(near.approximate) for near in rows])),
            "same sign": float(np.mean([near.true * near.approximate > 0 for near in rows])),
        }
    return results, {"posterior": draw(zooms), "rows": draw(close_ups)}


def markdown(results: dict[str, Any]) -> str:
    """The numbers as a section of the results page."""
    rows = [
        (
            name,
            f"{found['valid_bound']:.2f}",
            f"{found['mean divergence']:.2f} ({found['standard error']:.2f})",
            f"{found['median divergence']:.2f}",
            f"{found['divergence of the row']:.2f}",
            f"{found['mean |correlation|, true']:.2f}",
            f"{found['mean |correlation|, q']:.2f}",
            f"{found['same sign']:.0%}" if found["mean |correlation|, q"] else None,
            f"{found['epochs']} ({found['seconds']:.0f} s)",
        )
        for name, found in results["models"].items()
    ]
    headings = [
        "posterior",
        "validation bound",
        "KL(q || p), mean (standard error)",
        "median",
        "of the row shown",
        "mean correlation, true",
        "of q",
        "same sign",
        "epochs",
    ]
    rank_one = results["models"]["rank-one"]
    return f"""## Posteriors over two latents: {results["data"]} (fig. 2a, b)

The paper shows posteriors that are round or elliptical, some not Gaussian; a diagonal recognition model lies along the
axes, a rank-one model along the ellipse. Here: true posterior on a grid by exact evaluation, MAP, prior and recognition
draws, in four zooms, for test row {results["row"]}; and close up for others. Each model has its own latents. The
correlation is that of a row's two latents given the row, in its absolute value. Numbers are of
{rank_one["rows"]} evenly spaced test rows; seed {results["settings"]["seed"]}.

{markdown_table(headings, rows)}"""


class CloseUp(NamedTuple):
    """A true posterior on a grid that just holds it and the recognition model's, and the correlation of each."""

    grid: PosteriorGrid
    log_p: float  # log p(v), by a grid that holds all of the posterior
    true: float
    approximate: float


def close_up(model: Model, v: np.ndarray) -> CloseUp:
    """Find a row's posterior by grids ever closer around it."""
    centre, half, size = np.zeros(2), ZOOMS[0], 101
    for _ in range(4):
        mean, C = posterior_grid(model, v, centre=centre, half_width=half, size=size).moments()
        # On a grid too coarse for it, a posterior is a single point: its neighbours are looked at next.
        centre, half = mean, max(6 * float(np.sqrt(C.diagonal().max())), 8 * half / size)
    sd = float(np.sqrt(C.diagonal().max()))
    log_p = posterior_grid(model, v, centre=mean, half_width=8 * sd, size=401).log_p
    q = _recognition(model, v)
    reach = np.abs(np.asarray(q.mean) - mean) + 3 * np.sqrt(np.asarray(q.variance))
    grid = posterior_grid(model, v, centre=mean, half_width=max(4 * sd, float(reach.max())))
    return CloseUp(grid, log_p, _correlation(C), _correlation(np.asarray(q.covariance())))


def _correlation(C: np.ndarray) -> float:
    return float(C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]))


def _recognition(model: Model, v: np.ndarray) -> AbstractGaussian:
    """The approximate posterior of a row: with one layer of latents it depends on no draw."""
    return model.posterior(jnp.asarray(v, jnp.float32)).gaussian(jax.random.key(0))


def divergence(model: Model, v: np.ndarray, log_p: float) -> float:
    r"""$KL(q \,\|\, p(\xi \mid v)) = \log p(v) - E_q[\log p(v, \xi) - \log q]$, summed over a fine grid around $q$."""
    q = _recognition(model, v)
    centre, half = np.asarray(q.mean, np.float64), 7 * float(jnp.sqrt(jnp.max(q.variance)))
    near = posterior_grid(model, v, centre=centre, half_width=half, size=401)
    points = np.stack(np.meshgrid(*(np.linspace(c - half, c + half, 401) for c in centre)), axis=-1).reshape(-1, 2)
    log_q = np.asarray(jax.vmap(q.log_prob)(jnp.asarray(points, jnp.float32)), np.float64)
    weight = np.exp(log_q)
    log_joint = near.log_density.ravel() + near.log_p
    return log_p + float(np.sum(weight * (log_q - log_joint)) / np.sum(weight))


class _View(NamedTuple):
    """What is drawn into one frame."""

    title: str
    grid: PosteriorGrid
    draws: np.ndarray
    prior: np.ndarray


def _view(title: str, model: Model, v: np.ndarray, grid: PosteriorGrid, key: Any) -> _View:
    q = _recognition(model, v)
    draws = np.asarray(q.mean + jax.vmap(q.factor_times)(jax.random.normal(key, (300, 2))))
    return _View(title, grid, draws, np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (300, 2))))


def draw(views: dict[str, list[_View]]) -> Figure:
    """A line of views for each model."""
    across = max(len(line) for line in views.values())
    figure = plots.new_figure(2.9 * across, 3.0 * len(views))
    axes = figure.subplots(len(views), across, squeeze=False)
    for line, seen in zip(axes, views.values(), strict=True):
        for ax, view in zip(line, seen, strict=True):
            grid = view.grid
            plots.posterior_plane(
                grid.log_density, grid.extent, prior=view.prior, draws=view.draws, mode=grid.mode, ax=ax
            )
            ax.set_title(view.title, fontsize="medium")
    axes[0, 0].legend(loc="upper left", fontsize="small", framealpha=0.9)
    return figure

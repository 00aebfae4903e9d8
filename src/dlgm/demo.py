"""The demonstration: a model of the embedded digits that scores, draws, fills in and maps, told in one page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dlgm import plots
from dlgm.baselines import fit_mixture_of_bernoullis
from dlgm.data import Dataset, load_dataset
from dlgm.inference import Likelihood, impute, log_likelihood, posterior_moments, reconstruct, sample
from dlgm.inference.likelihood import mean_and_error
from dlgm.learning import AbstractWatcher, Diagnostics, Fitted, TrainingConfig, diagnose, fit
from dlgm.model import ModelConfig, make_observation, preset
from dlgm.recipes import recipe_for
from dlgm.report import Report

NUM_SAMPLES = 1000  # importance samples a row for the likelihoods


@dataclass(frozen=True)
class Findings:
    """Everything the report shows."""

    data: Dataset
    config: ModelConfig
    settings: TrainingConfig
    fitted: Fitted
    diagnostics: Diagnostics
    likelihood: Likelihood
    compared: list[tuple[str, float, float]]  # model, mean log p on the test rows, its standard error
    pictures: dict[str, Any]
    seconds: float


def run(
    seed: int,
    *,
    watcher: Callable[[str], Sequence[AbstractWatcher]],
    clock: Callable[[], float],
    epochs: int | None = None,
) -> Findings:
    """Train, score, draw, fill in and map; for `epochs` in place of the recipe's number."""
    began = clock()
    data = load_dataset("digits")
    observation = make_observation(data.family, columns=data.train.shape[1])
    recipe = recipe_for("digits")
    settings = TrainingConfig(**{**recipe.training, "seed": seed, **({} if epochs is None else {"epochs": epochs})})
    uses = ("score", "diagnose", "draw", "fill", "mixture", "map")
    keys = dict(zip(uses, jax.random.split(jax.random.key(seed), len(uses)), strict=True))

    config = preset("default", observation, **recipe.model)
    fitted = fit(config, data.train, valid=data.valid, config=settings, watchers=watcher("the model"))
    model = fitted.model
    likelihood = log_likelihood(model, data.test, num_samples=NUM_SAMPLES, key=keys["score"])

    linear = preset("bernoulli-factor-analysis", observation, latent=recipe.model["latent"], recognition_hidden=(100,))
    linear_fitted = fit(linear, data.train, valid=data.valid, config=settings, watchers=watcher("factor analysis"))
    linear_scores = log_likelihood(linear_fitted.model, data.test, num_samples=NUM_SAMPLES, key=keys["score"])
    components, mixture_scores = _best_mixture(data, keys["mixture"], (10,) if epochs else (10, 20, 40, 80))

    plane = preset("visualisation", observation, hidden=(100, 100))
    plane_fitted = fit(plane, data.train, valid=data.valid, config=settings, watchers=watcher("the map"))
    points = posterior_moments(plane_fitted.model, np.concatenate([data.train, data.test]), key=keys["map"]).mean

    shown = data.test[:10]
    mask = np.ones_like(shown, bool)
    mask.reshape(-1, 8, 8)[:, 4:] = False  # the lower half is hidden
    filled = impute(model, shown, mask, draws=100, thin=1000, key=keys["fill"])
    drawn = sample(model, 36, key=keys["draw"])
    images = (-1, *data.shape)
    pictures = {
        "samples": plots.side_by_side(
            {
                "test rows": data.test[:36].reshape(images),
                "samples": drawn.rows.reshape(images),
                "their pixel probabilities": drawn.means.reshape(images),
            }
        ),
        "reconstructions": plots.side_by_side(
            {
                "test rows": data.test[:25].reshape(images),
                "reconstructed": reconstruct(model, data.test[:25], key=keys["draw"]).reshape(images),
            }
        ),
        "filled": plots.filled_in(
            shown.reshape(images),
            mask.reshape(images),
            np.stack([filled[i] for i in (0, 25, 50, 75)]).reshape(4, *images),  # one of each chain
            filled.mean().reshape(images),
        ),
        "map": plots.embedding(points, np.concatenate([data.labels["train"], data.labels["test"]])),
    }
    compared = [
        ("deep latent Gaussian model, rank one", *likelihood.mean()),
        ("factor analysis (linear, binary)", *linear_scores.mean()),
        (f"mixture of {components} Bernoullis", *mean_and_error(mixture_scores)),
    ]
    found = diagnose(model, data.valid, key=keys["diagnose"])
    return Findings(data, config, settings, fitted, found, likelihood, compared, pictures, clock() - began)


def _best_mixture(data: Dataset, key: Any, candidates: Sequence[int]) -> tuple[int, np.ndarray]:
    """The mixture whose number of components does best on the validation rows, and its scores of the test rows."""
    fits = {
        K: fit_mixture_of_bernoullis(data.train, num_components=K, key=jax.random.fold_in(key, K)) for K in candidates
    }
    best = max(fits, key=lambda K: float(np.mean(fits[K].log_likelihood(data.valid))))
    return best, np.asarray(fits[best].log_likelihood(data.test))


def _training(history: Sequence[Mapping[str, Any]]) -> Any:
    """The bound, and beside it what the training did meanwhile."""
    figure, courses = plots.new_figure(8.0, 4.0), ("beta", "learning_rate", "rows_per_second")
    grid = figure.add_gridspec(len(courses), 2, width_ratios=(2.2, 1))
    plots.training_curves(history, ax=figure.add_subplot(grid[:, 0]))
    for row, name in enumerate(courses):
        plots.training_course(history, name, ax=figure.add_subplot(grid[row, 1])).label_outer()
    return figure


def write_report(found: Findings, seed: int) -> str:
    """The page."""
    data, fitted = found.data, found.fitted
    (_, mean, error), *others = found.compared
    used, K = found.diagnostics.active_units[0], found.diagnostics.latent[0]
    report = Report(
        "Deep latent Gaussian models on handwritten digits",
        f"{len(data.train):,} binary 8 x 8 images for training, {len(data.valid)} for validation, "
        f"{len(data.test)} for test. Everything on this page was computed in {found.seconds:.0f} s, with seed {seed}.",
    )
    report.facts(
        {
            "test −ln p(v), nats": f"{-mean:.2f} ± {error:.2f}",
            "factor analysis": f"{-others[0][1]:.2f} ± {others[0][2]:.2f}",
            "mixture of Bernoullis": f"{-others[1][1]:.2f} ± {others[1][2]:.2f}",
            "latents in use": f"{used} of {K}",
        }
    )
    report.section(
        "How likely are rows it has not seen?",
        "The mean log likelihood of the test rows under three models, the bars two standard errors over rows to "
        f"either side. For the latent models it is importance-sampled with {NUM_SAMPLES:,} draws a row (mean effective "
        f"sample size {found.likelihood.effective_sample_size.mean():,.0f}); for the mixture it is exact, its number "
        "of components chosen on the validation rows.",
    )
    report.figure(
        plots.likelihood_bars(found.compared),
        "Mean test log likelihood of the model beside factor analysis and a mixture of Bernoullis, with error bars",
    )
    report.table(
        ["model", "test −ln p(v), nats", "standard error"],
        [[label, f"{-value:.2f}", f"{spread:.2f}"] for label, value, spread in found.compared],
        "Lower is better: the figures above with their signs changed.",
    )
    report.section(
        "Learning",
        f"Stochastic backpropagation with {found.settings.optimiser}, {len(fitted.history)} epochs. The weights of "
        f"epoch {fitted.best_epoch}, which have the best validation bound, are kept. Training's bound is measured with "
        "the noise at the recognition model's input that keeps it from overfitting; the validation bound without.",
    )
    report.figure(
        _training(fitted.history),
        "The bound on training and validation rows by epoch",
    )
    report.figure(
        plots.unit_kl(found.diagnostics.unit_kl[0]),
        "The KL divergence of each latent unit, largest first",
        f"What each latent carries. The importance-sampled likelihood lies {found.diagnostics.gap:.2f} nats above the "
        "bound.",
    )
    report.section("New digits", "Drawn from the model, beside real ones that it has not seen.")
    report.figure(found.pictures["samples"], "Grids of test digits, of samples and of the samples' pixel probabilities")
    report.section("Reconstructions", "A test digit, and the pixel probabilities at one draw from its posterior.")
    report.figure(found.pictures["reconstructions"], "Grids of test digits and of their reconstructions")
    report.section(
        "Holes filled in",
        "The lower half of each test digit is hidden from the model. It proposes different completions where the upper "
        "half leaves room for doubt; the last row is the mean of 100 fills.",
    )
    report.figure(
        found.pictures["filled"], "Rows: the original digits, the upper halves given, four completions, their mean"
    )
    report.section(
        "A map",
        "A second model with two latents, trained without labels: each point is a digit at its posterior mean, and the "
        "colours, added afterwards, are the digit's class.",
    )
    report.figure(found.pictures["map"], "Digits as points in the plane of two latents, coloured by class")
    return report.html()

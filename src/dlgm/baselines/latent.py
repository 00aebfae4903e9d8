"""Models with latent Gaussian layers as baselines: named presets, trained by `dlgm.learning.fit`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Shaped

# What is trained is imported when it is: `dlgm.learning` itself starts from the factor analysis of this package.
if TYPE_CHECKING:
    from dlgm.inference import Likelihood
    from dlgm.learning import AbstractWatcher, Checkpoints
    from dlgm.model import Model, ModelConfig


@dataclass(frozen=True)
class LatentBaseline:
    """Settings of a model that the library has by name, and of its training.

    >>> import numpy as np
    >>> from dlgm.baselines import LatentBaseline
    >>> rows = np.tile(np.array([[1, 1, 0], [0, 0, 1]], np.uint8), (20, 1))
    >>> small = LatentBaseline("nlgbn", {"latent": (2, 1)}, {"epochs": 2, "batch_size": 20}, num_samples=10)
    >>> small.fit(rows, seed=1).score_samples(rows).shape
    (40,)
    """

    preset: str = "default"  # one of dlgm.model.presets
    model: Mapping[str, Any] = field(default_factory=dict)  # changes to its ModelConfig
    training: Mapping[str, Any] = field(default_factory=dict)  # changes to TrainingConfig; the seed is `fit`'s
    num_samples: int = 1000  # S, of the importance-sampled likelihood
    family: str = "bernoulli"  # of the observations

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> "LatentDensity":
        """Train; with `valid` rows, the weights with the best bound on them are kept."""
        from dlgm.learning import TrainingConfig, fit
        from dlgm.model import make_observation, preset

        if np.ndim(rows) != 2:
            raise ValueError(f"rows: expected shape (n, x); got {np.shape(rows)}. Flatten images first.")
        config = preset(self.preset, make_observation(self.family, columns=np.shape(rows)[1]), **self.model)
        settings = TrainingConfig(**{**self.training, "seed": seed})
        fitted = fit(config, rows, valid=valid, config=settings, watchers=watchers, checkpoints=checkpoints)
        described = {"config": settings.to_dict(), "summary": fitted.summary()}
        return LatentDensity(fitted.model, config, described, self.num_samples)


@dataclass(frozen=True)
class LatentDensity:
    """A trained model. Scores are importance-sampled with `num_samples` draws a row: slightly low on average."""

    model: "Model"
    config: "ModelConfig"
    training: dict[str, Any]  # its settings, and a summary of how it went
    num_samples: int

    def likelihood(self, rows: Any, *, seed: int = 0, progress: Callable[[int], None] | None = None) -> "Likelihood":
        """What importance sampling says of each row, with the Monte Carlo error."""
        from dlgm.inference import log_likelihood

        return log_likelihood(
            self.model, rows, num_samples=self.num_samples, key=jax.random.key(seed), progress=progress
        )

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        """The importance-sampled log-likelihood of each row."""
        return np.asarray(self.likelihood(rows, seed=seed).log_p)

    def sample(self, num: int, *, seed: int = 0) -> Shaped[np.ndarray, "num x"]:
        """New rows; those of binary models are bits."""
        from dlgm.inference import sample

        rows = np.asarray(sample(self.model, num, key=jax.random.key(seed)).rows)
        return rows.astype(np.uint8) if self.config.observation["family"] == "bernoulli" else rows

    def save(self, path: Path, data: Mapping[str, Any] | None = None) -> None:
        """Write a model file, for `load_model` and the commands; `data` says what it was trained on."""
        from dlgm.artifact import SavedModel, save_model

        save_model(path, SavedModel(self.model, self.config, dict(data or {}), self.training))


# Those of the paper's table 1. Factor analysis has the 100 latents of fig. 2c; wake-sleep has the model of the DLGM
# rows, so that only the learning differs; of NLGBN's size the paper says nothing. Wake-sleep's warm-up, in which it is
# not yet itself, ends before the first look at the validation rows, so that no weights from it are kept.
BERNOULLI_FACTOR_ANALYSIS = LatentBaseline(
    "bernoulli-factor-analysis",
    training={"epochs": 200, "learning_rate": 2e-3, "drop_out": 0.25, "validate_every": 5},
)
NLGBN = LatentBaseline("nlgbn", training={"epochs": 200, "learning_rate": 2e-3, "drop_out": 0.25, "validate_every": 5})
WAKE_SLEEP = LatentBaseline(
    "paper-mnist",
    {"nonlinearity": "gated"},
    training={
        "objective": "wake-sleep",
        "num_samples": 4,
        "epochs": 120,
        "learning_rate": 2e-3,
        "warm_up": 0.02,
        "validate_every": 5,
    },
)

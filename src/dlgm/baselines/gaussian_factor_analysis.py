"""Factor analysis by expectation maximisation, with the face of a baseline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.names import require_whole

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher, Checkpoints


@dataclass(frozen=True)
class GaussianFactorAnalysis:
    """Settings of a factor analysis of real rows; see `fit_factor_analysis`.

    Its scores are densities: those of rows of bits are not to be compared with the probabilities of other models. The
    factor analysis of the paper's table 1 is the one for binary rows, `BERNOULLI_FACTOR_ANALYSIS`.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(50, 1)) + np.zeros((50, 3))
    >>> density = GaussianFactorAnalysis(num_factors=1, iterations=20).fit(rows)
    >>> density.score_samples(rows).shape, density.sample(2).shape
    ((50,), (2, 3))
    """

    num_factors: int = 40
    iterations: int = 100
    shrinkage: float = 1.0  # precision of the loadings' prior
    pseudo_rows: float = 0.1  # observations that the prior of the noise is worth

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> "FactorAnalysisDensity":
        """All iterations; its priors stand against overfitting, and `valid` rows are not looked at."""
        found = fit_factor_analysis(
            rows,
            num_factors=self.num_factors,
            iterations=self.iterations,
            shrinkage=self.shrinkage,
            pseudo_rows=self.pseudo_rows,
            seed=seed,
        )
        return FactorAnalysisDensity(found)


@dataclass(frozen=True)
class FactorAnalysisDensity:
    """A fitted factor analysis. Scores are exact."""

    model: FactorAnalysis

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        """The log density of each row's observed cells, exact."""
        return self.model.log_likelihood(rows)

    def sample(self, num: int, *, seed: int = 0) -> Float[np.ndarray, "num x"]:
        """New rows, of real numbers."""
        require_whole("sample", "num", num, 0)
        return self.model.sample(np.random.default_rng(seed), num)

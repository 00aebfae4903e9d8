"""What every model that we compare with has in common: `fit`, `score_samples`, `sample`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher, Checkpoints


@runtime_checkable
class Density(Protocol):
    """A fitted model of rows."""

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        """The log-likelihood of each row: exact, or else the estimate or bound that the class names."""
        ...

    def sample(self, num: int, *, seed: int = 0) -> Shaped[np.ndarray, "num x"]:
        """New rows."""
        ...


@runtime_checkable
class Baseline(Protocol):
    """Settings of a model, from which `fit` makes a `Density`. The same settings, rows and seed make the same one."""

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> Density:
        """A model of the rows; where `valid` rows are given and training is gradual, the best one by them.

        What takes long goes on from `checkpoints` if it was cut short; what does not has no use for them.
        """
        ...

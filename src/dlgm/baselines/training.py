"""What baselines share that are trained by gradients, through the same loop as a deep latent Gaussian model."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Key, UInt8

from dlgm.model import AbstractObservation, Bernoulli
from dlgm.model.trainable import AbstractTrainable
from dlgm.names import require_one_of, require_whole

if TYPE_CHECKING:
    from dlgm.learning import AbstractObjective, AbstractWatcher, Checkpoints

NONLINEARITIES = ("relu", "sigmoid", "tanh")
ROWS_AT_A_TIME = 500  # of a question to a model: what memory grows with
_ORDERS = 3  # branch of the seed; those before it are the loop's, for building, training and validating


@dataclass(frozen=True, kw_only=True)
class AbstractTrainedBaseline:
    """Settings of the training. The weights that are kept are running averages, the best by the validation rows."""

    hidden: int = 500  # units of a hidden layer
    nonlinearity: str = "relu"  # of the hidden units: relu, sigmoid or tanh; sigmoid takes twice the time
    epochs: int = 100  # passes over the data at most
    batch_size: int = 100  # rows in a step
    learning_rate: float = 1e-3  # Adam's, at its highest; it falls to zero along a cosine
    averaging: float = 0.999  # decay of the running average of the weights
    patience: int = 0  # epochs without a better validation bound before stopping; 0 to run to the end
    kappa: float = 1e6  # variance of the weights' prior N(0, kappa I); a weak one by default

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in ("hidden", "epochs", "batch_size"):
            require_whole(owner, name, getattr(self, name), 1)
        require_one_of("nonlinearity", self.nonlinearity, NONLINEARITIES)
        if not 0 < self.kappa < float("inf"):
            raise ValueError(f"{owner}: expected a positive `kappa`; got {self.kappa!r}.")

    def _train(
        self,
        model: AbstractTrainable,
        rows: UInt8[np.ndarray, "n x"],
        valid: Any,
        objective: "AbstractObjective",
        seed: int,
        watchers: "Sequence[AbstractWatcher]",
        checkpoints: "Checkpoints | None",
        **changes: Any,
    ) -> Any:
        """Through the loop; `changes` are to the settings that it has by default."""
        # Imported here, for `dlgm.learning` imports this room: models of tables start at a factor analysis.
        from dlgm.learning import TrainingConfig, fit

        config = TrainingConfig(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            averaging=self.averaging,
            patience=self.patience,
            warm_up=0.0,
            seed=seed,
            **changes,
        )
        if valid is not None:
            valid = complete_bits("valid", valid)
        fitted = fit(
            model,
            rows,
            valid=valid,
            config=config,
            objective=objective,
            watchers=watchers,
            checkpoints=checkpoints,
        )
        return fitted.model


class AbstractBinaryDensity(AbstractTrainable):
    """A trainable model of binary rows without latents."""

    @property
    def observation(self) -> AbstractObservation:
        """Bits."""
        return Bernoulli(self.num_columns)

    @property
    def num_groups(self) -> int:
        """None: there is no KL term."""
        return 0

    @property
    @abstractmethod
    def num_columns(self) -> int:
        """Of a row."""


def complete_bits(name: str, rows: Any, columns: int | None = None) -> UInt8[np.ndarray, "n x"]:
    """Rows of zeros and ones without holes, or a message that says what to do."""
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[1] == 0 or (columns is not None and rows.shape[1] != columns):
        width = "x" if columns is None else columns
        raise ValueError(f"{name}: expected (n, {width}) values; got shape {rows.shape}. Flatten images first.")
    bad = (rows != 0) & (rows != 1)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name}: expected zeros and ones, without holes; got {rows[at]!s} at {at}, and {int(bad.sum())} such "
            "values in all. Binarise grey values, and fill holes first: this likelihood has no way to sum over them."
        )
    return rows.astype(np.uint8)


def smoothed_means(rows: UInt8[np.ndarray, "n x"]) -> Float[Array, " x"]:
    """The share of ones in each column, with one more of either value, so that none is 0 or 1."""
    return jnp.asarray((rows.sum(axis=0, dtype=np.int64) + 1) / (len(rows) + 2), jnp.result_type(float))


def building_key(seed: int) -> Key[Array, ""]:
    """The branch of the seed from which a model's weights are drawn: the one from which the loop would build."""
    return jax.random.split(jax.random.key(seed), 3)[0]


def ordering_key(seed: int) -> Key[Array, ""]:
    """The branch of the seed from which orders of columns are drawn."""
    return jax.random.fold_in(jax.random.key(seed), _ORDERS)

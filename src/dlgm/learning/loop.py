"""The loop around the compiled epoch: it owns the clock, the watchers and the decision to stop."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, Shaped

from dlgm.inference.rows import as_rows
from dlgm.learning.config import TrainingConfig
from dlgm.learning.evaluation import mean_bound
from dlgm.learning.mesh import everywhere, make_mesh
from dlgm.learning.objective import AbstractObjective, FreeEnergy
from dlgm.learning.progress import AbstractWatcher
from dlgm.learning.step import CAUSES, Info, State, make_epoch, start_state
from dlgm.model import Model, ModelConfig, build_model, initialise

_ADVICE = (
    "The data may hold values far outside the usual range: scale the columns, or take a family with heavier tails.",
    "The recognition model has run away: lower the learning rate, or lengthen the warm-up.",
    "Lower the learning rate or the limit on the gradient's length (clip).",
    "Lower the learning rate.",
)


class NonFiniteError(ArithmeticError):
    """Training met a value that is not finite and stopped. `model` holds the last good weights."""

    def __init__(self, message: str, step: int, model: Model) -> None:
        super().__init__(message)
        self.step = step
        self.model = model


@dataclass(frozen=True)
class Fitted:
    """A trained model and the story of its training."""

    model: Model
    history: list[dict[str, Any]] = field(repr=False)
    best_epoch: int  # the epoch whose weights `model` holds
    seconds: float
    stopped_early: bool

    def summary(self) -> dict[str, Any]:
        """The story in a few plain values, for JSON."""
        best = self.history[self.best_epoch - 1]
        return {
            "best_epoch": self.best_epoch,
            "epochs": len(self.history),
            "stopped_early": self.stopped_early,
            "seconds": round(self.seconds, 1),
            "train_bound": best["train_bound"],
            "valid_bound": best["valid_bound"],
        }


def fit(
    model: Model | ModelConfig,
    rows: Any,
    mask: Any = None,
    *,
    valid: Any = None,
    valid_mask: Any = None,
    config: TrainingConfig = TrainingConfig(),
    objective: AbstractObjective | None = None,
    watchers: Sequence[AbstractWatcher] = (),
    mesh: Mesh | None = None,
) -> Fitted:
    """Train a model on `rows` by stochastic backpropagation (paper, algorithm 1).

    The result is a function of the model, the data and the config; its seed fixes every draw. With `valid` rows, the
    weights with the best validation bound are kept, and training stops early if `config.patience` says so.

    **Arguments**

    - `model`: a model to train further, or a `ModelConfig` to build one from and start at the data's own means.
    - `rows`, `mask`: data of shape `(n, x)`, and what of it was observed (by default all). NaN only in holes.
    - `objective`: in place of the one `config` names, for example `FreeEnergy(estimator=Reinforce())`.
    - `watchers`: told of every epoch: a `TerminalProgress()`, a `JsonlHistory(path)`.

    **Returns** a `Fitted`. Its history has a record an epoch: `epoch`, `step`, `loss` (what was minimised, per row),
    `train_bound` (with the KL at full weight, higher is better, with training's noise), `valid_bound`,
    `reconstruction`, `kl` (a number a layer), `prior`, `beta`, `learning_rate`, `gradient_norm`,
    `rows_per_second`, `seconds`.

    >>> import numpy as np
    >>> from dlgm.learning import TrainingConfig, fit
    >>> from dlgm.model import ModelConfig, make_observation
    >>> rows = np.tile(np.array([[0, 1, 0, 1], [1, 0, 1, 0]], np.uint8), (50, 1))
    >>> config = ModelConfig(make_observation("bernoulli", columns=4).config(), latent=(1,), hidden=(8,))
    >>> fitted = fit(config, rows, config=TrainingConfig(epochs=60, batch_size=20, learning_rate=0.02))
    >>> round(float(np.log(2)), 1), round(-fitted.history[-1]["train_bound"], 1) < 1.5
    (0.7, True)
    """
    key_model, key_run, key_valid = jax.random.split(jax.random.key(config.seed), 3)
    built = model if isinstance(model, Model) else build_model(model, key=key_model)
    config.check_for(built.generative.observation.name, validated=valid is not None)
    rows, mask = _as_data("rows", rows, mask, built)
    if valid is not None:
        valid, valid_mask = _as_data("valid", valid, valid_mask, built)
    if isinstance(model, ModelConfig):
        model = initialise(built, rows, mask)

    mesh = mesh or make_mesh()
    num_rows = len(rows)
    batch_size = min(config.batch_size, num_rows) // mesh.size * mesh.size
    if batch_size == 0:
        least = "rows" if num_rows < mesh.size else "batch_size"
        got = num_rows if num_rows < mesh.size else config.batch_size
        raise ValueError(f"{least}: expected at least {mesh.size}, one for each device; got {got}.")
    steps_per_epoch = num_rows // batch_size
    optimiser = config.make_optimiser(steps_per_epoch * config.epochs)
    objective = objective or config.make_objective()
    # Held-out rows are judged by the same bound, for which the estimator of its gradient does not matter.
    judge = FreeEnergy(objective.num_samples) if isinstance(objective, FreeEnergy) else objective
    run_epoch = make_epoch(config, objective, optimiser, num_rows=num_rows, batch_size=batch_size, mesh=mesh)
    state = jax.device_put(start_state(model, optimiser, key_run), everywhere(mesh))
    data = jax.device_put((rows, mask), everywhere(mesh))
    held_out = jax.device_put((valid, valid_mask), everywhere(mesh))

    history: list[dict[str, Any]] = []
    best, best_bound, best_epoch, stopped = model, -np.inf, 0, False
    begin = time.perf_counter()
    with ExitStack() as stack:
        for watcher in watchers:
            stack.enter_context(watcher)
            watcher.start(config.epochs)
        for epoch in range(1, config.epochs + 1):
            started = time.perf_counter()
            state, info = run_epoch(state, *data)
            record = _summary(info)
            if not bool(state.sound):
                raise _non_finite(state, record, best if best_epoch else state.averaged)
            elapsed = time.perf_counter() - started
            bound = None
            if valid is not None and (epoch % config.validate_every == 0 or epoch == config.epochs):
                bound = float(mean_bound(state.averaged, *held_out, objective=judge, key=key_valid))
                if not np.isfinite(bound):
                    raise NonFiniteError(
                        f"Training stopped after epoch {epoch}: the bound on the validation rows is {bound}. They may "
                        "hold values far outside the training rows' range. The best weights before are kept in `model` "
                        "of this error.",
                        epoch * steps_per_epoch,
                        best,
                    )
                if bound > best_bound:
                    best, best_bound, best_epoch = _copy(state.averaged), bound, epoch
            record = {
                "epoch": epoch,
                "step": epoch * steps_per_epoch,
                **{name: value for name, value in record.items() if name != "causes"},
                "valid_bound": bound,
                "rows_per_second": steps_per_epoch * batch_size / elapsed,
                "seconds": time.perf_counter() - begin,
            }
            history.append(record)
            for watcher in watchers:
                watcher.epoch(record)
            # Patience counts from the end of the warm-up, and runs out only at a look that found nothing better.
            waited = epoch - max(best_epoch, config.warm_up * config.epochs)
            if config.patience and bound is not None and waited >= config.patience:
                stopped = epoch < config.epochs
                break
    if not best_epoch:
        best, best_epoch = state.averaged, len(history)
    return Fitted(best, history, best_epoch, time.perf_counter() - begin, stopped)


@jax.jit
def _copy(model: Model) -> Model:
    """Arrays of its own, for the epoch will take over the ones it is given."""
    return jax.tree.map(jnp.copy, model)


def _summary(info: Info) -> dict[str, Any]:
    """An epoch's means as plain numbers: the one time in an epoch that anything leaves the device."""
    info = jax.device_get(info)
    bad = np.flatnonzero(info.causes.any(axis=-1))
    sound = slice(0, bad[0] if bad.size else None)
    with np.errstate(invalid="ignore"):
        means = {
            name: np.mean(getattr(info, name)[sound], axis=0).tolist() if len(info.loss[sound]) else float("nan")
            for name in ("loss", "reconstruction", "kl", "prior", "gradient_norm")
        }
    kl = means["kl"] if isinstance(means["kl"], list) else [means["kl"]]
    return {
        **means,
        "kl": kl,
        "train_bound": -(means["reconstruction"] + sum(kl)),
        "beta": float(info.beta[-1]),
        "learning_rate": float(info.learning_rate[-1]),
        "causes": info.causes[bad[0]] if bad.size else None,
    }


def _non_finite(state: State, record: dict[str, Any], model: Model) -> NonFiniteError:
    step = int(state.step) + 1
    # A bad loss makes every gradient bad too: the first flag is the nearest to the cause.
    first = int(np.argmax(record["causes"]))
    return NonFiniteError(
        f"Training stopped at step {step}: {CAUSES[first]} is not finite. {_ADVICE[first]} "
        "The last good weights are kept in `model` of this error.",
        step,
        _copy(model),
    )


def _as_data(
    name: str, rows: Any, mask: Any, model: Model
) -> tuple[Shaped[np.ndarray, "n x"], Bool[np.ndarray, "n x"] | None]:
    """Rows the model can learn from: at least one, and without a mask that says nothing."""
    rows, mask = as_rows(model, rows, mask, name)
    if len(rows) == 0:
        raise ValueError(f"{name}: expected at least one row; got none.")
    return rows, None if mask is None or mask.all() else mask


__all__ = ["Fitted", "NonFiniteError", "fit"]

"""The loop around the compiled steps: it owns the clock, the watchers, the checkpoints and the decision to stop."""

import dataclasses
import hashlib
import re
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Bool, Int, Shaped

from dlgm.data.source import ArraySource, RowSource, rows_named
from dlgm.inference.rows import as_rows
from dlgm.learning.checkpoint import DIGEST, CheckpointError, Checkpoints, Snapshot
from dlgm.learning.config import TrainingConfig
from dlgm.learning.evaluation import mean_bound
from dlgm.learning.feed import AbstractFeed, ResidentFeed, StreamedFeed
from dlgm.learning.interruption import Interrupted, NonFiniteError, Signals
from dlgm.learning.linear_start import linear_start
from dlgm.learning.mesh import agreed, company, everyone, local, make_mesh, replicated
from dlgm.learning.objective import AbstractObjective, FreeEnergy, check_parameter_draws
from dlgm.learning.progress import AbstractWatcher
from dlgm.learning.step import CAUSES, Run, make_run, start_state
from dlgm.learning.wake_sleep import WakeSleep
from dlgm.model import Model, ModelConfig, build_model, initialise
from dlgm.model.trainable import AbstractTrainable

_ADVICE = (
    "The data may hold values far outside the usual range: scale the columns, or take a family with heavier tails.",
    "The recognition model has run away: lower the learning rate, or lengthen the warm-up.",
    "Lower the learning rate or the limit on the gradient's length (clip).",
    "Lower the learning rate.",
)
_CHUNK_BYTES = 2**27  # of a source, held at a time where nothing else is asked for
_SAMPLE = 2**21  # cells of a source that are looked at before training: for its means, and to know it again
_PATIENCE_OF_SIGNALS = 0.5  # seconds of steps between two looks at the clock and at signals


@dataclass(frozen=True)
class Fitted:
    """A trained model and the story of its training."""

    model: Any  # of the make that was given; for a ModelConfig, a Model
    history: list[dict[str, Any]] = field(repr=False)
    best_epoch: int  # the epoch whose weights `model` holds; 0: it is where training started
    seconds: float
    stopped_early: bool

    def summary(self) -> dict[str, Any]:
        """The story in a few plain values, for JSON."""
        # The start itself, as epoch 0, has no record of its own.
        best = self.history[self.best_epoch - 1] if self.best_epoch else {"train_bound": None, "valid_bound": None}
        return {
            "best_epoch": self.best_epoch,
            "epochs": len(self.history),
            "stopped_early": self.stopped_early,
            "seconds": round(self.seconds, 1),
            "train_bound": best["train_bound"],
            "valid_bound": best["valid_bound"],
        }


def fit(
    model: AbstractTrainable | ModelConfig,
    rows: Any,
    mask: Any = None,
    *,
    valid: Any = None,
    valid_mask: Any = None,
    config: TrainingConfig = TrainingConfig(),
    objective: AbstractObjective | None = None,
    judge: Callable[[Any], Any] | None = None,
    stop_after: int | None = None,
    watchers: Sequence[AbstractWatcher] = (),
    mesh: Mesh | None = None,
    checkpoints: Checkpoints | None = None,
    chunk_rows: int | None = None,
) -> Fitted:
    """Train a model on `rows` by stochastic backpropagation (paper, algorithm 1).

    The result is a function of the model, the data and the config; its seed fixes every draw. With `valid` rows, the
    weights with the best validation bound are kept, and training stops early if `config.patience` says so.

    **Arguments**

    - `model`: a model to train further, or a `ModelConfig` to build one from and start at the data's own means,
      or, with its `linear_path` and `cells`, at a factor analysis. A model of another make than ours is any
      `AbstractTrainable`, and comes with an `objective` of its own.
    - `rows`, `mask`: data of shape `(n, x)`, and what of it was observed; by default, what is not NaN. The bound is
      then one on the likelihood of the observed cells.
    - `objective`: in place of the one `config` names, for example `FreeEnergy(estimator=Reinforce())`.
    - `judge`: in place of `valid`, a score of a model, higher is better, that says which weights to keep, those of the
      start among them: `HiddenCells`, say. It stands in the history as `valid_bound`.
    - `stop_after`: epochs after which to stop, with learning rates as if all of them were to come.
    - `mesh`: the devices to use; by default all, of all processes that `jax.distributed` has joined.
    - `watchers`: told of every epoch: a `TerminalProgress()`, a `JsonlHistory(path)`.
    - `checkpoints`: where to save the run as it goes. A run that was stopped, however it was, ends with the same bits
      once it is resumed. SIGINT and SIGTERM then end the run after the step at hand, with `Interrupted`.
      If one of several processes dies, the others end with `ProcessLostError`.
    - `chunk_rows`: how many rows of a source to hold at a time; by default as many as take 128 MiB.

    `rows` may be larger than memory: an array mapped from a file (`np.load(..., mmap_mode="r")`) or a `RowSource` is
    read a chunk at a time.

    **Returns** a `Fitted`. Its history has a record an epoch: `epoch`, `step`, `loss` (what was minimised, per row),
    `train_bound` (with the KL at full weight, higher is better, with training's noise), `valid_bound`,
    `reconstruction`, `kl` (a number a layer), `prior` (the parameters' own term, a row's share), `beta`,
    `learning_rate`, `gradient_norm`, `rows_per_second`, `seconds`.

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
    built: Any = build_model(model, key=key_model) if isinstance(model, ModelConfig) else model
    if objective is None and not isinstance(built, Model):
        raise ValueError(
            f"objective: expected one that is made for a {type(built).__name__}; got none. Those that the config can "
            "name are for a Model."
        )
    if valid is not None and judge is not None:
        raise ValueError("judge: expected either valid rows or a judge; got both.")
    observation = built.observation
    config.check_for(observation.name, observation.columns, validated=valid is not None or judge is not None)
    if isinstance(rows, np.memmap) and rows.ndim == 2:
        rows, mask = ArraySource(rows, mask), None
    elif jax.process_count() > 1 and not isinstance(rows, RowSource):
        # Every process takes the rows of its own devices only, and does so as from any source; all in one chunk, since
        # they are in memory anyway, and so in the order that they have with a single process.
        rows, mask = ArraySource(*_as_data("rows", rows, mask, model=built), complete=True), None
        chunk_rows = len(rows.rows)
    streamed = isinstance(rows, RowSource)
    if streamed:
        index = _spread(*rows.shape)
        sample, sample_mask = rows_named(index, partial(_as_data, "rows", model=built), *rows.read(index))
    else:
        rows, mask = _as_data("rows", rows, mask, model=built)
        sample, sample_mask = rows, mask
    if valid is not None:
        valid, valid_mask = _as_data("valid", valid, valid_mask, model=built)
    made = model.to_dict() if isinstance(model, ModelConfig) else {}
    if isinstance(model, ModelConfig):
        starts_linear = model.linear_path and model.covariance == "cells"
        model = initialise(built, sample, sample_mask)
        if starts_linear:
            model = linear_start(model, sample, sample_mask, seed=config.seed)

    mesh = mesh or make_mesh()
    num_rows = rows.shape[0]
    batch_size = min(config.batch_size, num_rows) // mesh.size * mesh.size
    if batch_size == 0:
        least = "rows" if num_rows < mesh.size else "batch_size"
        got = num_rows if num_rows < mesh.size else config.batch_size
        raise ValueError(f"{least}: expected at least {mesh.size}, one for each device; got {got}.")
    if built.is_bayesian:
        check_parameter_draws(config.parameter_draws, batch_size)
    objective = objective or config.make_objective()
    optimiser, run = _program(config, objective, num_rows, batch_size, mesh)
    # Held-out rows are judged by the same bound, for which the estimator of its gradient does not matter, nor dreams.
    bound = FreeEnergy(objective.num_samples) if isinstance(objective, FreeEnergy | WakeSleep) else objective
    state = replicated(start_state(model, optimiser, key_run), mesh)
    at = Snapshot(state, _copy(state.averaged), -np.inf, 0, [], 0.0)
    if valid is not None:
        held_out = replicated((valid, valid_mask), mesh)

        def judge(model: AbstractTrainable) -> Any:
            return mean_bound(model, *held_out, objective=bound, key=key_valid)

    elif judge is not None:
        at.best_bound = _finite(float(judge(state.averaged)), "before epoch 1", 0, at.best)
    with company(), ExitStack() as stack:
        if streamed:
            chunk_rows = chunk_rows or max(1, _CHUNK_BYTES // sample[0].nbytes)
            feed: AbstractFeed = StreamedFeed(
                rows,
                partial(as_rows, built),
                key=key_run,
                batch_size=batch_size,
                chunk_rows=chunk_rows,
                epochs=config.epochs,
                mesh=mesh,
            )
        else:
            feed = ResidentFeed(rows, mask, key=key_run, batch_size=batch_size, mesh=mesh)
        stack.callback(feed.close)
        training = _Training(
            config=config,
            run=run,
            feed=feed,
            steps_per_epoch=num_rows // batch_size,
            batch_size=batch_size,
            judge=judge,
            last_epoch=config.epochs if stop_after is None else min(config.epochs, stop_after),
            signals=stack.enter_context(Signals()) if checkpoints else Signals(),
            checkpoints=checkpoints,
            described={
                **config.to_dict(),
                "batch_size": batch_size,
                **{f"the model's {name}": value for name, value in made.items()},
                f"model{DIGEST}": _make(built),
                "objective in detail": _without_addresses(objective),
                "rows": list(rows.shape),
                f"training data{DIGEST}": _digest(sample, sample_mask),
                f"validation data{DIGEST}": None if valid is None else _digest(valid, valid_mask),
                "steps a chunk": feed.chunk_steps,
            },
        )
        if checkpoints is not None:
            stack.enter_context(checkpoints.held())
            if (saved := checkpoints.load(at, training.described)) is not None:
                saved.state, saved.best = replicated((saved.state, saved.best), mesh)
                at = saved
        watchers = watchers if jax.process_index() == 0 else ()
        for watcher in watchers:
            stack.enter_context(watcher)
            watcher.start(config.epochs, at.history)
        training.began = time.perf_counter() - at.seconds
        while not training.finished(at):
            record = training.epoch(at)
            at.seconds = time.perf_counter() - training.began
            at.history.append({**record, "seconds": at.seconds})
            for watcher in watchers:
                watcher.epoch(at.history[-1])
            training.save_if_due(at)
        if checkpoints is not None:
            try:
                checkpoints.save(at, training.described)
            except CheckpointError as error:  # the run is done: what it has learned shall not be lost with its record
                warnings.warn(str(error), stacklevel=2)
    if not at.best_epoch and judge is None:
        at.best, at.best_epoch = at.state.averaged, len(at.history)
    return Fitted(local(at.best), at.history, at.best_epoch, at.seconds, len(at.history) < config.epochs)


@dataclass
class _Training:
    """What stays the same while a run goes on, and its two parts: an epoch, and saving."""

    config: TrainingConfig
    run: Run
    feed: AbstractFeed
    steps_per_epoch: int
    batch_size: int
    judge: Callable[[Any], Any] | None  # scores held-out rows or cells
    last_epoch: int
    signals: Signals
    checkpoints: Checkpoints | None
    described: dict[str, Any]  # what must be the same for a run to be resumed
    began: float = 0.0  # by the clock, as if the run had never been interrupted
    _pace: int = 1  # steps between two looks at the clock

    def finished(self, at: Snapshot) -> bool:
        """Whether all epochs are done, or patience has run out."""
        epoch = len(at.history)
        if epoch >= self.last_epoch:
            return True
        if not self.config.patience or not epoch or at.history[-1]["valid_bound"] is None:
            return False
        # Patience counts from when the loss is what it will be, and runs out only at a look that found nothing better.
        config = self.config
        settled = max(config.warm_up, config.free_until, config.move_until if config.moves else 0.0)
        return epoch - max(at.best_epoch, settled * self.config.epochs) >= self.config.patience

    def epoch(self, at: Snapshot) -> dict[str, Any]:
        """The rest of an epoch, and a look at the held-out rows; its record."""
        began, epoch = time.perf_counter(), len(at.history) + 1
        before = (epoch - 1) * self.steps_per_epoch
        n = first = int(at.state.step) - before
        while n < self.steps_per_epoch:
            n = self._advance(at, epoch, before, n)
            if n < self.steps_per_epoch:
                self.save_if_due(at)
        elapsed = time.perf_counter() - began
        info = jax.device_get(at.state.info)
        bound = self._validate(at, epoch)
        kl = [float(x) for x in info.kl]
        return {
            "epoch": epoch,
            "step": epoch * self.steps_per_epoch,
            "loss": float(info.loss),
            "reconstruction": float(info.reconstruction),
            "kl": kl,
            "prior": float(info.prior),
            "gradient_norm": float(info.gradient_norm),
            "train_bound": -(float(info.reconstruction) + sum(kl)),
            "beta": float(info.beta),
            "learning_rate": float(info.learning_rate),
            "valid_bound": bound,
            "rows_per_second": (n - first) * self.batch_size / elapsed,
        }

    def _advance(self, at: Snapshot, epoch: int, before: int, n: int) -> int:
        """Some steps: as many as leave time to answer a signal."""
        batches, end = everyone(lambda: self.feed.batches(epoch - 1, n))
        began = time.perf_counter()
        stop = min(end, n + self._pace)
        at.state = self.run(at.state, batches, before + stop)
        if not bool(at.state.sound):
            raise _non_finite(at)
        each = (time.perf_counter() - began) / (stop - n)
        # At most twice as many the next time: the first steps' time is mostly that of compiling.
        (self._pace,), _ = agreed(max(1, min(2 * self._pace, round(_PATIENCE_OF_SIGNALS / each))))
        return stop

    def _validate(self, at: Snapshot, epoch: int) -> float | None:
        """The judge's score, if this epoch asks for it; the best weights are kept."""
        if self.judge is None or (epoch % self.config.validate_every and epoch != self.last_epoch):
            return None
        bound = float(self.judge(at.state.averaged))
        _finite(bound, f"after epoch {epoch}", epoch * self.steps_per_epoch, at.best)
        if bound > at.best_bound:
            at.best, at.best_bound, at.best_epoch = _copy(at.state.averaged), bound, epoch
        return bound

    def save_if_due(self, at: Snapshot) -> None:
        """A checkpoint, if it is time for one or a signal came; then the signal is obeyed."""
        if self.checkpoints is None:
            return
        (due, _), (_, signal) = agreed(self.checkpoints.due(), self.signals.received or 0)
        if not due and not signal:
            return
        at.seconds = time.perf_counter() - self.began
        path = self.checkpoints.save(at, self.described)
        if signal:
            epoch = min(len(at.history) + 1, self.config.epochs)
            raise Interrupted(
                f"Stopped at step {int(at.state.step)}, in epoch {epoch} of {self.config.epochs}; the "
                f"run is saved in {path}.",
                signal,
            )


def _program(
    config: TrainingConfig, objective: AbstractObjective, num_rows: int, batch_size: int, mesh: Mesh
) -> tuple[optax.GradientTransformation, Run]:
    """The optimiser and the compiled steps: those of an earlier run that differs in its data and seed only, if any."""
    # What follows is not part of the program.
    alike = dataclasses.replace(config, seed=0, patience=0, validate_every=1)
    try:
        return _kept_program(alike, objective, num_rows, batch_size, mesh)
    except TypeError:  # an objective that holds arrays cannot be looked up
        return _kept_program.__wrapped__(alike, objective, num_rows, batch_size, mesh)


@lru_cache(maxsize=4)
def _kept_program(
    config: TrainingConfig, objective: AbstractObjective, num_rows: int, batch_size: int, mesh: Mesh
) -> tuple[optax.GradientTransformation, Run]:
    optimiser = config.make_optimiser(num_rows // batch_size * config.epochs)
    return optimiser, make_run(config, objective, optimiser, num_rows=num_rows, batch_size=batch_size, mesh=mesh)


@jax.jit
def _copy(model: AbstractTrainable) -> AbstractTrainable:
    """Arrays of its own, for the steps will take over the ones they are given."""
    return jax.tree.map(jnp.copy, model)


def _finite(bound: float, when: str, step: int, best: AbstractTrainable) -> float:
    """The score of held-out rows or cells, which must be a number: none is better than NaN, nor worse."""
    if not np.isfinite(bound):
        raise NonFiniteError(
            f"Training stopped {when}: the bound on the validation rows is {bound}. They may "
            "hold values far outside the training rows' range. The best weights before are kept in `model` "
            "of this error.",
            step,
            local(best),
        )
    return bound


def _non_finite(at: Snapshot) -> NonFiniteError:
    step = int(at.state.step) + 1
    # A bad loss makes every gradient bad too: the first flag is the nearest to the cause.
    first = int(np.argmax(at.state.causes))
    return NonFiniteError(
        f"Training stopped at step {step}: {CAUSES[first]} is not finite. {_ADVICE[first]} "
        "The last good weights are kept in `model` of this error.",
        step,
        local(_copy(at.best if at.best_epoch else at.state.averaged)),
    )


def _spread(num_rows: int, num_columns: int) -> Int[np.ndarray, " k"]:
    """Some rows' numbers, evenly over all."""
    sampled = min(num_rows, max(1, _SAMPLE // num_columns))
    return np.unique(np.linspace(0, num_rows - 1, sampled).astype(np.int64))


def _digest(rows: Shaped[np.ndarray, "k x"], mask: Bool[np.ndarray, "k x"] | None) -> str:
    """By which (at most some thousand) rows are known again. What lies in holes does not matter."""
    index = _spread(*rows.shape)
    rows, mask = rows[index], None if mask is None or mask[index].all() else mask[index]
    digest = hashlib.sha256(str(rows.dtype).encode())
    digest.update((rows if mask is None else np.where(mask, rows, 0)).tobytes())
    if mask is not None:
        digest.update(np.packbits(mask).tobytes())
    return digest.hexdigest()[:16]


def _make(model: AbstractTrainable) -> str:
    """By which a model's make is known again: its parts, their settings and shapes."""
    shapes = [(jax.tree_util.keystr(path), leaf.shape) for path, leaf in jax.tree.leaves_with_path(model)]
    return hashlib.sha256(f"{shapes} {_without_addresses(model)}".encode()).hexdigest()[:16]


def _without_addresses(value: Any) -> str:
    """What it is, without where in memory this process has it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _as_data(
    name: str, rows: Any, mask: Any, *, model: AbstractTrainable, start: int = 0
) -> tuple[Shaped[np.ndarray, "n x"], Bool[np.ndarray, "n x"] | None]:
    """Rows the model can learn from: at least one, and without a mask that says nothing."""
    rows, mask = as_rows(model, rows, mask, name, start)
    if len(rows) == 0:
        raise ValueError(f"{name}: expected at least one row; got none.")
    return rows, None if mask is None or mask.all() else mask


__all__ = ["Fitted", "NonFiniteError", "fit"]

"""The loop around contrastive steps: it owns the clock, the watchers, the checkpoints and the choice of the best."""

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, UInt8

from dlgm.baselines.boltzmann import BoltzmannMachine
from dlgm.baselines.contrastive import Contrastive, Run, make_run, start_state
from dlgm.learning.checkpoint import DIGEST, Checkpoints, Snapshot
from dlgm.learning.interruption import Interrupted, NonFiniteError, Signals
from dlgm.learning.progress import AbstractWatcher
from dlgm.learning.step import epoch_order

_PATIENCE_OF_SIGNALS = 0.5  # seconds of steps between two looks at the clock and at signals
Judge = Callable[[BoltzmannMachine], float]


def train(
    config: Contrastive,
    machine: BoltzmannMachine,
    rows: UInt8[np.ndarray, "n x"],
    *,
    base: Float[Array, " v"],
    judge: Judge | None = None,
    below: BoltzmannMachine | None = None,
    key: Key[Array, ""],
    watchers: Sequence[AbstractWatcher] = (),
    checkpoints: Checkpoints | None = None,
    described: dict[str, Any] | None = None,
) -> BoltzmannMachine:
    """The averaged machine after all epochs, or at the look where `judge` valued it most.

    - `base`: the logits of the visible units' rates.
    - `judge`: what a machine is worth to the validation rows; asked every `config.validate_every` epochs.
    - `below`: learn from the hidden units of this machine, given the rows.
    - `described`: what else a resumed run must have in common with the one it goes on with.

    Watchers see `epoch`, `step`, `loss` (of `contrast`: near zero for as long as chains and rows look alike to the
    machine), `gibbs_steps`, `valid_bound`, `rows_per_second` and `seconds`.
    """
    if len(rows) < config.batch_size:
        raise ValueError(f"rows: expected at least a batch of {config.batch_size}; got {len(rows)}.")
    steps = len(rows) // config.batch_size
    num_steps = steps * config.epochs
    state = start_state(config, machine, base, num_steps, key)
    at = Snapshot(state, jax.tree.map(jnp.copy, machine), -np.inf, 0, [], 0.0)
    run = make_run(config, visible_mean=jax.nn.sigmoid(base), num_steps=num_steps, below=below)
    on_device = jnp.asarray(rows)
    described = {
        **config.to_dict(),
        **(described or {}),
        "rows": list(rows.shape),
        f"training data{DIGEST}": digest(rows),
        f"seed{DIGEST}": [int(word) for word in np.asarray(jax.random.key_data(key))],
    }
    with ExitStack() as stack:
        signals = Signals()
        if checkpoints is not None:
            stack.enter_context(signals)
            stack.enter_context(checkpoints.held())
            at = checkpoints.load(at, described) or at
        for watcher in watchers:
            stack.enter_context(watcher)
            watcher.start(config.epochs, at.history)
        began = time.perf_counter() - at.seconds

        def pause() -> None:
            """A checkpoint, if it is time for one or a signal came; then the signal is obeyed."""
            at.seconds = time.perf_counter() - began
            if checkpoints is None or not (checkpoints.due() or signals.received):
                return
            path = checkpoints.save(at, described)
            if signals.received:
                raise Interrupted(
                    f"Stopped at step {int(at.state.step)}; the run is saved in {path}.", signals.received
                )

        while len(at.history) < config.epochs:
            epoch, since = len(at.history) + 1, time.perf_counter()
            first = int(at.state.step)
            order = epoch_order(key, epoch - 1, num_rows=len(rows))[: steps * config.batch_size]
            _epoch(at, run, on_device, order.reshape(steps, -1), epoch * steps, pause)
            elapsed = time.perf_counter() - since
            bound = None
            if judge is not None and (epoch % config.validate_every == 0 or epoch == config.epochs):
                bound = judge(at.state.averaged)
                if bound > at.best_bound:
                    at.best, at.best_bound, at.best_epoch = jax.tree.map(jnp.copy, at.state.averaged), bound, epoch
            at.seconds = time.perf_counter() - began
            at.history.append(
                {
                    "epoch": epoch,
                    "step": epoch * steps,
                    "loss": float(at.state.loss),
                    "gibbs_steps": int(config.gibbs_steps_at(epoch * steps - 1, num_steps)),
                    "valid_bound": bound,
                    "rows_per_second": (epoch * steps - first) * config.batch_size / elapsed,
                    "seconds": at.seconds,
                }
            )
            for watcher in watchers:
                watcher.epoch(at.history[-1])
            pause()
        if checkpoints is not None:
            checkpoints.save(at, described)
    return at.best if at.best_epoch else at.state.averaged


def digest(array: Any) -> str | None:
    """By which an array is known again; none of none."""
    return None if array is None else hashlib.sha256(np.asarray(array).tobytes()).hexdigest()[:16]


def _epoch(
    at: Snapshot,
    run: Run,
    rows: UInt8[Array, "n x"],
    order: Int[Array, "steps b"],
    end: int,
    pause: Callable[[], None],
) -> None:
    """The rest of an epoch, some steps at a time: as many as leave time to answer a signal."""
    pace, step = 1, int(at.state.step)
    while step < end:
        began, stop = time.perf_counter(), min(end, step + pace)
        at.state = run(at.state, rows, order, stop)
        if not np.isfinite(at.state.loss):
            raise NonFiniteError(
                f"Training stopped at step {int(at.state.step)}: the free energy is not finite. Lower the learning "
                "rate, or weigh large weights down (weight_decay).",
                int(at.state.step),
                at.best,
            )
        each = (time.perf_counter() - began) / (stop - step)
        # At most twice as many the next time: the first steps' time is mostly that of compiling.
        pace, step = max(1, min(2 * pace, round(_PATIENCE_OF_SIGNALS / each))), stop
        if step < end:
            pause()

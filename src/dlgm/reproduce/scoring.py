"""Scores of test rows by any of the table's models, a block at a time: what was scored is kept, and not scored again.

A row's numbers do not depend on the rows that come with it, so that a run that was cut short ends with the same ones.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Shaped

from dlgm.baselines import Density, FittedDBN
from dlgm.baselines.latent import LatentDensity
from dlgm.inference.likelihood import mean_and_error
from dlgm.tensorfile import TensorFileError, read_tensors, write_tensors

BLOCK = 500  # rows between two writes


class RowScores(NamedTuple):
    """What a model says of each row, in nats."""

    log_p: Float[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]  # Monte Carlo error of each row; zero where nothing is sampled
    effective_sample_size: Float[np.ndarray, " n"]  # NaN where there are no weights
    bound: Float[np.ndarray, " n"]  # the variational one, of a DBN; NaN for others


def score_rows(
    density: Density,
    rows: Shaped[np.ndarray, "n x"],
    *,
    seed: int,
    kept: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> RowScores:
    """Score the rows, from where the file `kept` ends, if it is of the same model, rows and seed; remove it yourself.

    `progress` is told the rows done.
    """
    run = _digest(density, rows, seed)
    done = _read(kept, run)
    for start in range(len(done.log_p), len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        found = _score(density, block, seed, partial(_tell, progress, start))
        done = RowScores(*(np.concatenate(pair) for pair in zip(done, found, strict=True)))
        write_tensors(kept, done._asdict(), {"run": run})
        progress(len(done.log_p))
    return done


def summary(density: Density, scores: RowScores) -> dict[str, Any]:
    """-ln p(v), its standard error over rows, and what Monte Carlo adds; None where nothing is sampled."""
    mean, over_rows = mean_and_error(scores.log_p)
    # Rows are sampled independently, so that the variance of their mean is the sum of theirs over n^2. The error of
    # log Z is one and the same for all rows, and is not made smaller by their number.
    sampled = float(np.sqrt(np.sum(scores.error**2)) / len(scores.error))
    partition = getattr(density, "partition", None)
    shared = 0.0 if partition is None else partition.standard_error
    is_sampled = partition is not None or isinstance(density, LatentDensity)
    return {
        "nats": -mean,
        "standard_error": over_rows,
        "monte_carlo_error": float(np.hypot(sampled, shared)) if is_sampled else None,
        "samples": getattr(density, "num_samples", None),
        "effective_sample_size": _mean_or_none(scores.effective_sample_size),
    } | ({} if np.isnan(scores.bound).any() else {"bound_nats": -float(scores.bound.mean())})


def _tell(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _score(density: Density, rows: np.ndarray, seed: int, progress: Callable[[int], None]) -> RowScores:
    none = np.full(len(rows), np.nan)
    if isinstance(density, LatentDensity):
        seen = density.likelihood(rows, seed=seed, progress=progress)
        return _as_scores(seen.log_p, seen.standard_error, seen.effective_sample_size, none)
    if isinstance(density, FittedDBN):
        told = density.likelihood(rows, seed=seed)
        return _as_scores(told.log_p, told.log_p_error, told.effective_sample_size, told.bound)
    return _as_scores(density.score_samples(rows, seed=seed), np.zeros(len(rows)), none, none)


def _as_scores(*fields: Any) -> RowScores:
    return RowScores(*(np.asarray(values, np.float64) for values in fields))


def _mean_or_none(values: Float[np.ndarray, " n"]) -> float | None:
    return None if np.isnan(values).any() else float(values.mean())


def _read(kept: Path, run: str) -> RowScores:
    """What was scored before; nothing, if the file is absent, damaged, or of another run."""
    nothing = RowScores(*[np.zeros(0)] * 4)
    try:
        arrays, described = read_tensors(kept)
    except (FileNotFoundError, TensorFileError):
        return nothing
    return RowScores(**arrays) if described.get("run") == run else nothing


def _digest(density: Density, rows: np.ndarray, seed: int) -> str:
    """Of everything that the scores depend on: weights, what is known of log Z, number of samples, rows and seed."""
    said = [getattr(density, name, None) for name in ("partition", "num_samples", "orderings", "order", "seed")]
    digest = hashlib.sha256(
        f"{RowScores._fields} {type(density).__name__} {said} {seed} {rows.dtype} {rows.shape}".encode()
    )
    digest.update(rows.tobytes())
    for leaf in jax.tree.leaves(getattr(density, "model", density)):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()

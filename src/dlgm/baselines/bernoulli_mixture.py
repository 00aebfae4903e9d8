"""A mixture of Bernoullis by expectation maximisation, with the face of a baseline."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, UInt8

from dlgm.baselines.mixture_of_bernoullis import (
    MixtureOfBernoullis,
    em_step,
    fit_mixture_of_bernoullis,
    mean_log_posterior,
)
from dlgm.names import require_whole

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher, Checkpoints

_EVERY = 10  # steps between two looks at the validation rows


@dataclass(frozen=True)
class BernoulliMixture:
    """Settings of a mixture of Bernoullis (paper's table 1: K = 10 and K = 500).

    >>> import numpy as np
    >>> rows = np.tile(np.array([[1, 1, 0], [0, 0, 1]], np.uint8), (20, 1))
    >>> density = BernoulliMixture(num_components=2).fit(rows)
    >>> [f"{score:.1f}" for score in density.score_samples(rows[:2])]
    ['-0.7', '-0.7']
    """

    num_components: int = 10
    iterations: int = 100
    smoothing: float = 0.1  # pseudo-observations of either value for each cell of each component

    def __post_init__(self) -> None:
        for name in ("num_components", "iterations"):
            require_whole("BernoulliMixture", name, getattr(self, name), 1)

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: "Sequence[AbstractWatcher]" = (),
        checkpoints: "Checkpoints | None" = None,
    ) -> "MixtureDensity":
        """The steps of `fit_mixture_of_bernoullis`, ten at a time; of these, the best by the `valid` rows' likelihood.

        Minutes at most, so that no checkpoints are written. Watchers count steps as epochs.
        """
        began = time.perf_counter()
        v = jnp.asarray(np.asarray(rows, np.float32))
        key, s = jax.random.key(seed), self.smoothing
        model = fit_mixture_of_bernoullis(v, num_components=self.num_components, key=key, iterations=1, smoothing=s)
        best, best_score, done = model, -np.inf, 1
        with ExitStack() as stack:
            for watcher in watchers:
                stack.enter_context(watcher)
                watcher.start(self.iterations)
            while True:
                score = None if valid is None else float(np.mean(model.log_likelihood(valid)))
                if score is None or score > best_score:
                    best, best_score = model, -np.inf if score is None else score
                now = time.perf_counter()
                record = {
                    "epoch": done,
                    "loss": -float(_height(model, v, s)),
                    "valid_bound": score,
                    "rows_per_second": done * len(v) / (now - began),
                    "seconds": now - began,
                }
                for watcher in watchers:
                    watcher.epoch(record)
                if done == self.iterations:
                    return MixtureDensity(best)
                num = min(_EVERY, self.iterations - done)
                model, done = _advance(model, v, s, num), done + num


# Compiled, in which the rows are not looked at again; the first step has checked them.


@partial(jax.jit, static_argnames="smoothing")
def _advance(
    model: MixtureOfBernoullis, v: Float[Array, "n x"], smoothing: float, num: Int[Array, ""] | int
) -> MixtureOfBernoullis:
    return jax.lax.fori_loop(0, num, lambda _, m: em_step(m, v, smoothing=smoothing), model)


@partial(jax.jit, static_argnames="smoothing")
def _height(model: MixtureOfBernoullis, v: Float[Array, "n x"], smoothing: float) -> Float[Array, ""]:
    return mean_log_posterior(model, v, smoothing=smoothing)


@dataclass(frozen=True)
class MixtureDensity:
    """A fitted mixture of Bernoullis. Scores are exact."""

    model: MixtureOfBernoullis

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        """The log-likelihood of each row, exact."""
        return np.asarray(self.model.log_likelihood(rows))

    def sample(self, num: int, *, seed: int = 0) -> UInt8[np.ndarray, "num x"]:
        """New rows of bits."""
        require_whole("sample", "num", num, 0)
        return np.asarray(self.model.sample(jax.random.key(seed), num)).astype(np.uint8)

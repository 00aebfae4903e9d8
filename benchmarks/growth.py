"""How the time grows: with the number of latents, the layers, and the batch."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlgm import AbstractGaussian, DiagonalGaussian, FullGaussian, LowRankGaussian, RankOneGaussian
from dlgm.learning import TrainingConfig, make_mesh
from dlgm.learning.step import Resident, make_run, start_state
from dlgm.model import ModelConfig, build_model, make_observation

SIZES = (50, 100, 200, 500, 1_000, 2_000, 5_000)
ROWS = {"diagonal": 200, "rank-one": 200, "rank-8": 200, "full": 4}  # that a posterior is drawn for at a time


def median_times(calls: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, float]:
    """Each call once a round, as often as takes some milliseconds; the median of the rounds."""
    repeats: dict[Any, int] = {}
    times: dict[Any, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(2):
            began = time.perf_counter()
            jax.block_until_ready(call())
        repeats[name] = max(1, round(0.02 / (time.perf_counter() - began)))
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                out = call()
            jax.block_until_ready(out)
            times[name].append((time.perf_counter() - began) / repeats[name])
    return {name: float(np.median(values)) for name, values in times.items()}


def posterior(name: str, K: int, rows: int) -> AbstractGaussian:
    def draw(*shape: int) -> jax.Array:
        return 0.1 * jax.random.normal(jax.random.key(len(shape)), shape)

    return {
        "diagonal": lambda: DiagonalGaussian(draw(rows, K), draw(rows, K)),
        "rank-one": lambda: RankOneGaussian(draw(rows, K), draw(rows, K), draw(rows, K)),
        "rank-8": lambda: LowRankGaussian(draw(rows, K), draw(rows, K), draw(rows, K, 8)),
        "full": lambda: FullGaussian(draw(rows, K), jnp.eye(K) + jnp.tril(draw(rows, K, K), -1) / K),
    }[name]()


@jax.jit
@jax.value_and_grad
def draw_and_divergence(q: AbstractGaussian, eps: jax.Array) -> jax.Array:
    """What the free energy asks of a posterior, beside the networks."""
    return jnp.sum(jnp.cos(q.mean + q.factor_times(eps))) + jnp.sum(q.kl_to_standard())


def posteriors(rounds: int) -> dict[str, Any]:
    """Seconds a row for a draw, its divergence and the gradient, against K; exponents from K = 500 on."""
    calls: dict[Any, Callable[[], Any]] = {}
    for name, rows in ROWS.items():
        for K in SIZES:
            q, eps = posterior(name, K, rows), jax.random.normal(jax.random.key(0), (rows, K))
            calls[name, K] = partial(draw_and_divergence, q, eps)
    times = median_times(calls, rounds)
    seconds = {name: {K: times[name, K] / rows for K in SIZES} for name, rows in ROWS.items()}
    return {"seconds a row": seconds, "exponents": {name: exponent(seconds[name], 500) for name in ROWS}}


def exponent(seconds: dict[int, float], least: int) -> float:
    sizes = [size for size in seconds if size >= least]
    return float(np.polyfit(np.log(sizes), np.log([seconds[size] for size in sizes]), 1)[0])


def step(batch_size: int = 200, **model: Any) -> Callable[[], Any]:
    """A training step of a model of 784 bits."""
    config = ModelConfig(make_observation("bernoulli", columns=784).config(), hidden=(200, 200), **model)
    training = TrainingConfig(batch_size=batch_size, bit_flip=0.1)
    optimiser = training.make_optimiser(10**6)
    objective, mesh = training.make_objective(), make_mesh(1)
    run = make_run(training, objective, optimiser, num_rows=batch_size, batch_size=batch_size, mesh=mesh)
    batches = Resident(jnp.zeros((batch_size, 784), jnp.uint8), None, jnp.arange(batch_size)[None])
    state = start_state(build_model(config, key=jax.random.key(0)), optimiser, jax.random.key(1))

    def call() -> Any:
        nonlocal state
        state = run(state, batches, state.step + 1)
        return state.step

    return call


def steps(rounds: int) -> dict[str, Any]:
    """Seconds a step against K (a diagonal G: a full one has K^2 entries of its own), layers and batch."""
    latents = {
        (name, K): step(latent=(K,), covariance=covariance, rank=8, scale="diagonal")
        for name, covariance in (
            ("diagonal", "diagonal"),
            ("rank-one", "rank-one"),
            ("rank-8", "rank-r"),
            ("full", "full"),
        )
        for K in SIZES[: 3 if name == "full" else None]  # which has a network output for each of its K^2 / 2 entries
    }
    times = median_times(latents, rounds)
    by_latents: dict[str, dict[int, float]] = {}
    for (name, K), seconds in times.items():
        by_latents.setdefault(name, {})[K] = seconds
    layers = median_times({L: step(latent=(50,) * L, covariance="rank-one") for L in (1, 2, 3, 4)}, rounds)
    batches = (50, 100, 200, 400, 800, 1_600, 3_200)
    batch = median_times({b: step(b, latent=(200,), covariance="rank-one") for b in batches}, rounds)
    return {
        "seconds by latents": by_latents,
        "exponents by latents": {
            name: exponent(seconds, 500) for name, seconds in by_latents.items() if max(seconds) > 500
        },
        "seconds by layers": layers,
        "exponent by layers": exponent(layers, 1),
        "seconds by batch": batch,
        "exponent by batch": exponent(batch, 200),
    }

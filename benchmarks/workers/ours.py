"""Our own: python ours.py (step | shipped | likelihood | chain | sample) (diagonal | rank-one)"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.inference import impute, log_likelihood, sample
from dlgm.learning import TrainingConfig, make_mesh
from dlgm.learning.step import Resident, make_run, start_state
from dlgm.model import Model, ModelConfig, build_model, make_observation
from protocol import BATCH, CHAIN, DECAY, FLIPPED, HIDDEN, LATENTS, PIXELS, RATE, ROWS, SAMPLES, bits, serve


def model_of(covariance: str) -> Model:
    observation = make_observation("bernoulli", columns=PIXELS)
    config = ModelConfig(
        observation.config(),
        latent=(LATENTS,),
        hidden=(HIDDEN, HIDDEN),
        covariance=covariance,
        nonlinearity="tanh",
    )
    return build_model(config, key=jax.random.key(0))


def step(covariance: str, *, averaging: float = 0.0, clip: float = 0.0) -> None:
    """A training step; without averaging and clipping unless asked for, for the peers do without."""
    assert DECAY == 0.99  # as in dlgm.learning.config
    config = TrainingConfig(
        batch_size=BATCH,
        learning_rate=RATE,
        bit_flip=FLIPPED,
        schedule="constant",
        optimiser="rmsprop",
        averaging=averaging,
        clip=clip,
    )
    optimiser = config.make_optimiser(10**6)
    run = make_run(config, config.make_objective(), optimiser, num_rows=ROWS, batch_size=BATCH, mesh=make_mesh(1))
    order = np.random.default_rng(1).permutation(ROWS).reshape(-1, BATCH)
    batches = Resident(jnp.asarray(bits(ROWS), jnp.uint8), None, jnp.asarray(order))
    state = start_state(model_of(covariance), optimiser, jax.random.key(1))

    def job(n: int) -> None:
        nonlocal state
        state = run(state, batches, state.step + n)
        assert bool(state.sound)

    serve(job)


def likelihood(covariance: str) -> None:
    """A row's likelihood with SAMPLES samples."""
    model, rows = model_of(covariance), bits(100)
    serve(lambda n: np.asarray(log_likelihood(model, rows[:n], num_samples=SAMPLES, key=jax.random.key(1)).log_p))


def chain(covariance: str) -> None:
    """CHAIN iterations of filling the lower half of a row."""
    model, rows = model_of(covariance), bits(2_000)
    mask = np.arange(PIXELS) < PIXELS // 2
    settings: dict[str, Any] = {"method": "chain", "draws": 1, "chains": 1, "warm_up": CHAIN - 1, "thin": 1}
    serve(lambda n: impute(model, rows[:n], np.tile(mask, (n, 1)), key=jax.random.key(1), **settings))


def new_rows(covariance: str) -> None:
    """A new row."""
    model = model_of(covariance)
    serve(lambda n: sample(model, n, key=jax.random.key(1)))


if __name__ == "__main__":
    jobs: dict[str, Callable[[str], None]] = {
        "step": step,
        "shipped": partial(step, averaging=TrainingConfig.averaging, clip=TrainingConfig.clip),
        "likelihood": likelihood,
        "chain": chain,
        "sample": new_rows,
    }
    jobs[sys.argv[1]](sys.argv[2])

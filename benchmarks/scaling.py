"""What a training step costs and what travels between devices, and what follows for many accelerators.

Counts and times come from the compiled step on this machine; the accelerators' figures are stated, not measured.

    python benchmarks/scaling.py
"""

import math
import time

import jax
import jax.numpy as jnp

from dlgm.learning import TrainingConfig, make_mesh
from dlgm.learning.step import Resident, make_run, start_state
from dlgm.model import ModelConfig, build_model, make_observation

# Stated: arithmetic that a device sustains on matrices of this size, bandwidth of its slowest link, time for a message
# (of which a tree takes 2 log2 P one after another).
SUSTAINED, BANDWIDTH, LATENCY = 10e12, 25e9, 20e-6
MODELS: dict[str, dict] = {
    "50+50 latents, 200-200": {"latent": (50, 50), "hidden": (200, 200), "structure": "directed"},
    "200 latents, 1000-1000": {"latent": (200,), "hidden": (1000, 1000)},
}


def measure(settings: dict, batch_size: int) -> tuple[int, float, float]:
    """Parameters, operations a row, and seconds a step here."""
    rows = jnp.zeros((batch_size, 784), jnp.uint8)
    config = ModelConfig(make_observation("bernoulli", columns=784).config(), **settings)
    training = TrainingConfig(batch_size=batch_size, optimiser="adam")
    optimiser = training.make_optimiser(10**6)
    run = make_run(
        training, training.make_objective(), optimiser, num_rows=batch_size, batch_size=batch_size, mesh=make_mesh(1)
    )
    state = start_state(build_model(config, key=jax.random.key(0)), optimiser, jax.random.key(1))
    batches = Resident(rows, None, jnp.arange(batch_size)[None])
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.model))
    operations = run.lower(state, batches, 1).compile().cost_analysis()["flops"] / batch_size  # type: ignore[attr-defined]
    for stop in (2, 4):  # the second time, the state is where the first has left it: another program
        state = run(state, batches, stop)
    jax.block_until_ready(state)
    began = time.perf_counter()
    state = run(state, batches, 24)
    jax.block_until_ready(state)
    return parameters, operations, (time.perf_counter() - began) / 20


def main() -> None:
    print(f"stated: {SUSTAINED / 1e12:.0f} TFLOP/s a device, {BANDWIDTH / 1e9:.0f} GB/s a link, {1e6 * LATENCY:.0f} us")
    for name, settings in MODELS.items():
        parameters, operations, seconds = measure(settings, 1000)
        print(f"\n{name}: {parameters:,} parameters, {operations / 1e6:.1f} MFLOP a row")
        print(f"  here, batch 1,000: {1000 / seconds:,.0f} rows/s, {1000 * operations / seconds / 1e9:.0f} GFLOP/s")
        for each in (1_000, 10_000):
            for devices in (1, 8, 64, 512):
                compute = each * operations / SUSTAINED
                travelling = 2 * (devices - 1) / devices * 4 * parameters
                exchange = travelling / BANDWIDTH + 2 * math.log2(devices) * LATENCY
                print(
                    f"  {devices:>4} devices, {each:>6,} rows each: {travelling / 1e6:5.1f} MB a step; compute "
                    f"{1e3 * compute:6.2f} ms, exchange {1e3 * exchange:5.2f} ms; "
                    f"{devices * each / (compute + exchange) / 1e6:8.1f} M rows/s, "
                    f"{100 * compute / (compute + exchange):3.0f} % of ideal"
                )


if __name__ == "__main__":
    main()

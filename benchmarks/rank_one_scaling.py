"""Time of the rank-one Gaussian against the number of latents: it should grow like K, and memory with it.

Each round times every size once, so that a machine that slows down slows all of them; medians over rounds are printed.
What is timed is the value and gradient of a draw, its log density and the KL divergence, compiled.

    python benchmarks/rank_one_scaling.py
"""

import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from dlgm import DiagonalGaussian, RankOneGaussian

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 31


def objective(law: type, parameters: dict[str, jax.Array], eps: jax.Array) -> jax.Array:
    q = law(**parameters)
    xi = q.mean + q.factor_times(eps)
    return jnp.sum(jnp.cos(xi)) + q.log_prob(xi) + q.kl_to_standard()


def main() -> None:
    step = {
        law: jax.jit(jax.value_and_grad(lambda p, eps, law=law: objective(law, p, eps)))
        for law in (DiagonalGaussian, RankOneGaussian)
    }
    calls: dict = {}
    for K in SIZES:
        a, b, c, d = jax.random.normal(jax.random.key(0), (4, K))
        calls[K, DiagonalGaussian] = ({"mean": a, "log_d": 0.1 * b}, d)
        calls[K, RankOneGaussian] = ({"mean": a, "log_d": 0.1 * b, "u": 0.1 * c}, d)
    times: dict = {call: [] for call in calls}
    for (_, law), args in calls.items():
        jax.block_until_ready(step[law](*args))
    for _ in range(ROUNDS):
        for (K, law), args in calls.items():
            repeats = max(1, 100_000 // K)
            start = time.perf_counter()
            for _ in range(repeats):
                out = step[law](*args)
            jax.block_until_ready(out)
            times[K, law].append((time.perf_counter() - start) / repeats)
    medians = {call: float(np.median(values)) for call, values in times.items()}

    print(f"{'K':>9}  {'diagonal':>10}  {'rank-one':>10}  rank-one / diagonal  rank-one, times the size before")
    before = None
    for K in SIZES:
        diagonal, rank_one = medians[K, DiagonalGaussian], medians[K, RankOneGaussian]
        growth = "" if before is None else f"{rank_one / before:.1f}"
        print(
            f"{K:>9,}  {1e6 * diagonal:>7.0f} us  {1e6 * rank_one:>7.0f} us  {rank_one / diagonal:>19.1f}  {growth:>31}"
        )
        before = rank_one
    slope = np.polyfit(np.log(SIZES[1:]), np.log([medians[K, RankOneGaussian] for K in SIZES[1:]]), 1)[0]
    print(f"fitted exponent for K >= 10,000: {slope:.2f}")
    print(f"largest resident size of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()

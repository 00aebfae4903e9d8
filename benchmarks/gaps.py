r"""Where a model's bound is lost: to the recognition model, or to the family of posteriors it may choose from.

    python benchmarks/gaps.py out/table1/dlgm-diagonal-0123456789.dlgm out/table1/dlgm-rank-one-0123456789.dlgm

For each of some validation rows, a Gaussian of its own is fitted to the row's posterior: the best diagonal one, and the
best of precision $D + U U^\top$. What its bound is above the recognition model's, no network need have lost; what it is
below log p(v), no posterior of its family can reach.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float, Key

from dlgm.artifact import load_model
from dlgm.data import load_dataset
from dlgm.gaussians import AbstractGaussian, DiagonalGaussian, LowRankGaussian
from dlgm.inference import log_likelihood
from dlgm.model import Model
from dlgm.reproduce.page import markdown_table, put_section, revision
from dlgm.reproduce.training import spread

RANKS = (0, 1, 5)  # columns of U; 0: diagonal
STEPS, RATE, DRAWS = 2000, 0.03, 4  # of Adam, whose rate falls to zero; draws a step
JUDGED, SAMPLES = 2000, 5000  # draws by which a bound is judged, and importance samples for log p(v)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="model files with one layer of latents")
    parser.add_argument("--data", default="binarized-mnist")
    parser.add_argument("--rows", type=int, default=100, help="validation rows, evenly spaced")
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    asked = parser.parse_args()
    rows = spread(load_dataset(asked.data).valid, asked.rows)
    lines = []
    for path in asked.models:
        model = load_model(path).model
        key = jax.random.key(0)
        log_p = log_likelihood(model, rows, num_samples=SAMPLES, key=key).log_p
        bounds = [recognition_bounds(model, rows, key), *(best_bounds(model, rows, rank, key) for rank in RANKS)]
        means = [-float(np.mean(found, dtype=np.float64)) for found in (log_p, *bounds)]
        lines.append((path.stem.rpartition("-")[0], *(f"{mean:.2f}" for mean in means)))
        print(*lines[-1], flush=True)
    put_section(asked.page, "gaps", markdown(asked.data, len(rows), lines), by="benchmarks/gaps.py")


def markdown(data: str, rows: int, lines: list[tuple[str, ...]]) -> str:
    """A line for each model."""
    families = ["diagonal" if rank == 0 else f"rank {rank}" for rank in RANKS]
    headings = ["row of table 1", "-ln p(v)", "recognition model", *(f"best {family}" for family in families)]
    return (
        f"## Where the bound is lost: {data}\n\n"
        f"Bounds on -ln p(v) in nats, of {rows} evenly spaced validation rows: with the recognition model's "
        "posteriors, and with the best Gaussian for each row, which is fitted to it alone, of diagonal precision or "
        "with outer products added. Rank 1 is the family of the rank-one recognition model.\n\n"
        + markdown_table(headings, lines)
        + f"\n\nRevision {revision()}, seed 0; {STEPS:,} steps of Adam with {DRAWS} draws each, judged by {JUDGED:,} "
        f"draws; S = {SAMPLES:,}."
    )


def gaussian(parameters: dict[str, Array]) -> AbstractGaussian:
    r"""$C^{-1} = D^{1/2} (I + W W^\top) D^{1/2}$, in which directions are as easily learnt at any precision."""
    mean, log_d, W = parameters["mean"], parameters["log_d"], parameters["W"]
    if W.shape[-1] == 0:
        return DiagonalGaussian(mean, log_d, validate_args=False)
    return LowRankGaussian(mean, log_d, jnp.exp(0.5 * log_d)[:, None] * W, validate_args=False)


def bound(
    model: Model, v: Float[Array, " x"], q: AbstractGaussian, key: Key[Array, ""], draws: int
) -> Float[Array, ""]:
    r"""$E_q[\log p(v, \xi) - \log q(\xi)]$ of one row.

    All sampled, and with the gradient through the draws alone: the nearer q is to the posterior, the less both vary.
    """
    xi = q.mean + jax.vmap(q.factor_times)(jax.random.normal(key, (draws, *q.mean.shape)))
    log_q = jax.vmap(jax.lax.stop_gradient(q).log_prob)
    return jnp.mean(jax.vmap(lambda x: model.generative.log_joint(v, x))(xi) - log_q(xi))


@jax.jit
def recognition_bounds(model: Model, rows: Float[Array, "n x"], key: Key[Array, ""]) -> Float[Array, " n"]:
    """Of the recognition model's posteriors."""

    def one(v: Float[Array, " x"]) -> Float[Array, ""]:
        return bound(model, v, model.posterior(v).gaussian(key), key, JUDGED)

    return jax.lax.map(one, jnp.asarray(rows, jnp.float32))


def best_bounds(model: Model, rows: np.ndarray, rank: int, key: Key[Array, ""]) -> Float[Array, " n"]:
    """Of the best Gaussian for each row, found from the recognition model's on."""
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))
    key_start, key_steps, key_judge = jax.random.split(key, 3)

    @jax.jit
    @jax.vmap
    def one(v: Float[Array, " x"], key: Key[Array, ""]) -> Float[Array, ""]:
        q = model.posterior(v).gaussian(key)
        # Not from W = 0, where the gradient in W vanishes.
        W = 0.1 * jax.random.normal(jax.random.fold_in(key_start, 0), (*q.mean.shape, rank))
        start = {"mean": q.mean, "log_d": -jnp.log(q.variance), "W": W}

        def step(t: Array, state: tuple[dict[str, Array], optax.OptState]) -> tuple[dict[str, Array], optax.OptState]:
            parameters, inner = state
            slope = jax.grad(lambda p: -bound(model, v, gaussian(p), jax.random.fold_in(key, t), DRAWS))(parameters)
            updates, inner = optimiser.update(slope, inner)
            return optax.apply_updates(parameters, updates), inner

        found, _ = jax.lax.fori_loop(0, STEPS, step, (start, optimiser.init(start)))
        return bound(model, v, gaussian(found), key_judge, JUDGED)

    return one(jnp.asarray(rows, jnp.float32), jax.random.split(key_steps, len(rows)))


if __name__ == "__main__":
    main()

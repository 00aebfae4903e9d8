r"""Where a model's bound is lost: to the recognition model, or to the family of posteriors it may choose from.

    python benchmarks/gaps.py out/table1/dlgm-diagonal-0123456789.dlgm out/table1/dlgm-rank-one-0123456789.dlgm

For each of some validation rows, a Gaussian of its own is fitted to the row's posterior: a diagonal one, and some of
precision $D + U U^\top$. What its bound is above the recognition model's is lost to that; what it is below log p(v), to
the family, as far as Adam finds its best.
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
from dlgm.inference import Likelihood, log_likelihood
from dlgm.inference.laplace import laplace
from dlgm.model import Model
from dlgm.reproduce.page import markdown_table, put_section, revision
from dlgm.reproduce.training import spread

RANKS = (0, 1, 5)  # columns of U; 0: diagonal
STEPS, RATE, DRAWS = 1500, 0.01, 4  # of Adam, whose rate falls to zero; draws a step
JUDGED, SAMPLES, NEWTON = 2000, 5000, 5  # draws by which a bound is judged, importance samples, steps to the peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="model files with one layer of latents")
    parser.add_argument("--data", default="binarized-mnist")
    parser.add_argument("--rows", type=int, default=60, help="validation rows, evenly spaced")
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    asked = parser.parse_args()
    rows = spread(load_dataset(asked.data).valid, asked.rows)
    lines = []
    for path in asked.models:
        model = load_model(path).model
        key = jax.random.key(0)
        if len(model.generative.latent) > 1:
            parser.error(f"{path}: expected a model with one layer of latents; got {len(model.generative.latent)}.")
        # Half of its proposals from the peak of each row's own posterior: those of the recognition model alone are
        # too wide of it for 5,000 to be many.
        log_p = log_likelihood(model, rows, num_samples=SAMPLES, newton=NEWTON, key=key)
        bounds = [recognition_bounds(model, rows, key), *(best_bounds(model, rows, rank, key) for rank in RANKS)]
        lines.append(line(path.stem.rpartition("-")[0], log_p, [np.asarray(found, np.float64) for found in bounds]))
        print(*lines[-1], flush=True)
    put_section(asked.page, "gaps", markdown(asked.data, len(rows), lines), by="benchmarks/gaps.py")


def line(name: str, log_p: Likelihood, bounds: list[np.ndarray]) -> tuple[str, ...]:
    """Means over rows, and what each family leaves of the gap, with the standard error of the difference over rows."""
    exact = np.asarray(log_p.log_p, np.float64)
    size = float(np.median(log_p.effective_sample_size))
    lost = [
        (f"{np.mean(gap):.2f} ({np.std(gap, ddof=1) / len(gap) ** 0.5:.2f})") for gap in (exact - b for b in bounds)
    ]
    return (name, f"{-exact.mean():.2f}", f"{size:,.0f}", *lost)


def markdown(data: str, rows: int, lines: list[tuple[str, ...]]) -> str:
    """A line for each model."""
    families = ["diagonal" if rank == 0 else f"rank {rank}" for rank in RANKS]
    headings = ["row of table 1", "-ln p(v)", "effective samples", "recognition model", *families]
    return (
        f"## Where the bound is lost: {data}\n\n"
        f"What bounds on log p(v) are below it, in nats: means over {rows} evenly spaced validation rows, and standard "
        "errors over rows. Bounds with the recognition model's posteriors, and with a Gaussian that was fitted to each "
        "row alone, of diagonal precision or with outer products added; rank 1 is the family of the rank-one "
        "recognition model. Effective samples, of the importance weights behind log p(v), are a median over rows.\n\n"
        + markdown_table(headings, lines)
        + f"\n\nRevision {revision()}, seed 0; {STEPS:,} steps of Adam with {DRAWS} draws each, judged by {JUDGED:,} "
        f"draws; S = {SAMPLES:,}, half of them around each row's peak."
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

    def one(row: tuple[Float[Array, " x"], Key[Array, ""]]) -> Float[Array, ""]:
        v, key = row
        return bound(model, v, model.posterior(v).gaussian(key), key, JUDGED)

    return jax.lax.map(one, (jnp.asarray(rows, jnp.float32), jax.random.split(key, len(rows))))


def best_bounds(model: Model, rows: np.ndarray, rank: int, key: Key[Array, ""]) -> Float[Array, " n"]:
    """Of the best Gaussian for each row that is found from the recognition model's on; judged by the same draws."""
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    @jax.jit
    @jax.vmap
    def one(v: Float[Array, " x"], key: Key[Array, ""], judge: Key[Array, ""]) -> Float[Array, ""]:
        q = model.posterior(v).gaussian(key)
        # W starts at the longest axes of the curvature at the posterior's peak, for Adam to mend.
        J = laplace(model.generative, v, jnp.ones(v.shape, bool), q.mean, NEWTON).q.tril
        J = J * jnp.sqrt(q.variance)[:, None]
        length, axis = jnp.linalg.eigh(J @ J.T - jnp.eye(len(J)))
        first = len(length) - rank
        W = axis[:, first:] * jnp.sqrt(jnp.maximum(length[first:], 0.01))
        start = {"mean": q.mean, "log_d": -jnp.log(q.variance), "W": W}

        def step(t: Array, state: tuple[dict[str, Array], optax.OptState]) -> tuple[dict[str, Array], optax.OptState]:
            parameters, inner = state
            slope = jax.grad(lambda p: -bound(model, v, gaussian(p), jax.random.fold_in(key, t), DRAWS))(parameters)
            updates, inner = optimiser.update(slope, inner)
            return optax.apply_updates(parameters, updates), inner

        found, _ = jax.lax.fori_loop(0, STEPS, step, (start, optimiser.init(start)))
        return bound(model, v, gaussian(found), judge, JUDGED)

    keys, judges = (jax.random.split(k, len(rows)) for k in (jax.random.fold_in(key, 1), key))
    return one(jnp.asarray(rows, jnp.float32), keys, judges)


if __name__ == "__main__":
    main()

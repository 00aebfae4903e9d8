r"""The true posterior $p(\xi \mid v)$ of a row under a model with two latents, by evaluating it everywhere."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.optimize import minimize
from jaxtyping import Float

from dlgm.inference.rows import as_rows
from dlgm.model import Model


class PosteriorGrid(NamedTuple):
    r"""$\log p(\xi \mid v)$ on an even grid, its first axis $\xi_2$ and its second $\xi_1$."""

    log_density: Float[np.ndarray, "g g"]  # normalised over the grid's square
    extent: tuple[float, float, float, float]  # left, right, lower, upper
    mode: Float[np.ndarray, "2"]  # the highest point, of the density and not only of the grid
    log_p: float  # log p(v), by the sum over the grid: if that holds the posterior, and its cells are small beside it

    def moments(self) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2 2"]]:
        """Mean and covariance of the posterior on the grid."""
        left, right, lower, upper = self.extent
        rows, columns = self.log_density.shape
        points = np.stack(np.meshgrid(np.linspace(left, right, columns), np.linspace(lower, upper, rows)), axis=-1)
        weight = np.exp(self.log_density - self.log_density.max())
        weight /= weight.sum()
        mean = np.einsum("ij,ijk->k", weight, points)
        return mean, np.einsum("ij,ijk,ijl->kl", weight, points - mean, points - mean)


def posterior_grid(
    model: Model,
    row: Any,
    mask: Any = None,
    *,
    centre: Any = (0.0, 0.0),
    half_width: float = 5.0,
    size: int = 201,
) -> PosteriorGrid:
    """Evaluate log p(v, xi) on `size` x `size` points of the square around `centre`, and climb to its mode.

    A Bayesian model is taken at the means of its parameters.
    """
    if sum(model.generative.latent) != 2:
        raise ValueError(f"posterior_grid: expected a model with two latents; got {model.generative.latent}.")
    (v,), masks = as_rows(model, np.asarray(row)[None], None if mask is None else np.asarray(mask)[None])
    m = None if masks is None else jnp.asarray(masks[0])
    x, y = (np.linspace(c - half_width, c + half_width, size) for c in np.asarray(centre, float))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float32)
    log_joint = np.asarray(_log_joint(model, jnp.asarray(v, jnp.float32), m, jnp.asarray(points)), np.float64)
    cell = (x[1] - x[0]) * (y[1] - y[0])
    log_p = float(np.logaddexp.reduce(log_joint) + np.log(cell))
    start = points[np.argmax(log_joint)]
    mode = np.asarray(_climb(model, jnp.asarray(v, jnp.float32), m, jnp.asarray(start)))
    extent = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
    return PosteriorGrid(log_joint.reshape(size, size) - log_p, extent, mode, log_p)


@jax.jit
def _log_joint(model: Model, v: Float[Array, " x"], mask: Any, points: Float[Array, "n 2"]) -> Float[Array, " n"]:
    return jax.lax.map(lambda xi: model.generative.log_joint(v, xi, mask), points, batch_size=1000)


@jax.jit
def _climb(model: Model, v: Float[Array, " x"], mask: Any, start: Float[Array, "2"]) -> Float[Array, "2"]:
    """From the best point of the grid to the top of its hill, or where it is if that cannot be climbed."""
    height = lambda xi: -model.generative.log_joint(v, xi, mask)  # noqa: E731
    found = minimize(height, start, method="BFGS")
    # Not `found.fun`, which is that of the start where a search along a line has failed.
    return jnp.where(height(found.x) <= height(start), found.x, start)

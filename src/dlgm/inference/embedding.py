"""Rows as points of a plane: posterior means, of two latents or in the plane that holds most of them."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Key

from dlgm.inference.generation import Latents, conditional_means, posterior_moments
from dlgm.model import Model


@dataclass(frozen=True)
class Embedding:
    """Where each row lies, and how points of the plane are turned back into rows."""

    points: Float[np.ndarray, "n 2"]
    latents: Latents = field(repr=False)  # all of them, with their variances
    centre: Float[np.ndarray, " k"] = field(repr=False)
    axes: Float[np.ndarray, "k 2"] = field(repr=False)  # of the plane in the space of latents, orthonormal
    share: float  # of the variance of the posterior means that lies in the plane; 1 with two latents
    model: Model = field(repr=False)

    def decode(self, points: Any) -> Float[np.ndarray, "m x"]:
        """The mean of the rows at points of the plane."""
        xi = self.centre + np.asarray(points, np.float32) @ self.axes.T
        return np.asarray(conditional_means(self.model, jnp.asarray(xi, jnp.float32)))


def embed(model: Model, rows: Any, mask: Any = None, *, key: Key[Array, ""]) -> Embedding:
    """Each row at its posterior mean, as a point of a plane.

    With two latents the plane is theirs. With more, it is that of the means' first two principal components; with one,
    the second coordinate is zero.
    """
    latents = posterior_moments(model, rows, mask, key=key)
    means = np.asarray(latents.mean, np.float64)
    K = means.shape[1]
    if K <= 2:
        centre, axes, share = np.zeros(K), np.eye(K, 2), 1.0
    else:
        centre = means.mean(axis=0)
        _, values, directions = np.linalg.svd(means - centre, full_matrices=False)
        axes = np.zeros((K, 2))
        axes[:, : len(directions[:2])] = directions[:2].T
        # A component's sign means nothing: the largest entry is made positive, so that it does not change by itself.
        axes *= np.where(axes[np.abs(axes).argmax(0), [0, 1]] < 0, -1, 1)
        spread = np.sum(values**2)
        share = float(np.sum(values[:2] ** 2) / spread) if spread > 0 else 1.0
    points = (means - centre) @ axes
    return Embedding(
        points.astype(np.float32), latents, centre.astype(np.float32), axes.astype(np.float32), share, model
    )

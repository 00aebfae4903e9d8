r"""The Gaussian that touches $p(\xi \mid v_o)$ at its peak: a place to propose from that no network had to learn.

A recognition model answers every row at once, and of categories it may be far off. The peak of
$\log p(v_o \mid \xi) - |\xi|^2 / 2$ is found for each row by Newton's method, with the curvature of Gauss and Newton:

$$P = I + J^\top A J, \qquad J = \frac{\partial o}{\partial \xi}, \quad
A = -\frac{\partial^2 \log p(v_o \mid o)}{\partial o^2},$$

which leaves out how the network itself bends, and so cannot lose its sign with a family that is log-concave.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from dlgm.gaussians import PrecisionGaussian, precision_factors
from dlgm.model import GenerativeModel
from dlgm.model.generative import log_standard_normal
from dlgm.model.posterior import GaussianPosterior

_LENGTHS = np.array([1.0, 0.5, 0.25, 0.1, 0.02, 0.0], np.float32)  # of a step, of which the best is taken
_WIDER = 1.2  # than the curvature says: proposals in the tails cost little, and missing ones much


def laplace(
    generative: GenerativeModel,
    v: Float[Array, " x"],
    mask: Bool[Array, " x"],
    start: Float[Array, " k"],
    steps: int,
) -> GaussianPosterior:
    r"""A Gaussian at the peak of $p(\xi \mid v_o)$, as far as so many steps from `start` find it."""
    observation = generative.observation

    def log_cells(outputs: Float[Array, " p"]) -> Float[Array, ""]:
        return jnp.sum(observation.log_prob(v, outputs, mask))

    def height(xi: Float[Array, " k"]) -> Float[Array, ""]:
        return log_cells(generative.outputs(xi)) + log_standard_normal(xi)

    def precision(xi: Float[Array, " k"]) -> Float[Array, "k k"]:
        outputs, forward = jax.linearize(generative.outputs, xi)
        J = jax.vmap(forward)(jnp.eye(len(xi)))  # a row for each latent
        bent = jax.vmap(lambda along: jax.jvp(jax.grad(log_cells), (outputs,), (along,))[1])(J)
        P = -J @ bent.T
        return jnp.eye(len(xi)) + 0.5 * (P + P.T)

    def ascend(_: Int[Array, ""], xi: Float[Array, " k"]) -> Float[Array, " k"]:
        _, inverse = precision_factors(precision(xi))
        step = (inverse @ jax.grad(height)(xi)) @ inverse
        tried = xi + _LENGTHS[:, None] * jnp.where(jnp.isfinite(step), step, 0.0)
        heights = jax.vmap(height)(tried)
        return tried[jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf))]

    peak = jax.lax.fori_loop(0, steps, ascend, start)
    J, inverse = precision_factors(precision(peak))
    # A family that is not log-concave may have bent the wrong way: there the prior's own width will do.
    sound = jnp.all(jnp.isfinite(J)) & jnp.all(jnp.isfinite(inverse))
    eye = jnp.eye(len(start))
    J, inverse = jnp.where(sound, J, eye), jnp.where(sound, inverse, eye)
    return GaussianPosterior(PrecisionGaussian(peak, J / _WIDER, inverse * _WIDER, validate_args=False))

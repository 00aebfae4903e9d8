"""Bonnet's theorem for the mean and Price's for the covariance."""

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.gaussians import AbstractGaussian
from dlgm.stochastic.derivatives import gradient, hessian
from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, base_draw, transport
from dlgm.stochastic.smoothness import refuse_steps
from dlgm.stochastic.weak import weak


class BonnetPrice(AbstractEstimator):
    r"""Gaussian backpropagation with the Hessian (paper, eqs. 7-9).

    $$\nabla_\theta E_{N(\mu, C)}[f] =
      E\left[g^\top \frac{\partial \mu}{\partial\theta}
      + \tfrac12 \mathrm{Tr}\left(H \frac{\partial C}{\partial\theta}\right)\right]$$
    with $g$ and $H$ the gradient and Hessian of $f$ at the draw, and $\theta$ whatever produced the mean and
    covariance.

    **Laws.** Every Gaussian of `dlgm.gaussians`.

    **Regularity.** `f` twice differentiable, with $g$ continuous and $E|g|$, $E|H|$ finite. A rectifier is not smooth
    enough: the curvature at its kink is lost. A piecewise linear `f` is refused where it can be recognised.

    **Cost.** K Hessian products of `f` a sample, and K-by-K arrays: for small K. `BonnetPriceHVP` has the same
    expectation without them. For a quadratic `f` the covariance's gradient has no variance at all; for other `f` it may
    have more or less than `Pathwise`'s.
    """

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """The base draws."""
        draws = base_draw(require_gaussian(q, "BonnetPrice"), key, num_samples)
        refuse_kinks(f, draws, "BonnetPrice")
        return draws

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        """`f` at the draws, with eq. 9 as its derivative."""
        q = require_gaussian(q, "BonnetPrice")
        return weak(_bonnet_price, f, (q.mean, q.covariance()), transport(q, draws))


def _bonnet_price(f: Pointwise, theta: tuple[Array, Array], d_theta: tuple, x: Array) -> Array:
    d_mu, d_C = d_theta
    total = jnp.zeros(x.shape[:-1], x.dtype)
    if d_mu is not None:
        total += jnp.sum(gradient(f, x) * d_mu, axis=-1)
    if d_C is not None:
        total += 0.5 * jnp.sum(hessian(f, x) * d_C, axis=(-2, -1))
    return total


def require_gaussian(q: dist.Distribution, estimator: str) -> AbstractGaussian:
    """`q` if it is one of ours, else a message saying how to make it one."""
    if not isinstance(q, AbstractGaussian):
        raise TypeError(
            f"{estimator} needs one of dlgm's Gaussians; got {type(q).__name__}. "
            "dlgm.as_gaussian converts numpyro's; for other laws use Pathwise() or Implicit()."
        )
    return q


def refuse_kinks(f: Pointwise, x: Array, estimator: str) -> None:
    """Refuse step functions and, since the Hessian is used, functions whose gradient is one."""
    refuse_steps(f, x, estimator=estimator)
    refuse_steps(lambda y: gradient(f, y), x, estimator=estimator, what="the gradient of f")

"""The second formulation: implicit reparameterisation through the CDF."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.gaussians import AbstractGaussian
from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, frozen_sample
from dlgm.stochastic.smoothness import refuse_steps


@eqx.filter_custom_jvp
def attach(q: dist.Distribution, x: Float[Array, "*points"]) -> Float[Array, "*points"]:
    r"""`x`, a draw of the law `q`, with $\partial x / \partial\theta = -(\partial F / \partial\theta) / p$.

    Moving $\theta$ while keeping $F(x; \theta)$, the draw's quantile, moves $x$ at this rate.
    """
    return x


@attach.def_jvp
def _attach_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    q, x = primals
    d_q, _ = tangents
    x_moving = attach(q, x)  # so that derivatives of this derivative follow the draw as well
    if isinstance(q, AbstractGaussian):
        # For a vector, what stays put is its whitened form S = R^-1 (x - mu), and dS/dx = R^-1.
        _, d_white = eqx.filter_jvp(lambda law: law.solve_factor(x_moving - law.mean), (q,), (d_q,))
        return x_moving, -q.factor_times(d_white)
    try:
        _, d_cdf = eqx.filter_jvp(lambda law: law.cdf(x_moving), (q,), (d_q,))
    except ValueError as error:
        raise ValueError(
            f"Implicit: JAX cannot differentiate the CDF of {type(q).__name__} in one of its parameters ({error}) "
            "Use Pathwise(), or hold that parameter fixed."
        ) from error
    return x_moving, -d_cdf / jnp.exp(q.log_prob(x_moving))


class Implicit(AbstractEstimator):
    r"""The second formulation of the paper's app. C.1, with $B_\theta = (\partial F / \partial\theta) / p$.

    $$\nabla_\theta E_p[f(x)] = -E_p\left[B_\theta(x)\, \partial_x f(x)\right]$$
    $F$ is the CDF and $p$ the density. Unlike the first formulation it has no poles: $p$ is zero only where no draw
    falls.

    **Laws.** Every Gaussian of `dlgm.gaussians`, where it coincides with `Pathwise`; every numpyro law of one real
    variable with a `cdf` that JAX can differentiate in the parameters. (Not `Beta`, nor numpyro's own `StudentT`: JAX
    has no derivative of the incomplete beta function in its shapes. For the latter there is
    `dlgm.stochastic.transforms.StudentT`.)

    **Regularity.** `f` continuous and differentiable almost everywhere, with $E|B_\theta \partial_x f|$ finite.

    **Cost.** One derivative of `f`, one of the CDF and one density a sample.
    """

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """Draws of `q`."""
        if isinstance(q, AbstractGaussian):
            x = frozen_sample(q, key, num_samples)
            refuse_steps(f, x, estimator="Implicit")
            return x
        if q.event_dim != 0 or q.is_discrete:
            raise TypeError(
                f"Implicit works on dlgm's Gaussians and laws of one real variable; got {type(q).__name__} with events "
                f"of shape {q.event_shape}. Use Pathwise() for vectors, Reinforce() for discrete laws."
            )
        if type(q) is dist.StudentT:
            raise TypeError(
                "Implicit: the CDF of numpyro's StudentT has no finite derivative at its centre, and none in `df`. "
                "Use dlgm.stochastic.transforms.StudentT, or Pathwise()."
            )
        x = frozen_sample(q, key, num_samples)
        try:
            jax.eval_shape(q.cdf, x)
        except NotImplementedError as error:
            raise TypeError(
                f"Implicit needs a CDF; {type(q).__name__} has none. "
                "Use Pathwise(), or Reinforce() if it has a density."
            ) from error
        refuse_steps(f, x, estimator="Implicit")
        return x

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        """`f` at draws that move with their quantile."""
        return f(attach(q, draws))

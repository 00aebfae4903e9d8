"""The pathwise estimator: differentiate the draw itself."""

import jax
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, base_draw, transport
from dlgm.stochastic.smoothness import refuse_steps


class Pathwise(AbstractEstimator):
    r"""Stochastic backpropagation through a coordinate transformation (paper, eq. 11 and app. C.2).

    A draw is written $\xi = t(\epsilon; \theta)$ with $\epsilon$ from a fixed law, and differentiated:
    $$\nabla_\theta E[f(\xi)] = E\left[g^\top \frac{\partial t}{\partial \theta}\right], \qquad g = \nabla f(\xi).$$
    For a Gaussian $\xi = \mu + R\epsilon$, so $\nabla_\mu E[f] = E[g]$ and $\nabla_R E[f] = E[g\, \epsilon^\top]$.

    **Laws.** Every Gaussian of `dlgm.gaussians`; every numpyro law that is reparametrised; all of
    `dlgm.stochastic.transforms`.

    **Regularity.** `f` continuous and differentiable almost everywhere, with $E|g^\top \partial t / \partial\theta|$
    finite. A kink (a rectifier) is allowed; a jump is not, since its contribution is lost without a trace. A step
    function is refused where it can be recognised.

    **Cost.** One gradient of `f` a sample, plus $O(K)$ for a diagonal or rank-one Gaussian, $O(K r^2)$ for rank r,
    $O(K^2)$ for a full one.
    """

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """The base draws."""
        if not q.has_rsample:
            raise TypeError(
                f"Pathwise needs a law whose draws are differentiable in its parameters; {type(q).__name__} is not. "
                "Use Implicit() if it has a CDF, Reinforce() otherwise."
            )
        draws = base_draw(q, key, num_samples)
        refuse_steps(f, jax.eval_shape(transport, q, draws), estimator="Pathwise")
        return draws

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        r"""$f(t(\epsilon_s; \theta))$."""
        return f(transport(q, draws))

"""The score-function estimator."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.gaussians import AbstractGaussian
from dlgm.stochastic.baselines import AbstractBaseline, NoBaseline
from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, arguments, frozen_sample, law_of, rebuild


class Reinforce(AbstractEstimator):
    r"""REINFORCE, the likelihood-ratio estimator (paper, app. D.1).

    $$\nabla_\theta E_q[f(\xi)] = E_q\left[(f(\xi) - b)\, \nabla_\theta \log q(\xi \mid \theta)\right]$$

    **Arguments**

    - `baseline`: $b$, one of `NoBaseline()`, `ConstantBaseline(value)`, `RunningMean(decay=...)`, `LeaveOneOut()`,
      `OptimalCoefficient()`.

    **Laws.** Every numpyro law with a `log_prob` that is differentiable in its parameters, discrete ones included.

    **Regularity.** None on `f` but $E|f \nabla\log q| < \infty$: it may jump, or be a black box of values. The
    support of `q` must not depend on $\theta$.

    **Cost.** One value of `f` a sample and no derivative of it; two where the baseline is made from the values
    (`LeaveOneOut`, `OptimalCoefficient`), which `jit` merges unless `f` calls out of JAX. The variance grows with the
    number of latents, where that of the pathwise estimators does not.
    """

    baseline: AbstractBaseline = NoBaseline()

    def __check_init__(self) -> None:
        if not isinstance(self.baseline, AbstractBaseline):
            raise TypeError(
                f"Reinforce: expected `baseline` to be a baseline such as LeaveOneOut(); got {self.baseline!r}."
            )

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """Draws of `q` and each sample's baseline."""
        x = frozen_sample(q, key, num_samples)
        prepared = self.baseline.prepare(lambda: jax.lax.stop_gradient(f(x)), lambda: _scores(q, x))
        return x, jax.lax.stop_gradient(prepared)

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        r"""$f \cdot \square - \text{control}$, with $\square = q(\xi) / \bar q(\xi)$ worth 1 but not constant."""
        x, prepared = draws
        try:
            log_q = q.log_prob(x)
        except NotImplementedError as error:
            raise TypeError(f"Reinforce needs a log_prob; {type(q).__name__} has none. Use Pathwise().") from error
        box = jnp.exp(log_q - jax.lax.stop_gradient(log_q))
        return f(x) * box - self.baseline.control(prepared, box, _broadcast_arguments(q))


def _broadcast_arguments(q: dist.Distribution) -> dict[str, Array]:
    """The arguments with the law's batch shape, so that each batch entry has parameters of its own."""
    if isinstance(q, AbstractGaussian):
        return arguments(q)  # stored so
    args = {}
    for name, value in arguments(q).items():
        event = jnp.shape(value)[jnp.ndim(value) - q.arg_constraints[name].event_dim :]
        args[name] = jnp.broadcast_to(value, q.batch_shape + event)
    return args


def _scores(q: dist.Distribution, x: Array) -> dict[str, Array]:
    r"""$\nabla_\theta \log q(\xi_s)$ for every sample."""

    def score(point: Array) -> dict[str, Array]:
        return jax.grad(lambda args: jnp.sum(rebuild(law_of(q), args).log_prob(point)))(_broadcast_arguments(q))

    return jax.vmap(score)(x)

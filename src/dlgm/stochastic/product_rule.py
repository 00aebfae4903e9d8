"""The product rule for integrals: the derivative in theta as a derivative in x."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.stochastic.derivatives import gradient
from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, base_draw, transport
from dlgm.stochastic.exponential_family import FAMILIES, ExponentialFamily
from dlgm.stochastic.smoothness import refuse_steps
from dlgm.stochastic.weak import weak

_DIVERGES = (
    "ProductRule cannot estimate the gradient in {names} of the {family} law. There B(x) = d_theta log p / d_x log p "
    "has a pole where the density is flat (its mode), d_x[B f] behaves like 1/(x - mode)^2 beside it, and no average "
    "of that converges. Use Implicit(), the second formulation, or Pathwise(). If f and its first derivative vanish "
    "at the mode the integral is finite: then pass ProductRule(allow_divergent=True)."
)


class ProductRule(AbstractEstimator):
    r"""The first formulation of the paper's app. C.1, for one-dimensional exponential families.

    $$\nabla_\theta E_p[f(x)] = -E_p\left[\partial_x \left(B_\theta(x) f(x)\right)\right], \qquad
      B_\theta(x) = \frac{\partial_\theta \log p}{\partial_x \log p}$$

    **Arguments**

    - `family`: an `ExponentialFamily`; by default the one of the law's class (Normal, InverseGamma, LogNormal, Wald).
    - `allow_divergent`: estimate also where the family does not declare the parameter `regular`.

    **Laws.** Laws of one real variable whose natural form is given.

    **Regularity.** `f` differentiable; $B f p$ zero at the ends of the support; no zero of $\partial_x \log p$ inside
    it unless $\partial_\theta \log p$ is zero there as well. The last is a hard condition: a density with a mode
    meets it for a location parameter only. Differentiating in a parameter that does not is refused, for it would
    diverge.

    **Cost.** One derivative of `f` and two of `B` a sample.
    """

    family: ExponentialFamily | None = None
    allow_divergent: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.family is not None and not isinstance(self.family, ExponentialFamily):
            raise TypeError(f"ProductRule: expected `family` to be an ExponentialFamily; got {self.family!r}.")

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """The base draws."""
        if q.event_dim != 0:
            raise TypeError(
                f"ProductRule works on laws of one real variable; {type(q).__name__} has events of shape "
                f"{q.event_shape}. Use Pathwise() or, for dlgm's Gaussians, BonnetPrice()."
            )
        draws = base_draw(q, key, num_samples)
        refuse_steps(f, jax.eval_shape(transport, q, draws), estimator="ProductRule")
        return draws

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        """`f` at the draws, with the product rule as its derivative."""
        family = self._family_of(q)
        theta = jax.tree.map(lambda value: jnp.asarray(value, jnp.result_type(float, value)), family.theta(q))
        return weak(_Product(family, self.allow_divergent), f, theta, transport(q, draws))

    def _family_of(self, q: dist.Distribution) -> ExponentialFamily:
        if self.family is not None:
            return self.family
        if type(q) not in FAMILIES:
            known = ", ".join(law.__name__ for law in FAMILIES)
            raise TypeError(
                f"ProductRule knows the natural form of {known}; got {type(q).__name__}. "
                "Pass ProductRule(family=ExponentialFamily(...))."
            )
        return FAMILIES[type(q)]


class _Product(eqx.Module):
    """The rule: minus the derivative of B f, for the parameters that are being differentiated in."""

    family: ExponentialFamily
    allow_divergent: bool = eqx.field(static=True)

    def __call__(self, f: Pointwise, theta: dict[str, Array], d_theta: dict[str, Array | None], x: Array) -> Array:
        live = {name: d for name, d in d_theta.items() if d is not None}
        refused = [name for name in live if name not in self.family.regular]
        if refused and not self.allow_divergent:
            raise ValueError(_DIVERGES.format(names=", ".join(refused), family=self.family.name))
        total = jnp.zeros_like(x)
        for removable in (True, False):
            moving = {name: d for name, d in live.items() if (name in self.family.regular) == removable}
            if moving:
                d_full = {name: moving.get(name, jnp.zeros_like(value)) for name, value in theta.items()}
                total -= gradient(_product(f, partial(self.family.B_along, theta, d_full, removable=removable)), x)
        return total


def _product(f: Pointwise, B: Pointwise) -> Pointwise:
    return lambda x: B(x) * f(x)

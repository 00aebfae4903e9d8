"""Exponential families in natural form, and the four that the product rule comes with."""

from collections.abc import Callable, Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from jaxtyping import Float

from dlgm.stochastic.transforms.wald import Wald

Theta = dict[str, Array]

_NEAR_MODE = 0.03  # in units of the width of the mode


def _derivative(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


class ExponentialFamily(eqx.Module):
    r"""$p(x \mid \theta) = h(x) \exp(\eta(\theta)^\top \phi(x) - A(\theta))$, for one real $x$.

    **Arguments**

    - `name`: for messages.
    - `theta`: reads $\theta$, by name, off a numpyro law.
    - `log_h`, `phi`: functions of $x$; `phi` returns one array for each natural parameter.
    - `eta`, `A`: functions of $\theta$; `eta` returns as many.
    - `regular`: the names of the parameters for which $B$ has no pole inside the support and $B f p$ vanishes at its
      ends, so that the product rule's integral converges. Leave one out if unsure.

    $$B_\theta(x)
      = \frac{\nabla_\theta\eta^\top \phi(x) - \nabla_\theta A}{\partial_x \log h(x) + \eta^\top \partial_x\phi(x)}
      = \frac{\partial_\theta \log p}{\partial_x \log p}$$
    """

    name: str = eqx.field(static=True)
    theta: Callable[[dist.Distribution], Theta] = eqx.field(static=True)
    log_h: Callable[[Array], Array] = eqx.field(static=True)
    phi: Callable[[Array], Sequence[Array]] = eqx.field(static=True)
    eta: Callable[[Theta], Sequence[Array]] = eqx.field(static=True)
    A: Callable[[Theta], Array] = eqx.field(static=True)
    regular: tuple[str, ...] = eqx.field(static=True, default=())

    def log_prob(self, theta: Theta, x: Float[Array, "*points"]) -> Float[Array, "*points"]:
        """The log density, from the natural form."""
        return self.log_h(x) + self._exponent(theta, x)

    def _exponent(self, theta: Theta, x: Array) -> Array:
        return sum((e * t for e, t in zip(self.eta(theta), self.phi(x), strict=True)), -self.A(theta))

    def slope(self, theta: Theta, x: Float[Array, "*points"]) -> Float[Array, "*points"]:
        r"""$\partial_x \log p$, the denominator of $B$."""
        return _derivative(partial(self.log_prob, theta))(x)

    def score(self, theta: Theta, d_theta: Theta, x: Float[Array, "*points"]) -> Float[Array, "*points"]:
        r"""$\partial_\theta \log p \cdot d\theta$, the numerator of $B$."""
        return jax.jvp(lambda t: self._exponent(t, x), (theta,), (d_theta,))[1]

    def B(self, theta: Theta, x: Float[Array, "*points"]) -> dict[str, Float[Array, "*points"]]:
        r"""$B_\theta(x)$ for every parameter."""
        zeros = {name: jnp.zeros_like(value) for name, value in theta.items()}
        return {
            name: self.B_along(theta, zeros | {name: jnp.ones_like(value)}, x, removable=name in self.regular)
            for name, value in theta.items()
        }

    def B_along(
        self, theta: Theta, d_theta: Theta, x: Float[Array, "*points"], *, removable: bool
    ) -> Float[Array, "*points"]:
        r"""$B_\theta(x) \cdot d\theta$. At a mode it is 0/0 where `removable`, and has a pole otherwise.

        Near such a 0/0, at a distance $\delta$, rounding would swamp $N / D$ and more so its derivative. There it is
        computed from expansions: $(N' - \frac12 N'' \delta) / (D' - \frac12 D'' \delta)$ with $\delta = D / D'$.
        """
        N, D = partial(self.score, theta, d_theta), partial(self.slope, theta)
        if not removable:
            return N(x) / D(x)
        N1, D1 = _derivative(N), _derivative(D)
        N2, D2 = _derivative(N1), _derivative(D1)
        near = jnp.abs(D(x)) < _NEAR_MODE * jnp.sqrt(jnp.abs(D1(x)))
        # The branch that is not taken is evaluated at harmless values, for its derivative is formed all the same.
        steep = jnp.where(near, D1(x), 1.0)
        delta = jnp.where(near, D(x), 0.0) / steep
        expanded = (N1(x) - 0.5 * N2(x) * delta) / (steep - 0.5 * jnp.where(near, D2(x), 0.0) * delta)
        return jnp.where(near, expanded, N(x) / jnp.where(near, 1.0, D(x)))


GAUSSIAN = ExponentialFamily(
    name="Gaussian",
    theta=lambda q: {"mu": q.loc, "sigma2": q.scale**2},
    log_h=lambda x: jnp.full_like(x, -0.5 * jnp.log(2 * jnp.pi)),
    phi=lambda x: (x, x**2),
    eta=lambda t: (t["mu"] / t["sigma2"], -0.5 / t["sigma2"]),
    A=lambda t: 0.5 * t["mu"] ** 2 / t["sigma2"] + 0.5 * jnp.log(t["sigma2"]),
    regular=("mu",),
)

INVERSE_GAMMA = ExponentialFamily(
    name="inverse Gamma",
    theta=lambda q: {"alpha": q.concentration, "beta": q.rate},
    log_h=lambda x: -jnp.log(x),
    phi=lambda x: (-jnp.log(x), -1 / x),
    eta=lambda t: (t["alpha"], t["beta"]),
    A=lambda t: gammaln(t["alpha"]) - t["alpha"] * jnp.log(t["beta"]),
)

LOG_NORMAL = ExponentialFamily(
    name="log-Normal",
    theta=lambda q: {"mu": q.loc, "sigma2": q.scale**2},
    log_h=lambda x: -jnp.log(x) - 0.5 * jnp.log(2 * jnp.pi),
    phi=lambda x: (jnp.log(x), jnp.log(x) ** 2),
    eta=GAUSSIAN.eta,
    A=GAUSSIAN.A,
)

WALD = ExponentialFamily(
    name="Wald",
    theta=lambda q: {"mu": q.loc, "lam": q.concentration},
    log_h=lambda x: -1.5 * jnp.log(x) - 0.5 * jnp.log(2 * jnp.pi),
    phi=lambda x: (x, 1 / x),
    eta=lambda t: (-0.5 * t["lam"] / t["mu"] ** 2, -0.5 * t["lam"]),
    A=lambda t: -t["lam"] / t["mu"] - 0.5 * jnp.log(t["lam"]),
)

FAMILIES: dict[type[dist.Distribution], ExponentialFamily] = {
    dist.Normal: GAUSSIAN,
    dist.InverseGamma: INVERSE_GAMMA,
    dist.LogNormal: LOG_NORMAL,
    Wald: WALD,
}

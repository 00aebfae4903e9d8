"""The generative model of the paper's section 2: Gaussian layers, deep maps between them, any observation family."""

import math
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key

from dlgm.model.networks import MLP
from dlgm.model.observations import AbstractObservation
from dlgm.model.scales import AbstractScale, FullScale, ScalarScale


class GenerativeModel(eqx.Module):
    r"""$\xi_l \sim N(0, I)$; $h_L = G_L \xi_L$; $h_l = T_l(h_{l+1}) + G_l \xi_l$; $v \sim \pi(v \mid T_0(h_1))$.

    Everything is written for one row; `jax.vmap` makes batches. The latents of all layers travel as one vector
    $\xi = (\xi_1, \dots, \xi_L)$, the layer next to the data first; `split` takes it apart.

    **Fields**

    - `networks`: $T_0, \dots, T_{L-1}$.
    - `scales`: $G_1, \dots, G_L$.
    - `observation`: $\pi$.
    - `kappa`: the variance of the Gaussian prior on every generative parameter.
    - `skip`: whether $T_0$ takes the states of all layers, $T_0(h_1, \dots, h_L)$.
    """

    networks: tuple[MLP, ...]
    scales: tuple[AbstractScale, ...]
    observation: AbstractObservation
    latent: tuple[int, ...] = eqx.field(static=True)
    kappa: float = eqx.field(static=True)
    skip: bool = eqx.field(static=True, default=False)

    def split(self, xi: Float[Array, "*lead k"]) -> tuple[Float[Array, "..."], ...]:
        """The latents of each layer, 1 to L."""
        return tuple(jnp.split(xi, list(accumulate(self.latent))[:-1], axis=-1))

    def states(self, xi: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$h(\xi)$, eqs. 2-3: the layers' states, in the order of `xi`."""
        layers = self.split(xi)
        h = [self.scales[-1].times(layers[-1])]
        for T, G, xi_l in reversed(list(zip(self.networks[1:], self.scales[:-1], layers[:-1], strict=True))):
            h.append(T(h[-1]) + G.times(xi_l))
        return jnp.concatenate(h[::-1])

    def noise(self, h: Float[Array, " k"]) -> Float[Array, " k"]:
        r"""$\xi(h)$, the inverse of `states`: $\xi_l = G_l^{-1} (h_l - T_l(h_{l+1}))$."""
        layers = self.split(h)
        means = [T(above) for T, above in zip(self.networks[1:], layers[1:], strict=True)]
        means.append(jnp.zeros(self.latent[-1]))
        residuals = zip(self.scales, layers, means, strict=True)
        return jnp.concatenate([G.solve(h_l - mean) for G, h_l, mean in residuals])

    def outputs(self, xi: Float[Array, " k"]) -> Float[Array, " p"]:
        r"""$T_0(h_1(\xi))$: the parameters of the observation family."""
        return self._outputs_of_states(self.states(xi))

    def folded(self) -> "GenerativeModel":
        r"""A model with the same `outputs` and the same rows, in which $G_L$ is part of the map after it.

        A product fewer for each draw, where there are many. Its `states` are not those of this model: $h_L = \xi_L$.
        """
        top = self.networks[-1]
        # What skips layers takes G as well.
        if top.activate_input or (self.skip and len(self.latent) > 1) or not isinstance(self.scales[-1], FullScale):
            return self
        G = self.scales[-1].matrix
        maps = [lambda model: model.networks[-1].layers[0].weight]
        if top.linear is not None:
            maps.append(lambda model: model.networks[-1].linear)
        return eqx.tree_at(
            lambda model: (*(at(model) for at in maps), model.scales[-1]),
            self,
            (*(at(self) @ G for at in maps), ScalarScale(self.latent[-1])),
        )

    def _outputs_of_states(self, h: Float[Array, " k"]) -> Float[Array, " p"]:
        return self.networks[0](h if self.skip else self.split(h)[0])

    def log_likelihood(
        self, v: Float[Array, " x"], xi: Float[Array, " k"], mask: Bool[Array, " x"] | None = None
    ) -> Float[Array, ""]:
        r"""$\log p(v \mid h(\xi))$ over the observed cells."""
        return jnp.sum(self.observation.log_prob(v, self.outputs(xi), mask))

    def log_joint(
        self, v: Float[Array, " x"], xi: Float[Array, " k"], mask: Bool[Array, " x"] | None = None
    ) -> Float[Array, ""]:
        r"""$\log p(v, \xi) = \log p(v \mid h(\xi)) + \sum_l \log N(\xi_l \mid 0, I)$ (eq. 6)."""
        return self.log_likelihood(v, xi, mask) + log_standard_normal(xi)

    def log_joint_of_states(
        self, v: Float[Array, " x"], h: Float[Array, " k"], mask: Bool[Array, " x"] | None = None
    ) -> Float[Array, ""]:
        r"""$\log p(v, h) = \log p(v \mid h_1) + \sum_l \log N(h_l \mid T_l(h_{l+1}), G_l G_l^\top)$ (eq. 5).

        The change of variables of app. A: $\log p(v, \xi) = \log p(v, h(\xi)) + \sum_l \log|\det G_l|$.
        """
        log_v = jnp.sum(self.observation.log_prob(v, self._outputs_of_states(h), mask))
        return log_v + log_standard_normal(self.noise(h)) - sum(G.log_abs_det for G in self.scales)

    def penalty(self) -> Float[Array, ""]:
        r"""$|\theta_g|^2 / (2 \kappa)$: the free energy's term for the parameters' prior $N(0, \kappa I)$."""
        leaves = jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array))
        return sum((jnp.sum(leaf**2) for leaf in leaves), start=jnp.zeros(())) / (2 * self.kappa)

    def sample_latents(self, key: Key[Array, ""]) -> Float[Array, " k"]:
        r"""$\xi \sim N(0, I)$."""
        return jax.random.normal(key, (sum(self.latent),))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " x"]:
        """One new row, by ancestral sampling."""
        key_xi, key_v = jax.random.split(key)
        return self.observation.sample(self.outputs(self.sample_latents(key_xi)), key_v)


def log_standard_normal(xi: Float[Array, "*lead k"]) -> Float[Array, "*lead"]:
    r"""$\log N(\xi \mid 0, I)$."""
    return -0.5 * (jnp.sum(xi**2, axis=-1) + xi.shape[-1] * math.log(2 * math.pi))

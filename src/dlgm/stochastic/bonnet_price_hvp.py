"""Bonnet and Price with Hessian-vector products in place of the Hessian."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.stochastic.bonnet_price import refuse_kinks, require_gaussian
from dlgm.stochastic.derivatives import gradient, hessian_times
from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, arguments, base_draw, law_of, rebuild, transport
from dlgm.stochastic.weak import weak


class BonnetPriceHVP(AbstractEstimator):
    r"""Gaussian backpropagation (paper, eq. 9) without forming the Hessian.

    With $C = R R^\top$, $dC = dR\,R^\top + R\,dR^\top$, so that Price's term is a sum over any vectors $\zeta$ with
    $\sum \zeta\zeta^\top = I$, or an average over random ones with $E[\zeta\zeta^\top] = I$:
    $$\tfrac12 \mathrm{Tr}(H\, dC) = \sum_\zeta (dR\,\zeta)^\top H (R\,\zeta).$$
    Each term needs one Hessian product and one `factor_times`, $O(K)$ for the diagonal and rank-one Gaussians.

    **Arguments**

    - `num_probes`: how many random sign vectors $\zeta$ a sample, or `None` for the K unit vectors, one after another,
      which gives `BonnetPrice`'s very numbers.

    **Laws** and **regularity** are those of `BonnetPrice`.

    **Cost.** `num_probes` (or K) Hessian products of `f` a sample; memory $O(K)$ a probe, and never K by K for a
    diagonal, rank-one or rank-r Gaussian.
    """

    num_probes: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.num_probes is not None and self.num_probes < 1:
            raise ValueError(f"BonnetPriceHVP: expected `num_probes` to be None or at least 1; got {self.num_probes}.")

    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """The base draws and, where asked for, random probes, all of them with the samples first."""
        draw_key, probe_key = jax.random.split(key)
        eps = base_draw(require_gaussian(q, "BonnetPriceHVP"), draw_key, num_samples)
        refuse_kinks(f, eps, "BonnetPriceHVP")
        if self.num_probes is None:
            return eps, None
        shape = (num_samples, self.num_probes, *eps.shape[1:])
        return eps, jax.random.rademacher(probe_key, shape, eps.dtype)

    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        """`f` at the draws, with eq. 9 as its derivative."""
        q = require_gaussian(q, "BonnetPriceHVP")
        eps, probes = draws
        return weak(_ProbedPrice(probes, law_of(q)), f, arguments(q), transport(q, eps))


class _ProbedPrice(eqx.Module):
    """The rule, holding its probes; `law` is what `rebuild` makes of the arguments."""

    probes: Float[Array, "s p *batch k"] | None
    law: Any = eqx.field(static=True)

    def __call__(self, f: Pointwise, theta: dict[str, Array], d_theta: dict[str, Array | None], x: Array) -> Array:
        d_theta_full = {name: jnp.zeros_like(theta[name]) if d is None else d for name, d in d_theta.items()}
        _, d_mu = jax.jvp(lambda args: rebuild(self.law, args).mean, (theta,), (d_theta_full,))
        bonnet = jnp.sum(gradient(f, x) * d_mu, axis=-1)

        def price(zeta: Array) -> Array:
            def scaled(args: dict[str, Array]) -> Array:
                return rebuild(self.law, args).factor_times(zeta)

            v, dv = jax.jvp(scaled, (theta,), (d_theta_full,))
            return jnp.sum(dv * hessian_times(f, x, jnp.broadcast_to(v, x.shape)), axis=-1)

        if self.probes is not None:
            return bonnet + jnp.mean(jax.vmap(price)(jnp.moveaxis(self.probes, 1, 0)), axis=0)
        K = x.shape[-1]

        # Checkpointed, for otherwise the backward pass would keep every H R e_i, and so the Hessian after all.
        @jax.checkpoint
        def add(total: Array, i: Array) -> tuple[Array, None]:
            return total + price(jax.nn.one_hot(i, K, dtype=x.dtype)), None

        return jax.lax.scan(add, bonnet, jnp.arange(K))[0]

"""KL divergences between structured Gaussians, and with numpyro's own Gaussians, under numpyro's `kl_divergence`."""

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float
from numpyro.distributions.kl import kl_divergence

from dlgm.gaussians.diagonal import DiagonalGaussian
from dlgm.gaussians.full import FullGaussian
from dlgm.gaussians.gaussian import AbstractGaussian


def kl_between_gaussians(p: AbstractGaussian, q: AbstractGaussian) -> Float[Array, "*batch"]:
    r"""The KL divergence of two Gaussians of any structure.

    $$KL(p\|q) = \tfrac12 \left[\mathrm{Tr}(C_q^{-1} C_p) + |R_q^{-1}(\mu_p - \mu_q)|^2 - K
      + \log|C_q| - \log|C_p|\right]$$
    """
    if p.event_shape != q.event_shape:
        raise ValueError(
            "kl_divergence: expected two Gaussians over the same number of latents; "
            f"got K = {p.event_shape[0]} and K = {q.event_shape[0]}."
        )
    z = q.solve_factor(p.mean - q.mean)
    return 0.5 * (q.excess_trace(p) + jnp.sum(z * z, axis=-1) + q.log_det - p.log_det)


def as_gaussian(law: dist.Distribution) -> AbstractGaussian:
    """A numpyro `Normal(...).to_event(1)` or `MultivariateNormal` as one of the structured Gaussians.

    >>> as_gaussian(dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    DiagonalGaussian(K=3, batch_shape=())
    """
    if isinstance(law, AbstractGaussian):
        return law
    if isinstance(law, dist.MultivariateNormal):
        return FullGaussian(mean=law.mean, scale_tril=law.scale_tril)
    if isinstance(law, dist.Independent) and law.event_dim == 1:
        base = law.base_dist
        while isinstance(base, dist.ExpandedDistribution):
            base = base.base_dist
        if isinstance(base, dist.Normal):
            return DiagonalGaussian(mean=law.mean, log_d=-jnp.log(law.variance))
    raise NotImplementedError(
        f"Expected a Gaussian over vectors: one of dlgm's, Normal(...).to_event(1) or MultivariateNormal; got {law!r}."
    )


def _kl_via_conversion(p: dist.Distribution, q: dist.Distribution) -> Float[Array, "*batch"]:
    return kl_between_gaussians(as_gaussian(p), as_gaussian(q))


kl_divergence.add((AbstractGaussian, AbstractGaussian), kl_between_gaussians)
for _theirs in (dist.Independent, dist.MultivariateNormal):
    kl_divergence.add((AbstractGaussian, _theirs), _kl_via_conversion)
    kl_divergence.add((_theirs, AbstractGaussian), _kl_via_conversion)

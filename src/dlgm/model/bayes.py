r"""Variational Bayes over the generative parameters (the paper's second appendix, eqs. 28-29): $q(\theta)$ and its KL.

$q(\theta) = \prod_j N(m_j, \tau_j)$, with $\tau_j$ a variance. The means $m$ are a `GenerativeModel`, which is where a
model keeps its parameters anyway; this file adds the variances, the prior, and draws.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dlgm.model.generative import GenerativeModel
from dlgm.names import require_one_of

PRIORS = ("constant", "fan-in", "learned")
_START = 0.1  # standard deviation of a parameter at the start, over that of a weight with fan-in scaled random values


class ParameterPosterior(eqx.Module):
    r"""The variances of $q(\theta_j) = N(m_j, \tau_j)$ over the generative parameters, and the prior $N(0, \kappa_j)$.

    **Fields**

    - `log_tau`: $\log \tau_j$ of each parameter, in the place that the parameter has in its `GenerativeModel`.
    - `prior`: where $\kappa_j$ comes from, with $\kappa$ that of the generative model.

    | `prior` | $\kappa_j$ |
    | --- | --- |
    | `"constant"` | $\kappa$, the paper's |
    | `"fan-in"` | $\kappa$ over the number of inputs for weights, $\kappa$ for all else: outputs stay of one size |
    | `"learned"` | the mean of $m^2 + \tau$ over the weights into the same unit, or over the biases of a layer |

    The last is empirical Bayes: these $\kappa_j$ make the KL smallest. A unit that has nothing to say, such as a pixel
    that is always black, then costs nothing, where a single $\kappa$ for all of its layer would have it pay.

    >>> import jax
    >>> from dlgm.model import ModelConfig, build_model, make_observation
    >>> config = ModelConfig(make_observation("bernoulli", columns=4).config(), latent=(2,), hidden=(3,), bayes=True)
    >>> model = build_model(config, key=jax.random.key(0))
    >>> a, b = (model.drawn(jax.random.key(i)).generative.networks[0].layers[0].weight for i in (1, 2))
    >>> a.shape, bool((a == b).any())
    ((3, 2), False)
    """

    log_tau: GenerativeModel
    prior: str = eqx.field(static=True, default="constant")

    def __check_init__(self) -> None:
        require_one_of("prior", self.prior, PRIORS)

    def drawn(self, mean: GenerativeModel, key: Key[Array, ""]) -> GenerativeModel:
        r"""$\theta_j = m_j + \sqrt{\tau_j}\, \epsilon_j$, differentiable in $m$ and $\tau$."""
        leaves, tree = jax.tree.flatten(mean)
        log_taus = jax.tree.leaves(self.log_tau)
        keys = jax.random.split(key, len(leaves))
        return jax.tree.unflatten(
            tree,
            [
                m + jnp.exp(0.5 * log_tau) * jax.random.normal(k, m.shape, m.dtype)
                for m, log_tau, k in zip(leaves, log_taus, keys, strict=True)
            ],
        )

    def divergence(self, mean: GenerativeModel) -> Float[Array, ""]:
        r"""$KL(q(\theta) \,\|\, p(\theta))$, the last line of eq. 28.

        $\frac12 \sum_j [(m_j^2 + \tau_j) / \kappa_j + \log \kappa_j - \log \tau_j - 1]$
        """
        total = jnp.zeros(())
        for m, log_tau in zip(jax.tree.leaves(mean), jax.tree.leaves(self.log_tau), strict=True):
            second = m**2 + jnp.exp(log_tau)
            kappa = self._kappa(second, mean.kappa)
            total += 0.5 * jnp.sum(second / kappa + jnp.log(kappa) - log_tau - 1)
        return total

    def prior_variances(self, mean: GenerativeModel) -> GenerativeModel:
        r"""$\kappa_j$, in the parameters' places: a number for each array, or a column with one for each unit."""
        return jax.tree.map(lambda m, log_tau: self._kappa(m**2 + jnp.exp(log_tau), mean.kappa), mean, self.log_tau)

    def _kappa(self, second: Float[Array, "..."], kappa: float) -> Float[Array, "..."]:
        if self.prior == "learned":
            return jnp.mean(second, axis=-1, keepdims=True) if second.ndim == 2 else jnp.mean(second)
        return jnp.asarray(kappa / _fan_in(second) if self.prior == "fan-in" else kappa, second.dtype)


def start_posterior(generative: GenerativeModel, prior: str) -> ParameterPosterior:
    """Narrow variances around a model's parameters: it starts to learn almost as if it had none."""
    log_tau = jax.tree.map(lambda m: jnp.full(m.shape, 2 * jnp.log(_START / _fan_in(m) ** 0.5), m.dtype), generative)
    return ParameterPosterior(log_tau, prior)


def _fan_in(array: Float[Array, "..."]) -> int:
    """How many numbers each of the outputs is a sum of: the columns of a matrix; one, for a bias or a scale."""
    return array.shape[1] if array.ndim == 2 else 1

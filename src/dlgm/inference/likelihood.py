"""How likely is a row: importance sampling from the recognition model (paper, app. E)."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float, Int, Key, UInt32

from dlgm.inference.laplace import laplace
from dlgm.inference.rows import map_rows, row_key
from dlgm.keys import quick_key
from dlgm.model import GenerativeModel, Model
from dlgm.model.generative import log_standard_normal

# Rows, and samples of each, that are decoded together: about a thousand rows of the generative model's work at a time.
# Samples that are decoded together share a draw of a Bayesian model's parameters: fewer, so that there are more draws.
_POINT, _BAYESIAN = (20, 50), (100, 10)
_START = 2**31 - 1  # the branch of a row's key that a start is drawn from: beyond those of its samples


class Likelihood(NamedTuple):
    """What importance sampling says of each row, in nats."""

    log_p: Float[Array | np.ndarray, " n"]  # the estimate of log p(v): slightly low on average, exact as samples grow
    standard_error: Float[
        Array | np.ndarray, " n"
    ]  # Monte Carlo error of log_p (delta method); NaN with a single sample, or a single draw of the parameters
    effective_sample_size: Float[Array | np.ndarray, " n"]  # (sum w)^2 / sum w^2, from 1 to the number of samples
    bound: Float[Array | np.ndarray, " n"]  # the mean of log w: an estimate of the variational bound

    def mean(self) -> tuple[float, float]:
        """The mean of log p over rows, and the standard error of that mean (rows taken as drawn from a population)."""
        return mean_and_error(np.asarray(self.log_p))


def mean_and_error(scores: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The mean, and its standard error; NaN for the error of a single score."""
    n = len(scores)
    spread = np.std(scores, ddof=1, dtype=np.float64) / np.sqrt(n) if n > 1 else float("nan")
    return float(np.mean(scores, dtype=np.float64)), float(spread)


def log_likelihood(
    model: Model,
    rows: Any,
    mask: Any = None,
    *,
    num_samples: int = 5000,
    newton: int = 0,
    key: Key[Array, ""],
    progress: Callable[[int], None] | None = None,
) -> Likelihood:
    r"""$\log p(v) \approx \mathrm{logmeanexp}_s [\log p(v \mid h(\xi_s)) + \log p(\xi_s) - \log q(\xi_s \mid v)]$.

    Samples are streamed: memory grows neither with their number nor with the number of rows (beyond the answer itself).
    A row's draws come from `key` and the row's own content, so its score is the same whatever other rows come with it.
    Holes are marginalised: the answer is the likelihood of what was observed.

    For a Bayesian model it is $\log E_{q(\theta)}[p(v \mid \theta)]$: every ten samples have a new draw of the
    parameters, which comes from `key` and is the same for all rows. (`model.at_mean()` is scored without.)

    **Arguments**

    - `rows`, `mask`: shape `(n, x)`, and which cells were observed (all, by default).
    - `num_samples`: $S$. The paper reports with 5,000.
    - `newton`: steps to the peak of each row's own posterior. With any, half of the samples come from a Gaussian there,
      and $q$ in the weights is the mixture: for rows that a recognition model, trained on few, does not understand.
    - `progress`: called with the number of rows done after each block.
    """
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples < 1:
        raise ValueError(f"num_samples: expected a whole number of at least 1; got {num_samples!r}.")
    if not isinstance(newton, int) or isinstance(newton, bool) or newton < 0:
        raise ValueError(f"newton: expected a whole number of at least 0; got {newton!r}.")
    size, _ = _POINT if model.parameters is None else _BAYESIAN
    score = partial(_score_block, newton=newton)
    return map_rows(model, lambda v, m, h: score(model, v, m, h, key, num_samples), rows, mask, size, progress)


@partial(jax.jit, static_argnames="newton")
def _score_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"] | None,
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    num_samples: Int[Array, ""] | int,
    newton: int = 0,
) -> Likelihood:
    point = model.generative.folded()
    _, together = _POINT if model.parameters is None else _BAYESIAN

    def one(v: Float[Array, " x"], m: Bool[Array, " x"] | None, row_hash: UInt32[Array, "2"]) -> Likelihood:
        own = row_key(key, row_hash)
        propose = _proposals(model, point, v, m, own, newton)

        def log_weight(generative: GenerativeModel, k: Key[Array, ""]) -> Float[Array, ""]:
            xi, log_q = propose(k)
            return generative.log_likelihood(v, xi, m) + log_standard_normal(xi) - log_q

        def add(i: Int[Array, ""], sums: tuple[Array, ...]) -> tuple[Array, ...]:
            generative = point
            if model.parameters is not None:  # not a function of the row: drawn once for all rows of the block
                generative = model.drawn(jax.random.fold_in(quick_key(key), i)).generative.folded()
            keys = jax.random.split(jax.random.fold_in(own, i), together)
            log_w = jax.vmap(partial(log_weight, generative))(keys)
            wanted = i * together + jnp.arange(together) < num_samples
            first, second, total, *of_draws = sums
            masked = jnp.where(wanted, log_w, -jnp.inf)
            block = logsumexp(masked)
            return (
                jnp.logaddexp(first, block),
                jnp.logaddexp(second, logsumexp(2 * masked)),
                total
                + (jnp.sum(jnp.where(wanted, log_w, 0)) - total * jnp.sum(wanted))
                / jnp.minimum((i + 1) * together, num_samples),
                *(jnp.logaddexp(squares, 2 * block) for squares in of_draws),
            )

        nothing = jnp.asarray(-jnp.inf, jnp.float32)
        num_blocks = -(-num_samples // together)
        start = (nothing, nothing, jnp.zeros(()), *([] if model.parameters is None else [nothing]))
        log_sum, log_sum_squares, mean, *of_draws = jax.lax.fori_loop(0, num_blocks, add, start)
        S = jnp.asarray(num_samples, jnp.float32)
        ess = jnp.exp(2 * log_sum - log_sum_squares)
        # Var(mean w) / (mean w)^2 = (S / ess - 1) / (S - 1); rounding must not make it negative. Samples that share a
        # draw of the parameters are not independent: there the same holds for the sums over each draw's samples.
        units, independent = S, ess
        if of_draws:
            units, independent = jnp.asarray(num_blocks, jnp.float32), jnp.exp(2 * log_sum - of_draws[0])
        relative = jnp.maximum(units / independent - 1, 0) / (units - 1)
        found = Likelihood(log_sum - jnp.log(S), jnp.sqrt(relative), jnp.minimum(ess, S), mean)
        if m is None:
            return found
        # Nothing at all is certain: the probability of an empty row is one.
        nothing_seen = Likelihood(jnp.zeros(()), jnp.zeros(()), S, mean)
        return jax.tree.map(lambda a, b: jnp.where(jnp.any(m), a, b), found, nothing_seen)

    return jax.vmap(one)(rows, mask, hashes)


def _proposals(
    model: Model,
    generative: GenerativeModel,
    v: Float[Array, " x"],
    mask: Bool[Array, " x"] | None,
    key: Key[Array, ""],
    newton: int,
) -> Callable[[Key[Array, ""]], tuple[Float[Array, " k"], Float[Array, ""]]]:
    """A draw of the latents behind a row with its log density: the recognition model's, or half of it Laplace's.

    The peak is that of `generative`. Of a Bayesian model this is the one at the mean of the parameters: any law of
    proposals is right that does not depend on the draw it is weighted with.
    """
    posterior = model.posterior(v, mask)

    def recognised(k: Key[Array, ""]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        xi, _ = posterior.sample(k)
        return xi, posterior.log_prob(xi)

    if not newton:
        return recognised
    start = posterior.gaussian(jax.random.fold_in(key, _START)).mean
    peak = laplace(generative, v, jnp.ones(v.shape, bool) if mask is None else mask, start, newton)

    def mixed(k: Key[Array, ""]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        key_which, key_xi = jax.random.split(k)
        at_peak = jax.random.bernoulli(key_which)
        xi = jnp.where(at_peak, peak.sample(key_xi)[0], posterior.sample(key_xi)[0])
        return xi, jnp.logaddexp(peak.log_prob(xi), posterior.log_prob(xi)) - jnp.log(2.0)

    return mixed

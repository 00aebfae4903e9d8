r"""How likely a row is to a deep belief network: a bound, and importance sampling, with draws of $q(h \mid v)$."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import sigmoid, softplus
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int, Key, UInt8, UInt32

from dlgm.baselines.boltzmann import BoltzmannMachine, draw_bits
from dlgm.inference.rows import blocks, row_key

_ROWS, _SAMPLES = 20, 50  # drawn together


class BoundedLikelihood(NamedTuple):
    """What draws of q(h | v) say of each row, in nats, given log Z of the top machine.

    An error in that shifts all rows alike: an annealed log Z is low on average, and all these high by as much.
    """

    bound: Float[np.ndarray, " n"]  # an unbiased estimate of the variational bound on log p(v)
    bound_error: Float[np.ndarray, " n"]  # its standard error; NaN with a single sample
    log_p: Float[np.ndarray, " n"]  # the estimate by importance sampling: low on average, exact as samples grow
    log_p_error: Float[np.ndarray, " n"]  # its standard error (delta method); NaN with a single sample
    effective_sample_size: Float[np.ndarray, " n"]  # (sum w)^2 / sum w^2


def log_bits(bits: Float[Array, "*#n x"], logits: Float[Array, "*#n x"]) -> Float[Array, "..."]:
    r"""$\sum_i \log \mathrm{Bernoulli}(v_i)$, of bits with these logits."""
    return jnp.sum(bits * logits - softplus(logits), axis=-1)


def entropy(logits: Float[Array, "*n x"]) -> Float[Array, "*n"]:
    r"""$H = \sum_i \log(1 + e^{l_i}) - l_i \sigma(l_i)$ of independent bits."""
    return jnp.sum(softplus(logits) - logits * sigmoid(logits), axis=-1)


def score_rows(
    first: BoltzmannMachine,
    top: BoltzmannMachine,
    log_z: float,
    v: UInt8[np.ndarray, "n x"],
    num_samples: int,
    key: Key[Array, ""],
) -> BoundedLikelihood:
    """Bound and estimate for each row, with `log_z` of the top machine; see `FittedDBN.likelihood`."""
    pieces = [BoundedLikelihood(*[np.zeros(0)] * 5)]
    for (block, _, hashes), real in blocks(v, None, _ROWS):
        found = _score_block(first, top, block, hashes, key, num_samples)
        pieces.append(BoundedLikelihood(*(np.asarray(leaf, np.float64)[:real] for leaf in found)))
    found = BoundedLikelihood(*map(np.concatenate, zip(*pieces, strict=True)))
    return found._replace(bound=found.bound - log_z, log_p=found.log_p - log_z)


@jax.jit
def _score_block(
    first: BoltzmannMachine,
    top: BoltzmannMachine,
    v: Float[Array, "b x"],
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    num_samples: Int[Array, ""] | int,
) -> tuple[Float[Array, " b"], ...]:
    """The fields of `BoundedLikelihood`, without log Z."""
    v = v.astype(first.weights.dtype)
    logits = first.hidden_logits(v)
    keys = jax.vmap(partial(row_key, key))(hashes)

    def add(i: Int[Array, ""], sums: tuple[Array, ...]) -> tuple[Array, ...]:
        """Running sums of w and of w^2, and mean and squares of the bound's terms (Welford's, a block at a time)."""
        own = jax.vmap(lambda key: jax.random.fold_in(key, i))(keys)
        h = jax.vmap(lambda l, key: draw_bits(jnp.broadcast_to(l, (_SAMPLES, len(l))), key))(logits, own)
        log_joint = log_bits(v[:, None], first.visible_logits(h)) - top.free_energy(h)
        log_w = log_joint - log_bits(h, logits[:, None])
        wanted = i * _SAMPLES + jnp.arange(_SAMPLES) < num_samples
        log_w = jnp.where(wanted, log_w, -jnp.inf)
        first_sum, second_sum, mean, squares = sums
        n, before = jnp.sum(wanted), i * _SAMPLES
        here = jnp.sum(jnp.where(wanted, log_joint, 0), axis=1) / n
        spread = jnp.sum(jnp.where(wanted, (log_joint - here[:, None]) ** 2, 0), axis=1)
        step = here - mean
        return (
            jnp.logaddexp(first_sum, logsumexp(log_w, axis=1)),
            jnp.logaddexp(second_sum, logsumexp(2 * log_w, axis=1)),
            mean + step * n / (before + n),
            squares + spread + step**2 * before * n / (before + n),
        )

    nothing, zero = jnp.full(len(v), -jnp.inf, v.dtype), jnp.zeros(len(v), v.dtype)
    num_blocks = -(-num_samples // _SAMPLES)
    log_sum, log_sum_squares, mean, squares = jax.lax.fori_loop(0, num_blocks, add, (nothing, nothing, zero, zero))
    S = jnp.asarray(num_samples, v.dtype)
    ess = jnp.exp(2 * log_sum - log_sum_squares)
    # Var(mean w) / (mean w)^2 = (S / ess - 1) / (S - 1); rounding must not make it negative.
    log_p_error = jnp.sqrt(jnp.maximum(S / ess - 1, 0) / (S - 1))
    bound_error = jnp.sqrt(squares / (S * (S - 1)))
    return mean + entropy(logits), bound_error, log_sum - jnp.log(S), log_p_error, jnp.minimum(ess, S)

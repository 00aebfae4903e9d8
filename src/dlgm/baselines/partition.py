r"""What a Boltzmann machine's probabilities are divided by, $Z = \sum_{v, h} e^{-E(v, h)}$: counted, or estimated.

Counting goes over the smaller side and sums out the other. Beyond about twenty units there, annealed importance
sampling (Neal, 2001; for these machines, Salakhutdinov and Murray, 2008) goes from independent bits to the machine
in many small steps, and the mean of its weights is an unbiased estimate of $Z$ over the $Z$ of independent bits.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import softplus
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int, Key

from dlgm.baselines.boltzmann import BoltzmannMachine, draw_bits
from dlgm.keys import quick_key

MAX_COUNTED = 20  # units on the smaller side up to which Z is counted
_BLOCK_BITS = 10  # states of so many units are summed together


class LogPartition(NamedTuple):
    r"""$\log Z$, and how well it is known."""

    log_z: float
    standard_error: float  # of the mean weight, relative to it: to first order that of log_z. Zero if counted
    method: str  # "counted" or "annealed"

    @property
    def low(self) -> float:
        r"""$\log(\hat Z - 3 \sigma)$; minus infinity where three standard errors reach zero."""
        left = 1 - 3 * self.standard_error
        return self.log_z + math.log(left) if left > 0 else -math.inf

    @property
    def high(self) -> float:
        r"""$\log(\hat Z + 3 \sigma)$."""
        return self.log_z + math.log1p(3 * self.standard_error)


@dataclass(frozen=True)
class Annealing:
    """Annealed importance sampling from independent bits to a machine.

    - `temperatures`: intermediate laws, of which two thirds are in the last tenth of the way, as in Salakhutdinov and
      Murray (2008), who had 14,500.
    - `chains`: independent weights, each from a chain that visits every law once.

    >>> import jax, jax.numpy as jnp
    >>> machine = BoltzmannMachine(jnp.ones((3, 2)), jnp.zeros(3), jnp.zeros(2))
    >>> annealed = Annealing(temperatures=100, chains=500)(machine, jnp.zeros(3), jax.random.key(0))
    >>> annealed.low < count_log_partition(machine).log_z < annealed.high
    True
    """

    temperatures: int = 10_000
    chains: int = 100

    def __post_init__(self) -> None:
        for name, least in (("temperatures", 1), ("chains", 2)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name}: expected at least {least}; got {getattr(self, name)!r}.")

    def betas(self) -> Float[np.ndarray, " t"]:
        """From 0 to 1, with a thirtieth of the steps up to 0.5, a quarter up to 0.9 and the rest after that."""
        steps = np.linspace(0, 1, self.temperatures + 1)
        return np.interp(steps, [0, 1 / 29, 9 / 29, 1], [0, 0.5, 0.9, 1])

    def __call__(self, machine: BoltzmannMachine, base: Float[Array, " x"], key: Key[Array, ""]) -> LogPartition:
        r"""$\log Z$ of a machine, from independent bits with the logits `base`: best, those of the data's rates."""
        log_w = np.asarray(self.log_weights(machine, base, key), np.float64)
        log_z = _log_mean(log_w)
        relative = np.std(np.exp(log_w - log_z), ddof=1) / math.sqrt(self.chains)
        return LogPartition(log_z, float(relative), "annealed")

    def log_weights(
        self, machine: BoltzmannMachine, base: Float[Array, " x"], key: Key[Array, ""]
    ) -> Float[np.ndarray, " chains"]:
        r"""The logarithm of each chain's weight, times the $Z$ of the start: the mean of $e$ to these estimates $Z$."""
        betas = jnp.asarray(self.betas(), machine.weights.dtype)
        log_w = np.asarray(_anneal(machine, base, betas, key, self.chains), np.float64)
        # At beta = 0: Z = prod_i (1 + e^base_i) 2^k.
        return (
            log_w
            + float(np.sum(np.logaddexp(0, np.asarray(base, np.float64))))
            + len(machine.hidden_bias) * math.log(2)
        )


@partial(jax.jit, static_argnames="chains")
def _anneal(
    machine: BoltzmannMachine, base: Float[Array, " x"], betas: Float[Array, " t"], key: Key[Array, ""], chains: int
) -> Float[Array, " chains"]:
    key_start, key_steps = jax.random.split(quick_key(key))

    def step(i: Int[Array, ""], at: tuple[Array, Array]) -> tuple[Array, Array]:
        v, log_w = at
        before, beta = betas[i], betas[i + 1]
        logits = machine.hidden_logits(v)
        # log p*_beta(v) = (1 - beta) base'v + beta b'v + sum_j log(1 + e^(beta (c + W'v)_j)), and its rise from the
        # law before to this one, at a draw from the law before.
        log_w += (beta - before) * (v @ (machine.visible_bias - base))
        log_w += jnp.sum(softplus(beta * logits) - softplus(before * logits), axis=-1)
        return machine.gibbs(v, jax.random.fold_in(key_steps, i), base=base, beta=beta), log_w

    v = draw_bits(jnp.broadcast_to(base, (chains, len(base))), key_start)
    return jax.lax.fori_loop(0, len(betas) - 1, step, (v, jnp.zeros(chains, v.dtype)))[1]


def count_log_partition(machine: BoltzmannMachine) -> LogPartition:
    r"""$\log Z = \log \sum_h e^{c^\top h} \prod_i (1 + e^{b_i + (W h)_i})$, or over $v$ if that is smaller.

    The states are made a thousand at a time; at most `MAX_COUNTED` units can be counted over.
    """
    x, k = machine.weights.shape
    smaller = machine if x <= k else machine.swapped()
    if min(x, k) > MAX_COUNTED:
        raise ValueError(
            f"count_log_partition: expected at most {MAX_COUNTED} units on one side; got {x} and {k}. Use Annealing."
        )
    return LogPartition(float(_count(smaller)), 0.0, "counted")


@jax.jit
def _count(machine: BoltzmannMachine) -> Float[Array, ""]:
    x = len(machine.visible_bias)
    block = 2 ** min(x, _BLOCK_BITS)

    def add(i: Int[Array, ""], total: Float[Array, ""]) -> Float[Array, ""]:
        numbers = i * block + jnp.arange(block)
        v = ((numbers[:, None] >> jnp.arange(x)) & 1).astype(machine.weights.dtype)
        return jnp.logaddexp(total, logsumexp(-machine.free_energy(v)))

    return jax.lax.fori_loop(0, 2**x // block, add, jnp.asarray(-jnp.inf, machine.weights.dtype))


def _log_mean(log_w: Float[np.ndarray, " s"]) -> float:
    highest = log_w.max()
    return float(highest + np.log(np.mean(np.exp(log_w - highest))))


def log_partition(
    machine: BoltzmannMachine, base: Float[Array, " x"], annealing: Annealing, key: Key[Array, ""]
) -> LogPartition:
    """Counted if it can be, or else annealed."""
    if min(machine.weights.shape) <= MAX_COUNTED:
        return count_log_partition(machine)
    return annealing(machine, base, key)

"""Machines small enough to write every state of them down."""

import itertools

import jax.numpy as jnp
import numpy as np

from dlgm.baselines import BoltzmannMachine


def random_machine(x, k, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return BoltzmannMachine(*(jnp.asarray(scale * rng.normal(size=shape)) for shape in ((x, k), (x,), (k,))))


def every_row(x):
    return np.array(list(itertools.product([0.0, 1.0], repeat=x)))


def minus_energies(machine):
    """b'v + c'h + v'Wh of every v and h, one term at a time."""
    W, b, c = (np.asarray(part, np.float64) for part in (machine.weights, machine.visible_bias, machine.hidden_bias))
    found = np.empty((2 ** len(b), 2 ** len(c)))
    for i, v in enumerate(every_row(len(b))):
        for j, h in enumerate(every_row(len(c))):
            found[i, j] = sum(v[a] * b[a] for a in range(len(b))) + sum(h[a] * c[a] for a in range(len(c)))
            found[i, j] += sum(v[a] * W[a, d] * h[d] for a in range(len(b)) for d in range(len(c)))
    return found


def table(machine):
    """p(v, h) of every v and h."""
    weights = np.exp(minus_energies(machine))
    return weights / weights.sum()


def frequencies(rows):
    """The share of each state among rows of bits, in the order of `every_row`."""
    numbers = np.asarray(rows).astype(int) @ (2 ** np.arange(np.shape(rows)[1])[::-1])
    return np.bincount(numbers, minlength=2 ** np.shape(rows)[1]) / len(rows)


def within(shares, p, n, errors):
    """Shares among n draws agree with probabilities, two-sided, within so many standard errors."""
    assert np.abs((shares - p) / np.sqrt(p * (1 - p) / n)).max() < errors


def two_clusters(n):
    """Rows that are all zeros or all ones, but for a tenth of their four bits."""
    rng = np.random.default_rng(0)
    return ((rng.random((n, 1)) < 0.5) ^ (rng.random((n, 4)) < 0.1)).astype(np.uint8)

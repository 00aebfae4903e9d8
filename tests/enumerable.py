"""Binary models with one latent, small enough that every distribution of theirs can be written out."""

import itertools
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dlgm.model import Model, ModelConfig, build_model, make_observation


@dataclass(frozen=True)
class Enumerable:
    """All rows v of a binary model, and p(v | xi), q(xi | v), p(xi) on a fine grid of its one latent. float64."""

    model: Model
    rows: np.ndarray  # (2^x, x)
    step: float
    xi: np.ndarray  # (g,)
    prior: np.ndarray  # (g,) p(xi)
    likelihood: np.ndarray  # (2^x, g) p(v | xi)
    recognition: np.ndarray  # (2^x, g) q(xi | v)

    @property
    def p(self):
        """p(v)."""
        return self.likelihood @ self.prior * self.step

    def members(self, seen):
        """The numbers of the rows that have these values, {column: value}."""
        return np.flatnonzero(np.all([self.rows[:, c] == value for c, value in seen.items()], axis=0))

    def conditional(self, seen):
        """p(v | what was seen) over `members`."""
        p = self.p[self.members(seen)]
        return p / p.sum()

    def kernel(self, seen, exact=False):
        """T[i, j]: from completed row i to j, by q(xi | v) or by the exact posterior."""
        at = self.members(seen)
        q = self.recognition[at]
        if exact:
            q = self.likelihood[at] * self.prior / self.p[at, None]
        fills = self.likelihood[at] / self.likelihood[at].sum(0)  # p(v_m | xi): cells are independent given xi
        return q @ fills.T * self.step


def enumerable(seed=0, columns=4, strength=6.0, sees_mask=False) -> Enumerable:
    config = ModelConfig(
        make_observation("bernoulli", columns=columns).config(),
        latent=(1,),
        hidden=(8,),
        nonlinearity="tanh",
        covariance="diagonal",
        sees_mask=sees_mask,
    )
    model = build_model(config, key=jax.random.key(seed))
    model = eqx.tree_at(
        lambda m: m.generative.networks[0].layers[-1].weight, model, replace_fn=lambda weight: strength * weight
    )
    rows = np.array(list(itertools.product((0, 1), repeat=columns)), np.float32)
    xi, step = np.linspace(-9, 9, 4001, retstep=True)
    logits = np.asarray(jax.vmap(model.generative.outputs)(jnp.asarray(xi, jnp.float32)[:, None]), np.float64)
    log_p = rows @ logits.T - np.logaddexp(0, logits).sum(1)
    q = jax.vmap(lambda v: model.posterior(v).gaussian(jax.random.key(0)))(jnp.asarray(rows))
    mean, sd = np.asarray(q.mean, np.float64), np.sqrt(np.asarray(q.variance, np.float64))
    prior = np.exp(-0.5 * xi**2) / np.sqrt(2 * np.pi)
    recognition = np.exp(-0.5 * ((xi - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    return Enumerable(model, rows, step, xi, prior, np.exp(log_p), recognition)


def stationary(T):
    """The distribution that a kernel leaves as it is."""
    values, vectors = np.linalg.eig(T.T)
    v = np.real(vectors[:, np.argmin(abs(values - 1))])
    return v / v.sum()

"""Small models of every shape: one row a way to build one."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.model import ModelConfig, build_model, make_observation

COVARIANCES = ("diagonal", "rank-one", "rank-r", "full")
STRUCTURES = ("factorised", "joint", "directed")


def build(latent=(3, 2), *, columns=6, family="bernoulli", seed=0, jitter=0.3, **settings):
    """A model moved away from its tidy start, so that no matrix is the identity and no bias zero."""
    config = ModelConfig(
        make_observation(family, columns=columns).config(), latent=latent, **{"hidden": (4,), **settings}
    )
    model = build_model(config, key=jax.random.key(seed))
    rng = np.random.default_rng(seed)
    dtype = jnp.result_type(float)

    def moved(leaf):  # in numpy, which compiles nothing
        return jnp.asarray(np.asarray(leaf) + jitter * rng.normal(size=leaf.shape), dtype)

    return jax.tree.map(moved, model)


POSTERIORS = list(itertools.product(COVARIANCES, STRUCTURES))

"""Any estimator of `dlgm.stochastic` that takes a Gaussian can train the recognition model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.learning import FreeEnergy, TrainingConfig, bounds, fit
from dlgm.model import ModelConfig, make_observation
from dlgm.stochastic import (
    BonnetPrice,
    BonnetPriceHVP,
    ConstantBaseline,
    Implicit,
    LeaveOneOut,
    Pathwise,
    ProductRule,
    Reinforce,
)
from tests.linear import random_factor_analysis

FA = random_factor_analysis(x=4, k=1)
ROWS = FA.sample(np.random.default_rng(0), 200).astype(np.float32)
# tanh: Price's theorem needs a smooth function.
MODEL = ModelConfig(
    make_observation("gaussian", columns=4).config(),
    latent=(1,),
    hidden=(),
    recognition_hidden=(6,),
    nonlinearity="tanh",
)
TRAINING = TrainingConfig(epochs=150, batch_size=50, learning_rate=0.02, validate_every=150)
ESTIMATORS = {
    "Pathwise": Pathwise(),
    "Implicit": Implicit(),
    "BonnetPrice": BonnetPrice(),
    "BonnetPriceHVP": BonnetPriceHVP(),
    "Reinforce, leave-one-out": Reinforce(LeaveOneOut()),
    "Reinforce, constant": Reinforce(ConstantBaseline(-5.0)),
}


def mean_bound(model):
    keys = jax.random.split(jax.random.key(3), 20)
    return float(np.mean([bounds(model, jnp.asarray(ROWS), key=k).mean() for k in keys]))


@pytest.fixture(scope="module")
def best():
    """What factor analysis can reach on these rows: its exact maximum likelihood."""
    from sklearn.decomposition import FactorAnalysis

    return FactorAnalysis(n_components=1).fit(ROWS).score(ROWS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_reaches_the_same_bound(name, best):
    """One latent, linear: the bound can reach the maximum likelihood, and does within 0.05 nats (0.1: REINFORCE)."""
    fitted = fit(MODEL, ROWS, config=TRAINING, objective=FreeEnergy(num_samples=8, estimator=ESTIMATORS[name]))
    slack = 0.1 if name.startswith("Reinforce") else 0.05
    assert best - slack < mean_bound(fitted.model) < best + 0.02


@pytest.mark.parametrize("structure", ["directed", "factorised"])
def test_estimators_work_through_several_layers(structure):
    """Expectation inside expectation, or blocks side by side: gradients agree. n = 4,000 keys, 5.5 standard errors."""
    from tests.model.cases import build

    model = build((1, 1), columns=3, hidden=(2,), structure=structure, covariance="diagonal", nonlinearity="tanh")
    leaves, tree = jax.tree.flatten(model)
    v = jnp.array([1.0, 0.0, 1.0])

    def moments(estimator):
        objective = FreeEnergy(num_samples=2, estimator=estimator)

        @jax.jit
        def run(keys):
            def one(k):
                loss = lambda ls: objective(jax.tree.unflatten(tree, ls), v, key=k).loss  # noqa: E731
                return jnp.concatenate([g.ravel() for g in jax.grad(loss)(leaves)])

            return jax.vmap(one)(keys)

        g = np.asarray(run(jax.random.split(jax.random.key(1), 4_000)), np.float64)
        return g.mean(axis=0), g.var(axis=0) / len(g)

    expected, var = moments(Pathwise())
    others = (BonnetPrice(), Reinforce(LeaveOneOut()))
    for estimator in (*others, BonnetPriceHVP()) if structure == "factorised" else others:
        mean, other = moments(estimator)
        np.testing.assert_array_less(abs(mean - expected), 5.5 * np.sqrt(var + other) + 1e-6)


def test_an_estimator_that_cannot_says_so():
    """The product rule's integral diverges for a Gaussian's variance: it refuses vectors."""
    with pytest.raises(TypeError, match="ProductRule works on laws of one real variable"):
        fit(MODEL, ROWS, config=TRAINING, objective=FreeEnergy(estimator=ProductRule()))

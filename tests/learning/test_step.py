"""The compiled step against the same step written plainly."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dlgm.learning import TrainingConfig, make_mesh
from dlgm.learning.step import Resident, epoch_order, make_run, start_state
from dlgm.model import ModelConfig, build_model, make_observation

ROWS = (np.random.default_rng(0).random((60, 8)) < 0.3).astype(np.uint8)


def plain_matrices(model):
    """The model with every product written as matrix times vector, in the paper's order."""
    f = jnp.tanh

    def network(mlp, x):
        for layer in mlp.layers[:-1]:
            x = f(layer.weight @ x + layer.bias)
        return mlp.layers[-1].weight @ x + mlp.layers[-1].bias

    recognition, generative = model.recognition, model.generative
    (head,) = recognition.heads

    def posterior(x):
        return head.gaussian(network(head.network, f(network(recognition.trunk, x))))

    def logits(xi):
        return network(generative.networks[0], generative.scales[0].matrix @ xi)

    return posterior, logits


@pytest.mark.parametrize("covariance", ["diagonal", "rank-one"])
def test_the_fast_path_has_the_plain_paths_losses(covariance):
    """Six steps with noise, clipping, averaging and warm-up, to float32's accuracy.

    The plain path takes one row at a time, JAX's own keys, and Optax's own clipping.
    """
    config = TrainingConfig(epochs=4, batch_size=20, bit_flip=0.1, clip=0.3, learning_rate=0.01)
    observation = make_observation("bernoulli", columns=8)
    model_config = ModelConfig(
        observation.config(), latent=(3,), hidden=(5, 4), covariance=covariance, nonlinearity="tanh"
    )
    model, key = build_model(model_config, key=jax.random.key(1)), jax.random.key(2)
    optimiser = config.make_optimiser(12)
    run = make_run(config, config.make_objective(), optimiser, num_rows=60, batch_size=20, mesh=make_mesh(1))
    order = epoch_order(key, 0, num_rows=60).reshape(3, 20)
    batches = Resident(jnp.asarray(ROWS), None, order)

    def row_loss(model, v, beta, key):
        key_inputs, _, key_draw, _ = jax.random.split(key, 4)
        flips = jax.random.bernoulli(jax.random.split(key_inputs, 3)[0], 0.1, v.shape)
        posterior, logits = plain_matrices(model)
        q = posterior(jnp.where(flips, 1 - v, v))
        o = logits(q.mean + q.factor_times(jax.random.normal(key_draw, (3,))))
        return -jnp.sum(v * jax.nn.log_sigmoid(o) + (1 - v) * jax.nn.log_sigmoid(-o)) + beta * q.kl_to_standard()

    def loss(model, rows, beta, key):
        keys = jax.random.split(key, 20)
        each = [row_loss(model, v, beta, k) for v, k in zip(rows, keys, strict=True)]
        prior = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(model.generative)) / (2 * model.generative.kappa)
        return sum(each) / 20 + prior / 60

    plain = optax.chain(optax.clip_by_global_norm(0.3), config.make_optimiser(12))
    value_and_grad = jax.jit(jax.value_and_grad(loss))
    fast, averaged, at = start_state(model, optimiser, key), model, plain.init(model)
    for n in range(6):
        beta = config.beta(jnp.asarray(float(n)), 12)
        rows = ROWS[np.asarray(order[n % 3])].astype(np.float32)
        value, gradient = value_and_grad(model, rows, beta, jax.random.fold_in(jax.random.fold_in(key, 1), n))
        updates, at = plain.update(gradient, at, model)
        model = optax.apply_updates(model, updates)
        decay = min(config.averaging, (1 + n) / (10 + n))
        averaged = jax.tree.map(lambda a, m, decay=decay: decay * a + (1 - decay) * m, averaged, model)

        total = float(fast.info.loss) * (n % 3)
        fast = run(fast, batches, n + 1)
        # The info is a mean over the epoch's steps so far: the step's own loss is taken back out of it.
        step_loss = float(fast.info.loss) * (n % 3 + 1) - total
        np.testing.assert_allclose(step_loss, value, rtol=1e-5)
        np.testing.assert_allclose(optax.tree.norm(fast.model), optax.tree.norm(model), rtol=1e-6)
    for got, want in zip(jax.tree.leaves(fast.averaged), jax.tree.leaves(averaged), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)

"""What training minimises: the free energy of one row, and the mini-batch form over the data."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key

from dlgm.learning.noise import Noise
from dlgm.model import Model
from dlgm.model.trainable import AbstractTrainable
from dlgm.stochastic import AbstractEstimator, Pathwise

_PARAMETERS = 2**32 - 1  # folded into a batch's key, of which `split` gives rows the numbers from 0 on


class Terms(eqx.Module):
    """One row's share of the objective, in nats. All go down; `loss` alone carries a gradient."""

    loss: Float[Array, "*rows"]  # what is minimised; with beta = 1 an upper bound on -log p(v)
    reconstruction: Float[Array, "*rows"]  # -E_q[log p(v | h)]
    kl: Float[Array, "*rows g"]  # KL(q || N(0, I)), one for each layer (a single one for a joint posterior)


class AbstractObjective(eqx.Module):
    """A loss for one row. The caller batches it, scales it and adds the parameters' prior.

    An objective knows the make of its models: those of this room are for a `Model`.
    """

    @abstractmethod
    def __call__(
        self,
        model: Any,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The terms of one row, with the KL weighted by `beta` in the loss."""


class FreeEnergy(AbstractObjective):
    r"""$F(v) = -E_q[\log p(v \mid h(\xi))] + KL(q(\xi \mid v) \,\|\, N(0, I))$ (paper, eq. 13), the KL analytic.

    **Arguments**

    - `num_samples`: draws of $\xi$ a row.
    - `estimator`: how the recognition model's gradient is estimated: any estimator of `dlgm.stochastic` that takes a
      Gaussian. `Pathwise()` is the fast path.
    """

    num_samples: int = eqx.field(static=True, default=1)
    estimator: AbstractEstimator = Pathwise()

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, at_least=1)

    def __call__(
        self,
        model: Model,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The free energy of one row."""
        key_inputs, key_latents, key_draws, key_estimator = jax.random.split(key, 4)
        posterior = model.recognition(noisy_inputs(model, v, mask, noise, key_inputs))

        def log_likelihood(xi: Float[Array, " k"], k: Key[Array, ""] = key_latents) -> Float[Array, ""]:
            return model.generative.log_likelihood(v, noise.corrupt_latents(xi, k), mask)

        def draw(key_draw: Key[Array, ""], key_latent: Key[Array, ""]) -> tuple[Float[Array, ""], Float[Array, " g"]]:
            xi, kl = posterior.sample(key_draw)
            return -log_likelihood(xi, key_latent), kl

        if self.num_samples == 1:  # the usual case; an axis of length one would cost transposed copies of every layer
            reconstruction, kl = draw(key_draws, key_latents)
        else:
            keys = (jax.random.split(k, self.num_samples) for k in (key_draws, key_latents))
            reconstruction, kl = jax.tree.map(lambda x: jnp.mean(x, axis=0), jax.vmap(draw)(*keys))
        if isinstance(self.estimator, Pathwise):
            loss = reconstruction + beta * jnp.sum(kl)
        else:
            loss = posterior.free_energy(
                log_likelihood,
                jnp.asarray(beta),
                key=key_estimator,
                estimator=self.estimator,
                num_samples=self.num_samples,
            )
        return Terms(loss, *jax.lax.stop_gradient((reconstruction, kl)))


def minibatch_free_energy(
    objective: AbstractObjective,
    model: AbstractTrainable,
    rows: Float[Array, "n x"],
    mask: Bool[Array, "n x"] | None,
    *,
    num_rows: int,
    beta: Float[Array, ""] | float = 1.0,
    noise: Noise = Noise(),
    parameter_draws: int = 1,
    parameter_weight: float = 1.0,
    key: Key[Array, ""],
) -> tuple[Float[Array, ""], Terms]:
    r"""$\lambda \sum_{n \in \text{batch}} F(v_n) + |\theta_g|^2 / (2\kappa)$ with $\lambda = N / \text{batch}$, eq. 30.

    Unbiased for the free energy of all `num_rows` rows. Also returns the rows' terms.

    A Bayesian model's parameters are drawn, $\theta \sim q(\theta)$, and its last term is
    $KL(q(\theta) \,\|\, p(\theta))$ (eq. 28). One draw serves all rows of the batch; of `parameter_draws`, each serves
    an equal share of them, which costs hardly more and is less noisy. The term is weighted by `beta`, as that of the
    latents is, and by `parameter_weight`: eq. 28 has 1, and less makes a posterior that trusts the data more.
    """
    n = rows.shape[0]
    keys = jax.random.split(key, n)

    def shared(key_theta: Key[Array, ""], rows: Float[Array, "m x"], mask: Any, keys: Key[Array, " m"]) -> Terms:
        """The terms of rows that share a draw of the parameters."""
        point = model.drawn(key_theta)

        def one(v: Float[Array, " x"], m: Bool[Array, " x"] | None, k: Key[Array, ""]) -> Terms:
            if noise.hide:
                k, key_hide = jax.random.split(k)
                m = noise.hide_cells(jnp.ones(v.shape, bool) if m is None else m, key_hide)
            return objective(point, v, m, beta=beta, noise=noise, key=k)

        return jax.vmap(one)(rows, mask, keys)

    key_theta = jax.random.fold_in(key, _PARAMETERS)
    if not model.is_bayesian or parameter_draws == 1:
        terms = shared(key_theta, rows, mask, keys)
    else:
        check_parameter_draws(parameter_draws, n)
        shares = jax.tree.map(lambda x: x.reshape(parameter_draws, -1, *x.shape[1:]), (rows, mask, keys))
        terms = jax.vmap(shared)(jax.random.split(key_theta, parameter_draws), *shares)
        terms = jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), terms)
    # The cost of the parameters comes in with that of the latents, lest it silence units before the data has had a
    # word. A point estimate's prior is too weak to do so.
    penalty = model.penalty() if not model.is_bayesian else parameter_weight * beta * model.penalty()
    return num_rows / n * jnp.sum(terms.loss) + penalty, terms


def noisy_inputs(
    model: Model, v: Float[Array, " x"], mask: Bool[Array, " x"] | None, noise: Noise, key: Key[Array, ""]
) -> Float[Array, " i"]:
    """What the recognition model sees of a row while training. Holes stay at zero, as they will be afterwards."""
    observation = model.generative.observation
    x = noise.corrupt_inputs(observation.encode(v, mask), key)
    if mask is not None:
        widths = np.asarray(observation.input_widths)
        x = jnp.where(jnp.repeat(mask, widths, total_repeat_length=int(widths.sum())), x, 0)
    return model.with_mask(x, mask)


def check_num_samples(num_samples: object, at_least: int) -> None:
    """Refuse a number of draws that is not a whole number of at least `at_least`."""
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples < at_least:
        raise ValueError(f"num_samples: expected a whole number of at least {at_least}; got {num_samples!r}.")


def check_parameter_draws(parameter_draws: int, batch_size: int) -> None:
    """Refuse a number of draws that the rows of a batch cannot be shared out to evenly."""
    if batch_size % parameter_draws:
        raise ValueError(f"parameter_draws: expected a divisor of the batch size, {batch_size}; got {parameter_draws}.")

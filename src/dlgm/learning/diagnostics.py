"""Is the trained model healthy: which latents it uses, how loose its bound is, how noisy its gradients are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float, Key

from dlgm.inference import log_likelihood, posterior_moments
from dlgm.learning.objective import FreeEnergy, minibatch_free_energy
from dlgm.model import Model
from dlgm.stochastic import AbstractEstimator

_ACTIVE = 0.01  # variance over rows of a latent's posterior mean above which it counts as used (Burda et al., 2016)


@dataclass(frozen=True)
class Diagnostics:
    """What `diagnose` found. All in nats, on the rows it was given."""

    active_units: list[int]  # latents in use, for each layer
    latent: list[int]  # latents in all, for each layer
    unit_kl: list[np.ndarray]  # mean KL of each latent's marginal from N(0, 1), for each layer
    bound: float  # mean of the variational bound
    log_p: float  # mean of the importance-sampled log likelihood
    gap: float  # log_p - bound: how far the posterior is from the true one
    gap_standard_error: float
    effective_sample_size: float  # mean over rows
    warnings: list[str]  # in words, what should worry the user

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "unit_kl": [kl.tolist() for kl in self.unit_kl]}


def diagnose(model: Model, rows: Any, mask: Any = None, *, num_samples: int = 200, key: Key[Array, ""]) -> Diagnostics:
    """Look at a trained model through some rows, preferably held out; a thousand are plenty."""
    key_moments, key_scores = jax.random.split(key)
    q = posterior_moments(model, rows, mask, key=key_moments)
    spread = np.var(q.mean, axis=0)
    kl = np.mean(0.5 * (q.variance + q.mean**2 - 1 - np.log(q.variance)), axis=0)
    split = [np.asarray(part) for part in model.generative.split(jnp.asarray(np.stack([spread, kl])))]
    active = [int(np.sum(part[0] > _ACTIVE)) for part in split]
    scores = log_likelihood(model, rows, mask, num_samples=num_samples, key=key_scores)
    gaps = scores.log_p - scores.bound
    return Diagnostics(
        active_units=active,
        latent=list(model.generative.latent),
        unit_kl=[part[1] for part in split],
        bound=float(np.mean(scores.bound, dtype=np.float64)),
        log_p=float(np.mean(scores.log_p, dtype=np.float64)),
        gap=float(np.mean(gaps, dtype=np.float64)),
        gap_standard_error=float(np.std(gaps) / np.sqrt(len(gaps))),
        effective_sample_size=float(np.mean(scores.effective_sample_size)),
        warnings=_warnings(active, model.generative.latent, float(np.mean(scores.effective_sample_size)), num_samples),
    )


def _warnings(active: list[int], latent: tuple[int, ...], ess: float, num_samples: int) -> list[str]:
    found = []
    for l, (used, K) in enumerate(zip(active, latent, strict=True), start=1):
        if used == 0:
            found.append(
                f"Posterior collapse: none of the {K} latents of layer {l} is used. Lengthen the warm-up, lower the "
                "learning rate, or take fewer latents."
            )
        elif used < 0.1 * K:
            found.append(f"Layer {l} uses {used} of its {K} latents: fewer would do.")
    if num_samples >= 100 and ess < 2:
        found.append(
            f"Importance sampling rests on very few of its {num_samples} samples a row (effective sample size "
            f"{ess:.1f}): the likelihood is an underestimate. Take more samples, or a richer posterior."
        )
    return found


def gradient_signal_to_noise(
    model: Model,
    rows: Any,
    estimators: Mapping[str, AbstractEstimator],
    mask: Any = None,
    *,
    num_draws: int = 100,
    num_samples: int = 1,
    key: Key[Array, ""],
) -> dict[str, float]:
    r"""$|E g| / \sqrt{\mathrm{Tr}\,\mathrm{Var}\, g}$ of the recognition model's gradient $g$, for each estimator.

    Over `num_draws` draws of the latents for the same rows, so that the noise is the estimator's alone.
    """
    if num_draws < 2:
        raise ValueError(f"num_draws: expected at least 2, to see a spread; got {num_draws}.")
    rows, mask = jnp.asarray(rows, jnp.float32), None if mask is None else jnp.asarray(mask)

    def ratio(estimator: AbstractEstimator) -> Float[Array, ""]:
        objective = FreeEnergy(num_samples=num_samples, estimator=estimator)

        def gradient(k: Key[Array, ""]) -> Any:
            def loss(recognition: Any) -> Float[Array, ""]:
                moved = Model(model.generative, recognition, model.parameters)
                return minibatch_free_energy(objective, moved, rows, mask, num_rows=rows.shape[0], key=k)[0]

            return jax.grad(loss)(model.recognition)

        # Two passes over the same draws: the difference of two sums would lose a small variance to rounding.
        keys = jax.random.split(key, num_draws)
        zeros = jax.tree.map(jnp.zeros_like, model.recognition)

        def add(total: Any, k: Key[Array, ""]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, gradient(k)), None

        mean = jax.tree.map(lambda total: total / num_draws, jax.lax.scan(add, zeros, keys)[0])

        def add_square(total: Float[Array, ""], k: Key[Array, ""]) -> tuple[Float[Array, ""], None]:
            deviation = jax.tree.map(jnp.subtract, gradient(k), mean)
            return total + optax.tree.norm(deviation, squared=True), None

        variance = jax.lax.scan(add_square, jnp.zeros(()), keys)[0] / (num_draws - 1)
        # |mean|^2 over-states |E g|^2 by the variance of the mean.
        signal = jnp.maximum(optax.tree.norm(mean, squared=True) - variance / num_draws, 0)
        return jnp.sqrt(signal / variance)

    return {name: float(jax.jit(ratio)(estimator)) for name, estimator in estimators.items()}

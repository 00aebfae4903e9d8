"""Noise that regularises the recognition model (paper, section 4.3): while training only."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key


@dataclass(frozen=True)
class Noise:
    """What is done to an encoded row before the recognition model sees it, and to the latents it proposes.

    The paper calls this essential, and it is: without it, models of the static binarised MNIST overfit by several nats.
    """

    bit_flip: float = 0.0  # probability that a binary input is turned into its opposite
    drop_out: float = 0.0  # probability that an input is set to zero; what is left is scaled up by 1 / (1 - rate)
    gaussian: float = 0.0  # standard deviation of noise added to the inputs
    samples: float = 0.0  # standard deviation of noise added to the latents
    hide: float = 0.0  # largest share of a row's cells that is taken for holes

    def __post_init__(self) -> None:
        for name in ("bit_flip", "drop_out"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a rate of at least 0 and less than 1; got {getattr(self, name)}.")
        if not 0 <= self.hide <= 1:
            raise ValueError(f"hide: expected a share from 0 to 1; got {self.hide}.")
        for name in ("gaussian", "samples"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a standard deviation of at least 0; got {getattr(self, name)}.")

    def corrupt_inputs(self, x: Float[Array, " i"], key: Key[Array, ""]) -> Float[Array, " i"]:
        """One encoded row with noise."""
        key_flip, key_drop, key_add = jax.random.split(key, 3)
        if self.bit_flip:
            x = jnp.where(jax.random.bernoulli(key_flip, self.bit_flip, x.shape), 1 - x, x)
        if self.gaussian:
            x = x + self.gaussian * jax.random.normal(key_add, x.shape)
        if self.drop_out:
            # Without the rescaling the network would meet inputs of another size once training is over, and the bound
            # would be tens of nats worse.
            kept = jax.random.bernoulli(key_drop, 1 - self.drop_out, x.shape)
            x = jnp.where(kept, x / (1 - self.drop_out), 0)
        return x

    def hide_cells(self, mask: Bool[Array, " x"], key: Key[Array, ""]) -> Bool[Array, " x"]:
        """What is left of one row: cells go at random, at a rate that is uniform from 0 to `hide` for each row.

        Both models learn from what is left, which is still the likelihood of data with holes at random: the recognition
        model gets to know holes, and the generative model is not pulled elsewhere.
        """
        key_rate, key_cells = jax.random.split(key)
        rate = self.hide * jax.random.uniform(key_rate)
        return mask & ~jax.random.bernoulli(key_cells, rate, mask.shape)

    def corrupt_latents(self, xi: Float[Array, " k"], key: Key[Array, ""]) -> Float[Array, " k"]:
        """One draw of the latents with noise."""
        return xi + self.samples * jax.random.normal(key, xi.shape) if self.samples else xi

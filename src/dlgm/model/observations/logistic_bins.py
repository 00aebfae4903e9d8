r"""The probability that a logistic variable falls between two edges, without cancellation.

$$\sigma(b) - \sigma(a) = \sigma(b)\, \sigma(-a)\, (1 - e^{-(b - a)})$$
holds for every $a < b$. No two of its factors are subtracted, so its logarithm and gradient are right however far out
the interval lies and however narrow it is, where the difference on the left is 0 in float32.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


def log_below(b: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log\sigma(b)$: what an upper edge contributes. An interval open above has none."""
    return jax.nn.log_sigmoid(b)


def log_above(a: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log\sigma(-a)$: what a lower edge contributes. An interval open below has none."""
    return jax.nn.log_sigmoid(-a)


def log_between(gap: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log(1 - e^{-\text{gap}})$ with gap $b - a > 0$: what an interval with two edges has besides."""
    return jnp.log(-jnp.expm1(-gap))

"""Keeping exponents in range."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


def tame(x: Float[Array, "..."], limit: float) -> Float[Array, "..."]:
    r"""$x$ while $|x| \le$ `limit`, and logarithmically slower beyond, so that $e^x$ does not overflow.

    It rises everywhere with a continuous slope: it changes how a law is parametrised, never which laws there are, and
    an output that has run away still feels which way is back.
    """
    inside = jnp.clip(x, -limit, limit)
    return inside + jnp.sign(x) * jnp.log1p(jnp.maximum(jnp.abs(x) - limit, 0.0))

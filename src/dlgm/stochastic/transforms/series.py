"""Two quotients that are smooth through 0/0, in value and in as many derivatives as anyone takes (ten)."""

from math import factorial

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

_NEAR = 0.1
# Taylor coefficients, highest power first; at |z| = 0.1 the first one left out is below float64's rounding.
_EXPM1 = [1 / factorial(n + 1) for n in range(10, -1, -1)]
_LOG1P = [(-1) ** n / (n + 1) for n in range(16, -1, -1)]


def expm1_ratio(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """$(e^z - 1) / z$, which is 1 at 0."""
    near = jnp.abs(z) < _NEAR
    far = jnp.where(near, 1.0, z)
    return jnp.where(near, jnp.polyval(jnp.array(_EXPM1, z.dtype), jnp.where(near, z, 0.0)), jnp.expm1(far) / far)


def log1p_ratio(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""$\log(1 + z) / z$, which is 1 at 0."""
    near = jnp.abs(z) < _NEAR
    far = jnp.where(near, 1.0, z)
    return jnp.where(near, jnp.polyval(jnp.array(_LOG1P, z.dtype), jnp.where(near, z, 0.0)), jnp.log1p(far) / far)

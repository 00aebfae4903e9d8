"""Gradients and Hessian products of pointwise functions.

A `Pointwise` function's outputs each depend on their own point alone, so that the gradient of their sum holds every
point's own gradient, and one directional derivative of that holds every point's own Hessian product.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dlgm.stochastic.estimator import Pointwise


def gradient(f: Pointwise, x: Float[Array, "*points"]) -> Float[Array, "*points"]:
    r"""$g = \nabla f(x)$ at every point."""
    return jax.grad(lambda y: jnp.sum(f(y)))(x)


def hessian_times(f: Pointwise, x: Float[Array, "*points"], v: Float[Array, "*points"]) -> Float[Array, "*points"]:
    r"""$H v$ at every point, without $H$: forward over reverse, at a few times the cost of `f`."""
    return jax.jvp(lambda y: gradient(f, y), (x,), (v,))[1]


def hessian(f: Pointwise, x: Float[Array, "*points k"]) -> Float[Array, "*points k k"]:
    r"""$H$ at every point, a column at a time."""
    K = x.shape[-1]
    columns = jax.vmap(lambda e: hessian_times(f, x, jnp.broadcast_to(e, x.shape)))(jnp.eye(K, dtype=x.dtype))
    return jnp.moveaxis(columns, 0, -1)

"""Messages for bad arguments: what was expected, what came, what to do.

Shapes are always checked. Values (finite, positive) are checked only where they are known: inside `jit`, `grad` or
`vmap` an argument is a tracer and has no value to look at.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

# What a caller may pass as an array: lists of numbers are welcome, and anything else gets a message.
RealLike = ArrayLike | Sequence[Any]


def is_traced(x: object) -> bool:
    """Whether `x` is a stand-in inside a JAX transformation, with a shape but no value."""
    return isinstance(x, jax.core.Tracer)


def as_real_array(owner: str, name: str, value: RealLike) -> Array:
    """`value` as a floating-point array, or a `TypeError` naming the argument."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{owner}: expected `{name}` to be an array of real numbers; got {type(value).__name__}."
        ) from error
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"{owner}: expected `{name}` to be real; got dtype {array.dtype}. Pass its real part.")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    return array


def check_rank(owner: str, name: str, array: Array, event: str) -> None:
    """Refuse an array with fewer axes than one event of it has, e.g. `event = "K, r"`."""
    need = len(event.split(","))
    if array.ndim < need:
        raise ValueError(
            f"{owner}: expected `{name}` of shape (..., {event}), at least {need} axes; got shape {array.shape}."
        )


def check_latent_size(owner: str, name: str, size: int, expected: int, shape: Sequence[int]) -> None:
    """Refuse an argument whose latent axis differs from the mean's."""
    if size != expected:
        raise ValueError(
            f"{owner}: expected `{name}` to have K = {expected} entries along its latent axis, as `mean` has; "
            f"got {size} (shape {tuple(shape)})."
        )


def check_finite(owner: str, name: str, array: Array) -> None:
    """Refuse NaN and infinity, saying how many there are and where the first one is."""
    if is_traced(array):
        return
    bad = ~np.isfinite(np.asarray(array))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{owner}: expected finite values in `{name}`; got {int(bad.sum())} non-finite of {bad.size}, "
            f"the first at index {where} ({np.asarray(array)[where]})."
        )


def check_positive(owner: str, name: str, array: Array) -> None:
    """Refuse zero and negative values."""
    if is_traced(array):
        return
    smallest = np.asarray(array).min()
    if not smallest > 0:
        raise ValueError(f"{owner}: expected positive values in `{name}`; the smallest is {smallest}.")

"""Images moved by a few pixels or slanted while training: a picture is much the same picture a pixel further on.

There are then many times as many images to learn from, and what is learnt by heart is of less use. Towards the end of
training fewer and fewer are moved, and the model settles on the images as they are.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, Shaped


def moved(
    rows: Shaped[Array, "n x"],
    shape: tuple[int, ...],
    *,
    furthest: int,
    steepest: float = 0.0,
    share: Float[Array, ""] | float,
    key: Key[Array, ""],
) -> Shaped[Array, "n x"]:
    """Rows that are images of a shape, a share of them moved up to `furthest` pixels along both axes, and slanted.

    A slant moves each line of pixels by a whole number of them, in proportion to how far it is from the middle: up to
    `steepest` pixels for each; first the lines across, then those down. Every pixel stays one of the image's own, with
    its noise: no two are mixed, and but for the edges none is lost or there twice. What comes in at an edge is the
    edge's pixel again.
    """
    height, width = shape[:2]
    n = len(rows)
    key_far, key_which = jax.random.split(key)
    far = jax.random.randint(key_far, (n, 2), -furthest, furthest + 1)
    slant = jax.random.uniform(jax.random.fold_in(key, 2), (n, 2), minval=-steepest, maxval=steepest)
    is_moved = jax.random.bernoulli(key_which, share, (n, 1))

    def one(image: Shaped[Array, "..."], far: Array, slant: Array) -> Shaped[Array, "..."]:
        i, j = jnp.arange(height)[:, None], jnp.arange(width)
        j = j + far[1] + jnp.round(slant[1] * (i - (height - 1) / 2)).astype(int)
        i = i + far[0] + jnp.round(slant[0] * (j - (width - 1) / 2)).astype(int)
        return image[jnp.clip(i, 0, height - 1), jnp.clip(j, 0, width - 1)]

    images = rows.reshape(n, *shape)
    return jax.vmap(one)(images, jnp.where(is_moved, far, 0), jnp.where(is_moved, slant, 0)).reshape(rows.shape)

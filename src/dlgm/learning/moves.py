"""Images moved by a few pixels while training: a picture is much the same picture a pixel further on.

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
    share: Float[Array, ""] | float,
    key: Key[Array, ""],
) -> Shaped[Array, "n x"]:
    """Rows that are images of a shape, a share of them moved up to `furthest` pixels along both axes.

    What comes in at an edge is the edge's pixel again.
    """
    height, width = shape[:2]
    n = len(rows)
    key_far, key_which = jax.random.split(key)
    far = jax.random.randint(key_far, (n, 2), -furthest, furthest + 1)
    far = jnp.where(jax.random.bernoulli(key_which, share, (n, 1)), far, 0)
    down = jnp.clip(jnp.arange(height) + far[:, :1], 0, height - 1)
    across = jnp.clip(jnp.arange(width) + far[:, 1:], 0, width - 1)
    images = rows.reshape(n, *shape)
    return jax.vmap(lambda image, i, j: image[i][:, j])(images, down, across).reshape(rows.shape)

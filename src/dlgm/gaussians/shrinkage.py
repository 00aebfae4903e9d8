r"""The matrices $(I + w w^\top)^{\mp 1/2}$ as linear-time operations.

Everything that is special about a rank-one precision is in these two symmetric matrices. With $s = w^\top w$,
$\eta = 1/(1+s)$ and $v = \sqrt\eta\, w$, a vector shorter than 1, they are

$$(I + w w^\top)^{-1/2} = I - a\, w w^\top = I - \frac{v v^\top}{1 + \sqrt\eta}, \qquad
  (I + w w^\top)^{+1/2} = I + \frac{v v^\top}{\sqrt\eta\, (1 + \sqrt\eta)}.$$

The paper's $a = (1 - \sqrt\eta)/s$ is 0/0 as $w \to 0$; the right-hand forms are not, and do not overflow with $s$
either. At that other end `x - v * (v @ x)` cancels: along $v$ the result should be $\sqrt\eta$ times what $x$ is, but
is the difference of two numbers that are nearly equal. Hence the second step of `shrink`, and the care for the largest
entry in `shrunk_diagonal`.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float


def _scaled(w: Float[Array, "*batch k"]) -> tuple[Array, Array]:
    r"""$(m, |w/m|^2)$ with $m = \max(1, |w|_\infty)$, a constant: squares of $w/m$ cannot overflow."""
    m = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(w), axis=-1, keepdims=True), 1))
    return m, jnp.sum((w / m) ** 2, axis=-1, keepdims=True)


def sqrt_eta(w: Float[Array, "*batch k"]) -> Float[Array, "*batch 1"]:
    r"""$\sqrt\eta = (1 + w^\top w)^{-1/2}$."""
    m, squares = _scaled(w)
    return lax.rsqrt(m**-2 + squares) / m


@jax.custom_jvp
def log1p_square(w: Float[Array, "*batch k"]) -> Float[Array, "*batch"]:
    r"""$\log(1 + w^\top w)$."""
    m, squares = _scaled(w)
    return jnp.where(m > 1, 2 * jnp.log(m) + jnp.log(m**-2 + squares), jnp.log1p(squares))[..., 0]


@log1p_square.defjvp
def _log1p_square_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    r"""$2 \eta\, w^\top \dot w = 2 \sqrt\eta\, v^\top \dot w$."""
    (w,), (dw,) = primals, tangents
    v, r = _direction(w)
    return log1p_square(w), jnp.sum(2 * r * v * dw, axis=-1)


def _direction(w: Float[Array, "*batch k"]) -> tuple[Array, Array]:
    r"""$v = \sqrt\eta\, w$ and $\sqrt\eta$."""
    m, squares = _scaled(w)
    r = lax.rsqrt(m**-2 + squares)
    return (w / m) * r, r / m


@jax.custom_jvp
def shrink(w: Float[Array, "*#batch k"], x: Float[Array, "*#out k"]) -> Float[Array, "*out2 k"]:
    r"""$(I + w w^\top)^{-1/2} x$."""
    v, r = _direction(w)
    vx = jnp.sum(v * x, axis=-1, keepdims=True)
    y = x - v * vx / (1 + r)
    # v is an eigenvector: v'y = sqrt(eta) v'x. What rounding has left over along v is taken off once more.
    left_over = jnp.sum(v * y, axis=-1, keepdims=True) - r * vx
    return y - v * left_over / jnp.maximum(1 - r * r, 0.5)


@shrink.defjvp
def _shrink_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    r"""$S \dot x - \frac{\sqrt\eta}{1 + \sqrt\eta} \left[(v^\top x) \dot w + v\, x^\top \dot w
    - \frac{2 + \sqrt\eta}{1 + \sqrt\eta} v\, (v^\top x)(v^\top \dot w)\right]$.

    Written out, because what JAX derives by itself goes through every step of the care above, and is twice as slow.
    """
    (w, x), (dw, dx) = primals, tangents
    v, r = _direction(w)
    vx = jnp.sum(v * x, axis=-1, keepdims=True)
    along = jnp.sum((x - v * (vx * (2 + r) / (1 + r))) * dw, axis=-1, keepdims=True)
    return shrink(w, x), shrink(w, dx) - (vx * dw + v * along) * (r / (1 + r))


def stretch(w: Float[Array, "*#batch k"], x: Float[Array, "*#out k"]) -> Float[Array, "*out2 k"]:
    r"""$(I + w w^\top)^{1/2} x$, the inverse of `shrink`."""
    v, r = _direction(w)
    return x + w * jnp.sum(v * x, axis=-1, keepdims=True) / (1 + r)


def shrunk_diagonal(w: Float[Array, "*batch k"]) -> Float[Array, "*batch k"]:
    r"""The diagonal of $(I + w w^\top)^{-1}$, which is $1 - v_i^2 = \eta + \sum_{j \ne i} v_j^2$."""
    v, r = _direction(w)
    # The subtraction can cancel for one entry only, for |v| < 1; 3/4 leaves room for rounding in the others.
    pivot = v * v > 0.75
    others = jnp.sum(jnp.where(pivot, 0, v * v), axis=-1, keepdims=True)
    return jnp.where(pivot, r * r + others, 1 - v * v)

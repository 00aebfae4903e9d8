r"""The matrices $(I + w w^\top)^{\mp 1/2}$ as linear-time operations.

Everything that is special about a rank-one precision is in these two symmetric matrices. With $s = w^\top w$ and
$\eta = 1/(1+s)$ they are

$$(I + w w^\top)^{-1/2} = I - a\, w w^\top, \quad a = \frac{1 - \sqrt\eta}{s} = \frac{\eta}{1 + \sqrt\eta},$$
$$(I + w w^\top)^{+1/2} = I + c\, w w^\top, \quad c = \frac{\sqrt\eta}{1 + \sqrt\eta}.$$

The right-hand forms have no 0/0 as $w \to 0$. At the other end, $w \to \infty$, `x - a * w * (w @ x)` cancels: where
one entry of $w$ dominates, that entry of the result should shrink to about $x_i / |w_i|$ but is the difference of two
numbers near $x_i$. At most one entry can suffer, the largest, called the pivot: every other one has $w_i^2 \le s/2$.
So the pivot alone is written without the subtraction, from sums that leave it out.

`sqrt_eta` is computed with `rsqrt`, whose derivative is finite wherever its value is; differentiating `1 / (1 + s)`
would square a number that may already be 1e24.
"""

import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float


def sqrt_eta(w: Float[Array, "*batch k"]) -> Float[Array, "*batch 1"]:
    r"""$\sqrt\eta = (1 + w^\top w)^{-1/2}$."""
    return lax.rsqrt(1 + jnp.sum(w * w, axis=-1, keepdims=True))


def _is_pivot(w: Float[Array, "*batch k"]) -> Bool[Array, "*batch k"]:
    return jnp.arange(w.shape[-1]) == jnp.argmax(jnp.abs(w), axis=-1, keepdims=True)


def shrink(w: Float[Array, "*#batch k"], x: Float[Array, "*#out k"]) -> Float[Array, "*out2 k"]:
    r"""$(I + w w^\top)^{-1/2} x$."""
    pivot, r = _is_pivot(w), sqrt_eta(w)
    a = r * r / (1 + r)
    others_wx = jnp.sum(jnp.where(pivot, 0, w * x), axis=-1, keepdims=True)
    others_ww = jnp.sum(jnp.where(pivot, 0, w * w), axis=-1, keepdims=True)
    pivot_wx = jnp.sum(jnp.where(pivot, w * x, 0), axis=-1, keepdims=True)
    # 1 - a w_i^2 = a (1 + s - w_i^2) + sqrt_eta / (1 + sqrt_eta), where s - w_i^2 is the sum without i
    at_pivot = x * (a * (1 + others_ww) + r / (1 + r)) - a * w * others_wx
    elsewhere = x - a * w * (others_wx + pivot_wx)
    return jnp.where(pivot, at_pivot, elsewhere)


def stretch(w: Float[Array, "*#batch k"], x: Float[Array, "*#out k"]) -> Float[Array, "*out2 k"]:
    r"""$(I + w w^\top)^{1/2} x$, the inverse of `shrink`."""
    r = sqrt_eta(w)
    return x + (r / (1 + r)) * w * jnp.sum(w * x, axis=-1, keepdims=True)


def shrunk_diagonal(w: Float[Array, "*batch k"]) -> Float[Array, "*batch k"]:
    r"""The diagonal of $(I + w w^\top)^{-1}$, which is $1 - \eta w_i^2 = \eta\,(1 + \sum_{j \ne i} w_j^2)$."""
    pivot, eta = _is_pivot(w), sqrt_eta(w) ** 2
    others = jnp.sum(jnp.where(pivot, 0, w * w), axis=-1, keepdims=True)
    return jnp.where(pivot, eta * (1 + others), 1 - eta * w * w)

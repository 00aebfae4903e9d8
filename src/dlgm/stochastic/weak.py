r"""Gradients of expectations as operators on $f$.

Several of the paper's rules have one form: a small change $d\theta$ of the law changes the expectation of $f$ by the
expectation, under the same law, of another function that is linear in $d\theta$,
$$d\, E_{q_\theta}[f] = E_{q_\theta}[\mathcal{T} f], \qquad
\text{e.g. Bonnet and Price:}\quad \mathcal{T} f = g^\top d\mu + \tfrac12 \mathrm{Tr}(H\, dC).$$
`weak` is $f(x)$ with that rule as its derivative, in place of the one through $x$.

The draw $x$ is passed with its own dependence on $\theta$. The first derivative ignores it; a derivative of that
derivative does not, and so is the pathwise derivative of $E[\mathcal{T} f]$: unbiased again, where a frozen draw
would give zero.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jax import Array
from jaxtyping import Float, PyTree

from dlgm.stochastic.estimator import Pointwise

# (f, theta, d_theta, x) -> (T f)(x). Entries of d_theta are None where nothing is being differentiated.
Rule = Callable[[Pointwise, Any, Any, Array], Array]


def weak(rule: Rule, f: Pointwise, theta: PyTree, x: Float[Array, "s *point"]) -> Float[Array, "s *batch"]:
    """`f(x)`, whose derivative in `theta` is `rule`'s and in what `f` closes over is the ordinary one."""
    return _weak(theta, eqx.filter_closure_convert(f, x), x, rule)


@eqx.filter_custom_jvp
def _weak(theta: PyTree, f: Pointwise, x: Array, rule: Rule) -> Array:
    return f(x)


@_weak.def_jvp
def _weak_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    theta, f, x, rule = primals
    d_theta, d_f, _, _ = tangents
    _, through_f = eqx.filter_jvp(lambda g: g(x), (f,), (d_f,))
    through_law = rule(f, theta, d_theta, x)
    return _weak(theta, f, x, rule), through_law if through_f is None else through_law + through_f

"""Finding step functions, whose derivative is zero wherever it exists and so says nothing about their expectation."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_STEP = (
    "{estimator} differentiates f, but {what} is a step function of the draw: its derivative is zero wherever it "
    "exists, and the estimate would be zero too. Use Reinforce(), which only needs values of f."
)
_ROUNDING = {"floor", "ceil", "round", "sign"}
# Functions with a derivative of their own (custom_jvp, custom_vjp) are not looked into: it may well not be zero.
_CALLS = {"jit", "pjit", "closed_call", "core_call", "remat", "checkpoint"}


class _Depends(IntEnum):
    """How a value depends on the draw."""

    NOT = 0
    IN_STEPS = 1
    SMOOTHLY = 2


def refuse_steps(
    f: Callable[[Array], Array], x: Array | jax.ShapeDtypeStruct, *, estimator: str, what: str = "f"
) -> None:
    """Raise where every path from `x` to `f(x)` goes through a comparison or a rounding.

    This finds `x > 0`, `floor(x)` and `where(x > 0, 1.0, 0.0)`. It cannot find `x + floor(x)`, which varies between its
    jumps as well: those the caller has to know about.
    """
    closed = jax.make_jaxpr(f)(jax.ShapeDtypeStruct(x.shape, x.dtype))
    (out,) = _follow(closed.jaxpr, [_Depends.SMOOTHLY])
    if out == _Depends.IN_STEPS:
        raise ValueError(_STEP.format(estimator=estimator, what=what))


def _follow(jaxpr: Jaxpr, inputs: list[_Depends]) -> list[_Depends]:
    level = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(var: Any) -> _Depends:
        return _Depends.NOT if isinstance(var, Literal) else level.get(var, _Depends.NOT)

    for eqn in jaxpr.eqns:
        ins = [read(var) for var in eqn.invars]
        inner = _called(eqn)
        if inner is not None and len(inner.invars) == len(ins):
            outs = _follow(inner, ins)
        else:
            # Loops and branches count as smooth: what cannot be decided is let through.
            outs = [max(ins, default=_Depends.NOT)] * len(eqn.outvars)
        for var, out in zip(eqn.outvars, outs, strict=True):
            steps = eqn.primitive.name in _ROUNDING or not jnp.issubdtype(_dtype(var), jnp.inexact)
            level[var] = min(out, _Depends.IN_STEPS) if steps else out
    return [read(var) for var in jaxpr.outvars]


def _dtype(var: Any) -> Any:
    return getattr(var.aval, "dtype", jnp.float32)


def _called(eqn: Any) -> Jaxpr | None:
    if eqn.primitive.name not in _CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = eqn.params.get(name)
        if isinstance(inner, ClosedJaxpr):
            return inner.jaxpr
        if isinstance(inner, Jaxpr):
            return inner
    return None

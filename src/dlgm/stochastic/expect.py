"""`expect` and `per_sample_gradients`: the two ways to use an estimator."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key

from dlgm.stochastic.estimator import AbstractEstimator, Pointwise, arguments, law_of, rebuild
from dlgm.stochastic.pathwise import Pathwise


def expect(
    f: Callable[[Array], Array],
    q: dist.Distribution,
    *,
    key: Key[Array, ""],
    estimator: AbstractEstimator = Pathwise(),  # noqa: B008  (immutable, so one instance serves all)
    num_samples: int = 1,
) -> Float[Array, "*batch"]:
    r"""A Monte Carlo value of $E_q[f(\xi)]$ whose gradient is `estimator`'s.

    $$\frac1S \sum_{s=1}^S f(\xi_s), \qquad \xi_s \sim q$$

    **Arguments**

    - `f`: takes one draw (an array of `q`'s event shape) and returns a scalar. It may close over parameters: in those
      it is differentiated in the ordinary way.
    - `q`: the law; a Gaussian of `dlgm.gaussians`, or any numpyro distribution that the estimator supports.
    - `key`: a typed key, `jax.random.key(seed)`.
    - `estimator`: what stands for $\nabla_\theta E_q[f]$; by default `Pathwise()`.
    - `num_samples`: $S$.

    **Returns** one value for each of `q`'s batch entries.

    It can be used under `jit`, `vmap` and `grad`, inside another `f`, and differentiated again (but for Gamma and
    inverse Gamma laws in their shape, whose second derivatives JAX does not have).

    >>> import jax, jax.numpy as jnp
    >>> from dlgm import BonnetPrice, RankOneGaussian
    >>> def energy(u):
    ...     q = RankOneGaussian(mean=jnp.zeros(2), log_d=jnp.zeros(2), u=u)
    ...     return expect(lambda xi: jnp.sum(xi**2), q, key=jax.random.key(0), estimator=BonnetPrice())
    >>> [round(float(g), 4) for g in jax.grad(energy)(jnp.array([1.0, 1.0]))]  # exact: -2 u / (1 + u'u)^2
    [-0.2222, -0.2222]
    """
    _check(estimator, q, key, num_samples)
    F = _pointwise(f, q)
    draws = estimator.draw(F, q, key, num_samples)
    return jnp.mean(estimator.surrogate(F, q, draws), axis=0)


def per_sample_gradients(
    f: Callable[[Array], Array],
    q: dist.Distribution,
    *,
    key: Key[Array, ""],
    estimator: AbstractEstimator = Pathwise(),  # noqa: B008
    num_samples: int,
    wrt: Sequence[str] | None = None,
) -> dict[str, Float[Array, "s *parameter"]]:
    """Each sample's gradient, for every parameter of `q` by name, so that its variance can be measured.

    Their mean over the first axis is the gradient of `expect` with the same arguments. `wrt` names the parameters to
    differentiate in; by default all. The other arguments are those of `expect`.

    >>> import jax, jax.numpy as jnp
    >>> import numpyro.distributions as dist
    >>> grads = per_sample_gradients(lambda x: x**2, dist.Normal(1.0, 2.0), key=jax.random.key(0), num_samples=1000)
    >>> {name: g.shape for name, g in grads.items()}
    {'loc': (1000,), 'scale': (1000,)}
    """
    _check(estimator, q, key, num_samples, caller="per_sample_gradients")
    F = _pointwise(f, q)
    draws = estimator.draw(F, q, key, num_samples)
    args = arguments(q)
    wrt = (wrt,) if isinstance(wrt, str) else wrt
    unknown = set(wrt or ()) - set(args)
    if unknown:
        raise ValueError(
            f"per_sample_gradients: expected `wrt` to name parameters of {type(q).__name__} ({', '.join(args)}); "
            f"got {', '.join(sorted(unknown))}."
        )
    moving = {name: value for name, value in args.items() if wrt is None or name in wrt}

    def one(draw: Any) -> dict[str, Array]:
        single = jax.tree.map(lambda leaf: leaf[None], draw)
        return jax.grad(lambda a: jnp.sum(estimator.surrogate(F, rebuild(law_of(q), args | a), single)))(moving)

    return jax.vmap(one)(draws)


def _check(estimator: object, q: object, key: object, num_samples: object, caller: str = "expect") -> None:
    if not isinstance(estimator, AbstractEstimator):
        hint = f" Did you mean {estimator.__name__}()?" if isinstance(estimator, type) else ""
        raise TypeError(
            f"{caller}: expected `estimator` to be an estimator such as Pathwise(); got {estimator!r}.{hint}"
        )
    if not isinstance(q, dist.Distribution):
        raise TypeError(f"{caller}: expected `q` to be a numpyro distribution; got {type(q).__name__}.")
    is_key = hasattr(key, "dtype") and (
        jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32
    )
    if not is_key:
        raise TypeError(f"{caller}: expected `key` to be a random key, jax.random.key(seed); got {key!r}.")
    if not isinstance(num_samples, Integral) or isinstance(num_samples, bool) or num_samples < 1:
        raise ValueError(f"{caller}: expected `num_samples` to be a whole number of at least 1; got {num_samples!r}.")


def _pointwise(f: Callable[[Array], Array], q: dist.Distribution) -> Pointwise:
    """`f` over every leading axis of an array of draws."""
    event = q.event_shape

    def F(x: Array) -> Array:
        lead = x.shape[: x.ndim - len(event)]
        values = jax.vmap(f)(x.reshape((math.prod(lead), *event)))
        if not hasattr(values, "ndim"):
            raise TypeError(f"expect: expected `f` to return a scalar; got {type(values).__name__}.")
        if values.ndim != 1:
            raise ValueError(
                f"expect: expected `f` to return a scalar for one draw of shape {event}; got shape {values.shape[1:]}. "
                "Take a sum, or use vmap over several functions."
            )
        if jnp.issubdtype(values.dtype, jnp.complexfloating):
            raise TypeError("expect: expected `f` to return a real number; got a complex one.")
        dtype = values.dtype if jnp.issubdtype(values.dtype, jnp.inexact) else jnp.result_type(float)
        return values.astype(dtype).reshape(lead)

    return F


__all__ = ["expect", "per_sample_gradients"]

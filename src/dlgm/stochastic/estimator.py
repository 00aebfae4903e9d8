"""What an estimator is: a way to draw, and a number per draw whose gradient is the estimate."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key, PyTree

from dlgm.gaussians import AbstractGaussian, BlockGaussian

# f applied to every point of an array: (s, *batch, *event) -> (s, *batch), each output from its own point alone.
Pointwise = Callable[[Array], Array]


class AbstractEstimator(eqx.Module):
    r"""An unbiased estimator of $\nabla_\theta E_{q_\theta}[f(\xi)]$.

    It is written as two functions, so that one sample's gradient can be looked at by itself:

    - `draw` makes everything random, and everything that couples the samples (a leave-one-out baseline, say). Nothing
      is differentiated through it.
    - `surrogate` turns draws into one number a sample, worth $f(\xi_s)$, whose derivative in `q` is the estimator's
      gradient for that sample, and whose derivative in what `f` closes over is the ordinary one.
    """

    @abstractmethod
    def draw(self, f: Pointwise, q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> PyTree[Array]:
        """Draws whose leaves all have the samples as their first axis."""

    @abstractmethod
    def surrogate(self, f: Pointwise, q: dist.Distribution, draws: PyTree[Array]) -> Float[Array, "s *batch"]:
        """One value a sample, carrying the estimator's gradient."""


def frozen_sample(q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> Array:
    """Draws from `q` that carry no gradient, of shape `(num_samples, *batch, *event)`."""
    return jax.lax.stop_gradient(jax.lax.stop_gradient(q).sample(key, (num_samples,)))


def base_draw(q: dist.Distribution, key: Key[Array, ""], num_samples: int) -> Array:
    r"""The parameter-free part of the draws: $\epsilon$ for our Gaussians, a key a sample for numpyro's laws."""
    if isinstance(q, AbstractGaussian):
        return jax.random.normal(key, q.shape((num_samples,)), q.mean.dtype)
    return jax.random.split(key, num_samples)


def transport(q: dist.Distribution, base: Array) -> Array:
    """The draws that belong to a base draw, differentiable in `q` where `q` is reparametrised."""
    if isinstance(q, AbstractGaussian):
        return q.mean + q.factor_times(base)
    return jax.vmap(lambda key: q.sample(key))(base)


def arguments(q: dist.Distribution) -> dict[str, Any]:
    """The constructor's arguments of a law, by name. (Its leaves may repeat them: StudentT holds `df` twice.)"""
    if isinstance(q, BlockGaussian):
        blocks = enumerate(q.blocks)
        return {f"{i}.{name}": value for i, block in blocks for name, value in arguments(block).items()}
    args = {name: _as_float(value) for name, value in q.get_args().items()}
    try:
        rebuild(type(q), args)
    except (TypeError, ValueError, AssertionError) as error:
        raise TypeError(
            f"Expected a law that is made from its parameters, such as Normal(loc, scale); {type(q).__name__} is made "
            "in another way. Take it without expand, mask or to_event, convert it with dlgm.as_gaussian, or "
            "differentiate `expect` in your own parameters."
        ) from error
    return args


def _as_float(value: Any) -> Array:
    array = jnp.asarray(value)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(jnp.result_type(float))


def law_of(q: dist.Distribution) -> Any:
    """The class of `q`, or for blocks their classes: `rebuild(law_of(q), arguments(q))` is `q`."""
    return tuple(law_of(block) for block in q.blocks) if isinstance(q, BlockGaussian) else type(q)


def rebuild(law: Any, args: dict[str, Any]) -> dist.Distribution:
    """A law from its arguments, without checking their values again."""
    if isinstance(law, tuple):
        parts = [
            {name.partition(".")[2]: value for name, value in args.items() if name.partition(".")[0] == str(i)}
            for i in range(len(law))
        ]
        return BlockGaussian(*(rebuild(block, part) for block, part in zip(law, parts, strict=True)))
    return law(**args, validate_args=False)

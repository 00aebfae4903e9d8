"""The deterministic maps: affine layers and multilayer perceptrons."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key


def _gated(x: Array) -> Array:
    r"""$a \, \sigma(g)$ of the two halves of a vector: a unit that says how much, and one that says whether."""
    a, g = jnp.split(x, 2, axis=-1)
    return a * jax.nn.sigmoid(g)


# By name, since a model's config is stored in its file.
NONLINEARITIES: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "leaky-relu": jax.nn.leaky_relu,
    "identity": lambda x: x,
    "gated": _gated,
}


def width_before(nonlinearity: str, width: int) -> int:
    """How many numbers a non-linearity takes to give `width`: a gated unit takes two."""
    return 2 * width if nonlinearity == "gated" else width


def gain_of(nonlinearity: str) -> float:
    """The gain that makes up for what a non-linearity takes from the signal: rectifiers halve its square."""
    if nonlinearity == "gated":
        return 2.0  # a gate starts half open
    return 2**0.5 if nonlinearity in ("relu", "leaky-relu", "gelu", "silu", "elu") else 1.0


class Affine(eqx.Module):
    r"""$W x + b$, with $W_{ij} \sim N(0, \text{gain}^2 / \text{fan-in})$ at the start and $b = 0$.

    The paper starts from a variance of "10^6", meaning $10^{-6}$, which leaves rectifiers dead: fan-in scaling keeps
    the size of the signal from layer to layer.
    """

    weight: Float[Array, "o i"]
    bias: Float[Array, " o"]

    def __init__(self, num_in: int, num_out: int, *, gain: float = 1.0, key: Key[Array, ""]) -> None:
        self.weight = jax.random.normal(key, (num_out, num_in)) * (gain / max(num_in, 1) ** 0.5)
        self.bias = jnp.zeros(num_out)

    def __call__(self, x: Float[Array, " i"]) -> Float[Array, " o"]:
        """The affine map of one vector."""
        return x @ self.weight.T + self.bias  # the vector first: a batch of them then keeps its layout


class MLP(eqx.Module):
    r"""Affine layers with a non-linearity between them; with no hidden layer, an affine map.

    With `activate_input` the non-linearity also comes first, so that no hidden layer gives
    $T(h) = A f(h) + b$, the map of a non-linear Gaussian belief network. With `linear_path` a matrix times the input is
    added to the output, and the last layer starts at zero: the network starts as an affine map, and what the hidden
    layers add is learnt.
    """

    layers: tuple[Affine, ...]
    linear: Float[Array, "o i"] | None
    nonlinearity: str = eqx.field(static=True)
    activate_input: bool = eqx.field(static=True)

    def __init__(
        self,
        num_in: int,
        hidden: Sequence[int],
        num_out: int,
        *,
        nonlinearity: str = "relu",
        activate_input: bool = False,
        linear_path: bool = False,
        output_gain: float = 1.0,
        key: Key[Array, ""],
    ) -> None:
        sizes = [num_in, *hidden, num_out]
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [gain_of(nonlinearity)] * len(hidden) + [0.0 if linear_path else output_gain]
        widths = [*(width_before(nonlinearity, width) for width in hidden), num_out]
        self.layers = tuple(
            Affine(i, o, gain=gain, key=k) for i, o, gain, k in zip(sizes[:-1], widths, gains, keys, strict=True)
        )
        self.linear = None
        if linear_path:
            self.linear = jax.random.normal(jax.random.fold_in(key, 0), (num_out, num_in)) * (output_gain / num_in**0.5)
        self.nonlinearity = nonlinearity
        self.activate_input = activate_input

    def __call__(self, x: Float[Array, " i"]) -> Float[Array, " o"]:
        """The network's output for one vector."""
        f = NONLINEARITIES[self.nonlinearity]
        direct = 0.0 if self.linear is None else x @ self.linear.T
        x = f(x) if self.activate_input else x
        for layer in self.layers[:-1]:
            x = f(layer(x))
        return self.layers[-1](x) + direct

    def features(self, x: Float[Array, " i"]) -> Float[Array, " f"]:
        """The output with the non-linearity on top, for other networks to build on."""
        return NONLINEARITIES[self.nonlinearity](self(x))

"""A model described by plain values, and the building of it."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jaxtyping import Key

from dlgm.keys import quick_key
from dlgm.model.bayes import PRIORS, start_posterior
from dlgm.model.cell_recognition import CellRecognition
from dlgm.model.generative import GenerativeModel
from dlgm.model.heads import HEADS, make_heads
from dlgm.model.model import Model
from dlgm.model.networks import MLP, NONLINEARITIES, gain_of, width_before
from dlgm.model.observations import AbstractObservation, observation_from_config
from dlgm.model.recognition import RecognitionModel
from dlgm.model.scales import SCALES
from dlgm.names import require_one_of

STRUCTURES = ("factorised", "joint", "directed")
CELLS = "cells"  # a covariance that is not a head's: see CellRecognition


_WIDEST = 1_000_000  # latents of a layer, or hidden units; more is a slip of the pen


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes a model's shape. Plain values only, so that a file can hold it.

    Settings of the L maps T_0 .. T_{L-1} and of the L layers may be given once for all, or as a list with one entry
    each, the one next to the data first.
    """

    observation: Mapping[str, Any]  # the observation family: `AbstractObservation.config()`
    latent: Sequence[Any] = (100,)  # latents in each stochastic layer, the layer next to the data first
    hidden: Sequence[Any] = (200, 200)  # widths of the hidden layers of each T_l
    nonlinearity: str | Sequence[str] = "relu"  # of each T_l, by name
    activate_input: bool = False  # T_l(h) = A f(h) + b rather than A h + b when there is no hidden layer; T_0 too
    scale: str | Sequence[str] = "full"  # each G_l: full, diagonal or scalar
    skip: bool = False  # every layer feeds T_0, not only the one next to the data
    linear_path: bool = False  # add a matrix times the input to each T_l, which then starts as an affine map
    covariance: str = "rank-one"  # of the posterior: diagonal, rank-one, rank-r, full or cells
    rank: int = 2  # r, for rank-r
    structure: str = "factorised"  # of the posterior over layers: factorised, joint or directed
    recognition_hidden: Sequence[Any] | None = None  # widths of the trunk; None: those of T_0, from the data up
    recognition_nonlinearity: str | None = None  # None: that of T_0
    sees_mask: bool = False  # whether the recognition model is told which cells are holes
    kappa: float = 1e6  # variance of the prior on generative parameters
    bayes: bool = False  # a Gaussian posterior over each generative parameter in place of a point estimate
    prior: str = "constant"  # with bayes, the prior's variances: kappa, or by fan-in, or learned: ParameterPosterior

    # One entry a map or layer, after __post_init__ has spread what was given once.
    hiddens: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    nonlinearities: tuple[str, ...] = field(init=False, repr=False, compare=False)
    scales: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        def fix(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        fix("observation", dict(self.observation))
        fix("latent", _widths("latent", self.latent, at_least=1))
        L = len(self.latent)
        hidden = tuple(self.hidden) if isinstance(self.hidden, Sequence) else self.hidden
        nested = isinstance(hidden, tuple) and any(isinstance(entry, Sequence) for entry in hidden)
        if nested and not all(isinstance(entry, Sequence) for entry in hidden):
            raise ValueError(f"hidden: expected widths, or a list of widths for each map; got {self.hidden!r}.")
        fix("hidden", tuple(_widths("hidden", w) for w in hidden) if nested else _widths("hidden", hidden))
        fix("hiddens", _spread("hidden", self.hidden if nested else [self.hidden] * L, L))
        nonlinearity, scale = self.nonlinearity, self.scale
        fix("nonlinearities", _spread("nonlinearity", _listed(nonlinearity, L), L))
        fix("scales", _spread("scale", _listed(scale, L), L))
        fix("nonlinearity", nonlinearity if isinstance(nonlinearity, str) else tuple(nonlinearity))
        fix("scale", scale if isinstance(scale, str) else tuple(scale))
        if self.recognition_hidden is not None:
            fix("recognition_hidden", _widths("recognition_hidden", self.recognition_hidden))
        for name in (*self.nonlinearities, self.recognition_nonlinearity or "relu"):
            require_one_of("nonlinearity", name, NONLINEARITIES)
        if self.activate_input and "gated" in self.nonlinearities:
            raise ValueError("activate_input: a gated unit takes two numbers, and an input has one; choose another.")
        for name in self.scales:
            require_one_of("scale", name, SCALES)
        require_one_of("covariance", self.covariance, (*HEADS, CELLS))
        require_one_of("structure", self.structure, STRUCTURES)
        if not _is_count(self.rank) or self.rank < 1:
            raise ValueError(f"rank: expected a whole number of at least 1; got {self.rank!r}.")
        widest = sum(self.latent) if self.structure == "joint" else max(self.latent)
        if self.covariance == "rank-r" and self.rank > widest:
            raise ValueError(f"rank: expected at most the number of latents, {widest}; got {self.rank}.")
        if self.covariance == CELLS:
            if L > 1:
                raise ValueError(f"covariance: `cells` is for one layer of latents; got {L}.")
            fix("sees_mask", True)  # that is what it is for
        for name in ("sees_mask", "linear_path", "skip", "bayes"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected true or false; got {getattr(self, name)!r}.")
        if not isinstance(self.kappa, int | float) or not self.kappa > 0:
            raise ValueError(f"kappa: expected a positive variance; got {self.kappa!r}.")
        require_one_of("prior", self.prior, PRIORS)
        if self.prior != "constant" and not self.bayes:
            raise ValueError(f"prior: {self.prior} is for a posterior over the parameters; set bayes=True too.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """The config that `to_dict` described; an unknown entry is refused by name."""
        known = {f.name for f in dataclasses.fields(cls) if f.init}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"Unknown model settings: {', '.join(unknown)}. Known: {', '.join(sorted(known))}.")
        return cls(**values)


def build_model(config: ModelConfig, *, key: Key[Array, ""]) -> Model:
    """A model with fan-in scaled random weights.

    >>> import jax
    >>> from dlgm.model import ModelConfig, build_model, make_observation
    >>> config = ModelConfig(make_observation("bernoulli", columns=64).config(), latent=(10,), hidden=(32,))
    >>> model = build_model(config, key=jax.random.key(0))
    >>> model.generative.sample(jax.random.key(1)).shape
    (64,)
    """
    # Compiled as one program: op by op, the many small arrays would each be compiled for themselves.
    return _builder(json.dumps(config.to_dict(), sort_keys=True))(key)


@lru_cache(maxsize=8)
def _builder(described: str) -> Callable[[Key[Array, ""]], Model]:
    """The compiled program that builds a model, kept for the next one of its shape."""
    config = ModelConfig.from_dict(json.loads(described))
    return jax.jit(lambda key: _build(config, quick_key(key)))


def _build(config: ModelConfig, key: Key[Array, ""]) -> Model:
    observation = observation_from_config(config.observation)
    key_generative, key_trunk, key_heads = jax.random.split(key, 3)
    L = len(config.latent)
    inputs = (sum(config.latent), *config.latent[1:]) if config.skip else config.latent
    networks = tuple(
        MLP(
            num_in,
            config.hiddens[l],
            num_out,
            nonlinearity=config.nonlinearities[l],
            activate_input=config.activate_input,
            linear_path=config.linear_path,
            # The outputs start near the data's mean, which `initialise` puts into the bias.
            output_gain=0.2 if l == 0 else 1.0,
            key=jax.random.fold_in(key_generative, l),
        )
        for l, (num_in, num_out) in enumerate(zip(inputs, (observation.num_outputs, *config.latent[:-1]), strict=True))
    )
    scales = tuple(SCALES[name](K) for name, K in zip(config.scales, config.latent, strict=True))
    generative = GenerativeModel(networks, scales, observation, tuple(config.latent), float(config.kappa), config.skip)
    parameters = start_posterior(generative, config.prior) if config.bayes else None

    hidden = config.hiddens[0][::-1] if config.recognition_hidden is None else config.recognition_hidden
    nonlinearity = config.recognition_nonlinearity or config.nonlinearities[0]
    num_inputs = observation.num_inputs + (observation.columns if config.sees_mask else 0)
    trunk = None
    if hidden:
        trunk = MLP(
            num_inputs,
            hidden[:-1],
            width_before(nonlinearity, hidden[-1]),
            nonlinearity=nonlinearity,
            output_gain=gain_of(nonlinearity),
            key=key_trunk,
        )
        if config.sees_mask:
            trunk = _blind_to_holes(trunk, observation)
    num_features = hidden[-1] if hidden else num_inputs
    if config.covariance == CELLS:
        cells = CellRecognition(observation.input_widths, config.latent[0], trunk, num_features, key=key_heads)
        return Model(generative, cells, parameters)
    directed = config.structure == "directed" and L > 1
    above = [sum(config.latent[l + 1 :]) if directed else 0 for l in range(L)]
    joint = config.structure == "joint"
    heads = make_heads(
        config.covariance,
        [num_features] if joint else [num_features + a for a in above],
        (sum(config.latent),) if joint else config.latent,
        # A directed head has a hidden layer of its own: what it takes from the draws above should not be linear.
        hidden=hidden[-1:] if directed else (),
        nonlinearity=nonlinearity,
        rank=config.rank,
        key=key_heads,
    )
    if config.sees_mask and trunk is None:
        heads = tuple(
            eqx.tree_at(lambda h: h.network, head, _blind_to_holes(head.network, observation)) for head in heads
        )
    return Model(generative, RecognitionModel(trunk, heads, directed, config.sees_mask), parameters)


def _blind_to_holes(network: MLP, observation: AbstractObservation) -> MLP:
    """The same network of encoded rows with weights of zero for holes: training finds out what they mean.

    A column whose holes it has never met is then taken at its fill, as in a model that does not see the mask.
    """
    i, x = observation.num_inputs, observation.columns
    weight = network.layers[0].weight
    n = weight.shape[1]
    # The others as large as if there were no more of them.
    blind = (weight * (n / (n - x)) ** 0.5).at[:, i : i + x].set(0)
    return eqx.tree_at(lambda net: net.layers[0].weight, network, blind)


def initialise(model: Model, rows: np.ndarray, mask: np.ndarray | None = None) -> Model:
    """The same model with its output bias and the observation family's own parameters set from the data's columns."""
    observation, bias = model.generative.observation.initialise(rows, mask)
    return eqx.tree_at(
        lambda m: (m.generative.observation, m.generative.networks[0].layers[-1].bias), model, (observation, bias)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _widths(name: str, value: Any, at_least: int = 0) -> tuple[int, ...]:
    widths = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else None
    if widths is None or len(widths) < at_least or not all(_is_count(w) and w > 0 for w in widths):
        raise ValueError(f"{name}: expected a list of positive whole numbers, such as (200, 200); got {value!r}.")
    if any(w > _WIDEST for w in widths):
        raise ValueError(f"{name}: expected widths of at most {_WIDEST:,}; got {max(widths):,}.")
    return tuple(int(w) for w in widths)


def _listed(value: Any, L: int) -> Sequence[Any]:
    return [value] * L if isinstance(value, str) or not isinstance(value, Sequence) else value


def _spread(name: str, values: Sequence[Any], L: int) -> tuple[Any, ...]:
    if len(values) != L:
        raise ValueError(f"{name}: expected one entry for each of the {L} stochastic layers; got {len(values)}.")
    return tuple(values)

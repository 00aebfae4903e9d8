"""How a model is trained, as plain values."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import optax
import optax.contrib
from jax import Array
from jaxtyping import Float

from dlgm.learning.importance import ImportanceWeighted
from dlgm.learning.noise import Noise
from dlgm.learning.objective import AbstractObjective, FreeEnergy, check_num_samples
from dlgm.learning.wake_sleep import WakeSleep
from dlgm.names import require_one_of

OPTIMISERS = {
    # Hinton's RMSprop, the paper's choice, with the bias of the first steps taken out as in Adam: without that, the
    # very first step is ten times too long.
    "rmsprop": lambda rate: optax.rmsprop(rate, decay=0.99, eps=1e-8, bias_correction=True),
    "adam": lambda rate: optax.adam(rate),
    "adamw": lambda rate: optax.adamw(rate),
    "adamax": lambda rate: optax.adamax(rate),
    "nadam": lambda rate: optax.nadam(rate),
    "adagrad": lambda rate: optax.adagrad(rate),
    "lion": lambda rate: optax.lion(rate, weight_decay=0.0),
    "adan": lambda rate: optax.adan(rate),
    "muon": lambda rate: optax.contrib.muon(rate),
    "sgd": lambda rate: optax.sgd(rate, momentum=0.9),
}
SCHEDULES = ("cosine", "constant", "linear")
OBJECTIVES = ("free-energy", "importance-weighted", "wake-sleep")


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that fixes a training run, beside the data and the model. A run is a function of these three."""

    epochs: int = 200  # passes over the data at most
    batch_size: int = 200  # rows in a step; the paper's
    objective: str = "free-energy"  # or importance-weighted, or wake-sleep
    num_samples: int | None = None  # draws of the latents a row. None: 1, or 5 for the importance-weighted bound
    optimiser: str = "adam"  # one of OPTIMISERS; the paper has RMSprop, which is slower: docs/performance.md
    learning_rate: float = 1e-3  # at its highest
    schedule: str = "cosine"  # how the rate falls to zero over the epochs: cosine, linear, or constant
    warm_up: float = 0.1  # share of the epochs over which the weight of the KL term rises from 0 to 1
    averaging: float = 0.999  # decay of the running average of the parameters, which is what is kept; 0 for none
    clip: float = 100.0  # longest gradient (norm, of the free energy per row) that is taken as it is; 0 for no limit
    patience: int = 0  # epochs without a better validation bound before stopping; 0 to run to the end
    validate_every: int = 1  # epochs between looks at the validation bound
    bit_flip: float = 0.0  # noise at the recognition model's input and on its samples: see Noise
    drop_out: float = 0.0
    gaussian_noise: float = 0.0
    sample_noise: float = 0.0
    parameter_draws: int = 1  # of a Bayesian model's parameters in a step; each serves an equal share of the rows
    parameter_weight: float = 1.0  # of the KL of a Bayesian model's parameters; below 1, a tempered posterior
    # Share of the epochs in which the importance-weighted bound is still the free energy, of one draw, at a fraction of
    # the time: the weights matter once the model is good.
    free_until: float = 0.0
    hide_cells: float = 0.0  # largest share of a row's cells taken for holes in a step, so that holes are met later
    # Pixels by which images are moved at random along both axes: all of them at first, none at last. Pixels must share
    # their units: bits, bytes, or numbers that were scaled together.
    move: int = 0
    slant: float = 0.0  # pixels by which lines are moved for each line from the middle, across and down, at most
    move_until: float = 0.8  # share of the epochs after which none is moved
    image: Sequence[int] | None = None  # a row's height, width, and perhaps colours. None: it is a square, for `move`
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("batch_size", 1),
            ("patience", 0),
            ("validate_every", 1),
            ("parameter_draws", 1),
            ("move", 0),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}: expected a whole number of at least {least}; got {value!r}.")
        for name, known in (
            ("objective", OBJECTIVES),
            ("optimiser", tuple(OPTIMISERS)),
            ("schedule", SCHEDULES),
        ):
            require_one_of(name, getattr(self, name), known)
        if self.num_samples is not None:
            # A single importance weight is the free energy again, and a noisier one.
            check_num_samples(self.num_samples, at_least=2 if self.objective == "importance-weighted" else 1)
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate: expected a positive number; got {self.learning_rate!r}.")
        if not 0 <= self.warm_up <= 1:
            raise ValueError(f"warm_up: expected a share of the epochs, from 0 to 1; got {self.warm_up!r}.")
        if not 0 <= self.free_until <= 1:
            raise ValueError(f"free_until: expected a share of the epochs, from 0 to 1; got {self.free_until!r}.")
        if self.free_until and self.objective != "importance-weighted":
            raise ValueError(
                f"free_until: expected the objective importance-weighted, which comes after; got {self.objective}."
            )
        if not 0 <= self.averaging < 1:
            raise ValueError(f"averaging: expected a decay of at least 0 and less than 1; got {self.averaging!r}.")
        if not 0 <= self.clip < float("inf"):
            raise ValueError(f"clip: expected a norm of at least 0; got {self.clip!r}.")
        if not 0 < self.parameter_weight < float("inf"):
            raise ValueError(f"parameter_weight: expected a positive number; got {self.parameter_weight!r}.")
        if not 0 <= self.slant < 1:
            raise ValueError(f"slant: expected pixels for each pixel, at least 0 and less than 1; got {self.slant!r}.")
        if not 0 < self.move_until <= 1:
            raise ValueError(f"move_until: expected a share of the epochs, above 0; got {self.move_until!r}.")
        if self.image is not None:
            object.__setattr__(self, "image", _as_shape(self.image))
        self.noise()

    def noise(self) -> Noise:
        """The noise of the recognition model."""
        return Noise(self.bit_flip, self.drop_out, self.gaussian_noise, self.sample_noise, self.hide_cells)

    def make_objective(self) -> AbstractObjective:
        """The objective by its name."""
        if self.objective == "importance-weighted":
            return ImportanceWeighted(self.num_samples or 5)
        if self.objective == "wake-sleep":
            return WakeSleep(self.num_samples or 1)
        return FreeEnergy(self.num_samples or 1)

    def check_for(self, family: str, columns: int, *, validated: bool) -> None:
        """Refuse settings that do not go with the data."""
        if self.moves:
            self.image_of(columns)
        if self.patience and not validated:
            raise ValueError("patience: early stopping needs validation rows; pass `valid`, or set patience to 0.")
        if self.bit_flip and family != "bernoulli":
            raise ValueError(
                f"bit_flip: only binary rows have bits to flip; the family is {family}. Use gaussian_noise."
            )

    @property
    def moves(self) -> bool:
        """Whether images are moved or slanted."""
        return bool(self.move or self.slant)

    def image_of(self, columns: int) -> tuple[int, ...]:
        """The shape in which rows of so many columns are images."""
        side = math.isqrt(columns)
        image = tuple(self.image or (side, side))
        if math.prod(image) != columns:
            raise ValueError(
                f"image: expected a shape of {columns:,} pixels, as rows have columns; got {image}."
                if self.image
                else f"move: expected square images, or their shape as `image`; got rows of {columns:,} columns."
            )
        if self.move >= min(image[:2]):
            raise ValueError(
                f"move: expected fewer pixels than images have to a side, {min(image[:2])}; got {self.move}."
            )
        return image

    def share_moved(self, step: Float[Array, ""], num_steps: int) -> Float[Array, ""]:
        """Share of a step's images that are moved: falls from all to none."""
        return jnp.maximum(0.0, 1 - step / (self.move_until * num_steps))

    def learning_rates(self, num_steps: int) -> optax.Schedule:
        """The learning rate at each step, with a short linear rise at the start."""
        rise = max(1, min(500, num_steps // 50))
        left = max(1, num_steps - rise)
        falling = {
            "cosine": optax.cosine_decay_schedule(self.learning_rate, left),
            "linear": optax.linear_schedule(self.learning_rate, 0.0, left),
            "constant": optax.constant_schedule(self.learning_rate),
        }[self.schedule]
        rising = optax.linear_schedule(self.learning_rate / rise, self.learning_rate, rise)
        return optax.join_schedules([rising, falling], [rise])

    def make_optimiser(self, num_steps: int) -> optax.GradientTransformation:
        """The optimiser with its schedule."""
        return OPTIMISERS[self.optimiser](self.learning_rates(num_steps))

    def beta(self, step: Float[Array, ""], num_steps: int) -> Float[Array, ""]:
        """The weight of the KL term at a step."""
        rise = self.warm_up * num_steps
        return jnp.minimum(1.0, (step + 1) / rise) if rise >= 1 else jnp.ones(())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """The config that `to_dict` described; an unknown entry is refused by name."""
        known = {f.name for f in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"Unknown training settings: {', '.join(unknown)}. Known: {', '.join(sorted(known))}.")
        return cls(**values)


def _as_shape(image: object) -> tuple[int, ...]:
    """The shape of an image: a tuple, where a file has a list."""
    shape = tuple(image) if isinstance(image, Sequence) else ()
    if len(shape) not in (2, 3) or not all(type(length) is int and length > 0 for length in shape):
        raise ValueError(
            f"image: expected height and width, and perhaps a number of colours, such as (28, 28); got {image!r}."
        )
    return shape

"""Tables that mix families by column."""

from collections import Counter
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Key

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.observation import AbstractObservation

Places = tuple[tuple[int, ...], ...]


class Composite(AbstractObservation):
    """Several families side by side, each over its own columns; together they cover every column once.

    Outputs are those of the parts one after another; everything else is in the order of the columns.

    **Arguments**

    - `parts`: pairs of a family and the columns it describes, as many as the family has.

    >>> from dlgm.model.observations import Bernoulli, Gaussian
    >>> table = Composite([(Bernoulli(2), (0, 2)), (Gaussian(1), (1,))])
    >>> table.check([[0, 3.7, 1], [1, 0.2, 5]])
    Traceback (most recent call last):
    ValueError: bernoulli: expected 0 or 1 in every observed cell; got 5.0 at row 1, column 2. ...
    """

    name: ClassVar[str] = "composite"
    columns: int = eqx.field(static=True)
    places: Places = eqx.field(static=True)
    parts: tuple[AbstractObservation, ...]

    def __init__(self, parts: Any) -> None:
        pairs = [(part, tuple(int(column) for column in columns)) for part, columns in parts]
        self.parts, self.places = tuple(part for part, _ in pairs), tuple(columns for _, columns in pairs)
        self.columns = sum(map(len, self.places))

    def __check_init__(self) -> None:
        if not self.parts:
            raise ValueError("composite: expected at least one part; got none.")
        for index, (part, columns) in enumerate(zip(self.parts, self.places, strict=True)):
            if part.columns != len(columns):
                raise ValueError(
                    f"composite: expected {part.columns} column numbers for part {index} ({part.name}); "
                    f"got {len(columns)}."
                )
        times = Counter(column for columns in self.places for column in columns)
        if twice := sorted(column for column, count in times.items() if count > 1):
            raise ValueError(f"composite: expected every column in one part; got column {twice[0]} in two.")
        if missing := sorted(set(range(self.columns)) - set(times)):
            raise ValueError(
                f"composite: expected the columns 0 to {self.columns - 1}, each once; column {missing[0]} is in no "
                f"part, and there is a column {next(c for c in sorted(times) if not 0 <= c < self.columns)}."
            )

    @property
    def num_outputs(self) -> int:
        """Those of all parts."""
        return sum(part.num_outputs for part in self.parts)

    @property
    def input_widths(self) -> tuple[int, ...]:
        """As the column's part has it."""
        return tuple(len(span) for span in self._input_spans())

    @property
    def levels(self) -> tuple[int, ...]:
        """As the column's part has it."""
        return self._by_column([level for part in self.parts for level in part.levels])

    @property
    def best_fills(self) -> tuple[str, ...]:
        """As the column's part has it."""
        return self._by_column([fill for part in self.parts for fill in part.best_fills])

    @property
    def whole(self) -> tuple[bool, ...]:
        """As the column's part has it."""
        return self._by_column([whole for part in self.parts for whole in part.whole])

    def _by_column(self, values: list[Any]) -> tuple[Any, ...]:
        return tuple(values[at] for at in _order(self.places))

    def config(self) -> dict[str, Any]:
        """The parts' own configurations, with their columns."""
        pairs = zip(self.parts, self.places, strict=True)
        return {"family": self.name, "parts": [[part.config(), list(columns)] for part, columns in pairs]}

    def _input_spans(self) -> list[np.ndarray]:
        """Where each column's inputs stand in the parts' inputs one after another."""
        widths = [width for part in self.parts for width in part.input_widths]
        spans = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
        return [spans[at] for at in _order(self.places)]

    def _split(self, outputs: Float[Array, " p"]) -> list[tuple[AbstractObservation, np.ndarray, Array]]:
        ends = np.cumsum([part.num_outputs for part in self.parts])[:-1]
        columns = [np.array(place) for place in self.places]
        return list(zip(self.parts, columns, jnp.split(outputs, ends), strict=True))

    def _join(self, values: list[Array]) -> Array:
        return jnp.concatenate(values)[_order(self.places)]

    def _law(self, outputs: Float[Array, " p"]) -> "ByColumn":
        return ByColumn([part.law(own) for part, _, own in self._split(outputs)], self.places)

    def _log_prob(
        self, v: Float[Array, " x"], outputs: Float[Array, " p"], mask: Bool[Array, " x"]
    ) -> Float[Array, " x"]:
        return self._join([part.log_prob(v[at], own, mask[at]) for part, at, own in self._split(outputs)])

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        return self._join([part.mean(own) for part, _, own in self._split(outputs)])

    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        most = max(self.levels)
        found = [part.probabilities(own) for part, _, own in self._split(outputs)]
        return self._join([jnp.pad(p, ((0, 0), (0, most - p.shape[1]))) for p in found])

    def _sample(self, outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        keys = jax.random.split(key, len(self.parts))
        return self._join([part.sample(own, k) for (part, _, own), k in zip(self._split(outputs), keys, strict=True)])

    def _encode(self, v: Float[Array, " x"], mask: Bool[Array, " x"]) -> Float[Array, " i"]:
        pairs = [(part, np.array(place)) for part, place in zip(self.parts, self.places, strict=True)]
        inputs = jnp.concatenate([part.encode(v[at], mask[at]) for part, at in pairs])
        return inputs[np.concatenate(self._input_spans())]

    def _that_start(self, outputs: ArrayLike) -> Float[Array, " p"]:
        own = self._split(super()._that_start(outputs))
        return jnp.concatenate([part._that_start(outputs) for part, _, outputs in own])

    def with_noise(self, share: Float[Array, " i"]) -> "Composite":
        """Each part with its own."""
        spans = self._input_spans()
        at = np.argsort(np.concatenate(spans))  # from the columns' order to that of the parts one after another
        ends = np.cumsum([part.num_inputs for part in self.parts])[:-1]
        shares = jnp.split(share[at], ends)
        parts = tuple(part.with_noise(own) for part, own in zip(self.parts, shares, strict=True))
        return eqx.tree_at(lambda own: own.parts, self, parts)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        pairs = zip(self.parts, self.places, strict=True)
        fitted = [part.initialise(*cells.of(list(columns))[:2]) for part, columns in pairs]
        return {"parts": tuple(part for part, _ in fitted)}, jnp.concatenate([bias for _, bias in fitted])

    def _refuse(self, cells: Cells, numbers: np.ndarray) -> None:
        for part, columns in zip(self.parts, self.places, strict=True):
            part._refuse(cells.of(list(columns)), numbers[list(columns)])


class ByColumn(dist.Distribution):
    """Independent laws, each for its own columns along the batch axis."""

    pytree_data_fields = ("laws",)
    pytree_aux_fields = ("places",)

    def __init__(self, laws: list[dist.Distribution], places: Places) -> None:
        self.laws, self.places = laws, places
        super().__init__((sum(map(len, places)),))

    def log_prob(self, value: ArrayLike) -> Float[Array, "*out"]:
        """Of every cell."""
        v = jnp.asarray(value)
        pairs = zip(self.laws, self.places, strict=True)
        return self._join([law.log_prob(v[..., np.array(columns)]) for law, columns in pairs])

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out"]:
        """A draw for every cell, as floating-point numbers."""
        keys = jax.random.split(key, len(self.laws))
        draws = [law.sample(k, sample_shape) for law, k in zip(self.laws, keys, strict=True)]
        return self._join([draw.astype(jnp.result_type(float)) for draw in draws])

    @property
    def mean(self) -> Float[Array, " x"]:
        """Of every cell; NaN where a law has none."""
        return self._join([law.mean for law in self.laws])

    def _join(self, values: list[Array]) -> Array:
        return jnp.concatenate(values, axis=-1)[..., _order(self.places)]


def _order(places: Places) -> np.ndarray:
    """Where each column, in order, is found among the parts one after another."""
    return np.argsort(np.concatenate(places))

r"""What every observation family $\pi(v \mid T_0(h_1))$ can do, for one row; callers `vmap`."""

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Key

from dlgm.model.observations.cells import Cells, as_cells
from dlgm.names import require_whole

Own = TypeVar("Own", bound="AbstractObservation")


_CHECKED = 1000  # rows that are checked together


class AbstractObservation(eqx.Module):
    r"""A law $\pi(v \mid o)$ over a row of `columns` cells, independent given the outputs $o = T_0(h_1)$.

    Everything is for one row. The arrays a family owns (log-variances, cutpoints, ..) are its trainable leaves, and its
    other fields are static. `mask` is true where a cell was observed; what stands in the other
    cells, NaN included, reaches neither a value nor a gradient.
    """

    name: eqx.AbstractClassVar[str]
    columns: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """How many numbers $o$ has."""

    @property
    @abstractmethod
    def input_widths(self) -> tuple[int, ...]:
        """How many numbers of `encode` each column becomes."""

    @property
    def num_inputs(self) -> int:
        """How many numbers `encode` returns."""
        return sum(self.input_widths)

    @property
    @abstractmethod
    def levels(self) -> tuple[int, ...]:
        """How many codes each column has: its cells are 0, 1, .. up to one less. Zero for columns of numbers."""

    @property
    @abstractmethod
    def best_fills(self) -> tuple[str, ...]:
        """What stands best for each column's draws where one value must: their `mean`, `median` or `mode`."""

    @property
    @abstractmethod
    def whole(self) -> tuple[bool, ...]:
        """Whether the cells of each column are whole numbers."""

    def law(self, outputs: ArrayLike) -> dist.Distribution:
        r"""$\pi(\cdot \mid o)$ as a numpyro law of batch shape `(x,)` and scalar events."""
        return self._law(self._as_vector("outputs", outputs, self.num_outputs))

    def log_prob(self, v: ArrayLike, outputs: ArrayLike, mask: ArrayLike | None = None) -> Float[Array, " x"]:
        r"""$\log \pi(v_i \mid o)$ of every cell; zero, with zero gradient, where `mask` is false."""
        outputs = self._as_vector("outputs", outputs, self.num_outputs)
        return self._log_prob(self._as_vector("v", v, self.columns), outputs, self._as_mask(mask))

    def mean(self, outputs: ArrayLike) -> Float[Array, " x"]:
        r"""$E[v \mid o]$ in the data's own units. For a categorical column: its most probable code."""
        return self._mean(self._as_vector("outputs", outputs, self.num_outputs))

    def probabilities(self, outputs: ArrayLike) -> Float[Array, "x c"]:
        r"""$\pi(v_i = c \mid o)$ of the codes $c$ of every column; zero beyond its last, and in columns of numbers."""
        return self._probabilities(self._as_vector("outputs", outputs, self.num_outputs))

    def sample(self, outputs: ArrayLike, key: Key[Array, ""]) -> Float[Array, " x"]:
        r"""A draw $v \sim \pi(\cdot \mid o)$."""
        return self._sample(self._as_vector("outputs", outputs, self.num_outputs), key)

    def encode(self, v: ArrayLike, mask: ArrayLike | None = None) -> Float[Array, " i"]:
        """The numbers a recognition network sees: column by column, finite, zero where `mask` is false."""
        return self._encode(self._as_vector("v", v, self.columns), self._as_mask(mask))

    def expected_inputs(self, outputs: ArrayLike) -> Float[Array, " i"]:
        r"""What `encode` gives on average if $v \sim \pi(\cdot \mid o)$: exactly for codes, else at the mean.

        Its derivative says how outputs must move for inputs to move, which is what a linear start needs.
        """
        outputs = self._that_start(outputs)
        inputs = self.encode(self.mean(outputs))
        if not any(self.levels):
            return inputs
        levels, widths = jnp.asarray(self.levels), np.asarray(self.input_widths)
        codes = jnp.arange(max(self.levels))
        encoded = jax.vmap(lambda c: self.encode(jnp.clip(c, 0, levels - 1).astype(inputs.dtype)))(codes)
        column = np.repeat(np.arange(self.columns), widths)
        average = jnp.sum(self.probabilities(outputs)[column] * encoded.T, axis=1)
        return jnp.where(levels[column] > 0, average, inputs)

    def _that_start(self, outputs: ArrayLike) -> Float[Array, " p"]:
        """The outputs, constant where a linear start shall leave them at the bias."""
        return self._as_vector("outputs", outputs, self.num_outputs)

    def with_noise(self, share: Float[Array, " i"]) -> "AbstractObservation":
        """The family after `initialise`, when latents explain all but this share of each input's variance."""
        return self

    def initialise(self: Own, rows: Any, mask: Any = None) -> tuple[Own, Float[Array, " p"]]:
        r"""The family fitted to each column by itself, and the output bias that goes with it.

        With $o$ held at the bias, the returned family describes every column's marginal: training starts from there.
        Columns without a single observed cell get neutral values.
        """
        cells = self._as_cells(rows, mask)
        self._refuse(cells, np.arange(self.columns))
        own, bias = self._fit(cells)
        return eqx.tree_at(lambda family: [getattr(family, name) for name in own], self, list(own.values())), bias

    def check(self, rows: Any, mask: Any = None, start: int = 0) -> None:
        """Refuse rows with an observed cell outside the family's support, naming the first one.

        `start` is the number that the first row has elsewhere, for the message.
        """
        values, numbers = np.asarray(rows), np.arange(self.columns)
        if values.ndim != 2 or (mask is not None and np.shape(mask) != values.shape):
            self._as_cells(rows, mask)  # which says what is wrong
        # Some rows at a time: the copies that checking makes must not be as large as the data.
        for first in range(0, max(1, len(values)), _CHECKED):
            part = slice(first, first + _CHECKED)
            cells = self._as_cells(values[part], None if mask is None else np.asarray(mask)[part])
            self._refuse(cells._replace(start=start + first), numbers)

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, ready for JSON; `observation_from_config` turns them back into the family."""

    @abstractmethod
    def _law(self, outputs: Float[Array, " p"]) -> dist.Distribution:
        """See `law`."""

    @abstractmethod
    def _log_prob(
        self, v: Float[Array, " x"], outputs: Float[Array, " p"], mask: Bool[Array, " x"]
    ) -> Float[Array, " x"]:
        """See `log_prob`."""

    @abstractmethod
    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        """See `mean`."""

    @abstractmethod
    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        """See `probabilities`."""

    @abstractmethod
    def _sample(self, outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        """See `sample`."""

    @abstractmethod
    def _encode(self, v: Float[Array, " x"], mask: Bool[Array, " x"]) -> Float[Array, " i"]:
        """See `encode`."""

    @abstractmethod
    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        """See `initialise`: the fields to be replaced, and the bias. The cells have been checked."""

    @abstractmethod
    def _refuse(self, cells: Cells, numbers: np.ndarray) -> None:
        """See `check`; `numbers` are the columns' places in the whole table, for the message."""

    def _as_vector(self, name: str, value: ArrayLike, size: int) -> Array:
        array = jnp.asarray(value)
        if array.shape != (size,):
            raise ValueError(
                f"{self.name}: expected `{name}` of shape ({size},), one row; got shape {array.shape}. "
                "Use jax.vmap over rows."
            )
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))

    def _as_mask(self, mask: ArrayLike | None) -> Array:
        if mask is None:
            return jnp.ones(self.columns, bool)
        array = jnp.asarray(mask)
        if array.shape != (self.columns,) or array.dtype != bool:
            raise ValueError(
                f"{self.name}: expected `mask` of {self.columns} booleans, true where observed; "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def _as_cells(self, rows: Any, mask: Any) -> Cells:
        return as_cells(self.name, self.columns, rows, mask)


class AbstractFamily(AbstractObservation):
    """One law for all columns."""

    # A value inside the support: it stands in for masked cells, so that nothing non-finite is ever computed with.
    placeholder: eqx.AbstractClassVar[float]
    # Draws and means are kept between these, where float32 would leave the support or overflow.
    limits: eqx.AbstractClassVar[tuple[float, float]]
    # What check() tells the reader to do about a cell outside the support.
    advice: eqx.AbstractClassVar[str]
    best_fill: ClassVar[str] = "mean"
    is_whole: ClassVar[bool] = False

    @abstractmethod
    def _expected(self) -> str:
        """What an observed cell holds, for messages."""

    @abstractmethod
    def _allowed(self, values: np.ndarray) -> np.ndarray:
        """Which finite values lie in the support."""

    @abstractmethod
    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, "x ..."]:
        """`encode` for observed cells, columns first."""

    def __check_init__(self) -> None:
        require_whole(self.name, "columns", self.columns, 1)

    @property
    def levels(self) -> tuple[int, ...]:
        """None: numbers."""
        return (0,) * self.columns

    @property
    def best_fills(self) -> tuple[str, ...]:
        """The same for all columns."""
        return (self.best_fill,) * self.columns

    @property
    def whole(self) -> tuple[bool, ...]:
        """The same for all columns."""
        return (self.is_whole,) * self.columns

    def config(self) -> dict[str, Any]:
        """The constructor's arguments: the static fields."""
        static = [f.name for f in dataclasses.fields(self) if f.metadata.get("static", False)]
        values = {name: getattr(self, name) for name in static}
        return {"family": self.name} | {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}

    def _log_prob(
        self, v: Float[Array, " x"], outputs: Float[Array, " p"], mask: Bool[Array, " x"]
    ) -> Float[Array, " x"]:
        return jnp.where(mask, self._law(outputs).log_prob(jnp.where(mask, v, self.placeholder)), 0.0)

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        return jnp.clip(self._law(outputs).mean, *self.limits)

    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        return jnp.zeros((self.columns, 0))

    def _sample(self, outputs: Float[Array, " p"], key: Key[Array, ""]) -> Float[Array, " x"]:
        return jnp.clip(self._law(outputs).sample(key).astype(outputs.dtype), *self.limits)

    def _encode(self, v: Float[Array, " x"], mask: Bool[Array, " x"]) -> Float[Array, " i"]:
        per_column = self._inputs(jnp.where(mask, v, self.placeholder))
        return jax.vmap(lambda seen, numbers: jnp.where(seen, numbers, 0.0))(mask, per_column).ravel()

    def _refuse(self, cells: Cells, numbers: np.ndarray) -> None:
        cells.refuse_non_finite(self.name, numbers)
        cells.refuse(self.name, self._expected(), ~self._allowed(cells.values), numbers, self.advice)

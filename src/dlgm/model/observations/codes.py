"""Columns of codes 0 .. C-1: categorical, and ordinal where the order means something."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, Key

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.logistic_bins import log_above, log_below, log_between
from dlgm.model.observations.observation import AbstractFamily
from dlgm.names import require_whole

_NEVER = -1e9  # log-probability of a code that a column does not have; finite, so that no gradient is NaN


class CodeLaw(dist.CategoricalLogits):
    """numpyro's categorical law, taking its codes as floating-point numbers too."""

    def log_prob(self, value: ArrayLike) -> Float[Array, "..."]:
        """The log-probability of each code."""
        return super().log_prob(jnp.asarray(value).astype(int))


class OrdinalLaw(CodeLaw):
    """A logistic variable that is cut into codes, by which a code is scored and drawn without looking at the others.

    The categorical law's own ways take work for every code of a column, and a compiler drops the logits where nobody
    asks for them.
    """

    pytree_data_fields = ("location", "cutpoints", "gaps")

    def __init__(
        self,
        location: Float[Array, " x"],
        cutpoints: Float[Array, "x k"],
        gaps: Float[Array, "x g"],
    ) -> None:
        self.location, self.cutpoints, self.gaps = location, cutpoints, gaps
        has_edge = jnp.isfinite(cutpoints)
        # log P(v = c) is a sum of three terms (logistic_bins); the first and the last code have one edge only.
        edges = jnp.where(has_edge, cutpoints, 0.0) - location[:, None]
        upper = jnp.pad(jnp.where(has_edge, log_below(edges), 0.0), ((0, 0), (0, 1)))
        lower = jnp.pad(jnp.where(has_edge, log_above(edges), _NEVER), ((0, 0), (1, 0)))
        inner = jnp.pad(jnp.where(has_edge[:, 1:], log_between(gaps), 0.0), ((0, 0), (1, 1)))
        super().__init__(upper + lower + inner)

    def log_prob(self, value: ArrayLike) -> Float[Array, "..."]:
        """The log-probability of each code, of those that its column has."""
        code = jnp.asarray(value).astype(int)
        column, last = np.arange(self.cutpoints.shape[0]), self.cutpoints.shape[1] - 1
        upper, lower = self.cutpoints[column, jnp.clip(code, 0, last)], self.cutpoints[column, jnp.clip(code - 1, 0)]
        has_upper, has_lower = (code <= last) & jnp.isfinite(upper), code > 0
        log_p = jnp.where(has_upper, log_below(jnp.where(has_upper, upper, 0.0) - self.location), 0.0)
        log_p += jnp.where(has_lower, log_above(jnp.where(has_lower, lower, 0.0) - self.location), 0.0)
        if last == 0:
            return log_p
        gap = self.gaps[column, jnp.clip(code - 1, 0, last - 1)]
        return log_p + jnp.where(has_upper & has_lower, log_between(gap), 0.0)

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Int[Array, "..."]:
        """Codes: how many cutpoints a logistic variable lies above."""
        drawn = self.location + jax.random.logistic(key, sample_shape + self.location.shape, self.location.dtype)
        return jnp.sum(drawn[..., None] > self.cutpoints, axis=-1)


class AbstractCodes(AbstractFamily):
    """A family over codes 0 .. C-1."""

    placeholder: ClassVar[float] = 0.0
    is_whole: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, np.inf)
    advice: ClassVar[str] = "Recode the column, or raise `num_classes`."
    columns: eqx.AbstractVar[int]

    def _expected(self) -> str:
        return f"whole codes 0 to {max(self.levels) - 1}"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return (values >= 0) & (values < np.asarray(self.levels)) & (values == np.floor(values))

    def _frequencies(self, cells: Cells) -> Float[np.ndarray, "x c"]:
        """The share of each code by column, with half a cell added to each: none is zero that the column can have."""
        codes = np.arange(max(self.levels))
        counts = np.stack([cells.total(cells.values == code) for code in codes], axis=1) + 0.5
        counts = np.where(codes < np.asarray(self.levels)[:, None], counts, 0.0)
        return counts / counts.sum(axis=1, keepdims=True)


class Categorical(AbstractCodes):
    r"""$P(v_i = c) = \mathrm{softmax}(o_i)_c$, with $C$ logits for each column, columns first.

    The mean of a code means nothing, so `mean` is the most probable code.
    """

    name: ClassVar[str] = "categorical"
    best_fill: ClassVar[str] = "mode"
    columns: int = eqx.field(static=True)
    num_classes: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_whole(self.name, "num_classes", self.num_classes, 2)

    @property
    def levels(self) -> tuple[int, ...]:
        """The same number of codes in every column."""
        return (self.num_classes,) * self.columns

    @property
    def num_outputs(self) -> int:
        """$C$ logits a column."""
        return self.columns * self.num_classes

    @property
    def input_widths(self) -> tuple[int, ...]:
        """A one-hot code."""
        return (self.num_classes,) * self.columns

    def _law(self, outputs: Float[Array, " p"]) -> CodeLaw:
        return CodeLaw(outputs.reshape(self.columns, self.num_classes))

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        return jnp.argmax(outputs.reshape(self.columns, self.num_classes), axis=-1).astype(outputs.dtype)

    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        return jax.nn.softmax(outputs.reshape(self.columns, self.num_classes))

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, "x c"]:
        return jax.nn.one_hot(v.astype(int), self.num_classes, dtype=v.dtype)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        log_p = np.log(self._frequencies(cells))
        return {}, jnp.asarray(log_p - log_p.mean(axis=1, keepdims=True)).ravel()


class Ordinal(AbstractCodes):
    r"""The cumulative logit model, $P(v_i \le c) = \sigma(k_{ic} - o_i)$ with cutpoints $k_{i0} < k_{i1} < \dots$

    A logistic variable at the location $o_i$ is cut into $C_i$ intervals. The gaps between cutpoints are trained, one
    set for each column; their mean is held at zero, since moving them all is what $o_i$ does.

    **Arguments**

    - `num_classes`: the number of codes, for all columns or for each. Columns that differ in it share one family, since
      a compiler's time grows with the number of these.
    """

    name: ClassVar[str] = "ordinal"
    best_fill: ClassVar[str] = "median"
    columns: int = eqx.field(static=True)
    num_classes: int | tuple[int, ...] = eqx.field(static=True)
    log_gaps: Float[Array, "x g"]  # log(k_1 - k_0), log(k_2 - k_1), ..; g = C - 2, with C the largest of all columns

    def __init__(self, columns: int, num_classes: int | Sequence[int]) -> None:
        require_whole(self.name, "columns", columns, 1)
        each = tuple(num_classes) if isinstance(num_classes, Sequence) else num_classes
        for number in each if isinstance(each, tuple) else (each,):
            require_whole(self.name, "num_classes", number, 2)
        if isinstance(each, tuple) and len(each) != columns:
            raise ValueError(f"{self.name}: expected `num_classes` of {columns} columns; got {len(each)} numbers.")
        self.columns, self.num_classes = columns, each
        self.log_gaps = jnp.zeros((columns, max(self.levels) - 2))

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of codes of each column."""
        return self.num_classes if isinstance(self.num_classes, tuple) else (self.num_classes,) * self.columns

    @property
    def num_outputs(self) -> int:
        """A location a column."""
        return self.columns

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The code, scaled to [-1, 1]."""
        return (1,) * self.columns

    @property
    def _has_edge(self) -> Bool[np.ndarray, "x k"]:
        """Which cutpoints there are: one fewer than a column has codes."""
        return np.arange(max(self.levels) - 1) < np.asarray(self.levels)[:, None] - 1

    @property
    def cutpoints(self) -> Float[Array, "x k"]:
        r"""$k$, of shape `(x, C - 1)`; infinite for codes that a column does not have."""
        from_first = jnp.pad(jnp.cumsum(jnp.exp(self.log_gaps), axis=1), ((0, 0), (1, 0)))
        middle = jnp.mean(from_first, axis=1, where=self._has_edge, keepdims=True)
        return jnp.where(self._has_edge, from_first - middle, jnp.inf)

    def _law(self, outputs: Float[Array, " p"]) -> OrdinalLaw:
        return OrdinalLaw(outputs, self.cutpoints, jnp.exp(self.log_gaps))

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        r"""$E[v_i] = \sum_c P(v_i > c)$."""
        return jnp.sum(jax.nn.sigmoid(outputs[:, None] - self.cutpoints), axis=1)

    def _probabilities(self, outputs: Float[Array, " p"]) -> Float[Array, "x c"]:
        # Differences of a distribution function: good to a float's last digits of one, and in half the time.
        below = jax.nn.sigmoid(self.cutpoints - outputs[:, None])
        return jnp.diff(below, axis=1, prepend=0.0, append=1.0)

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return 2 * v / (np.asarray(self.levels, np.float32) - 1) - 1

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        has_edge = self._has_edge
        below = np.where(has_edge, np.cumsum(self._frequencies(cells), axis=1)[:, :-1], 0.5)
        cutpoints = np.log(below) - np.log1p(-below)
        gaps = np.where(has_edge[:, 1:], np.diff(cutpoints, axis=1), 1.0)
        middle = np.mean(cutpoints, axis=1, where=has_edge)
        return {"log_gaps": jnp.asarray(np.log(gaps))}, jnp.asarray(-middle)

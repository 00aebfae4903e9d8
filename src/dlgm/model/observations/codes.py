"""Columns of codes 0 .. C-1: categorical, and ordinal where the order means something."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from dlgm.model.observations.cells import Cells
from dlgm.model.observations.logistic_bins import log_above, log_below, log_between
from dlgm.model.observations.observation import AbstractFamily
from dlgm.names import require_whole


class CodeLaw(dist.CategoricalLogits):
    """numpyro's categorical law, taking its codes as floating-point numbers too."""

    def log_prob(self, value: ArrayLike) -> Float[Array, "..."]:
        """The log-probability of each code."""
        return super().log_prob(jnp.asarray(value).astype(int))


class AbstractCodes(AbstractFamily):
    """A family over `num_classes` codes, the same number in every column."""

    placeholder: ClassVar[float] = 0.0
    is_whole: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, np.inf)
    advice: ClassVar[str] = "Recode the column, or raise `num_classes`."
    columns: eqx.AbstractVar[int]
    num_classes: eqx.AbstractVar[int]

    def __check_init__(self) -> None:
        require_whole(self.name, "num_classes", self.num_classes, 2)

    @property
    def levels(self) -> tuple[int, ...]:
        """The same number of codes in every column."""
        return (self.num_classes,) * self.columns

    def _expected(self) -> str:
        return f"whole codes 0 to {self.num_classes - 1}"

    def _allowed(self, values: np.ndarray) -> np.ndarray:
        return np.isin(values, np.arange(self.num_classes))

    def _frequencies(self, cells: Cells) -> Float[np.ndarray, "x c"]:
        """The share of each code by column, with half a cell added to each: none is zero."""
        counts = np.stack([cells.total(cells.values == code) for code in range(self.num_classes)], axis=1) + 0.5
        return counts / counts.sum(axis=1, keepdims=True)


class Categorical(AbstractCodes):
    r"""$P(v_i = c) = \mathrm{softmax}(o_i)_c$, with $C$ logits for each column, columns first.

    The mean of a code means nothing, so `mean` is the most probable code.
    """

    name: ClassVar[str] = "categorical"
    best_fill: ClassVar[str] = "mode"
    columns: int = eqx.field(static=True)
    num_classes: int = eqx.field(static=True)

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

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, "x c"]:
        return jax.nn.one_hot(v.astype(int), self.num_classes, dtype=v.dtype)

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        log_p = np.log(self._frequencies(cells))
        return {}, jnp.asarray(log_p - log_p.mean(axis=1, keepdims=True)).ravel()


class Ordinal(AbstractCodes):
    r"""The cumulative logit model, $P(v_i \le c) = \sigma(k_{ic} - o_i)$ with cutpoints $k_{i0} < k_{i1} < \dots$

    A logistic variable at the location $o_i$ is cut into $C$ intervals. The gaps between cutpoints are trained, one set
    for each column; their mean is held at zero, since moving them all is what $o_i$ does.
    """

    name: ClassVar[str] = "ordinal"
    best_fill: ClassVar[str] = "median"
    columns: int = eqx.field(static=True)
    num_classes: int = eqx.field(static=True)
    log_gaps: Float[Array, "x g"]  # log(k_1 - k_0), log(k_2 - k_1), ..; g = C - 2

    def __init__(self, columns: int, num_classes: int) -> None:
        require_whole(self.name, "columns", columns, 1)
        require_whole(self.name, "num_classes", num_classes, 2)
        self.columns, self.num_classes = columns, num_classes
        self.log_gaps = jnp.zeros((columns, num_classes - 2))

    @property
    def num_outputs(self) -> int:
        """A location a column."""
        return self.columns

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The code, scaled to [-1, 1]."""
        return (1,) * self.columns

    @property
    def cutpoints(self) -> Float[Array, "x k"]:
        r"""$k$, of shape `(x, C - 1)`."""
        from_first = jnp.pad(jnp.cumsum(jnp.exp(self.log_gaps), axis=1), ((0, 0), (1, 0)))
        return from_first - from_first.mean(axis=1, keepdims=True)

    def _law(self, outputs: Float[Array, " p"]) -> CodeLaw:
        # log P(v = c) is a sum of three terms (logistic_bins); the first and the last code have one edge only.
        edges = self.cutpoints - outputs[:, None]
        upper = jnp.pad(log_below(edges), ((0, 0), (0, 1)))
        lower = jnp.pad(log_above(edges), ((0, 0), (1, 0)))
        inner = jnp.pad(log_between(jnp.exp(self.log_gaps)), ((0, 0), (1, 1)))
        return CodeLaw(upper + lower + inner)

    def _mean(self, outputs: Float[Array, " p"]) -> Float[Array, " x"]:
        r"""$E[v_i] = \sum_c P(v_i > c)$."""
        return jnp.sum(jax.nn.sigmoid(outputs[:, None] - self.cutpoints), axis=1)

    def _inputs(self, v: Float[Array, " x"]) -> Float[Array, " x"]:
        return 2 * v / (self.num_classes - 1) - 1

    def _fit(self, cells: Cells) -> tuple[dict[str, Any], Float[Array, " p"]]:
        below = np.cumsum(self._frequencies(cells), axis=1)[:, :-1]
        cutpoints = np.log(below) - np.log1p(-below)
        log_gaps = jnp.asarray(np.log(np.diff(cutpoints, axis=1)))
        return {"log_gaps": log_gaps}, jnp.asarray(-cutpoints.mean(axis=1))

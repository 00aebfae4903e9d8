"""Starting a model of one layer at factor analysis, which is solved in closed form, rather than at random weights.

The rows are encoded as the recognition model sees them, scaled, and given to factor analysis as if they were Gaussian;
of Gaussian columns that is the exact optimum of a linear model. Its loadings become the linear path of the generative
model, and its posterior that of a `CellRecognition`. Training then finds what is not linear.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float
from scipy.linalg import block_diag

from dlgm.baselines.factor_analysis import FactorAnalysis, fit_factor_analysis
from dlgm.model import AbstractObservation, CellRecognition, Model

_ROWS = 5_000  # that are looked at: they fix a start well enough, and each costs as much as any other
_FARTHEST = 5.0  # standard deviations at which outliers are held
_RAREST = 0.04  # share of the cells; codes that are rarer still would be more than five standard deviations out
_STEEPEST = 3.0  # longest slope of a logit: rare codes would have steeper ones, more by accident than by evidence


class Inputs:
    r"""Rows as a recognition model sees them, each number scaled to mean zero and unit variance.

    The numbers of a one-hot code hang together, since one of them is one: factors would be spent on telling a category
    from its own code. So $x_i - p_i$ is divided by $\sqrt{p_i}$, with which the code has unit variance in every
    direction but one, $\sum_i \sqrt{p_i}\, y_i = 0$, in which it has none. Seen in the coordinates of those
    directions (`basis`), a cell has no covariance of its own, and factors find what it has in common with others.
    """

    def __init__(self, observation: AbstractObservation, rows: np.ndarray, mask: np.ndarray | None) -> None:
        seen = np.ones(rows.shape, bool) if mask is None else np.asarray(mask, bool)
        values = jnp.asarray(np.where(seen, rows, 0), jnp.float32)
        encoded = _encoded(observation, values, jnp.asarray(seen))
        self.widths = np.asarray(observation.input_widths)  # how many numbers a cell of each column is
        self.coded: Bool[np.ndarray, " i"] = np.repeat(self.widths > 1, self.widths)
        self.seen: Bool[np.ndarray, "n i"] = np.repeat(seen, self.widths, axis=1)
        numbers = np.where(self.seen, np.asarray(encoded, np.float64), np.nan)
        size = np.maximum(self.seen.sum(axis=0), 1)
        self.center: Float[np.ndarray, " i"] = np.nansum(numbers, axis=0) / size
        spread = np.sqrt(np.nansum((numbers - self.center) ** 2, axis=0) / size)
        spread = np.where(spread > 1e-6 * (1 + np.abs(self.center)), spread, 1.0)
        self.scale: Float[np.ndarray, " i"] = np.where(self.coded, np.sqrt(np.maximum(self.center, _RAREST)), spread)
        # A column that is all but constant has its few other cells dozens of standard deviations away. As they are,
        # they would be given factors of their own, by which the column is then told wrongly in other rows.
        scaled = (numbers - self.center) / self.scale
        self.scaled: Float[np.ndarray, "n i"] = np.clip(scaled, -_FARTHEST, _FARTHEST)
        # What that takes from the variance is noise: such a cell says little about its row.
        self.beyond: Float[np.ndarray, " i"] = np.nansum(scaled**2 - self.scaled**2, axis=0) / size
        self.basis = self._basis()

    def _basis(self) -> Float[np.ndarray, "i d"]:
        """Orthonormal directions in which a cell's numbers can vary: all for a single one, one less for a code."""
        blocks, at = [], 0
        for width in self.widths:
            along = self.scale[at : at + width] / np.linalg.norm(self.scale[at : at + width])
            blocks.append(np.ones((1, 1)) if width == 1 else np.linalg.svd(along[None])[2][1:].T)
            at += width
        return block_diag(*blocks)

    def factors(
        self, number: int, left: Bool[np.ndarray, "n i"] | None = None, *, iterations: int = 100, seed: int = 0
    ) -> FactorAnalysis:
        """A factor analysis of the scaled numbers, those in `left` alone if it is given."""
        left = self.seen if left is None else left
        if not self.coded.any():
            return fit_factor_analysis(self.scaled, left, num_factors=number, iterations=iterations, seed=seed)
        directions = np.where(left, self.scaled, 0.0) @ self.basis
        of_cell = np.abs(self.basis) > 0
        seen = (left.astype(float) @ of_cell) > 0
        found = fit_factor_analysis(directions, seen, num_factors=number, iterations=iterations, seed=seed)
        # A code's noise is the same in all of its directions, so that the numbers say of the factors what those do.
        cell = np.repeat(np.arange(len(self.widths)), np.maximum(self.widths - 1, 1))
        noise = np.bincount(cell, found.noise) / np.bincount(cell)
        return FactorAnalysis(self.basis @ found.loadings, self.basis @ found.bias, np.repeat(noise, self.widths))

    def hide(self, share: float, rng: np.random.Generator) -> Bool[np.ndarray, "n i"]:
        """Numbers of seen cells taken at random. A cell's numbers go together, lest its one-hot code give it away."""
        chosen = rng.uniform(size=(len(self.seen), len(self.widths))) < share
        return self.seen & np.repeat(chosen, self.widths, axis=1)


def linear_start(model: Model, rows: np.ndarray, mask: np.ndarray | None = None, *, seed: int = 0) -> Model:
    """The model, which has been `initialise`d with these rows, at a factor analysis of them."""
    few = np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(int)
    inputs = Inputs(model.generative.observation, rows[few], None if mask is None else mask[few])
    return start_at(model, inputs.factors(sum(model.generative.latent), seed=seed), inputs)


def start_at(model: Model, fitted: FactorAnalysis, inputs: Inputs) -> Model:
    """The model at a factor analysis of its scaled inputs."""
    generative, recognition = model.generative, model.recognition
    network = generative.networks[0]
    if len(generative.latent) != 1 or network.linear is None or not isinstance(recognition, CellRecognition):
        raise ValueError("linear_start: expected a model of one layer with linear_path and the covariance `cells`.")
    bias = network.layers[-1].bias
    moves = np.asarray(_slopes(generative.observation, bias), np.float64)
    inverse = np.linalg.pinv(moves, rcond=1e-3)
    slopes = inverse @ (inputs.scale[:, None] * fitted.loadings)
    length = np.linalg.norm(slopes, axis=1, keepdims=True)
    steepest = _STEEPEST * max(1.0, float(inputs.scale.max()))  # out of reach of columns of numbers
    slopes = slopes * np.minimum(1, steepest / np.maximum(length, 1e-12))
    shift = inverse @ (inputs.scale * fitted.bias)
    noise = fitted.noise + inputs.beyond
    precision = 1 / np.sqrt(noise)

    def as_leaf(array: np.ndarray) -> jax.Array:
        return jnp.asarray(array, jnp.float32)

    return eqx.tree_at(
        lambda m: (
            m.generative.networks[0].linear,
            m.generative.networks[0].layers[-1].bias,
            m.generative.observation,
            m.recognition.weights,
            m.recognition.gain,
            m.recognition.center,
        ),
        model,
        (
            as_leaf(slopes),
            bias + as_leaf(shift),
            generative.observation.with_noise(as_leaf(np.minimum(noise, 1.0))),
            as_leaf(fitted.loadings * precision[:, None]),
            as_leaf(precision / inputs.scale),
            as_leaf(inputs.center + inputs.scale * fitted.bias),
        ),
    )


# Of the module, and not made anew for each table: a program is compiled once for all of a shape.
@eqx.filter_jit
def _encoded(
    observation: AbstractObservation, values: Float[Array, "n x"], seen: Bool[Array, "n x"]
) -> Float[Array, "n i"]:
    """Rows as a recognition model sees them."""
    return jax.vmap(observation.encode)(values, seen)


@eqx.filter_jit
def _slopes(observation: AbstractObservation, outputs: Float[Array, " p"]) -> Float[Array, "i p"]:
    """How the expected inputs change with a network's outputs."""
    return jax.jacobian(observation.expected_inputs)(outputs)

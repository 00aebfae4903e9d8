r"""Factor analysis by expectation maximisation, from rows with holes.

$$\xi \sim N(0, I), \qquad v \mid \xi \sim N(A \xi + b, \mathrm{diag}(\psi))$$

Everything about it is in closed form. A row's observed cells $o$ are Gaussian, and its factors given them as well:
$\xi \mid v_o \sim N(C A_o^\top \Psi_o^{-1} (v_o - b_o), C)$ with $C^{-1} = I + \sum_{i \in o} a_i a_i^\top / \psi_i$, a
rank-one term of precision for each observed cell. So the likelihood of what was observed is exact, whatever is missing,
and so is what one expects in the holes.

Loadings have the prior $N(0, 1/\text{shrinkage})$, and each noise variance is pulled towards its column's own variance
by so many pseudo-observations: a column that is almost constant would otherwise be learnt by heart.

In double precision and numpy: it is small, needs no compiling, and is where larger models start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

Vector = Float[np.ndarray, " x"]
Rows = Float[np.ndarray, "n x"]
Mask = Bool[np.ndarray, "n x"]

_CELLS = 4_000_000  # numbers in the largest array that is made at a time


@dataclass(frozen=True)
class FactorAnalysis:
    r"""A factor analysis of rows with x columns, by k factors.

    Wherever rows are taken, holes are where `mask` is false or, without one, where a cell is NaN.

    >>> model = FactorAnalysis(np.array([[1.0], [2.0]]), np.zeros(2), np.ones(2))
    >>> mean, variance = model.conditional([[3.0, np.nan]])
    >>> mean.round(3).tolist(), variance.round(3).tolist()
    ([[3.0, 3.0]], [[0.0, 3.0]])
    """

    loadings: Float[np.ndarray, "x k"]  # A
    bias: Vector  # b
    noise: Vector  # psi, variances

    def log_likelihood(self, rows: Any, mask: Any = None) -> Float[np.ndarray, " n"]:
        r"""$\log p(v_o)$ of each row's observed cells, exact."""
        v, seen = _checked(rows, mask, len(self.bias))
        found = np.empty(len(v))
        for part in self._blocks(len(v)):
            w, residual = seen[part] / self.noise, np.where(seen[part], v[part] - self.bias, 0.0)
            mean, covariance = self._factors(residual, w)
            # |Psi_o| / |C| is the determinant of the observed cells' covariance, and by Woodbury
            # r' (A A' + Psi)^-1 r = r' Psi^-1 r - r' Psi^-1 A mean.
            log_det = np.log(np.where(seen[part], self.noise, 1.0)).sum(axis=1) - np.linalg.slogdet(covariance)[1]
            square = np.sum(w * residual * (residual - mean @ self.loadings.T), axis=1)
            found[part] = -0.5 * (seen[part].sum(axis=1) * np.log(2 * np.pi) + log_det + square)
        return found

    def factors(self, rows: Any, mask: Any = None) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
        r"""Mean and covariance of $\xi$ given each row's observed cells."""
        v, seen = _checked(rows, mask, len(self.bias))
        return self._factors(np.where(seen, v - self.bias, 0.0), seen / self.noise)

    def conditional(self, rows: Any, mask: Any = None) -> tuple[Rows, Rows]:
        """Mean and variance of every cell given the row's observed ones, which are themselves, with variance zero."""
        v, seen = _checked(rows, mask, len(self.bias))
        means, variances = np.empty(v.shape), np.empty(v.shape)
        A = self.loadings
        for part in self._blocks(len(v)):
            mean, covariance = self._factors(np.where(seen[part], v[part] - self.bias, 0.0), seen[part] / self.noise)
            means[part] = np.where(seen[part], v[part], mean @ A.T + self.bias)
            # sum_jk A_ij C_jk A_ik as one product of matrices.
            spread = covariance.reshape(len(mean), -1) @ _outer(A).T + self.noise
            variances[part] = np.where(seen[part], 0.0, spread)
        return means, variances

    def sample(self, rng: np.random.Generator, num: int) -> Rows:
        """New rows."""
        factors = rng.normal(size=(num, self.loadings.shape[1]))
        return factors @ self.loadings.T + self.bias + rng.normal(size=(num, len(self.bias))) * np.sqrt(self.noise)

    def _factors(self, residual: Rows, w: Rows) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
        """With w the noise's precision, zero in holes."""
        k = self.loadings.shape[1]
        precision = np.eye(k) + (w @ _outer(self.loadings)).reshape(-1, k, k)
        covariance = np.linalg.inv(precision)
        return np.einsum("nij,nj->ni", covariance, (w * residual) @ self.loadings), covariance

    def _blocks(self, n: int) -> Iterator[slice]:
        return _blocks(n, self.loadings.shape[1])


def fit_factor_analysis(
    rows: Any,
    mask: Any = None,
    *,
    num_factors: int,
    iterations: int = 100,
    shrinkage: float = 1.0,
    pseudo_rows: float = 0.1,
    seed: int = 0,
) -> FactorAnalysis:
    """Fit by expectation maximisation: no step lowers the posterior density of the parameters.

    - `rows`: numbers of shape `(n, x)`, with holes where `mask` is false or a cell is NaN. The priors suit columns of
      about unit variance.
    - `shrinkage`: the precision of the loadings' prior.
    - `pseudo_rows`: how many observations the prior of the noise is worth.

    A column without an observed cell has loadings and mean of zero, and unit noise.
    """
    v, seen = _checked(rows, mask, None)
    n, x = v.shape
    if num_factors < 1:
        raise ValueError(f"num_factors: expected at least 1; got {num_factors}.")
    if n == 0:
        raise ValueError("fit_factor_analysis: expected at least one row; got none.")
    if not shrinkage > 0 or not pseudo_rows > 0:
        raise ValueError("shrinkage, pseudo_rows: expected numbers above zero.")
    v = np.where(seen, v, 0.0)
    size = seen.sum(axis=0)
    mean = v.sum(axis=0) / np.maximum(size, 1)
    variance = np.sum((v - mean) ** 2, axis=0, where=seen) / np.maximum(size, 1)
    variance = np.where(size > 0, np.maximum(variance, 1e-12), 1.0)
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(x, num_factors)) * np.sqrt(variance / (2 * num_factors))[:, None]
    model = FactorAnalysis(start, mean, variance)
    for _ in range(iterations):
        model = _step(model, v, seen, variance, shrinkage, pseudo_rows)
    return model


def _step(
    model: FactorAnalysis, v: Rows, seen: Mask, variance: Vector, shrinkage: float, pseudo_rows: float
) -> FactorAnalysis:
    x, k = model.loadings.shape
    squares, products = np.zeros((x, (k + 1) ** 2)), np.zeros((x, k + 1))
    for part in _blocks(len(v), k):
        w = seen[part] / model.noise
        factors, covariance = model._factors(np.where(seen[part], v[part] - model.bias, 0.0), w)
        one = np.concatenate([factors, np.ones((len(factors), 1))], axis=1)  # the bias is a loading on a constant
        second = one[:, :, None] * one[:, None, :]
        second[:, :k, :k] += covariance
        squares += seen[part].T.astype(float) @ second.reshape(len(one), -1)
        products += v[part].T @ one
    squares = squares.reshape(x, k + 1, k + 1)
    # Each column is a regression of its own, on the factors of the rows that have it.
    prior = np.diag([shrinkage] * k + [1e-9])
    solved = np.linalg.solve(squares + prior * model.noise[:, None, None], products[:, :, None])[:, :, 0]
    left = np.sum(v**2, axis=0) - 2 * np.sum(solved * products, axis=1)
    left += np.einsum("xi,xij,xj->x", solved, squares, solved)
    noise = (np.maximum(left, 0.0) + pseudo_rows * variance) / (seen.sum(axis=0) + pseudo_rows)
    return FactorAnalysis(solved[:, :k], solved[:, k], noise)


def _outer(A: Float[np.ndarray, "x k"]) -> Float[np.ndarray, "x kk"]:
    return (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)


def _blocks(n: int, k: int) -> Iterator[slice]:
    step = max(1, _CELLS // (k + 1) ** 2)
    return (slice(start, start + step) for start in range(0, n, step))


def _checked(rows: Any, mask: Any, columns: int | None) -> tuple[Rows, Mask]:
    v = np.asarray(rows, np.float64)
    if v.ndim != 2 or (columns is not None and v.shape[1] != columns):
        raise ValueError(f"rows: expected shape (n, {columns or 'x'}); got {v.shape}.")
    seen = ~np.isnan(v)
    if mask is not None and np.shape(mask) != v.shape:
        raise ValueError(f"mask: expected the rows' shape {v.shape}; got {np.shape(mask)}.")
    seen = seen if mask is None else seen & np.asarray(mask, bool)
    if not np.isfinite(v[seen]).all():
        raise ValueError("rows: expected finite numbers in observed cells.")
    return np.where(seen, v, 0.0), seen

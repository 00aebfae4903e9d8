r"""Straightening skewed columns: the transform of Yeo and Johnson, its inverse, its slope, and its power from the data.

$$\mathrm{t}_\lambda(z) = \frac{(1 + z)^\lambda - 1}{\lambda} \text{ for } z \ge 0, \qquad
-\frac{(1 - z)^{2 - \lambda} - 1}{2 - \lambda} \text{ for } z < 0,$$

and their limits, logarithms, where a denominator is zero. $\lambda = 1$ is the identity; below it, long tails to
the right are drawn in, above it those to the left.
"""

import numpy as np
from jaxtyping import Float

Numbers = Float[np.ndarray, "..."]

# Beyond these powers, single precision has no digits left far out in the tail.
LOWEST, HIGHEST = -2.0, 4.0
_GAIN = 0.02  # nats a cell by which a power must describe a column better than none
_LEAST = 20  # different values, below which there is no shape to speak of
_THIN = 20_000  # cells that are looked at


def straighten(z: Numbers, power: float) -> Numbers:
    r"""$t_\lambda(z)$."""
    size = np.log1p(np.abs(z))
    return np.where(z >= 0, _grown(size, power), -_grown(size, 2 - power))


def bend(t: Numbers, power: float) -> Numbers:
    r"""$t_\lambda^{-1}$; for what lies beyond its range, the end of it."""
    return np.where(t >= 0, _shrunk(np.abs(t), power), -_shrunk(np.abs(t), 2 - power))


def log_slope(z: Numbers, power: float) -> Numbers:
    r"""$\log t_\lambda'(z) = \pm (\lambda - 1) \log(1 + |z|)$."""
    return np.sign(z) * (power - 1) * np.log1p(np.abs(z))


def best_power(z: Float[np.ndarray, " n"]) -> float | None:
    """The power with which the numbers are most nearly Gaussian, by maximum likelihood; None if none is worth it."""
    from scipy.optimize import minimize_scalar

    if len(np.unique(z)) < _LEAST:
        return None
    z = z[np.linspace(0, len(z) - 1, min(len(z), _THIN)).astype(int)]

    def loss(power: float) -> float:
        """The negative log density of a cell, up to a constant, with the best mean and variance."""
        spread = float(np.std(straighten(z, power)))
        return float(np.log(max(spread, 1e-30)) - np.mean(log_slope(z, power)))

    found = minimize_scalar(loss, bounds=(LOWEST, HIGHEST), method="bounded", options={"xatol": 1e-4})
    return round(float(found.x), 6) if loss(1.0) - float(found.fun) > _GAIN else None


def _grown(size: Numbers, power: float) -> Numbers:
    return size if power == 0 else np.expm1(power * size) / power


def _shrunk(t: Numbers, power: float) -> Numbers:
    with np.errstate(over="ignore"):  # what the transform does not reach is infinity, which a column's range cuts off
        if power == 0:
            return np.expm1(t)
        return np.expm1(np.log1p(np.maximum(power * t, -1 + 1e-15)) / power)

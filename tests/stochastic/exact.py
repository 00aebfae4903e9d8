"""Exact gradients of expectations under univariate laws, in float64."""

import numpy as np
from scipy import integrate

from tests.stochastic.functions import NAMES, scalar_numpy


def gradient(row, parameter):
    """d/d(parameter) of the six expectations, by central differences of quadrature (two steps, extrapolated)."""
    value = row.args[parameter]
    # In its own law's units, and inside a law's domain; the two-step rule's error is of order step^4.
    step = 2e-3 * max(abs(value), 0.5)

    def slope(h):
        return (expectations(row, {parameter: value + h}) - expectations(row, {parameter: value - h})) / (2 * h)

    return (4 * slope(step) - slope(2 * step)) / 3


def expectations(row, change):
    args = row.args | change
    wanted = np.array([name in row.functions for name in NAMES])
    if row.scipy is None:
        values = stable_expectations(**args)
    else:
        law = row.scipy(**args)
        values = discrete(law) if not hasattr(law.dist, "pdf") else continuous(law, wanted)
    values[0] = 1.3  # the constant's expectation, whatever the law and however far its tails reach
    return np.where(wanted, values, np.nan)


def discrete(law):
    x = np.arange(0, 60)
    return scalar_numpy(x) @ law.pmf(x)


def continuous(law, wanted):
    low, high = law.support()
    # Past these points nothing is left of the functions that decay, nor of the laws with light tails.
    low, high = max(low, -60.0), min(high, 400.0 if wanted.all() else 60.0)
    cuts = sorted({low, high, *(c for c in (law.ppf(0.01), law.ppf(0.5), law.ppf(0.99)) if low < c < high)})
    x, weights = (np.concatenate(parts) for parts in zip(*map(panel, cuts[:-1], cuts[1:]), strict=True))
    return np.nan_to_num(scalar_numpy(x)) @ (weights * law.pdf(x))


def panel(low, high, n=4000):
    """Nodes and weights on an interval, crowded at both ends (tanh-sinh), where densities may be singular."""
    k = np.linspace(-3.4, 3.4, n)
    inner = 0.5 * np.pi * np.sinh(k)
    # distance to the nearer end, kept exact where 1 - tanh would cancel
    to_end = (high - low) / (1 + np.exp(2 * np.abs(inner)))
    x = np.where(k < 0, low + to_end, high - to_end)
    weights = 0.5 * (high - low) * 0.5 * np.pi * np.cosh(k) / np.cosh(inner) ** 2 * (k[1] - k[0])
    return x, weights


def stable_expectations(alpha, beta, loc, scale):
    """E f(X) for f of known Fourier transform, from the characteristic function: no density is needed."""

    def log_phi(t):
        size = np.abs(scale * t)
        if abs(alpha - 1) < 1e-9:
            skew = (2 / np.pi) * np.log(size)
        else:
            skew = np.tan(0.5 * np.pi * alpha) * (size ** (1 - alpha) - 1)
        return 1j * loc * t - size**alpha * (1 + 1j * beta * np.sign(t) * skew)

    def integrand(t):  # exp(-(x - 1/2)^2 / 2) = integral of exp(it(x - 1/2)) exp(-t^2 / 2) / sqrt(2 pi)
        return (np.exp(log_phi(t) - 0.5j * t - 0.5 * t**2)).real * 2 / np.sqrt(2 * np.pi)

    bump, _ = integrate.quad(integrand, 1e-14, 12, epsabs=1e-13, epsrel=1e-12, limit=500, points=[1e-6, 1e-3, 0.1, 1])
    return np.array([1.3, np.nan, np.nan, np.nan, np.nan, bump])

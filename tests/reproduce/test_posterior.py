"""Posteriors over two latents, against linear models whose posterior is a known Gaussian."""

import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.inference import posterior_grid
from dlgm.reproduce.posterior import close_up, divergence
from tests.linear import FactorAnalysis, random_factor_analysis

FA = random_factor_analysis(seed=3)
ROW = FA.sample(np.random.default_rng(1), 1)[0].astype(np.float32)


def test_the_grid_is_the_exact_posterior():
    (mean,), C = FA.posterior(ROW[None])
    found = posterior_grid(FA.model(), ROW, centre=mean, half_width=7 * np.sqrt(C.diagonal().max()))
    assert found.log_p == pytest.approx(FA.log_prob(ROW[None])[0], abs=1e-4)
    np.testing.assert_allclose(found.mode, mean, atol=1e-4)
    for got, expected in zip(found.moments(), (mean, C), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-4)
    # log N(x | mean, C) at a corner of the grid, first axis the second latent.
    left, _, _, upper = found.extent
    away = np.array([left, upper]) - mean
    expected = -0.5 * (away @ np.linalg.solve(C, away) + np.log(np.linalg.det(2 * np.pi * C)))
    assert found.log_density[-1, 0] == pytest.approx(expected, abs=1e-3)


def test_the_mode_is_at_least_as_high_as_the_grid():
    """Centred on the mode, of posteriors so sharp that searches along a line fail for want of digits."""
    fa = FactorAnalysis(30 * FA.W, FA.b, FA.psi * 4e-4)
    rows = fa.sample(np.random.default_rng(2), 20).astype(np.float32)
    model, (means, C) = fa.model(), fa.posterior(rows)
    sd = np.sqrt(C.diagonal().max())
    for row, mean in zip(rows, means, strict=True):
        found = posterior_grid(model, row, centre=mean, half_width=5 * sd, size=21)
        highest = found.log_density.max() + found.log_p
        at_mode = model.generative.log_joint(jnp.asarray(row), jnp.asarray(found.mode))
        assert at_mode >= highest - 1e-5 * abs(highest)  # the digits of float32


@pytest.mark.parametrize("sharp", [1.0, 0.02], ids=["broad", "narrower than the first grid's cells"])
def test_a_close_up_finds_the_correlation(sharp):
    fa = FactorAnalysis(FA.W, FA.b, FA.psi * sharp**2)
    row = fa.sample(np.random.default_rng(1), 1)[0].astype(np.float32)
    (mean,), C = fa.posterior(row[None])
    found = close_up(fa.model(), row)
    rho = C[0, 1] / np.sqrt(C[0, 0] * C[1, 1])
    assert abs(rho) > 0.2
    assert found.log_p == pytest.approx(fa.log_prob(row[None])[0], abs=2e-3)
    assert found.true == pytest.approx(rho, abs=2e-3)
    assert found.approximate == pytest.approx(rho, abs=1e-4)  # the recognition model is exact
    left, right, lower, upper = found.grid.extent
    np.testing.assert_allclose([(left + right) / 2, (lower + upper) / 2], mean, atol=1e-3)
    assert 3.9 < (right - left) / 2 / np.sqrt(C.diagonal().max()) < 4.1


@pytest.mark.parametrize("widen", [0.1, 1.0, 1.4])
def test_the_divergence_is_that_of_two_gaussians(widen):
    r"""KL(N(m, w^2 C) || N(m, C)) = w^2 - 1 - 2 log w over two latents."""
    found = divergence(FA.model(widen=widen), ROW, FA.log_prob(ROW[None])[0])
    assert found == pytest.approx(widen**2 - 1 - 2 * np.log(widen), abs=1e-3)

"""Straightened columns: there and back, slopes, powers from data, and densities that still integrate to one."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dlgm.data import infer_schema
from dlgm.data.schema.shape import bend, best_power, log_slope, straighten

Z = np.linspace(-6, 15, 301)


@pytest.mark.parametrize("power", [-2.0, -0.7, 0.0, 0.5, 1.0, 2.0, 3.1, 4.0])
def test_there_and_back_with_the_right_slope(power):
    t = straighten(Z, power)
    np.testing.assert_allclose(bend(t, power), Z, rtol=1e-9, atol=1e-9)
    assert (np.diff(t) > 0).all()
    h = 1e-6
    slope = (straighten(Z + h, power) - straighten(Z - h, power)) / (2 * h)
    np.testing.assert_allclose(np.exp(log_slope(Z, power)), slope, rtol=1e-5)


def test_powers_are_those_of_the_data():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=4000)
    assert best_power(normal) is None
    for power in (-0.5, 0.3, 1.8):
        # t of z is normal, so z is t bent back; the standard error of a power from 4,000 cells is about 0.03.
        assert best_power(bend(0.4 * normal, power)) == pytest.approx(power, abs=0.15)
    assert best_power(np.repeat([0.0, 1.0, 9.0], 1000)) is None


@pytest.mark.parametrize("kind", ["real", "positive"])
def test_densities_in_the_user_s_units_integrate_to_one(kind):
    rng = np.random.default_rng(1)
    cells = np.exp(rng.normal(size=500)) if kind == "real" else np.exp(-np.exp(rng.normal(size=500)))
    schema = infer_schema(pd.DataFrame({"a": cells}), types={"a": kind})
    assert schema.columns[0].power is not None
    # Positive cells pile up towards zero, over many orders of magnitude.
    v = np.linspace(-3, 60, 400_001) if kind == "real" else np.geomspace(1e-12, 3, 400_001)
    y, _ = schema.encode(pd.DataFrame({"a": v}))
    y = y.astype(np.float64)
    log_p = norm.logpdf(y[:, 0]) if kind == "real" else norm.logpdf(np.log(y[:, 0])) - np.log(y[:, 0])
    density = np.exp(log_p + schema.log_jacobian(y))
    inside = norm.cdf(y[[0, -1], 0] if kind == "real" else np.log(y[[0, -1], 0]))
    assert np.trapezoid(density, v) == pytest.approx(inside[1] - inside[0], abs=2e-3)


def test_draws_keep_to_the_range_and_rows_come_back():
    cells = np.exp(np.random.default_rng(2).normal(size=300))
    schema = infer_schema(pd.DataFrame({"a": cells}), types={"a": "real"})
    y, _ = schema.encode(pd.DataFrame({"a": cells}))
    np.testing.assert_allclose(schema.decode(y)["a"], cells, rtol=1e-4)
    wild = schema.in_units(np.array([[-50.0], [50.0]]))
    assert wild.ravel().tolist() == [cells.min(), cells.max()]

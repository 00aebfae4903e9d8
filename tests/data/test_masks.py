import numpy as np
import pytest

from dlgm.data import hide_at_random, hide_by_others, hide_by_themselves


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20_000, 4)) @ rng.normal(size=(4, 4)) + 5


def slopes(values, hidden):
    """Correlation of being hidden with each column; n = 20,000, so a standard error of 0.007."""
    return np.array([np.corrcoef(values[:, i], hidden)[0, 1] for i in range(values.shape[1])])


def test_at_random_depends_on_nothing(rows):
    mask = hide_at_random(rows.shape, 0.3, np.random.default_rng(1))
    assert abs(1 - mask.mean() - 0.3) < 5 * (0.21 / mask.size) ** 0.5
    assert np.abs(slopes(rows, ~mask[:, 0])).max() < 0.03


def test_by_others_depends_on_what_is_seen_alone():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20_000, 4))  # independent columns: whatever depends on one does not on another
    mask = hide_by_others(rows, 0.3, rng, always=0.25, strength=2.0)
    always = mask.all(axis=0)
    assert always.sum() == 1
    for i in np.flatnonzero(~always):
        assert abs(1 - mask[:, i].mean() - 0.3) < 0.015
        found = np.abs(slopes(rows, ~mask[:, i]))
        assert found[always].item() > 0.3
        assert found[~always].max() < 0.03


def test_by_themselves_depends_on_the_cell(rows):
    for strength in (2.0, -2.0):
        mask = hide_by_themselves(rows, 0.4, np.random.default_rng(3), strength=strength)
        np.testing.assert_allclose(1 - mask.mean(axis=0), 0.4, atol=0.015)
        for i in range(4):
            gap = rows[~mask[:, i], i].mean() - rows[mask[:, i], i].mean()
            assert gap * strength > rows[:, i].std()


def test_wrong_input_is_refused(rows):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="share: expected"):
        hide_by_themselves(rows, 1.5, rng)
    with pytest.raises(ValueError, match="two columns or more"):
        hide_by_others(rows[:, :1], 0.5, rng)
    with pytest.raises(ValueError, match="complete rows"):
        hide_by_others(np.where(rows > 8, np.nan, rows), 0.5, rng)

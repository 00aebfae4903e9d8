"""How good fills and draws are, by cells whose truth is known."""

import numpy as np

LEVEL = 0.9
LOWEST = -20.0  # log score that a cell counts with: one cell dozens of deviations off would else be the whole mean


def squared_error(filled: np.ndarray, truth: np.ndarray, hidden: np.ndarray) -> float:
    """Mean over all hidden cells."""
    return float(np.mean((filled - truth)[hidden] ** 2))


def mixed_error(
    filled: np.ndarray, truth: np.ndarray, hidden: np.ndarray, kinds: tuple[str, ...], levels: tuple[int, ...]
) -> float:
    """Mean over columns: rate of wrong categories, difference of codes over levels, RMSE over the column's range."""
    errors = []
    for i, kind in enumerate(kinds):
        here = hidden[:, i]
        if not here.any():
            continue
        gap = filled[here, i] - truth[here, i]
        if kind == "category":
            errors.append(np.mean(gap != 0))
        elif kind == "ordinal":
            errors.append(np.mean(np.abs(gap)) / levels[i])
        else:
            known = truth[~np.isnan(truth[:, i]), i]
            errors.append(np.sqrt(np.mean(gap**2)) / (known.max() - known.min()))
    return float(np.mean(errors))


def of_draws(
    draws: np.ndarray, truth: np.ndarray, hidden: np.ndarray, kinds: tuple[str, ...], levels: tuple[int, ...]
) -> dict[str, dict[str, float]]:
    """By kind of column: coverage of 90 % intervals, CRPS and log score.

    Of numbers, an interval lies between order statistics at 5 and 95 % of one more than the number of draws. Of ordered
    codes it is the middle 90 % of the draws' distribution, and of categories its most probable 90 %; since these come
    in lumps, a code at the edge counts as inside with the share of its probability that is, and so does a number that
    draws are equal to (most gains of capital are zero). CRPS is in standard
    deviations of the column, of categories half the Brier score. The log score is of a Gaussian with the draws' mean
    and standard deviation, no cell below -20, or the log of the code's share of the draws, each code counted half a
    time more.
    """
    found: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(kinds):
        parts = [
            _column(draws[:, hidden[:, i], i], truth[hidden[:, i], i], kind, levels[i], _spread(truth[:, i]))
            for i in range(len(kinds))
            if kinds[i] == kind and hidden[:, i].any()
        ]
        names = ("coverage", "crps", "log_score")
        found[kind] = {name: float(np.mean(np.concatenate([p[j] for p in parts]))) for j, name in enumerate(names)}
    return found


def _spread(column: np.ndarray) -> float:
    """The standard deviation; of a constant column zero, where rounding would leave a trace of one."""
    return float(np.nanstd(column)) if np.nanmax(column) > np.nanmin(column) else 0.0


def _column(
    draws: np.ndarray, truth: np.ndarray, kind: str, levels: int, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s = len(draws)
    if kind != "number":
        shares = np.stack([(draws == code).mean(axis=0) for code in range(levels)], axis=1)
        log_score = np.log((shares * s + 0.5) / (s + 0.5 * levels))[np.arange(len(truth)), truth.astype(int)]
        if kind == "category":
            brier = np.sum((shares - (np.arange(levels) == truth[:, None])) ** 2, axis=1) / 2
            return (
                _part_inside(-np.argsort(np.argsort(-shares, axis=1), axis=1), shares, truth, (1 - LEVEL, 1)),
                brier,
                log_score,
            )
        inside = _part_inside(
            np.broadcast_to(np.arange(levels), shares.shape), shares, truth, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )
        return inside, _crps(draws, truth) / (scale or 1.0), log_score
    ordered = np.sort(draws, axis=0)
    ends = []
    for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        at = float(np.clip(share * (s + 1) - 1, 0, s - 1))
        low = int(at)
        ends.append(ordered[low] + (at - low) * (ordered[min(low + 1, s - 1)] - ordered[low]))
    equal = (draws == truth).mean(axis=0)
    inside = np.where(
        equal > 0,
        _share_between((draws < truth).mean(axis=0), equal, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)),
        (truth >= ends[0]) & (truth <= ends[1]),
    )
    scale = scale or 1.0
    mean, deviation = draws.mean(axis=0) / scale, np.maximum(draws.std(axis=0, ddof=1) / scale, 1e-3)
    log_score = -0.5 * ((truth / scale - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    return inside, _crps(draws, truth) / scale, np.maximum(log_score, LOWEST)


def _crps(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """E|X - y| - E|X - X'| / 2, the second without pairs of a draw with itself."""
    s = len(draws)
    weights = 2 * np.arange(1, s + 1) - s - 1
    return np.abs(draws - truth).mean(axis=0) - weights @ np.sort(draws, axis=0) / (s * (s - 1))


def _part_inside(ranks: np.ndarray, shares: np.ndarray, truth: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Which part of the true code's probability lies between two quantiles, when codes are ordered by their ranks."""
    own = np.take_along_axis(ranks, truth.astype(int)[:, None], axis=1)
    below = np.sum(shares, axis=1, where=ranks < own)
    mass = np.take_along_axis(shares, truth.astype(int)[:, None], axis=1)[:, 0]
    never_drawn = (below > ends[0]) & (below < ends[1])
    return np.where(mass > 0, _share_between(below, mass, ends), never_drawn)


def _share_between(below: np.ndarray, mass: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Which part of a lump of probability, with so much below it, lies between two quantiles."""
    return (np.clip(below + mass, *ends) - np.clip(below, *ends)) / np.where(mass > 0, mass, 1.0)

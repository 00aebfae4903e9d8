"""How good fills and draws are, by cells whose truth is known."""

import numpy as np

LEVEL = 0.9


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

    An interval lies between order statistics at 5 and 95 % of one more than the number of draws; of ordered codes it is
    rounded outwards, and of categories it is the smallest set that holds 90 % of the draws. CRPS is in standard
    deviations of the column, of categories half the Brier score. The log score is of a Gaussian with the draws' mean
    and standard deviation, or the log of the code's share of the draws, each code counted half a time more.
    """
    found: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(kinds):
        parts = [
            _column(draws[:, hidden[:, i], i], truth[hidden[:, i], i], kind, levels[i], np.nanstd(truth[:, i]))
            for i in range(len(kinds))
            if kinds[i] == kind and hidden[:, i].any()
        ]
        names = ("coverage", "crps", "log_score")
        found[kind] = {name: float(np.mean(np.concatenate([p[j] for p in parts]))) for j, name in enumerate(names)}
    return found


def _column(
    draws: np.ndarray, truth: np.ndarray, kind: str, levels: int, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s = len(draws)
    if kind == "category":
        shares = np.stack([(draws == code).mean(axis=0) for code in range(levels)], axis=1)
        smooth = (shares * s + 0.5) / (s + 0.5 * levels)
        own = truth.astype(int)[:, None]
        order = np.argsort(-shares, axis=1)
        sorted_shares = np.take_along_axis(shares, order, axis=1)
        before = np.cumsum(sorted_shares, axis=1) - sorted_shares
        rank = np.argmax(order == own, axis=1)
        inside = before[np.arange(len(rank)), rank] < LEVEL
        brier = np.sum((shares - (np.arange(levels) == own)) ** 2, axis=1) / 2
        return inside, brier, np.log(np.take_along_axis(smooth, own, axis=1)[:, 0])
    ordered = np.sort(draws, axis=0)
    ends = []
    for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        at = float(np.clip(share * (s + 1) - 1, 0, s - 1))
        low = int(at)
        ends.append(ordered[low] + (at - low) * (ordered[min(low + 1, s - 1)] - ordered[low]))
    if kind == "ordinal":
        ends = [np.floor(ends[0]), np.ceil(ends[1])]
    inside = (truth >= ends[0]) & (truth <= ends[1])
    # E|X - y| - E|X - X'| / 2, the second without pairs of a draw with itself.
    weights = 2 * np.arange(1, s + 1) - s - 1
    spread = weights @ ordered / (s * (s - 1))
    crps = (np.abs(draws - truth).mean(axis=0) - spread) / (scale or 1.0)
    if kind == "ordinal":
        shares = np.stack([(draws == code).sum(axis=0) + 0.5 for code in range(levels)], axis=1)
        shares /= shares.sum(axis=1, keepdims=True)
        return inside, crps, np.log(shares[np.arange(len(truth)), truth.astype(int)])
    mean, deviation = draws.mean(axis=0) / scale, np.maximum(draws.std(axis=0, ddof=1) / scale, 1e-3)
    log_score = -0.5 * ((truth / scale - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    return inside, crps, log_score

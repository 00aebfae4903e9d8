"""Imputers that stand for what people use today, with their own defaults and no tuning for any table."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from imputation.coded import Coded, kept

Kinds = tuple[str, ...]
Levels = tuple[int, ...]
Fill = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[np.ndarray, int], np.ndarray]  # rows, number of draws -> draws of shape (s, n, x)


class Fitted:
    """What a method has learnt: one fill a hole, for rows seen or new, and perhaps draws."""

    def __init__(self, fill: Fill, draw: Draw | None = None) -> None:
        self.fill, self.draw = fill, draw


def mean_or_mode(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """The mean of numbers, the median of ordered codes, the most frequent category."""
    best = np.empty(rows.shape[1])
    for i, kind in enumerate(kinds):
        seen = rows[~np.isnan(rows[:, i]), i]
        if kind == "number":
            best[i] = seen.mean()
        else:
            best[i] = np.rint(np.median(seen)) if kind == "ordinal" else np.bincount(seen.astype(int)).argmax()
    return Fitted(lambda new: kept(new, np.broadcast_to(best, new.shape)))


def _by_sklearn(make: Callable[[int], Any]) -> Callable[..., Fitted]:
    def method(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
        coded = Coded(rows, kinds, levels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            imputer = make(seed).fit(coded.encode(rows))
        return Fitted(lambda new: kept(new, coded.decode(imputer.transform(coded.encode(new)))))

    return method


knn = _by_sklearn(lambda seed: KNNImputer())
ridge = _by_sklearn(lambda seed: IterativeImputer(random_state=seed))
# Ten rounds of a hundred trees would take an hour on the widest tables: five of twenty.
iterated_forest = _by_sklearn(
    lambda seed: IterativeImputer(
        RandomForestRegressor(20, n_jobs=-1, random_state=seed), max_iter=5, random_state=seed
    )
)


def miss_forest(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """As Stekhoven and Buhlmann have it: forests in turn, the column with fewest holes first, until changes grow."""
    holes = np.isnan(rows)
    start = mean_or_mode(rows, kinds, levels, seed)
    order = [int(i) for i in np.argsort(holes.sum(axis=0)) if holes[:, i].any()]
    numbers = np.array([kind != "category" for kind in kinds])

    def forest(i: int) -> Any:
        settings = {"n_estimators": 100, "max_features": "sqrt", "n_jobs": -1, "random_state": seed}
        return RandomForestClassifier(**settings) if kinds[i] == "category" else RandomForestRegressor(**settings)

    def round_of(filled: np.ndarray) -> tuple[np.ndarray, dict[int, Any]]:
        new, forests = filled.copy(), {}
        for i in order:
            others = np.delete(new, i, axis=1)
            forests[i] = forest(i).fit(others[~holes[:, i]], rows[~holes[:, i], i])
            new[holes[:, i], i] = _levelled(forests[i].predict(others[holes[:, i]]), kinds[i])
        return new, forests

    def changes(old: np.ndarray, new: np.ndarray) -> list[float]:
        found = []
        if numbers.any():
            found.append(float(((new - old)[:, numbers] ** 2).sum() / (new[:, numbers] ** 2).sum()))
        if not numbers.all():
            found.append(float((new != old)[:, ~numbers].sum() / holes[:, ~numbers].sum()))
        return found

    filled, last, forests = start.fill(rows), [np.inf, np.inf], {}
    for _ in range(10):
        new, grown = round_of(filled)
        change = changes(filled, new)
        if all(now > before for now, before in zip(change, last, strict=False)):
            break
        filled, last, forests = new, change, grown

    def fill(given: np.ndarray) -> np.ndarray:
        if given.shape == rows.shape and np.array_equal(given, rows, equal_nan=True):
            return filled
        missing, new = np.isnan(given), start.fill(given)
        for _ in range(5):
            for i in order:
                here = missing[:, i]
                if here.any():
                    new[here, i] = _levelled(forests[i].predict(np.delete(new[here], i, axis=1)), kinds[i])
        return new

    return Fitted(fill)


def _levelled(values: np.ndarray, kind: str) -> np.ndarray:
    return np.rint(values) if kind == "ordinal" else values


def factor_analysis(rows: np.ndarray, kinds: Kinds, levels: Levels, seed: int) -> Fitted:
    """Factor analysis with holes, its factors chosen by cells hidden from it; categories as numbers."""
    from dlgm.baselines import fit_factor_analysis

    coded = Coded(rows, kinds, levels)
    matrix = coded.encode(rows)
    rng = np.random.default_rng(seed)
    few = matrix[rng.permutation(len(matrix))[:2000]]
    seen = ~np.isnan(few)
    asked = seen & (rng.uniform(size=seen.shape) < 0.2)

    def error(k: int) -> float:
        found = fit_factor_analysis(few, seen & ~asked, num_factors=k, iterations=50, seed=seed)
        return float(((found.conditional(few, seen & ~asked)[0] - few)[asked] ** 2).mean())

    numbers = [k for k in (1, 2, 4, 8, 12, 16, 24, 32) if k < matrix.shape[1]] or [1]
    model = fit_factor_analysis(matrix, num_factors=min(numbers, key=error), seed=seed)

    def draw(new: np.ndarray, number: int) -> np.ndarray:
        mean, variance = model.conditional(coded.encode(new))
        noise = np.random.default_rng(seed).normal(size=(number, *mean.shape))
        return np.stack([kept(new, coded.decode(mean + np.sqrt(variance) * e)) for e in noise])

    only_numbers = all(kind == "number" for kind in kinds)
    return Fitted(
        lambda new: kept(new, coded.decode(model.conditional(coded.encode(new))[0])), draw if only_numbers else None
    )

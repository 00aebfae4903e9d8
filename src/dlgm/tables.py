"""A model of a DataFrame: asked and answered in the user's own columns, units and dtypes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Shaped

from dlgm.artifact import ModelFileError, SavedModel, load_model, save_model
from dlgm.data.schema import Schema, infer_schema
from dlgm.data.schema.cells import plain, shown
from dlgm.data.schema.coding import unknown_in
from dlgm.inference import Imputation, Likelihood, Pooled, impute, log_likelihood, posterior_moments, sample
from dlgm.inference.imputation.pooling import pool
from dlgm.learning import AbstractWatcher, Fitted, TrainingConfig, fit
from dlgm.learning.hidden_cells import HiddenCells, hide_some
from dlgm.learning.linear_start import linear_start
from dlgm.model import Model, ModelConfig, build_model, initialise, preset
from dlgm.names import closest
from dlgm.sizing import recipe_for_table, straightened_if_better
from dlgm.warn import warn

__all__ = ["TableImputation", "TableModel", "fit_table"]

_TRIALS = 20  # of a new row to lie within the columns' ranges
NEWTON = 8  # steps to the peak of a row's posterior, from which draws are resampled too
HIDDEN = 0.05  # share of the observed cells that early stopping is judged by
Cells = tuple[Shaped[np.ndarray, "n x"], Bool[np.ndarray, "n x"] | None]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A trained model and the schema of the table it was trained on."""

    saved: SavedModel
    schema: Schema

    @property
    def model(self) -> Model:
        """The model of encoded rows."""
        return self.saved.model

    def encode(self, frame: pd.DataFrame, *, unknown: str = "error") -> Cells:
        """Rows as the model's numbers, and which cells were observed.

        `unknown` says what becomes of categories that were not there at fit, and of numbers that a column cannot have:
        `error`, or `missing`, with a warning.
        """
        return self.schema.encode(frame if unknown == "error" else self._without_unknown(frame))

    def score(
        self, frame: pd.DataFrame, *, num_samples: int = 1000, seed: int = 0, unknown: str = "error"
    ) -> Likelihood:
        """Importance-sampled log p of each row's observed cells, as a density in the user's units."""
        values, mask = self.encode(frame, unknown=unknown)
        found = log_likelihood(self.model, values, mask, num_samples=num_samples, key=jax.random.key(seed))
        shift = self.schema.log_jacobian(values, mask)
        return found._replace(log_p=found.log_p + shift, bound=found.bound + shift)

    def latents(self, frame: pd.DataFrame, *, seed: int = 0, unknown: str = "error") -> Float[np.ndarray, "n k"]:
        """The posterior mean of each row's latents."""
        values, mask = self.encode(frame, unknown=unknown)
        return np.asarray(posterior_moments(self.model, values, mask, key=jax.random.key(seed)).mean, np.float64)

    def sample(self, num: int, *, seed: int = 0) -> pd.DataFrame:
        """New rows, their numbers within the ranges that the columns had."""
        return self.schema.decode(sample_in_range(self.model, self.schema, num, seed=seed), limited=True)

    def impute(
        self,
        frame: pd.DataFrame,
        *,
        draws: int = 100,
        method: str = "resample",
        seed: int = 0,
        unknown: str = "error",
        **settings: Any,
    ) -> "TableImputation":
        """Draws of the holes; `settings` are those of `dlgm.impute`.

        By default draws are resampled from what the recognition model, which knows about holes, proposes.
        """
        names, frame = frame.columns, frame.set_axis(list(map(str, frame.columns)), axis=1)
        known = frame if unknown == "error" else self._without_unknown(frame)
        values, mask = self.schema.encode(known)
        if method == "resample" and self.saved.config.covariance == "cells":
            settings = {"warm_up": 0, "chains": 1, "newton": NEWTON, **settings}
        found = impute(self.model, values, mask, method=method, draws=draws, key=jax.random.key(seed), **settings)
        # A category that was not there at fit is no hole to the user: it stays.
        kept = None if unknown == "error" else frame[self.schema.names].notna().to_numpy()
        labels = dict(zip(frame.columns, names, strict=True))
        return TableImputation(frame, found.in_units(self.schema), self.schema, kept, labels)

    def save(self, path: str | Path) -> None:
        """Write one model file, as `dlgm fit` does."""
        save_model(path, self.saved)

    @classmethod
    def load(cls, path: str | Path) -> "TableModel":
        """Read a model file of a table."""
        saved = load_model(path)
        if "schema" not in saved.data:
            raise ModelFileError(f"{path}: expected the model of a table; it has no schema.")
        return cls(saved, Schema.from_dict(saved.data["schema"]))

    def _without_unknown(self, frame: pd.DataFrame) -> pd.DataFrame:
        known = {}
        for column in self.schema.columns:
            if column.name not in frame:
                continue
            cells = plain(column.name, frame[column.name])
            unknown = unknown_in(column, cells)
            if unknown.any():
                known[column.name] = frame[column.name].mask(unknown)
                warn(
                    f"column {column.name!r}: {int(unknown.sum()):,} of {len(frame):,} cells hold what was not there "
                    f"at fit, such as {shown(cells.values[unknown][0])}; the model takes them as missing.",
                )
        return frame.assign(**known)


def sample_in_range(model: Model, schema: Schema, num: int, *, seed: int = 0) -> Shaped[np.ndarray, "num x"]:
    """New rows in the model's numbers; those with a cell beyond its column's range are drawn again.

    Cut off at the ends of the range instead, they would pile up there. A row that is still outside after some trials
    stays, for `Schema.decode` to cut.
    """
    key = jax.random.key(seed)
    rows = np.array(sample(model, num, key=key).rows)
    for trial in range(_TRIALS):
        beyond = [schema.beyond(i, schema.in_units_of(i, rows[:, i], limited=False)) for i in range(rows.shape[1])]
        outside = np.any(beyond, axis=0)
        if not outside.any():
            break
        rows[outside] = np.asarray(sample(model, num, key=jax.random.fold_in(key, trial)).rows)[outside]
    return rows


@dataclass(frozen=True, eq=False)
class TableImputation:
    """Completed copies of a table. What was observed is as it was, other columns included; only holes are filled."""

    frame: pd.DataFrame  # its columns' names are texts
    numbers: Imputation  # in the user's units, with codes for categories
    schema: Schema
    kept: Bool[np.ndarray, "n x"] | None = None  # cells to leave alone even where the model saw a hole
    labels: Mapping[str, Any] = field(default_factory=dict)  # what the user calls the columns, where that is no text

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> pd.DataFrame:
        return self.completed(self.numbers[i])

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (self[i] for i in range(len(self)))

    def best(self) -> pd.DataFrame:
        """One fill a hole: the mean of numbers, the most probable category, the median of counts and ordered codes."""
        return self.completed(self.numbers.best())

    def mean(self) -> pd.DataFrame:
        """Each cell's mean; of categories, the most probable one. Columns of whole numbers or truth values hold any."""
        return self.completed(self.means(), rounded=False)

    def means(self) -> Float[np.ndarray, "n x"]:
        """What `mean` puts into the holes: numbers in the user's units, places between codes for codes."""
        means = np.where(self._unordered(), self.numbers.best(), self.numbers.mean())
        for i in np.flatnonzero(self._codes_of_numbers()):
            # Of the numbers themselves, which need not be equally far apart: as a place between their codes.
            own = np.asarray(self.schema.columns[i].categories, np.float64)
            if not (np.diff(own) > 0).all():  # an order of the user's: numbers between those have no place in it
                continue
            shares = self.numbers.probabilities(int(i))[:, : len(own)]
            means[:, i] = np.interp(shares @ own / shares.sum(axis=1), own, np.arange(len(own)))
        return means

    def median(self) -> pd.DataFrame:
        """Each cell's median; of categories, the most probable one."""
        return self.completed(self.numbers.median())

    def standard_deviation(self) -> pd.DataFrame:
        """Each number's standard deviation, zero where it was observed and NaN for categories."""
        drawn = np.stack([self._numbers(self.numbers[i]) for i in range(len(self))])
        spread = drawn.std(axis=0, ddof=1 if len(self) > 1 else 0)
        spread = np.where(self.numbers.mask & ~self._unordered(), 0.0, spread)
        return self._labelled(pd.DataFrame(spread, self.frame.index, self.schema.names))

    def interval(self, level: float = 0.9) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The ends of each number's interval, which is the number itself where it was observed; NaN for texts."""
        low, high = self.numbers.interval(level)
        return self._with_observed(low), self._with_observed(high)

    def probabilities(self, name: str) -> pd.DataFrame:
        """The probability of each category of a column."""
        if name not in self.schema.names:
            raise ValueError(
                f"probabilities: expected the name of a column; got {name!r}.{closest(name, self.schema.names)}"
            )
        column = self.schema.columns[self.schema.names.index(name)]
        if column.categories is None or column.is_fractional:
            raise ValueError(f"probabilities: column {name!r} holds numbers; expected a column of categories.")
        found = self.numbers.probabilities(self.schema.names.index(name))
        return pd.DataFrame(found[:, : len(column.categories)], self.frame.index, list(column.categories))

    def pool(
        self,
        estimate: Callable[[pd.DataFrame], tuple[Any, Any]],
        *,
        complete_degrees_of_freedom: float | int | None = None,
    ) -> Pooled:
        """Any estimate and its variance, over the completed tables, by Rubin's rules."""
        return pool(self, estimate, complete_degrees_of_freedom)

    def _unordered(self) -> Bool[np.ndarray, " x"]:
        return np.array([c.kind == "categorical" or _is_text(c.categories) for c in self.schema.columns])

    def _codes_of_numbers(self) -> Bool[np.ndarray, " x"]:
        """Columns whose codes stand for numbers in order."""
        columns = self.schema.columns
        coded = np.array([c.categories is not None and not c.is_fractional for c in columns])
        return coded & ~self._unordered()

    def _numbers(self, values: Float[np.ndarray, "n x"]) -> Float[np.ndarray, "n x"]:
        """Codes as the numbers that they stand for, and NaN if that is none."""
        numbers = np.array(values, np.float64)
        numbers[:, self._unordered()] = np.nan
        for i in np.flatnonzero(self._codes_of_numbers()):
            own = np.asarray(self.schema.columns[i].categories, np.float64)
            numbers[:, i] = np.interp(numbers[:, i], np.arange(len(own)), own)
        return numbers

    def _with_observed(self, values: Float[np.ndarray, "n x"]) -> pd.DataFrame:
        """Numbers in the holes, and the user's own, to the last digit, where there is none."""
        numbers = pd.DataFrame(self._numbers(values), self.frame.index, self.schema.names)
        for i, name in enumerate(self.schema.names):
            if not self._unordered()[i]:
                own = self.frame[name].astype("Float64").to_numpy(np.float64, na_value=np.nan)
                numbers[name] = np.where(self.numbers.mask[:, i], own, numbers[name])
        return self._labelled(numbers)

    def completed(self, values: Float[np.ndarray, "n x"], rounded: bool = True) -> pd.DataFrame:
        """The table with numbers in the user's units in its holes."""
        cells = self.schema.to_frame(values, rounded=rounded).set_axis(self.frame.index)
        filled = self.frame.copy()
        for i, name in enumerate(self.schema.names):
            here = ~self.numbers.mask[:, i]
            here = here if self.kept is None else here & ~self.kept[:, i]
            if here.any():
                own = filled[name] if rounded or self._unordered()[i] else _as_floats(filled[name])
                filled[name] = _put(own, cells[name], here)
        return self._labelled(filled)

    def _labelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.set_axis([self.labels.get(name, name) for name in frame.columns], axis=1)


def _put(column: pd.Series, cells: pd.Series, here: Bool[np.ndarray, " n"]) -> pd.Series:
    """A column with some cells replaced, in its own dtype if that can hold them.

    A column in which nothing is known comes in any dtype, and is given back in that of the fit.
    """
    if column.isna().all() and not _suits(column.dtype, cells.dtype):
        return cells
    new = cells[here]
    if isinstance(column.dtype, pd.CategoricalDtype):
        # A frame of few rows may not have heard of all the categories that the model knows.
        known = column.cat.categories
        column = column.cat.add_categories([value for value in new.unique() if value not in known])
        new = new.astype(column.dtype)
    elif pd.api.types.is_numeric_dtype(column.dtype) and any(isinstance(cell, str) for cell in new):
        column, new = column.astype(object), new.astype(object)
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        new = new.astype(float).astype(column.dtype)
    elif pd.api.types.is_integer_dtype(column.dtype) and not (new.astype(float) % 1 == 0).all():
        column = column.astype("Float64")
    elif column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        new = new.astype(object)
    column = column.copy()
    column.loc[here] = new.to_numpy(dtype=object if column.dtype == object else None)
    return column


def _suits(dtype: Any, fitted: Any) -> bool:
    """Whether a column in which nothing is known has a dtype that says what it would hold, and the fit agrees."""
    types = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype) or dtype == fitted:
        return True
    says = types.is_extension_array_dtype(dtype) and types.is_numeric_dtype(dtype)
    return says and types.is_numeric_dtype(fitted) and types.is_bool_dtype(dtype) == types.is_bool_dtype(fitted)


def _as_floats(column: pd.Series) -> pd.Series:
    """A column of numbers or truth values, of any dtype, as one that can hold the numbers between them."""
    if pd.api.types.is_float_dtype(column.dtype):
        return column
    return pd.Series([None if pd.isna(v) else float(v) for v in column], column.index, "Float64", column.name)


def _is_text(categories: Sequence[Any] | None) -> bool:
    return categories is not None and isinstance(categories[0], str)


def fit_table(
    frame: pd.DataFrame,
    *,
    schema: Schema | None = None,
    types: Mapping[str, str] | None = None,
    model: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
    watchers: Sequence[AbstractWatcher] = (),
) -> TableModel:
    """Train a model of a DataFrame, holes and all, with settings that suit its size.

    **Arguments**

    - `schema`, `types`: what is known of the columns; the rest is inferred: see `infer_schema`.
    - `model`, `training`: settings of `ModelConfig` and `TrainingConfig` in place of those that are chosen. With
      `epochs` of 0 the model is left at its start, a factor analysis of the straightened columns.
    """
    known = infer_schema(frame, schema=schema, types=types)
    if schema is None:
        known = straightened_if_better(known, frame, seed=seed)
    values, mask = known.encode(frame)
    observation = known.observation()
    recipe = recipe_for_table(observation, values, mask, seed=seed)
    shape = {**recipe.model, **(model or {})}
    if shape["covariance"] == "cells" and isinstance(shape["latent"], tuple | list) and len(shape["latent"]) != 1:
        raise ValueError(
            f"latent: expected one number, for a model of a table has a single layer; got {shape['latent']}."
        )
    config = preset("default", observation, **shape)
    asked = {**recipe.training, **(training or {}), "seed": seed}
    if type(asked["epochs"]) is not int or asked["epochs"] < 0:
        raise ValueError(f"epochs: expected a whole number of at least 0; got {asked['epochs']!r}.")
    settings = TrainingConfig(**{**asked, "epochs": max(1, asked["epochs"])})
    if asked["epochs"] == 0:
        trained = _start(config, values, mask, seed)
        history: dict[str, Any] = {"config": {"seed": seed}, "summary": {"epochs": 0}}
    else:
        fitted = _fit(config, known, values, mask, settings, watchers)
        trained, history = fitted.model, {"config": settings.to_dict(), "summary": fitted.summary()}
    described = {"name": "table", "shape": [], "schema": known.to_dict(), "missing": []}
    return TableModel(SavedModel(trained, config, described, history), known)


def _fit(
    config: ModelConfig,
    schema: Schema,
    values: np.ndarray,
    mask: np.ndarray | None,
    settings: TrainingConfig,
    watchers: Sequence[AbstractWatcher],
) -> Fitted:
    """A model that is trained for as long as its fills get better: likelihood can grow while they get worse.

    How long that is, a first run finds out with some cells hidden from it. A second one takes all of them.
    """
    seen = np.ones(values.shape, bool) if mask is None else mask
    hidden = hide_some(seen, HIDDEN, seed=settings.seed)
    if not hidden.any():  # too small a table to spare a cell: nothing says when to stop
        return fit(config, values, mask, config=replace(settings, patience=0), watchers=watchers)
    left = seen & ~hidden
    judge = HiddenCells(values, left, hidden, units=schema.in_units_of, key=jax.random.key(settings.seed))
    first = fit(config, values, left, config=settings, judge=judge, watchers=watchers)
    again = replace(settings, patience=0)
    return fit(config, values, seen, config=again, stop_after=first.best_epoch, watchers=watchers)


def _start(config: ModelConfig, values: np.ndarray, mask: np.ndarray | None, seed: int) -> Model:
    if not (config.linear_path and config.covariance == "cells"):
        raise ValueError("epochs: expected at least 1; only a model with linear_path and cells is worth its start.")
    model = initialise(build_model(config, key=jax.random.key(seed)), values, mask)
    return linear_start(model, values, mask, seed=seed)

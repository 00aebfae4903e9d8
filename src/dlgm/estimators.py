"""The scikit-learn face: `DLGM`, a transformer and density model, and `DLGMImputer`, which fills holes.

Both take arrays and DataFrames. The columns of a DataFrame keep their names, dtypes and units.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from dlgm.data.schema.coding import nullable
from dlgm.data.schema.schema import refuse_twins
from dlgm.names import require_one_of
from dlgm.tables import TableImputation, TableModel, fit_table
from dlgm.warn import warn

__all__ = ["DLGM", "DLGMImputer"]

_PROPOSALS = 1000  # of the latents behind each row, about
_FEW, _TOO_MANY = 5, 0.1  # proposals that a row's fills may rest on; the share of rows with fewer that is worth a word
_ROWS = 20_000  # that are filled at a time, so that their draws fit into memory


class _TableEstimator(BaseEstimator):
    """What both have in common: their settings, rows as a DataFrame, and training."""

    latent: Any
    hidden: Any
    epochs: Any
    learning_rate: Any
    types: Any
    random_state: Any
    n_features_in_: int
    table_: TableModel
    _names: list[str]  # of the columns at fit, as texts
    _labels: Any  # a DataFrame's columns as they were; None of an array

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _as_frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """Rows as a DataFrame; the columns of an array are called as those at fit, or x0, x1, .."""
        if isinstance(X, pd.DataFrame):
            refuse_twins(list(map(str, X.columns)))
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X) or not X.shape[1]:
                raise ValueError(
                    f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape={X.shape}) while a "
                    "minimum of 1 is required."
                )
            frame = X.set_axis(list(map(str, X.columns)), axis=1)
        else:
            array = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
            names = [f"x{i}" for i in range(array.shape[1])] if reset else self._names
            frame = pd.DataFrame(np.asarray(array), columns=names)
        if reset:
            self._names = list(frame.columns)
            self._labels = X.columns if isinstance(X, pd.DataFrame) else None
        return frame

    def _train(self, frame: pd.DataFrame) -> None:
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        types = self.types
        if isinstance(types, str):
            types = {"*": types}
        model = {"latent": _widths(self.latent), "hidden": _widths(self.hidden)}
        training = {"epochs": self.epochs, "learning_rate": self.learning_rate}
        self.table_ = fit_table(frame, types=types, model=_given(model), training=_given(training), seed=self.seed_)
        self.n_iter_ = int(self.table_.saved.training["summary"]["epochs"])


class DLGM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, _TableEstimator):
    """A deep latent Gaussian model of a table: density, samples, latents, and what belongs in the holes.

    **Arguments**

    - `latent`, `hidden`: numbers of latents and hidden units; `"auto"`: what suits the table's size.
    - `epochs`, `learning_rate`: of training; `"auto"` as well.
    - `types`: kinds by column name, in place of the inferred ones; a single kind for all columns.
    - `num_samples`: importance samples a row for `score_samples`.
    - `random_state`: a seed, from which everything follows.

    Holes are NaN or pandas' own, and are summed out of likelihoods. So are, with a warning, categories that were not
    there at fit, and numbers that a column cannot have: none of the few that it had, a fraction among counts, zero
    where all were positive, or less than a heap above which all others were.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 2)) @ np.array([[1.0, 0.5], [0.0, 0.3]])
    >>> model = DLGM(latent=1, epochs=2, random_state=0).fit(X)
    >>> model.transform(X).shape, model.score_samples(X).shape, model.sample(3).shape
    ((50, 1), (50,), (3, 2))
    """

    # Settings are taken as they are, and looked at by `fit`, as scikit-learn will have it.
    def __init__(
        self,
        *,
        latent: Any = "auto",
        hidden: Any = "auto",
        epochs: Any = "auto",
        learning_rate: Any = "auto",
        types: Any = None,
        num_samples: Any = 500,
        random_state: Any = None,
    ) -> None:
        self.latent = latent
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.types = types
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "DLGM":
        """Learn the table's distribution; `y` is not looked at."""
        frame = self._as_frame(X, reset=True)
        self._train(frame)
        self.table_.saved.data["array"] = self._labels is None
        self._n_features_out = self.table_.saved.config.latent[0]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The posterior mean of each row's latents."""
        check_is_fitted(self)
        return self.table_.latents(self._as_frame(X, reset=False), seed=self.seed_, unknown="missing")

    def score_samples(self, X: Any) -> np.ndarray:
        """Importance-sampled log density of each row's observed cells, in the user's units."""
        check_is_fitted(self)
        frame = self._as_frame(X, reset=False)
        found = self.table_.score(frame, num_samples=self.num_samples, seed=self.seed_, unknown="missing")
        return np.asarray(found.log_p, np.float64)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """New rows, as a DataFrame if the model was fitted to one: the same ones for the same `random_state`.

        Without one they follow from the fit's, and are the same at each call.
        """
        check_is_fitted(self)
        seed = self.seed_ if random_state is None else int(check_random_state(random_state).randint(2**31 - 1))
        rows = self.table_.sample(n_samples, seed=seed)
        return rows.to_numpy(np.float64) if self._labels is None else rows.set_axis(self._labels, axis=1)

    def impute(self, X: Any, draws: int = 100, **settings: Any) -> TableImputation:
        """Completed copies of a table, with everything they say about each hole; `settings` are `dlgm.impute`'s."""
        check_is_fitted(self)
        frame = self._as_frame(X, reset=False)
        given = X if _is_frame(X) else frame
        return self.table_.impute(given, draws=draws, seed=self.seed_, **{"unknown": "missing", **settings})

    def save(self, path: str | Path) -> None:
        """Write a model file, which the command line reads too."""
        check_is_fitted(self)
        self.table_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> "DLGM":
        """A fitted model from a file that `save` or `dlgm fit` wrote."""
        table = TableModel.load(path)
        model = cls(random_state=0)
        model.table_ = table
        model.seed_ = int(table.saved.training.get("config", {}).get("seed", 0))
        model.n_iter_ = int(table.saved.training.get("summary", {}).get("epochs", 0))
        model._n_features_out = table.saved.config.latent[0]
        model.n_features_in_, model._names, model._labels = len(table.schema.columns), list(table.schema.names), None
        if not table.saved.data.get("array", False):
            model._labels = pd.Index(table.schema.names)
            model.feature_names_in_ = np.array(table.schema.names, object)
        return model


class DLGMImputer(TransformerMixin, _TableEstimator):
    """Fills the holes of a table, in place of `IterativeImputer` and `KNNImputer`, on rows seen in training or not.

    **Arguments**

    - `missing_values`: what stands for a hole; NaN, None and pandas' own always do. A number is none among truth
      values.
    - `fill`: `"best"`, the mean of numbers, the most probable category, the median of counts; or `"draw"`, one draw,
      which keeps the columns' spread, and is the same each time a row is filled.
    - `draws`: from which the best is found.
    - `add_indicator`, `keep_empty_features`: as in scikit-learn. A column that was empty at fit is kept with zeros, or
      False among truth values; texts and categories, of which none is known, stay missing.
    - the others as in `DLGM`.

    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [2.0, 4.1], [3.0, np.nan], [4.0, 8.0]])
    >>> DLGMImputer(latent=1, epochs=2, random_state=0).fit_transform(X)[:, 0].tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def __init__(
        self,
        *,
        missing_values: Any = np.nan,
        fill: Any = "best",
        draws: Any = 400,
        latent: Any = "auto",
        hidden: Any = "auto",
        epochs: Any = "auto",
        learning_rate: Any = "auto",
        types: Any = None,
        add_indicator: Any = False,
        keep_empty_features: Any = False,
        random_state: Any = None,
    ) -> None:
        self.missing_values = missing_values
        self.fill = fill
        self.draws = draws
        self.latent = latent
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.types = types
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "DLGMImputer":
        """Learn the distribution of the columns from what is there; `y` is not looked at."""
        require_one_of("fill", self.fill, ("best", "draw"))
        if not isinstance(self.draws, int | np.integer) or isinstance(self.draws, bool) or self.draws < 1:
            raise ValueError(f"draws: expected a whole number of at least 1; got {self.draws!r}.")
        given = self._as_frame(X, reset=True)
        frame = self._with_holes(given)
        self.empty_ = frame.isna().all().to_numpy()
        if self.empty_.all():
            raise ValueError("Found array with 0 observed cell(s) while a minimum of 1 is required: all are missing.")
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(_holes(frame))
        self._train(frame.loc[:, ~self.empty_])
        return self

    def transform(self, X: Any) -> Any:
        """The rows with their holes filled."""
        check_is_fitted(self)
        given = self._as_frame(X, reset=False)
        frame = self._with_holes(given)
        known = frame.loc[:, ~self.empty_]
        filled = known.copy()
        incomplete = known.isna().any(axis=1).to_numpy()
        if incomplete.any():
            filled = self._filled(known, np.flatnonzero(incomplete))
        if self.keep_empty_features and self.empty_.any():
            empty = {name: _zeros_in_holes(frame[name]) for name in frame.columns[self.empty_]}
            filled = filled.assign(**empty)[list(frame.columns)]
        # Whole numbers whose holes are marked by one of them have no room for a hole, until there is none.
        marked = {name: given[name].dtype for name in filled if _is_plain_integer(given[name].dtype)}
        return self._out(X, frame, filled.astype({k: v for k, v in marked.items() if filled[k].notna().all()}))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of what `transform` returns."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        kept = names if self.keep_empty_features else names[~self.empty_]
        if self.indicator_ is None:
            return kept
        return np.concatenate([kept, [f"missingindicator_{name}" for name in names[self.indicator_.features_]]])

    def _filled(self, frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
        parts = []
        draws = 1 if self.fill == "draw" else int(self.draws)
        thin = max(1, _PROPOSALS // draws)
        # A single draw takes little memory, and copies of a row are told apart among those that are filled together.
        step = len(rows) if self.fill == "draw" else _ROWS
        for start in range(0, len(rows), step):
            some = frame.iloc[rows[start : start + step]]
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "resample:")  # which speaks of settings that are not here
                found = self.table_.impute(some, draws=draws, seed=self.seed_, unknown="missing", thin=thin)
            few = int(np.sum(found.numbers.effective_sample_size < _FEW))
            if few > _TOO_MANY * len(some):
                warn(
                    f"DLGMImputer: in {few:,} of {len(some):,} rows fills rest on fewer than {_FEW} of "
                    f"{draws * thin:,} proposals, and are rough. Train for more epochs, or with fewer latents.",
                )
            parts.append(found[0] if self.fill == "draw" else found.best())
        others = np.setdiff1d(np.arange(len(frame)), rows)
        in_order = np.argsort(np.concatenate([rows, others]))
        rest = [frame.iloc[others]] if len(others) else []
        together = {name: _joined([part[name] for part in [*parts, *rest]]).iloc[in_order] for name in frame.columns}
        return pd.DataFrame(together, copy=False)

    def _with_holes(self, frame: pd.DataFrame) -> pd.DataFrame:
        missing = self.missing_values
        if not pd.api.types.is_scalar(missing):
            raise ValueError(f"missing_values: expected a single value; got {missing!r}.")
        if pd.isna(missing):
            return frame
        found = {}
        for name, column in frame.items():
            if pd.api.types.is_bool_dtype(column.dtype) != isinstance(missing, bool | np.bool_):
                continue
            is_hole = (column == missing).fillna(False)
            if is_hole.any():
                found[name] = column.astype(nullable(str(column.dtype))).mask(is_hole)
        return frame.assign(**found)

    def _out(self, X: Any, frame: pd.DataFrame, filled: pd.DataFrame) -> Any:
        """As a DataFrame for a DataFrame, else an array, with the indicator's columns after the others."""
        if _is_frame(X):
            names = [str(name) for name in X.columns]
            back = dict(zip(names, X.columns, strict=True))
            filled = filled.set_axis([back[name] for name in filled.columns], axis=1)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64  # of an array
        if self.indicator_ is not None:
            holes = self.indicator_.transform(_holes(frame))
            if not _is_frame(X):
                return np.hstack([filled.to_numpy(dtype), holes.astype(dtype)])
            own = [f"missingindicator_{back[names[i]]}" for i in self.indicator_.features_]
            return filled.assign(**{name: holes[:, i] for i, name in enumerate(own)})
        return filled if _is_frame(X) else filled.to_numpy(dtype)


def _joined(parts: list[pd.Series]) -> pd.Series:
    """Pieces of a column, one after another; of categories, with all that any of them has."""
    first = parts[0].dtype
    if isinstance(first, pd.CategoricalDtype):
        known = dict.fromkeys(value for part in parts for value in part.cat.categories)
        parts = [part.astype(pd.CategoricalDtype(list(known), first.ordered)) for part in parts]
    return pd.concat(parts)


def _zeros_in_holes(column: pd.Series) -> pd.Series:
    """What is kept of a column that was empty at fit."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.fillna(False)
    if column.dtype == object and column.isna().all():
        column = column.astype(float)
    return column.fillna(0) if pd.api.types.is_numeric_dtype(column.dtype) else column


def _is_plain_integer(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iu"


def _is_frame(X: Any) -> bool:
    return isinstance(X, pd.DataFrame)


def _holes(frame: pd.DataFrame) -> np.ndarray:
    """NaN in holes and zero elsewhere, which is all that an indicator needs to know."""
    return np.where(frame.isna(), np.nan, 0.0)


def _widths(value: Any) -> Any:
    return (value,) if isinstance(value, int | np.integer) and not isinstance(value, bool) else value


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if not (isinstance(value, str) and value == "auto")}

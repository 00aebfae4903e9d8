"""What becomes of a table's dtypes, labels and odd cells on the way through the estimators."""

import warnings

import numpy as np
import pandas as pd
import pytest

from dlgm import DLGM, DLGMImputer, estimators
from dlgm.learning import hidden_cells

pytestmark = pytest.mark.filterwarnings("ignore:resample:UserWarning", "ignore:DLGMImputer:UserWarning")
QUICK = {"latent": 1, "hidden": 4, "epochs": 0, "random_state": 0}
N = 60
SIZE = np.random.default_rng(0).normal(size=N)
TABLE = pd.DataFrame(
    {
        "city": pd.Series(np.where(SIZE > 0, "Rome", "Oslo"), dtype=object),
        "member": SIZE > 0,
        "grade": pd.Categorical(np.where(SIZE > 0, "u", "v")),
        "number": np.arange(N) - 30,
        "price": np.exp(SIZE) + 0.1,
        "visits": np.random.default_rng(1).poisson(np.exp(3 + SIZE)),
        "height": SIZE,
    }
)


@pytest.fixture(scope="module")
def imputer():
    return DLGMImputer(draws=20, **QUICK).fit(TABLE)


@pytest.mark.parametrize("nothing", [np.nan, None, pd.NA, pd.array([None, None], dtype="Int64")])
def test_columns_in_which_nothing_is_known_are_filled_whatever_their_dtype(imputer, nothing):
    """A row or two to be completed: pandas has made floats, objects or what not of their empty columns."""
    new = pd.DataFrame(dict.fromkeys(TABLE, nothing), index=[0, 1]).assign(height=[1.5, -1.5])
    filled = imputer.transform(new)
    assert filled["city"].tolist() == ["Rome", "Oslo"]
    assert filled["member"].tolist() == [True, False]
    assert filled["grade"].tolist() == ["u", "v"]
    assert pd.api.types.is_bool_dtype(filled["member"].dtype)
    assert isinstance(filled["grade"].dtype, pd.CategoricalDtype)
    assert pd.api.types.is_integer_dtype(filled["number"].dtype)
    assert pd.api.types.is_float_dtype(filled["price"].dtype) or nothing is not np.nan
    completed = DLGM(**QUICK).fit(TABLE).impute(new, draws=2).best()
    assert completed["member"].notna().all()


def test_a_column_keeps_a_dtype_that_says_what_it_would_hold(imputer):
    empty = {"member": pd.array([None], dtype="boolean"), "number": pd.array([None], dtype="Int64")}
    new = TABLE.iloc[:1].assign(**empty, grade=pd.Categorical([None], categories=["w"]))
    filled = imputer.transform(new)
    assert filled.dtypes["member"] == "boolean"
    assert filled.dtypes["number"] == "Int64"
    assert list(filled["grade"].cat.categories) == ["w", filled["grade"].iloc[0]]


@pytest.mark.parametrize(
    ("column", "odd", "shown"), [("price", 0.0, "0"), ("visits", 42.5, "42.5"), ("visits", -1.0, "-1")]
)
def test_numbers_that_a_column_cannot_have_are_no_end_of_a_search(imputer, column, odd, shown):
    """Zero in a positive column, a fraction among counts: as good as missing, and left as they are."""
    new = TABLE.iloc[:3].astype({column: float, "height": float})
    new.loc[0, column], new.loc[0, "height"] = odd, np.nan
    without = new.copy()
    without.loc[0, column] = np.nan
    told = rf"column '{column}': 1 of \d cells hold what was not there at fit, such as {shown}; the model takes them"
    with pytest.warns(UserWarning, match=told) as caught:
        filled = imputer.transform(new)
    assert caught[0].filename == __file__  # the user's own line
    assert filled.loc[0, column] == odd
    assert filled.loc[0, "height"] == imputer.transform(without).loc[0, "height"]
    model = DLGM(num_samples=20, **QUICK).fit(TABLE)
    with pytest.warns(UserWarning, match=told):
        np.testing.assert_array_equal(model.score_samples(new), model.score_samples(without))


def test_holes_that_are_marked_by_a_whole_number_leave_whole_numbers():
    table = pd.DataFrame({"a": SIZE, "c": np.arange(N) % 9, "member": SIZE > 0})
    marked = table.assign(c=table["c"].where(np.arange(N) % 6 > 0, -1))
    filled = DLGMImputer(missing_values=-1, draws=20, **QUICK).fit_transform(marked)
    pd.testing.assert_series_equal(filled.dtypes, table.dtypes)
    assert filled["c"].min() >= 0
    assert (filled["c"] == table["c"])[np.arange(N) % 6 > 0].all()
    # False equals zero, and is no hole for that.
    kept = DLGMImputer(missing_values=0, draws=20, **QUICK).fit_transform(marked.assign(c=marked["c"] + 1))
    pd.testing.assert_series_equal(kept["member"], table["member"])
    assert kept["c"].min() >= 1
    with pytest.raises(ValueError, match=r"missing_values: expected a single value; got \[-1, -2\]"):
        DLGMImputer(missing_values=[-1, -2], **QUICK).fit(marked)


@pytest.mark.parametrize(
    ("empty", "kept"),
    [
        (pd.array([None] * N, dtype="boolean"), [False]),
        (pd.array([None] * N, dtype="Int64"), [0]),
        (np.full(N, np.nan), [0.0]),
        (np.full(N, None, object), [0.0]),
        (pd.Categorical([None] * N, categories=["u", "v"]), []),
        (pd.array([None] * N, dtype="str"), []),
    ],
)
def test_empty_columns_are_kept_with_zeros_where_there_is_a_zero(empty, kept):
    table = TABLE[["height", "price"]].assign(empty=empty)
    filled = DLGMImputer(keep_empty_features=True, draws=20, **QUICK).fit_transform(table)
    assert list(filled) == ["height", "price", "empty"]
    assert filled["empty"].dropna().unique().tolist() == kept
    if table["empty"].dtype != object:
        assert filled["empty"].dtype == table["empty"].dtype


def test_whole_numbers_that_are_floats_for_their_holes_are_filled_by_whole_numbers():
    table = pd.DataFrame({"a": SIZE, "balance": np.rint(100 * SIZE), "share": np.rint(100 * SIZE) / 4})
    given = table.mask(np.random.default_rng(2).uniform(size=table.shape) < 0.2)
    model = DLGM(**QUICK).fit(given)
    best, drawn = model.impute(given, draws=20).best(), model.sample(50)
    assert given["balance"].isna().any()
    assert (best["balance"] % 1 == 0).all()
    assert (drawn["balance"] % 1 == 0).all()
    assert drawn.dtypes.equals(table.dtypes)
    assert (best["share"] % 1 != 0).any()
    assert (model.impute(given, draws=20).mean()["balance"] % 1 != 0).any()


def test_completed_tables_have_the_user_s_labels():
    table = pd.DataFrame({10: SIZE, 20: SIZE**2})
    given = table.mask(np.random.default_rng(2).uniform(size=table.shape) < 0.2)
    found = DLGM(**QUICK).fit(given).impute(given, draws=20)
    for frame in (found[0], found.best(), found.mean(), found.standard_deviation(), *found.interval(0.9)):
        assert frame.columns.tolist() == [10, 20]


def test_many_rows_are_filled_in_parts_as_few_are(monkeypatch):
    """Copies of a row have draws of their own, in one part or another, and categories stay such."""
    rows = pd.concat([TABLE.iloc[[0]].assign(height=np.nan, grade=pd.Categorical([None], ["w"]))] * 6)
    drawing = DLGMImputer(fill="draw", **QUICK).fit(TABLE)
    filling = DLGMImputer(draws=20, **QUICK).fit(TABLE)
    together = drawing.transform(rows)
    monkeypatch.setattr(estimators, "_ROWS", 2)
    pd.testing.assert_frame_equal(drawing.transform(rows), together)
    assert together["height"].nunique() == 6
    assert isinstance(filling.transform(rows)["grade"].dtype, pd.CategoricalDtype)


def test_a_second_fit_compiles_no_judge_of_its_own(monkeypatch):
    """Searches fit many times: other holes and seeds, but tables of one shape."""
    traces: list[None] = []
    judge = hidden_cells._draws.__wrapped__  # type: ignore[attr-defined]

    def counted(*given):
        traces.append(None)
        return judge(*given)

    monkeypatch.setattr(hidden_cells, "_draws", hidden_cells.eqx.filter_jit(counted))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 3))
        X[rng.uniform(size=X.shape) < 0.2] = np.nan
        DLGM(latent=1, hidden=4, epochs=1, random_state=seed).fit(X)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 0}, "draws: expected a whole number of at least 1; got 0."),
        ({"fill": "mode"}, "fill: expected one of best, draw; got 'mode'."),
        ({"epochs": -1}, "epochs: expected a whole number of at least 0; got -1."),
        ({"epochs": 0, "learning_rate": -1.0}, "learning_rate: expected a positive number; got -1.0."),
        ({"latent": (2, 1)}, r"latent: expected one number, for a model of a table has a single layer; got \(2, 1\)."),
    ],
)
def test_settings_are_refused_by_their_own_names(settings, message):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        DLGMImputer(**{**QUICK, **settings}).fit(TABLE)

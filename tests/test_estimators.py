"""The scikit-learn face: its own checks, and what a table's user relies on."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dlgm import DLGM, DLGMImputer
from dlgm.data.schema import Column, Schema
from dlgm.tables import fit_table

# Models that have hardly been trained propose badly for some rows, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:resample:UserWarning", "ignore:DLGMImputer:UserWarning")

# Left at its start, a model needs no training loop to be compiled for each check's rows: the loop has tests of its own.
QUICK: dict[str, Any] = {"latent": 1, "hidden": 4, "epochs": 0, "random_state": 0}


# None is expected to fail.
@parametrize_with_checks([DLGM(num_samples=5, **QUICK), DLGMImputer(draws=4, **QUICK)])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def people(n=80, seed=0):
    """A table of many dtypes, in which everything depends on one thing."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "height": 170 + 10 * size + rng.normal(size=n),
            "income": np.exp(size + 0.3 * rng.normal(size=n)) * 1000,
            "children": pd.array(1 + rng.poisson(np.exp(0.5 * size)), dtype="Int64"),
            "city": np.where(size + 0.5 * rng.normal(size=n) > 0, "Rome", "Oslo").astype(object),
            "grade": pd.Categorical.from_codes(np.digitize(size, [-1, 0, 1]), ["d", "c", "b", "a"], ordered=True),
            "member": pd.array(size > 0.2, dtype="boolean"),
        },
        index=[f"p{i}" for i in range(n)],
    )
    holes = rng.uniform(size=frame.shape) < 0.2
    return frame, frame.mask(holes)


@pytest.fixture(scope="module")
def imputer():
    return DLGMImputer(epochs=3, hidden=8, draws=50, random_state=0).fit(people()[1])


def test_tables_come_back_as_they_were_but_for_the_holes(imputer):
    _, given = people()
    filled = imputer.transform(given)
    assert list(filled.columns) == list(given.columns)
    assert filled.index.equals(given.index)
    assert not filled.isna().any().any()
    pd.testing.assert_series_equal(filled.dtypes, given.dtypes)
    for name in given:
        seen = given[name].notna()
        pd.testing.assert_series_equal(filled[name][seen], given[name][seen])
    assert set(filled["city"]) == {"Rome", "Oslo"}
    assert (filled["children"] >= 0).all()
    assert filled["income"].between(given["income"].min(), given["income"].max()).all()


def test_fills_are_nearer_than_the_mean(imputer):
    truth, given = people()
    holes = given["height"].isna()
    error = imputer.transform(given)["height"][holes] - truth["height"][holes]
    assert np.mean(error**2) < 0.5 * np.mean((given["height"].mean() - truth["height"][holes]) ** 2)


def test_new_rows_are_filled_each_by_itself(imputer):
    _, new = people(n=30, seed=5)
    whole = imputer.transform(new)
    pd.testing.assert_frame_equal(imputer.transform(new.iloc[7:9]), whole.iloc[7:9])


def test_a_category_never_seen_stays_and_tells_nothing(imputer):
    _, new = people(n=5, seed=6)
    new.loc["p0", ["city", "height"]] = ["Bern", None]
    without = new.copy()
    without.loc["p0", "city"] = None
    with pytest.warns(UserWarning, match="column .city.: 1 of . cells hold what was not there at fit, such as 'Bern'"):
        filled = imputer.transform(new)
    assert filled.loc["p0", "city"] == "Bern"
    others = [name for name in new if name != "city"]
    pd.testing.assert_frame_equal(filled[others], imputer.transform(without)[others])


def test_a_draw_differs_from_the_best_and_keeps_the_dtypes():
    _, given = people()
    drawn = DLGMImputer(fill="draw", **QUICK).fit_transform(given)
    best = DLGMImputer(fill="best", draws=20, **QUICK).fit_transform(given)
    holes = given["height"].isna()
    assert drawn["height"][holes].std() > best["height"][holes].std()
    pd.testing.assert_series_equal(drawn.dtypes, given.dtypes)


@pytest.mark.filterwarnings("ignore:Skipping features:UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_stands_in_for_iterative_imputer():
    X = load_breast_cancer().data[:120, :5].copy()
    X[np.random.default_rng(0).uniform(size=X.shape) < 0.2] = np.nan
    X[:, 3] = np.nan
    asked: tuple[dict[str, Any], ...] = ({}, {"keep_empty_features": True}, {"add_indicator": True})
    for settings in asked:
        ours = DLGMImputer(draws=20, **settings, **QUICK).fit(X)
        theirs = IterativeImputer(max_iter=1, **settings).fit(X)
        assert ours.transform(X).shape == theirs.transform(X).shape
        np.testing.assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    X[np.isnan(X)] = -1.0
    ours = DLGMImputer(missing_values=-1.0, draws=20, **QUICK).fit_transform(X)
    assert ours.shape == (120, 4)
    assert not (ours == -1).any()


def test_pipelines_searches_and_columns():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[::4, :6], y[::4]
    X = X.mask(np.random.default_rng(0).uniform(size=X.shape) < 0.3)
    search = GridSearchCV(
        make_pipeline(DLGMImputer(draws=20, **QUICK), LogisticRegression(max_iter=2000)),
        {"dlgmimputer__latent": [1, 2]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.8
    some = make_column_transformer(
        (DLGMImputer(draws=20, **QUICK), ["mean radius", "mean texture"]), remainder="drop"
    ).set_output(transform="pandas")
    assert list(some.fit_transform(X)) == ["dlgmimputer__mean radius", "dlgmimputer__mean texture"]
    latents = make_pipeline(DLGM(**{**QUICK, "latent": 2}), Ridge()).fit(X, y)
    assert latents.predict(X).shape == y.shape
    copy = clone(DLGM(latent=3)).set_output(transform="pandas")
    assert copy.get_params()["latent"] == 3


def test_the_density_model_answers_in_the_user_s_units(tmp_path):
    truth, given = people()
    model = DLGM(epochs=2, hidden=8, num_samples=50, random_state=0).fit(given)
    scores = model.score_samples(given)
    assert scores.shape == (80,)
    assert model.score(given) == pytest.approx(scores.mean())
    # Heights in metres are a hundredth of those in centimetres: their density is a hundred times as high.
    metres = given.assign(height=given["height"] / 100)
    other = DLGM(epochs=2, hidden=8, num_samples=50, random_state=0).fit(metres).score_samples(metres)
    seen = given["height"].notna()
    np.testing.assert_allclose(other[seen] - scores[seen], np.log(100), atol=1e-2)
    new = model.sample(200)
    pd.testing.assert_series_equal(new.dtypes, given.dtypes)
    assert new["height"].between(given["height"].min(), given["height"].max()).all()
    model.save(tmp_path / "people.dlgm")
    again = DLGM.load(tmp_path / "people.dlgm")
    np.testing.assert_allclose(again.transform(given), model.transform(given), atol=1e-6)
    found = model.impute(given, draws=40)
    low, high = found.interval(0.9)
    assert (low["height"] <= high["height"]).all()
    seen = given["height"].notna()
    pd.testing.assert_series_equal(low["height"][seen], given["height"][seen])
    assert (found.standard_deviation()["height"][seen] == 0).all()
    few = found.best()["children"].astype(
        float
    )  # a few whole numbers: an ordered column, whose codes are not its values
    assert ((low["children"] <= few) & (few <= high["children"])).all()
    assert high["city"].isna().all()
    chances = found.probabilities("grade")
    assert list(chances) == ["d", "c", "b", "a"]
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-4)
    pooled = found.pool(lambda frame: (frame["height"].mean(), frame["height"].var() / len(frame)))
    assert abs(pooled.estimate - truth["height"].mean()) < 4 * pooled.standard_error
    with pytest.raises(NotFittedError):
        DLGM().score_samples(given)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (5, 1), (30, 2)])
def test_tiny_tables_are_no_trouble(shape):
    X = np.random.default_rng(0).normal(size=shape)
    X = np.concatenate([X, X[:1]])
    X[0, 0] = np.nan
    filled = DLGMImputer(draws=4, random_state=0, epochs=1).fit_transform(X)
    assert np.isfinite(filled).all()


def test_few_fractions_are_drawn_as_they_are_and_filled_by_their_mean():
    rng = np.random.default_rng(0)
    values = np.array([-0.75, 0.1, 2.6])
    X = pd.DataFrame({"few": values[rng.integers(0, 3, 120)], "b": rng.normal(size=120)})
    holes = X.assign(few=X["few"].where(np.arange(120) % 4 > 0))
    drawn = DLGMImputer(fill="draw", **QUICK).fit_transform(holes)
    assert drawn["few"].isin(values).all()
    best = DLGMImputer(draws=20, **QUICK).fit(holes)
    filled = best.transform(holes)["few"][::4]
    assert filled.between(-0.75, 2.6).all()
    assert not filled.isin(values).any()  # a mean, such as that of any other column of numbers
    # A value never seen at fit stays, and the row's other holes are filled without it.
    with pytest.warns(UserWarning, match="column 'few': 1 of 2 cells hold what was not there at fit, such as 0.2"):
        new = best.transform(pd.DataFrame({"few": [0.2, np.nan], "b": [np.nan, 0.0]}))
    assert new["few"][0] == 0.2
    assert new.notna().all(axis=None)


def test_means_of_ordered_numbers_are_of_the_numbers():
    """Levels 0, 1 and 100 are not equally far apart: the mean is by probabilities. In another order it is a place."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"o": rng.choice([0, 1, 100], 120), "b": rng.normal(size=120)})
    holes = X.astype({"o": "Int64"}).assign(o=X["o"].where(np.arange(120) % 4 > 0).astype("Int64"))
    found = fit_table(holes, training={"epochs": 1}).impute(holes, draws=20)
    shares = found.probabilities("o").to_numpy()
    np.testing.assert_allclose(found.mean()["o"].astype(float), shares @ [0, 1, 100], rtol=1e-5, atol=1e-4)
    given = Schema((Column("o", "ordinal", categories=(100, 0, 1)), Column("b", "real")))
    odd = fit_table(holes, schema=given, training={"epochs": 1}).impute(holes, draws=20)
    places = odd.probabilities("o").to_numpy() @ [0, 1, 2]
    np.testing.assert_allclose(
        odd.mean()["o"].astype(float), np.interp(places, [0, 1, 2], [100, 0, 1]), rtol=1e-4, atol=1e-3
    )


def test_constant_columns_are_filled_with_their_value():
    X = pd.DataFrame({"a": [3.0, 3.0, np.nan, 3.0] * 5, "b": np.arange(20.0)})
    filled = DLGMImputer(draws=10, **QUICK).fit_transform(X)
    assert (filled["a"] == 3).all()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"when": pd.date_range("2020-01-01", periods=5)}),
            "column 'when': expected numbers, truth",
        ),
        (pd.DataFrame({"name": [f"person {i}" for i in range(50)]}), "column 'name': expected numbers, or at most"),
        (pd.DataFrame({"a": [np.inf, 1.0]}), "column 'a': expected finite numbers"),
    ],
)
def test_what_cannot_be_modelled_is_named(frame, message):
    with pytest.raises(ValueError, match=message):
        DLGMImputer(**QUICK).fit(frame)


def test_a_nearly_constant_column_is_filled_by_its_constant():
    """Three cells of 600 stand fourteen standard deviations out, in rows that are unusual in another column as well.

    That says next to nothing of the other rows: their fills lie within a tenth of a standard deviation of the constant,
    root mean square (0.077; with a Gaussian column, 0.17).
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 5)) + 0.4 * rng.normal(size=(600, 5))
    out = [3, 200, 450]
    X[out, 0] += 2.5 * X[:, 0].std()
    flat = np.full((600, 1), 0.5)
    flat[out] = 1.0
    imputer = DLGMImputer(draws=100, random_state=0).fit(np.hstack([X, flat]))
    rest = np.setdiff1d(np.arange(600), out)
    filled = imputer.transform(np.hstack([X, np.full((600, 1), np.nan)])[rest])
    np.testing.assert_array_equal(filled[:, :5], X[rest])
    assert np.sqrt(np.mean((filled[:, 5] - 0.5) ** 2)) < 0.1 * flat.std()


def test_samples_do_not_pile_up_at_the_ends_of_a_range():
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(300, 2))  # a Gaussian model of it leaves the range often
    model = DLGM(latent=1, epochs=0, random_state=0).fit(rows)
    drawn = model.sample(500)
    low, high = rows.min(axis=0), rows.max(axis=0)
    assert ((drawn >= low) & (drawn <= high)).all()
    assert ((drawn == low) | (drawn == high)).mean() < 0.01
    np.testing.assert_array_equal(model.sample(40), drawn[:40])


def test_a_constant_column_does_not_make_others_pile_up():
    """A constant and an almost constant column are at the ends of their ranges; ages still are not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 80, 300), "same": 2.5, "rare": 0.0})
    frame.loc[:2, "rare"] = [3.5, 8.25, 1.5]
    model = DLGM(latent=1, epochs=0, random_state=0).fit(frame)
    ages = model.sample(1000)["age"]
    assert ages.between(18, 79).all()
    assert ages.isin([18, 79]).mean() < 0.1


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_loaded_model_answers_as_it_did(tmp_path, epochs):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    model = DLGM(latent=1, epochs=epochs, random_state=7).fit(frame)
    model.save(tmp_path / "m.dlgm")
    again = DLGM.load(tmp_path / "m.dlgm")
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    pd.testing.assert_frame_equal(again.sample(3), model.sample(3))
    assert again.n_iter_ == model.n_iter_ <= epochs


def test_arrays_and_frames_take_each_other_s_place(tmp_path):
    """As in scikit-learn: an array after a frame has its columns in order, with a warning; nothing else differs."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    frame.loc[3, "b"] = np.nan
    frame["none"] = np.nan
    model, imputer = DLGM(**QUICK).fit(frame.drop(columns="none")), DLGMImputer(draws=5, **QUICK).fit(frame)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(
            model.score_samples(frame.drop(columns="none").to_numpy()), model.score_samples(frame.drop(columns="none"))
        )
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(imputer.transform(frame.to_numpy()), imputer.transform(frame).to_numpy())
    array = frame.drop(columns="none").to_numpy(np.float32)
    of_array = DLGM(**QUICK).fit(array)
    of_array.save(tmp_path / "m.dlgm")
    again = DLGM.load(tmp_path / "m.dlgm")
    np.testing.assert_array_equal(again.score_samples(array), of_array.score_samples(array))
    assert isinstance(again.sample(2), np.ndarray)
    assert not hasattr(again, "feature_names_in_")
    assert DLGMImputer(draws=5, **QUICK).fit_transform(array).dtype == np.float32


def test_labels_that_are_no_texts_are_kept():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=[10, 20])
    assert list(DLGM(**QUICK).fit(frame).sample(2).columns) == [10, 20]
    for estimator in (DLGM(**QUICK), DLGMImputer(**QUICK)):
        with pytest.raises(ValueError, match="column 'a': expected every column name once; got it twice"):
            estimator.fit(frame.set_axis(["a", "a"], axis=1))


def test_categories_that_a_new_frame_has_not_heard_of_are_filled_in():
    frame = pd.DataFrame({"c": pd.Categorical(["u"] * 30 + ["w"] * 30), "b": np.repeat([-1.0, 1.0], 30)})
    imputer = DLGMImputer(draws=20, **QUICK).fit(frame)
    new = pd.DataFrame({"c": pd.Categorical(["u", None, None], categories=["u"]), "b": [-1.0, -1.0, 1.0]})
    filled = imputer.transform(new)["c"]
    assert filled.tolist() == ["u", "u", "w"]
    assert isinstance(filled.dtype, pd.CategoricalDtype)


@pytest.mark.parametrize("dtype", ["boolean", "object", "category", "Int64", "float32"])
def test_means_lie_between_the_values_whatever_the_dtype(dtype):
    is_truth = dtype in ("boolean", "object")
    cells: list[Any] = [bool(i % 2) if is_truth else 1 + i % 3 for i in range(60)]
    kept = list(cells)
    cells[0] = None
    column = pd.Series(cells, dtype=object if dtype == "object" else None)
    column = column.astype(pd.CategoricalDtype([1, 2, 3], ordered=True) if dtype == "category" else dtype)
    frame = pd.DataFrame({"x": column, "b": np.random.default_rng(0).normal(size=60)})
    mean = DLGM(**QUICK).fit(frame).impute(frame, draws=50).mean()["x"]
    assert mean.notna().all()
    assert (0 if is_truth else 1) < float(mean[0]) < (1 if is_truth else 3)
    assert float(mean[0]) % 1 != 0
    assert [float(value) for value in mean[1:]] == [float(value) for value in kept[1:]]


def test_numbers_that_were_not_among_the_few_are_no_end_of_a_search():
    """A count of 7 where 0, 1 and 2 were seen: summed out with a warning, in place of an error in some fold."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 3, 60), rng.normal(size=60)], axis=1).astype(float)
    model = DLGM(**QUICK).fit(X)
    odd, hole = X[:2].copy(), X[:2].copy()
    odd[0, 0], hole[0, 0] = 7, np.nan
    with pytest.warns(UserWarning, match="column 'x0': 1 of 2 cells hold what was not there at fit, such as 7"):
        np.testing.assert_array_equal(model.score_samples(odd), model.score_samples(hole))


def test_numbers_and_their_texts_are_the_same_category():
    """What `encode` understands is not unknown: no warning, which would be an error here."""
    frame = pd.DataFrame({"c": ["0", "1"] * 30, "b": np.tile([-1.0, 1.0], 30)})
    imputer = DLGMImputer(draws=20, **QUICK).fit(frame)
    b = imputer.transform(pd.DataFrame({"c": [0, 1], "b": [np.nan, np.nan]}))["b"]
    assert b[0] < 0 < b[1]


def test_probabilities_are_asked_for_by_name():
    frame = pd.DataFrame({"a": [1.5, 2.5, np.nan] * 10, "city": ["Rome", "Oslo", "Bonn"] * 10})
    found = DLGM(latent=1, epochs=0, random_state=0).fit(frame).impute(frame, draws=5)
    with pytest.raises(ValueError, match="probabilities: expected the name of a column; got 'town'"):
        found.probabilities("town")
    with pytest.raises(ValueError, match="probabilities: column 'a' holds numbers; expected a column of categories"):
        found.probabilities("a")

"""What a column is taken to be, and what is learnt of it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dlgm.data import Column, Schema, SchemaError, infer_schema
from dlgm.data.schema.listing import listing
from dlgm.data.schema.rules import is_heaped

RNG = np.random.default_rng(0)
MANY = range(300)

# Cells, kind, family, categories.
COLUMNS: dict[str, tuple[Any, str, str, Any]] = {
    "truth values": ([True, False, True], "binary", "bernoulli", (False, True)),
    "one truth value": ([True, True], "binary", "bernoulli", (False, True)),
    "truth values with holes": ([True, None, False], "binary", "bernoulli", (False, True)),
    "0 and 1": ([0, 1, 1], "binary", "bernoulli", (0, 1)),
    "0.0 and 1.0": ([0.0, 1.0, None], "binary", "bernoulli", (0, 1)),
    "only 0": ([0, 0, 0], "binary", "bernoulli", (0, 1)),
    "two texts": (["no", "yes", "no"], "binary", "bernoulli", ("no", "yes")),
    "three texts": (["b", "a", "c"], "categorical", "categorical", ("a", "b", "c")),
    "one text": (["a", "a"], "categorical", "categorical", ("a",)),
    "a hundred texts": ([f"t{i % 100}" for i in MANY], "categorical", "categorical", None),
    "different texts in few rows": (list("abcdefg"), "categorical", "categorical", tuple("abcdefg")),
    "numbers among texts": (["1", "x", "2"], "categorical", "categorical", ("1", "2", "x")),
    "two numbers, often": ([1, 2] * 5, "binary", "bernoulli", (1, 2)),
    "two numbers, seldom": ([1, 2, 1], "positive", "log-normal", None),
    "few whole numbers, often": ([3, 1, 2] * 5, "ordinal", "ordinal", (1, 2, 3)),
    "few with a gap": ([1, 2, 5] * 5, "ordinal", "ordinal", (1, 2, 3, 4, 5)),
    "few, far apart": ([0, 100, 500] * 5, "ordinal", "ordinal", (0, 100, 500)),
    "few below zero": ([-1, 0, 1] * 5, "ordinal", "ordinal", (-1, 0, 1)),
    "few fractions, very often": ([0.5, 1.0, 2.25] * 20, "ordinal", "ordinal", (0.5, 1.0, 2.25)),
    "few fractions, less often": ([0.5, 1.0, 2.25] * 19, "positive", "log-normal", None),
    "two fractions": ([-0.5, 1.5] * 20, "binary", "bernoulli", (-0.5, 1.5)),
    "whole as floats": ([1.0, 2.0, 3.0] * 5, "ordinal", "ordinal", (1, 2, 3)),
    "few whole numbers, seldom": ([3, 1, 2, 5], "count", "poisson", None),
    "counts": (RNG.poisson(40, 300), "count", "poisson", None),
    "wide counts": (RNG.negative_binomial(2, 0.05, 300), "count", "negative-binomial", None),
    "a year": ([1990 + i % 31 for i in MANY], "real", "gaussian", None),
    "large whole numbers": ([10 * i * i + 1 for i in MANY], "positive", "log-normal", None),
    "large ones with zero": ([10 * i * i for i in MANY], "real", "gaussian", None),
    "whole numbers below zero": ([i - 100 for i in MANY], "real", "gaussian", None),
    "positive": ([0.5, 1.5, 20.25], "positive", "log-normal", None),
    "positive but far from zero": ([170.5, 180.25, 165.0], "real", "gaussian", None),
    "with a zero": ([0.0, 1.5, 20.25], "real", "gaussian", None),
    "both signs": ([-0.5, 1.5], "real", "gaussian", None),
    "a constant": ([7, 7, 7], "real", "gaussian", None),
    "all but constant": ([0.0] * 95 + [0.5, -2.5, 3.5, 9.5, 40.5], "real", "student-t", None),
    "mostly zero": ([0.0] * 90 + [0.5 + i for i in range(10)], "real", "gaussian", None),
    "mostly zero, and much else": ([0.0] * 90 + [0.5 + i for i in range(21)], "heaped", "heaped-log-normal", None),
    "not much else": ([0.0] * 90 + [0.5 + i for i in range(20)], "real", "gaussian", None),
    "a heap among counts": ([40] * 25 + list(range(20, 60)), "heaped", "heaped-gaussian", None),
    "not quite a heap": ([40] * 11 + list(range(20, 60)), "count", "negative-binomial", None),
    "counts that are often zero": (RNG.negative_binomial(0.3, 0.02, 300), "count", "negative-binomial", None),
    "a heap with another beside it": ([0.0] * 30 + [0.5] * 8 + [1.5 + i for i in range(30)], "real", "gaussian", None),
    "a heap with less beside it": (
        [0.0] * 30 + [0.5] * 7 + [1.5 + i for i in range(30)],
        "heaped",
        "heaped-log-normal",
        None,
    ),
    "an unordered categorical": (
        pd.Categorical(["a", "b"], ["c", "b", "a"]),
        "categorical",
        "categorical",
        ("c", "b", "a"),
    ),
    "a categorical of two": (pd.Categorical([5, 3]), "binary", "bernoulli", (3, 5)),
    "an ordered categorical": (pd.Categorical(["S"], ["S", "M"], ordered=True), "ordinal", "ordinal", ("S", "M")),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_kinds_are_inferred(case):
    cells, kind, family, categories = COLUMNS[case]
    (column,) = infer_schema(pd.DataFrame({"c": cells})).columns
    assert (column.kind, column.family) == (kind, family)
    if categories is not None:
        assert column.categories == categories
        assert list(map(type, column.categories or ())) == list(map(type, categories))
    assert column.complete


def test_units_are_learnt_from_observed_cells():
    columns = infer_schema(pd.DataFrame({"real": [-1.5, 4.5, None], "positive": [2.5, None, 6.4]})).columns
    assert (columns[0].center, columns[0].scale) == (1.5, 3.0)
    assert columns[1].center is None
    assert columns[1].scale == pytest.approx(4.0)  # the geometric mean


def test_heaps_are_learnt_with_the_distance_of_the_others():
    above = pd.Series([3.0] * 40 + [3.0 + 2.0**i for i in range(-11, 12)])
    around = pd.Series([3.0] * 40 + [3.0 + i for i in range(-11, 12)])
    a, b = infer_schema(pd.DataFrame({"a": above, "b": around})).columns
    assert (a.center, a.scale, a.family) == (3.0, pytest.approx(1.0), "heaped-log-normal")  # the geometric mean
    assert (b.center, b.family) == (3.0, "heaped-gaussian")
    assert b.scale == pytest.approx(np.sqrt(46))  # the mean square of 1 to 11, in both directions
    assert (b.low, b.high) == (-8.0, 14.0)
    # Asked for where there is nothing else, or no single heap, there is still a column.
    only, none = infer_schema(pd.DataFrame({"a": [7.0, 7.0], "b": [1.0, 2.0]}), types={"*": "heaped"}).columns
    assert (only.center, only.scale, only.family) == (7.0, 1.0, "heaped-gaussian")
    assert (none.center, none.scale, none.family) == (1.0, 1.0, "heaped-gaussian")


def test_others_far_from_their_heap_have_the_scale_of_their_spread():
    """A year, or zero for none: on the log axis of the distance from zero, fifteen years would be next to nothing."""
    years = RNG.normal(1975, 15, 60).round()
    (column,) = infer_schema(pd.DataFrame({"renovated": [0.0] * 140 + list(years)})).columns
    assert (column.center, column.family) == (0.0, "heaped-gaussian")
    assert column.scale == pytest.approx(years.std())


def test_a_range_has_the_heap_in_it():
    known = Schema((Column("c", "heaped", center=0.0),))
    (column,) = infer_schema(pd.DataFrame({"c": [5.0, 7.5, 12.0]}), schema=known).columns
    assert (column.low, column.high, column.family) == (0.0, 12.0, "heaped-log-normal")


@pytest.mark.parametrize(("alpha", "mean"), [(0.1, 5.0), (0.2, 10.0), (0.05, 3.0)])
def test_counts_that_vary_much_have_many_zeros_and_no_heap(alpha, mean):
    rng = np.random.default_rng(1)
    counts = rng.negative_binomial(alpha, alpha / (alpha + mean), 3000)
    assert is_heaped(counts.astype(float))  # to look at, but for its being counts
    (column,) = infer_schema(pd.DataFrame({"c": counts})).columns
    assert (column.kind, column.family) == ("count", "negative-binomial")


def test_counts_with_zeros_of_another_making_are_heaped():
    counts = np.random.default_rng(1).negative_binomial(3, 3 / 23, 3000)  # of mean 20, and few zeros
    (column,) = infer_schema(pd.DataFrame({"c": [*counts, *[0] * 4000]})).columns
    assert (column.kind, column.family) == ("heaped", "heaped-log-normal")


def test_others_too_far_apart_for_any_scale_are_no_matter_of_a_heap():
    cells = np.concatenate([np.zeros(60), 10.0 ** RNG.uniform(-180, 1, 60)])
    (column,) = infer_schema(pd.DataFrame({"c": cells})).columns
    assert column.kind == "real"


TYPED = {
    "few numbers as categories": ([3, 1, 9] * 5, "categorical", (1, 3, 9)),
    "few numbers as counts": ([3, 1, 2] * 5, "count", None),
    "two numbers as binary": ([3, 1], "binary", (1, 3)),
    "texts as numbers": (["3", "1.5"], "real", None),
    "texts as categories": ([f"t{i}" for i in MANY], "categorical", None),
    "ordinal floats": ([0.5, 2.5, 1.0], "ordinal", (0.5, 1.0, 2.5)),
    "pixels": ([0, 255, 17], "pixel", None),
    "counts as positive": ([3, 1, 2], "positive", None),
    "numbers as heaped": ([0.0, 1.5, 0.0], "heaped", None),
}


@pytest.mark.parametrize("case", TYPED)
def test_the_user_has_the_last_word(case):
    cells, kind, categories = TYPED[case]
    (column,) = infer_schema(pd.DataFrame({"c": cells}), types={"c": kind}).columns
    assert column.kind == kind
    assert column.complete
    if categories is not None:
        assert column.categories == categories


def test_a_kind_for_all_columns_gives_way_to_one_for_a_single_column():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": ["x", "y"]})
    schema = infer_schema(frame, types={"c": "binary", "*": "count"})
    assert [column.kind for column in schema.columns] == ["count", "count", "binary"]


def test_orders_are_in_the_columns_own_values():
    frame = pd.DataFrame(
        {"size": ["M", "S", None], "level": [20, 3, 3], "dose": [0.5, 1.0, 0.5], "open": [True, False, True]}
    )
    orders = {"size": ("S", "M", "L"), "level": ("3", "10", "20"), "dose": ("0.5", "1"), "open": ("True", "False")}
    categories = [column.categories for column in infer_schema(frame, ordinal=orders).columns]
    assert categories == [("S", "M", "L"), (3, 10, 20), (0.5, 1), (True, False)]
    assert isinstance(categories[3][0], bool)  # type: ignore[index]


def test_names_may_be_anything_but_alike():
    assert infer_schema(pd.DataFrame({0: [1.5, 2], 1: [0.5, 1]})).names == ["0", "1"]
    with pytest.raises(SchemaError, match=r"^column '0': expected every column name once; got it twice. Rename one of"):
        infer_schema(pd.DataFrame([[1, 2]], columns=[0, "0"]))


ARRAYS = {
    "bits in bytes": (np.array([[0, 1], [1, 1]], np.uint8), False, "binary"),
    "bits in floats": (np.array([[0, 1], [1, np.nan]]), False, "binary"),
    "truth values": (np.array([[True, False]]), False, "binary"),
    "bytes": (np.array([[0, 1], [2, 255]], np.uint8), False, "pixel"),
    "integers": (np.array([[0, 1], [2, 1000]]), False, "count"),
    "integers below zero": (np.array([[0, 1], [-2, 1000]]), False, "real"),
    "integers beyond counts": (np.array([[0, 1], [2, 10**9]]), False, "real"),
    "whole floats": (np.array([[0.0, 1], [2, 255]]), False, "real"),
    "whole floats in images": (np.array([[0.0, 1], [2, 255]]), True, "pixel"),
    "integers in images": (np.array([[0, 1], [2, 255]]), True, "pixel"),
    "deep images": (np.array([[0, 1], [2, 256]]), True, "count"),
    "floats in images": (np.array([[0.0, 0.5], [1, 0.25]]), True, "real"),
    "positive": (np.array([[0.5, 1], [2, 2.5]], np.float32), False, "positive"),
    "positive but far from zero": (np.array([[100.5, 101], [102, 102]]), False, "real"),
    "real": (np.array([[0.5, -1], [2, 2.5]]), False, "real"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_an_array_is_one_kind_of_thing(case):
    array, is_image, kind = ARRAYS[case]
    schema = infer_schema(array, is_image=is_image)
    assert {column.kind for column in schema.columns} == {kind}
    assert schema.kind == kind
    assert schema.names == ["v0", "v1"]
    assert schema.complete


def test_an_arrays_units_are_those_of_its_columns():
    array = RNG.normal(size=(500, 3)) * [1, 10, 0] + [5, -3, 7]
    array[::3, 1] = np.nan
    mine = infer_schema(array).columns
    theirs = infer_schema(pd.DataFrame(array), types={"*": "real"}).columns
    np.testing.assert_allclose([c.center for c in mine], [c.center for c in theirs], rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_allclose([c.scale for c in mine], [c.scale for c in theirs], rtol=1e-12)  # type: ignore[arg-type]
    assert mine[2].scale == 1.0
    positive = np.exp(array[:, :2])
    by_array = [c.scale for c in infer_schema(positive, types={"*": "positive"}).columns]
    by_column = [c.scale for c in infer_schema(pd.DataFrame(positive), types={"*": "positive"}).columns]
    np.testing.assert_allclose(by_array, by_column, rtol=1e-12)  # type: ignore[arg-type]


def test_single_columns_of_an_array_can_be_typed():
    array = np.array([[0.5, 3, -1], [1.5, 4, -2], [2.5, 3, -3]])
    schema = infer_schema(array, types={"v1": "categorical"})
    assert [column.kind for column in schema.columns] == ["real", "categorical", "real"]
    assert schema.columns[1].categories == (3, 4)
    values, _ = schema.encode(array)
    assert values[:, 1].tolist() == [0, 1, 0]
    assert infer_schema(array[:, 1:2], types={"*": "binary"}).columns[0].categories == (3, 4)


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), pd.DataFrame({"a": []}), pd.DataFrame(index=range(3))])
def test_nothing_is_learnt_from_nothing(rows):
    with pytest.raises(SchemaError, match=r"^Expected at least one row and one column; got none\.$"):
        infer_schema(rows)


def test_a_given_center_of_zero_is_one():
    """The shape is learnt of (v - center) / scale as it was given, so that encoded cells are standard ones."""
    from dlgm.data.schema import Column, Schema

    frame = pd.DataFrame({"a": np.exp(np.random.default_rng(0).normal(size=500))})
    given = Schema((Column("a", "real", center=0.0, scale=1.0),))
    schema = infer_schema(frame, schema=given)
    assert schema.columns[0].power is not None
    values, _ = schema.encode(frame)
    assert (values.mean(), values.std()) == pytest.approx((0, 1), abs=1e-4)


def test_a_constant_column_is_shown_as_its_value():
    """And not with the standard deviation of one that it is divided by."""
    found = listing(infer_schema(pd.DataFrame({"a": [7.0, 7.0, 7.0], "b": [0.5, 1.5, -2.5]})), None)
    assert [line[-1] for line in found] == ["always 7", "mean -0.167, standard deviation 1.7"]
    frame = pd.DataFrame({"a": [0.0] * 30 + [1.0, 4.0, 16.0], "b": [0.0] * 30 + [-2.0, 2.0, 0.0]})
    assert [line[-1] for line in listing(infer_schema(frame, types={"*": "heaped"}), None)] == [
        "heap at 0, others about 4 away",
        "heap at 0, others with a standard deviation of 2",
    ]

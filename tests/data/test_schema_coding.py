"""In and out: the user's cells come back in their own types and units, and densities go with them."""

import json

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pandas as pd
import pytest

from dlgm.data import Column, Schema, SchemaError, infer_schema, read_schema, write_schema

FRAME = pd.DataFrame(
    {
        "height": [170.5, None, 181.25, 165.0],
        "income": np.array([1000.0, 30.5, 2e6, 12.0], np.float32),
        "visits": pd.array([3, None, 0, 41], dtype="Int64"),
        "year": np.array([1990, 2001, 2020, 1985], np.int16),
        "city": ["Rome", "Oslo", None, "Rome"],
        "smokes": [True, False, False, True],
        "asked": pd.array([True, None, False, True], dtype="boolean"),
        "size": pd.Categorical(["S", "L", None, "M"], ["S", "M", "L"], ordered=True),
        "brand": pd.Categorical([7, 9, 8, 7]),
        "grey": np.array([0, 255, 17, 3], np.uint8),
        "word": pd.Series(["a", None, "b", "c"], dtype=object),
        "share": pd.array([0.5, -0.25, None, 1.0], dtype="Float32"),
    }
)
TYPES = {"grey": "pixel", "visits": "count"}


def schema():
    return infer_schema(FRAME, types=TYPES)


def test_cells_come_back_in_their_own_types_and_units():
    values, mask = schema().encode(FRAME)
    assert (values.dtype, values.shape) == (np.float32, (4, 12))
    assert mask is not None
    assert (mask == FRAME.notna().to_numpy()).all()
    assert np.isfinite(values).all()
    assert (values[~mask] == 0).all()
    back = schema().decode(values, mask)
    pd.testing.assert_frame_equal(back, FRAME, rtol=1e-6)
    exact = ["visits", "year", "city", "smokes", "asked", "size", "brand", "grey", "word"]
    pd.testing.assert_frame_equal(back[exact], FRAME[exact], check_exact=True)


def test_models_see_numbers_of_order_one():
    values, mask = schema().encode(FRAME)
    np.testing.assert_allclose(values[[0, 2, 3], 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(values[[0, 2, 3], 0].std(), 1, rtol=1e-6)
    np.testing.assert_allclose(np.log(values[:, 1]).mean(), 0, atol=1e-5)
    assert values[:, 7].tolist() == [0, 2, 0, 1]
    assert mask is not None
    assert mask[:, 7].tolist() == [True, True, False, True]


def test_order_and_further_columns_do_not_matter():
    values, mask = schema().encode(FRAME)
    other = FRAME[FRAME.columns[::-1]].assign(extra=1)
    again, again_mask = schema().encode(other)
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(again_mask, mask)


def test_drawn_numbers_fall_on_values_that_cells_can_have():
    own = infer_schema(
        pd.DataFrame(
            {"n": np.array([1, 2, 250], np.uint8), "b": [True, False, True], "c": ["x", "y", "z"], "k": ["a", "a", "a"]}
        ),
        types={"n": "real"},
    )
    frame = own.decode(np.array([[-99.0, 0.4, 5.0, 1.0], [99.0, 0.6, -1.0, 0.0]]))
    assert frame["n"].tolist() == [0, 255]
    assert [str(dtype) for dtype in frame.dtypes] == ["uint8", "bool", "str", "str"]
    assert frame["b"].tolist() == [False, True]
    assert frame["c"].tolist() == ["z", "x"]
    assert frame["k"].tolist() == ["a", "a"]


def test_means_are_not_rounded():
    frame = pd.DataFrame({"n": [1, 3] * 5, "b": ["x", "y"] * 5, "o": [1, 2, 3, 4, 5] * 2, "c": range(10)})
    own = infer_schema(frame, types={"c": "count", "o": "ordinal"})
    means = own.decode(np.array([[0.25, 0.75, 1.5, 3.5]]), rounded=False)
    assert means.to_numpy(object).tolist() == [[1.5, "y", 2.5, 3.5]]
    assert own.decode(np.array([[0.25, 0.75, 1.6, 3.6]])).to_numpy(object).tolist() == [[1, "y", 3, 4]]


def test_uniform_arrays_come_back_too():
    for array in (
        np.array([[0, 1], [1, 1]], np.uint8),
        np.array([[0, 200], [1, 1]], np.uint8),
        np.array([[True, False]]),
        np.array([[0, 1000], [7, 1]], np.int32),
    ):
        own = infer_schema(array)
        values, mask = own.encode(array)
        assert mask is None
        back = own.decode(values).to_numpy()
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
    holes = np.array([[0.5, np.nan], [-1, 2]], np.float32)
    own = infer_schema(holes)
    np.testing.assert_allclose(own.decode(*own.encode(holes)).to_numpy(), holes, rtol=1e-6)


def test_an_array_and_a_frame_of_it_have_one_code():
    array = np.random.default_rng(0).normal(size=(30, 4))
    array[3, 2] = np.nan
    own = infer_schema(array)
    for rows in (pd.DataFrame(array, columns=own.names), pd.DataFrame(array, columns=own.names).astype("Float64")):
        for mine, theirs in zip(own.encode(array), own.encode(rows), strict=True):
            np.testing.assert_array_equal(mine, theirs)


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 15))
    columns = {}
    for i in range(draw(st.integers(1, 5))):
        cell, dtype = draw(
            st.sampled_from(
                [
                    (st.integers(-100, 100), "Int8"),
                    (st.integers(-(10**6), 10**6), "Int64"),
                    (st.integers(0, 200), "UInt8"),
                    (st.booleans(), "boolean"),
                    (st.text(st.characters(codec="utf-8"), max_size=4), "str"),
                    (st.sampled_from(["a", "b"]), "category"),
                    (st.floats(-1e6, 1e6, allow_subnormal=False), "float64"),
                    (st.integers(-5, 5).map(float), "float64"),
                ]
            )
        )
        cells = draw(
            st.lists(st.one_of(cell, st.none()) if draw(st.booleans()) else cell, min_size=rows, max_size=rows)
        )
        hypothesis.assume(any(cell is not None for cell in cells))
        columns[f"c{i}"] = pd.Series(cells, dtype=object).astype(dtype)
    return pd.DataFrame(columns)


@hypothesis.given(frames())
@hypothesis.settings(max_examples=60)
@hypothesis.example(pd.DataFrame({"c0": [1.0, 1.7e-242]}))
def test_any_frame_comes_back(frame):
    own = infer_schema(frame)
    values, mask = own.encode(frame)
    back = own.decode(values, mask)
    for name, column in zip(frame.columns, own.columns, strict=True):
        assert str(back[name].dtype) == str(frame[name].dtype)
        if str(frame[name].dtype) == "float64":
            size = abs(column.center or 0) + (column.scale or 1) * 10
            np.testing.assert_allclose(back[name], frame[name], rtol=1e-6, atol=1e-6 * size)
        else:
            pd.testing.assert_series_equal(back[name], frame[name], check_names=False)
    assert Schema.from_dict(own.to_dict()) == own


@pytest.mark.parametrize("family", ["gaussian", "student-t", "logistic", "log-normal"])
def test_densities_in_the_users_units_integrate_to_one(family):
    """The trapezium rule over a grid that leaves less than 1e-4 outside, in the column's own units."""
    if family == "log-normal":
        column = Column("c", "positive", scale=50.0, dtype="float64")
        grid = np.exp(np.linspace(-14, 22, 20_001))
    else:
        column = Column("c", "real", family, center=-300.0, scale=40.0, dtype="float64")
        grid = np.linspace(-40_300, 39_700, 200_001)
    own = Schema((column, Column("d", "binary", categories=("x", "y"), dtype="str")))
    values, mask = own.encode(pd.DataFrame({"c": grid, "d": None}))
    observation = own.observation()
    outputs = np.zeros(observation.num_outputs)
    log_p = jax.vmap(lambda v, m: observation.log_prob(v, outputs, m).sum())(values, mask)
    density = np.exp(np.asarray(log_p, np.float64) + own.log_jacobian(values, mask))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("family", ["heaped-gaussian", "heaped-log-normal"])
def test_a_heap_and_the_density_beside_it_make_one(family):
    """In the column's own units: the heap's probability is the same in any, the density is not."""
    column = Column("c", "heaped", family, center=-300.0, scale=40.0, dtype="float64")
    away = np.exp(np.linspace(-8, 22, 20_001)) if family == "heaped-log-normal" else np.linspace(-4e4, 4e4, 200_000)
    grid = -300.0 + away
    own = Schema((column,))
    values, _ = own.encode(pd.DataFrame({"c": [-300.0, *grid]}))
    assert (values[0, 0], np.count_nonzero(values == 0)) == (0.0, 1)
    observation = own.observation()
    outputs = np.full(observation.num_outputs, 0.5)
    log_p = jax.vmap(lambda v: observation.log_prob(v, outputs).sum())(values)
    p = np.exp(np.asarray(log_p, np.float64) + own.log_jacobian(values))
    assert p[0] == pytest.approx(1 / (1 + np.exp(-0.5)))
    assert p[0] + np.trapezoid(p[1:], grid) == pytest.approx(1, abs=2e-3)


def test_heaped_cells_come_back_and_new_ones_below_a_heap_at_the_bottom_are_refused():
    frame = pd.DataFrame(
        {
            "gain": np.array([0] * 60 + list(range(100, 4100, 100)), np.int64),
            "hours": pd.array([40] * 50 + list(range(10, 60)), dtype="Int16"),
        }
    )
    frame.loc[3, "hours"] = None
    own = infer_schema(frame)
    assert [column.family for column in own.columns] == ["heaped-log-normal", "heaped-gaussian"]
    values, mask = own.encode(frame)
    pd.testing.assert_frame_equal(own.decode(values, mask), frame)
    assert Schema.from_dict(own.to_dict()) == own
    with pytest.raises(SchemaError, match=r"^column 'gain': expected numbers not below the heap .*; got -1 in row 1"):
        own.encode(pd.DataFrame({"gain": [-1], "hours": [5]}))


@pytest.mark.parametrize("heap", [0.1, -9999.12345, 1 / 3])
def test_a_heap_is_known_again_in_fewer_digits(heap):
    """Of float32, or of nine printed digits, and also by one cell that a sum has left beside it."""
    rng = np.random.default_rng(0)
    others = heap + np.exp(rng.normal(size=60))
    (column,) = infer_schema(pd.DataFrame({"c": [heap] * 60 + [np.nextafter(heap, 1e9), *others]})).columns
    assert column.scale == pytest.approx(np.exp(np.log(others - heap).mean()))
    for cells in (pd.Series([heap], dtype=np.float32), pd.Series([float(f"{heap:.9g}")])):
        values, _ = Schema((column,)).encode(pd.DataFrame({"c": cells}))
        assert values[0, 0] == 0


def test_a_family_for_all_leaves_a_column_that_it_cannot_describe():
    frame = pd.DataFrame({"a": [0.0] * 60 + [1.5 * i for i in range(1, 40)], "b": [0.0] * 60 + list(range(-19, 20))})
    own = infer_schema(frame)
    assert [column.family for column in own.columns] == ["heaped-log-normal", "heaped-gaussian"]
    assert [column.family for column in own.with_family("heaped-gaussian").columns] == ["heaped-gaussian"] * 2
    assert own.with_family("heaped-log-normal") == own


def test_the_jacobian_counts_observed_cells_only():
    own = Schema(
        (
            Column("a", "real", center=5.0, scale=2.0, dtype="float64"),
            Column("b", "positive", scale=8.0, dtype="float64"),
            Column("c", "count", "poisson", dtype="int64"),
        )
    )
    mask = np.array([[True, True, True], [False, True, True], [True, False, False], [False, False, True]])
    log2 = np.log(2)
    np.testing.assert_allclose(own.log_jacobian(np.zeros((4, 3)), mask), [-4 * log2, -3 * log2, -log2, 0])
    np.testing.assert_allclose(own.log_jacobian(np.zeros((2, 3))), [-4 * log2] * 2)


def test_the_family_of_a_schema():
    config = schema().observation().config()
    assert config["family"] == "composite"
    assert [(part["family"], part.get("num_classes"), columns) for part, columns in config["parts"]] == [
        ("gaussian", None, [0, 3, 11]),
        ("log-normal", None, [1]),
        ("negative-binomial", None, [2]),
        ("bernoulli", None, [4, 5, 6]),
        ("ordinal", 3, [7]),
        ("categorical", 3, [8, 10]),
        ("discretised-logistic", None, [9]),
    ]
    values, mask = schema().encode(FRAME)
    schema().observation().check(values, mask)
    single = infer_schema(np.array([[0, 1], [1, 1]], np.uint8)).observation()
    assert single.config() == {"family": "bernoulli", "columns": 2}
    # A single category has room for a second.
    assert infer_schema(pd.DataFrame({"a": ["x", "x"]})).observation().num_classes == 2


def test_one_family_for_all_that_can_have_it():
    heavy = schema().with_family("student-t")
    assert [column.family for column in heavy.columns if column.kind == "real"] == ["student-t"] * 3
    assert heavy.columns[1].family == "log-normal"
    with pytest.raises(SchemaError, match=r"^No column can have the family poisson: their kinds are binary\.$"):
        infer_schema(pd.DataFrame({"a": [0, 1]})).with_family("poisson")
    with pytest.raises(
        SchemaError, match=r"^Expected a family: gaussian, .*; got 'gausian'. Did you mean 'gaussian'\?$"
    ):
        schema().with_family("gausian")


def test_rows_of_another_width_are_refused():
    with pytest.raises(SchemaError, match=r"^Expected rows of 12 values, shape \(n, 12\); got shape \(3, 4\)\.$"):
        schema().decode(np.zeros((3, 4)))
    with pytest.raises(SchemaError, match=r"^Expected rows of 2 values, shape \(n, 2\); got shape \(2,\)\.$"):
        infer_schema(np.zeros((1, 2))).encode(np.zeros(2))


def test_an_open_schema_does_not_encode():
    with pytest.raises(
        SchemaError, match=r"^column 'a': something has still to be learnt from rows; see infer_schema\.$"
    ):
        Schema((Column("a", "real"),)).encode(pd.DataFrame({"a": [1.0]}))


def test_missing_columns_are_named():
    with pytest.raises(SchemaError, match=r"^Expected a column 'height'; got heigth\. Did you mean 'heigth'\?$"):
        Schema((Column("height", "real", center=0.0, scale=1.0, dtype="float64"),)).encode(
            pd.DataFrame({"heigth": [1.0]})
        )


def test_schema_files(tmp_path):
    write_schema(tmp_path / "s.json", schema())
    assert read_schema(tmp_path / "s.json") == schema()
    again = infer_schema(FRAME, schema=schema().without_units())
    assert again == schema()


def test_the_file_of_an_array_is_short(tmp_path):
    own = infer_schema(np.zeros((2, 784), np.uint8), types={"*": "pixel"})
    assert own.to_dict() == {
        "version": 1,
        "columns": [
            {"name": "v", "kind": "pixel", "family": "discretised-logistic", "dtype": "uint8", "repeat": 784},
        ],
    }
    assert Schema.from_dict(own.to_dict()) == own


def entry(**changes):
    return {"columns": [{"name": "a", "kind": "real", **changes}]}


WRONG = {
    "no object": ([1], "Expected a schema, an object with the entry `columns`; got list."),
    "no columns": ({}, "Expected the schema's entry `columns` to be a list of at least one column."),
    "empty": ({"columns": []}, "Expected the schema's entry `columns` to be a list of at least one column."),
    "version": ({"version": 2, "columns": []}, "Expected a schema of version 1; got 2."),
    "unknown": ({"colums": []}, "Unknown entry 'colums' in the schema; it takes version and columns."),
    "no entry": ({"columns": ["a"]}, "columns[0]: expected an object with name and kind; got 'a'."),
    "no kind": ({"columns": [{"name": "a"}]}, "columns[0] ('a'): expected an entry 'kind'; there is none."),
    "no name": ({"columns": [{"kind": "real"}]}, "columns[0]: expected an entry 'name'; there is none."),
    "unknown in a column": (entry(sclae=2), "columns[0] ('a'): unknown entry 'sclae'. Did you mean 'scale'?"),
    "kind": (
        entry(kind="reel"),
        "columns[0] ('a'): expected a kind: real, positive, heaped, count, binary, categorical, ordinal, pixel; "
        "got 'reel'. Did you mean 'real'?",
    ),
    "family": (
        entry(family="poisson"),
        "columns[0] ('a'): expected a family for real columns: gaussian, student-t, logistic; got 'poisson'.",
    ),
    "name of another type": (entry(name=3), "columns[0]: expected name to be a text; got 3."),
    "scale of another type": (entry(scale="2"), "columns[0] ('a'): expected scale to be a number; got '2'."),
    "scale of zero": (entry(scale=0), "columns[0] ('a'): expected scale to be above zero; got 0.0."),
    "center of a count": (
        entry(kind="count", center=1),
        "columns[0] ('a'): a count column has no center; leave that entry out.",
    ),
    "categories of a real": (
        entry(categories=["x"]),
        "columns[0] ('a'): a real column has no categories; leave that entry out.",
    ),
    "categories of another type": (
        entry(kind="categorical", categories="xy"),
        "columns[0] ('a'): expected categories to be a list of texts or numbers; got 'xy'.",
    ),
    "no categories": (
        entry(kind="ordinal", categories=[]),
        "columns[0] ('a'): expected at least one category; got none.",
    ),
    "categories alike": (
        entry(kind="ordinal", categories=["x", "y", "x"]),
        "columns[0] ('a'): expected every category once; got 'x' twice.",
    ),
    "categories of two types": (
        entry(kind="ordinal", categories=["x", 3]),
        "columns[0] ('a'): expected categories that are all texts or all numbers; got both.",
    ),
    "three of binary": (
        entry(kind="binary", categories=[1, 2, 3]),
        "columns[0] ('a'): expected two categories of a binary column; got 3.",
    ),
    "dtype": (
        entry(dtype="datetime64[ns]"),
        "columns[0] ('a'): expected a dtype of numbers, truth values or texts; got 'datetime64[ns]'.",
    ),
    "repeat": (entry(repeat=0), "columns[0] ('a'): expected repeat to be a whole number of at least 1; got 0."),
    "names alike": (
        {"columns": [{"name": "a", "kind": "real"}, {"name": "a", "kind": "real"}]},
        "column 'a': expected every column name once; got it twice. Rename one of them.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_schema_files_are_refused_by_entry(tmp_path, case):
    described, words = WRONG[case]
    (tmp_path / "s.json").write_text(json.dumps(described))
    with pytest.raises(SchemaError) as caught:
        read_schema(tmp_path / "s.json")
    assert str(caught.value) == f"{tmp_path}/s.json: {words}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{\n 'columns': []}", "line 2: expected JSON; Expecting property name enclosed in double quotes."),
        (b'{"columns": "\xff"}', "expected a JSON file in UTF-8; byte 13 is not."),
        (b"", "line 1: expected JSON; Expecting value."),
    ],
)
def test_schema_files_that_are_no_json(tmp_path, content, words):
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(SchemaError) as caught:
        read_schema(tmp_path / "s.json")
    assert str(caught.value) == f"{tmp_path}/s.json: {words}"

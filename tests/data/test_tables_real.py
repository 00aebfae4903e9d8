"""Published tables, where `DLGM_DATA` has them."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dlgm.data import SchemaError, read_table
from dlgm.data.files import VARIABLE


def find(name):
    root = os.environ.get(VARIABLE)
    path = Path(root or ".") / "tables" / name
    if not root or not path.exists():
        pytest.skip(f"no tables/{name} in the folder that {VARIABLE} names")
    return path


def published_types(name):
    """The kinds that a published list of column types gives, in our words."""
    words = {"count": "count", "pos": "positive", "cat": "categorical", "ordinal": "ordinal", "real": "real"}
    types = pd.read_csv(find(name))
    return {f"v{i}": words[word] for i, word in enumerate(types["type"])}


def test_adult():
    path = find("adult/data.csv")
    table = read_table(path)
    assert (len(table), len(table.schema.columns)) == (32_561, 12)
    kinds = [column.kind for column in table.schema.columns]
    assert kinds == ["count", "ordinal", "positive", *["ordinal"] * 5, "binary", *["heaped"] * 3]
    # Cells missing in the source are listed beside it, by row and column from 1.
    holes = np.ones(table.values.shape, bool)
    rows, columns = pd.read_csv(find("adult/MissingTrue.csv"), header=None).to_numpy().T - 1
    holes[rows, columns] = False
    np.testing.assert_array_equal(table.mask, holes)
    # Numbers that are but labels need the user's word; two columns called positive hold zeros.
    types = published_types("adult/data_types.csv")
    zeros = [name for name in ("v9", "v10") if types[name] == "positive"]
    with pytest.raises(
        SchemaError, match=r"column 'v9': expected numbers above zero in a positive column; got 0 in row"
    ):
        read_table(path, types=types)
    typed = read_table(path, types={**types, **dict.fromkeys(zeros, "real")})
    config = typed.schema.observation().config()
    assert [part["family"] for part, _ in config["parts"]][:3] == ["negative-binomial", "categorical", "log-normal"]
    frame, source = typed.frame(), pd.read_csv(path, header=None)
    exact = [0, 1, 3, 4, 5, 6, 7, 8, 11]
    np.testing.assert_array_equal(frame.to_numpy(np.float64, na_value=np.nan)[:, exact], source.to_numpy()[:, exact])
    np.testing.assert_allclose(frame.to_numpy(np.float64, na_value=np.nan), source.to_numpy(), rtol=1e-5, atol=0.5)


def test_breast():
    table = read_table(find("breast/data.csv"), types=published_types("breast/data_types.csv"))
    assert len(table) == 699
    assert [(c.kind, len(c.categories or ())) for c in table.schema.columns] == [("ordinal", 10)] * 9 + [
        ("categorical", 2)
    ]
    assert table.mask is not None
    assert int((~table.mask).sum()) == len(pd.read_csv(find("breast/MissingTrue.csv"), header=None))
    assert table.values.dtype == np.uint8


def test_wine():
    path = find("winequality-white.csv")
    table = read_table(path)
    kinds = {column.name: column.kind for column in table.schema.columns}
    assert (len(table), len(kinds), table.mask) == (4898, 12, None)
    assert (kinds["quality"], kinds["density"], kinds["residual sugar"]) == ("ordinal", "real", "positive")
    pd.testing.assert_frame_equal(table.frame(), pd.read_csv(path, sep=";"), rtol=1e-5)


def test_yeast():
    path = find("yeast.data")
    with pytest.raises(
        SchemaError, match=r"column 'v0': .* got 1,462 different ones in 1,484 rows, such as 'ADT1_YEAST'"
    ):
        read_table(path)
    table = read_table(path, drop=["v0"])
    assert (len(table), table.schema.columns[-1].kind, len(table.schema.columns[-1].categories or ())) == (
        1484,
        "categorical",
        10,
    )
    assert table.frame()["v9"].value_counts()["CYT"] == 463

"""Text tables: what is found out about delimiter, header, decimal sign, encoding and missing cells."""

import numpy as np
import pandas as pd
import pytest

from dlgm.data import Schema, SchemaError, infer_schema, read_table
from tests.data import write


def read(tmp_path, text, name="a.csv", **options):
    content = text if isinstance(text, bytes) else text.encode()
    return read_table(write.put(tmp_path / name, content), **options)


def cells(table):
    return [[None if pd.isna(cell) else cell for cell in row] for row in table.frame().to_numpy(object).tolist()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "n,v\nx,1.5\ny,-2.5\n"),
        ("a.csv", "n;v\nx;1.5\ny;-2.5\n"),
        ("a.csv", "n;v\nx;1,5\ny;-2,5\n"),
        ("a.csv", "n\tv\nx\t1,5\ny\t-2,5\n"),
        ("a.csv", "n|v\nx|1.5\ny|-2.5\n"),
        ("a.csv", "n,v\r\nx,1.5\r\ny,-2.5\r\n"),
        ("a.csv", "n,v\rx,1.5\ry,-2.5\r"),
        ("a.csv", "n,v\nx,1.5\ny,-2.5"),
        ("a.csv", "\n\nn,v\n\nx,1.5\ny,-2.5\n\n"),
        ("a.csv", "n, v\nx, 1.5\ny, -2.5\n"),
        ("a.csv", '"n","v"\n"x","1.5"\n"y","-2.5"\n'),
        ("a.csv", "n,v\nx,1.5\ny,-2.5\n".encode("utf-8-sig")),
        ("a.csv", "n,v\nx,1.5\ny,-2.5\n".encode("utf-16")),
        ("a.txt", "n v\nx   1.5\n  y\t-2.5  \n"),
        ("a.txt", "n;v\nx;1.5\ny;-2.5\n"),
        ("a.tsv", "n\tv\nx\t1.5\ny\t-2.5\n"),
    ],
)
def test_one_table_in_many_dialects(tmp_path, name, text):
    table = read(tmp_path, text, name)
    assert table.schema.names == ["n", "v"]
    assert cells(table) == [["x", pytest.approx(1.5)], ["y", pytest.approx(-2.5)]]


def test_decimal_commas_are_remarked_on(tmp_path):
    assert read(tmp_path, "a;b\n1,5;x\n-2,5;y\n").notes == ("decimal commas were read as such",)
    # With a point in another cell, a comma is no decimal sign.
    assert read(tmp_path, "a;b\n1,5;0.5\n2,5;-1.5\n").schema.columns[0].categories == ("1,5", "2,5")
    assert read(tmp_path, "a;b\n1,5;2\n2,5;3\n", decimal=".").schema.columns[0].categories == ("1,5", "2,5")
    assert read(tmp_path, "a;b\n1,5;2\n-2,5;3\n", decimal=",").notes == ()


def test_quoted_fields(tmp_path):
    table = read(tmp_path, 'who,"a, b"\n"Smith, J",1.5\n"say ""hi""",-1.5\n"two\nlines",2.5\n')
    assert table.schema.names == ["who", "a, b"]
    assert [row[0] for row in cells(table)] == ["Smith, J", 'say "hi"', "two\nlines"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_encoding_by_name(tmp_path, encoding):
    table = read(tmp_path, "n,v\ncafé,1.5\nthé,-2.5\n".encode(encoding), encoding=encoding)
    assert [row[0] for row in cells(table)] == ["café", "thé"]


HEADERS = {
    "numbers below texts": ("a,b\n1,2\n3,4\n", True),
    "numbers only": ("1,2\n3,4\n5,6\n", False),
    "one line of numbers": ("1,2\n", False),
    "a number as a name": ("label,0,1\n7,0,1\n2,1,1\n", True),
    "texts below texts": ("colour,shape\nred,round\nblue,round\n", True),
    "a text that comes again": ("red,round\nblue,round\nred,square\n", False),
    "a text that comes again in one column": ("red,round\nblue,square\nred,flat\n", False),
    "numbers beside a text": ("ADT1,0.58,MIT\nADT2,0.43,MIT\n", False),
    "a missing cell in the first line": ("?,2\n3,4\n5,6\n", False),
    "truth values": ("open,shut\nTrue,False\nFalse,False\n", True),
    "decimal commas": ("1,5;2\n2,5;3\n", False),
    "a column that is empty below": ("a,b\n,x\n,y\n", True),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_is_inferred(tmp_path, case):
    text, header = HEADERS[case]
    path = write.put(tmp_path / "a.csv", text.encode())
    separator = ";" if ";" in text else ","
    empty = ["a"] if "empty" in case else []
    first = text.splitlines()[0].split(separator)
    table = read_table(path, drop=empty)
    assert table.schema.names == [
        n for n in (first if header else [f"v{i}" for i in range(len(first))]) if n not in empty
    ]
    # And the user has the last word.
    assert read_table(path, header=False, types={"*": "categorical"}).schema.names == [
        f"v{i}" for i in range(len(first))
    ]
    if len(text.splitlines()) > 2 and len(set(first)) == len(first):
        told = read_table(path, header=True, drop=empty, types={"*": "categorical"})
        assert told.schema.names == [n for n in first if n not in empty]


def test_a_known_schema_decides_about_the_header(tmp_path):
    schema = read(tmp_path, "1,2.5\n3,-4.5\n").schema
    assert schema.names == ["v0", "v1"]
    # By the rules alone, this first line would be a header.
    with pytest.raises(
        SchemaError, match=r"column 'v0': expected numbers in a count column; got 'x' in row 1 \(counting from 1\)"
    ):
        read(tmp_path, "x,2.5\n3,-4.5\n", schema=schema)
    named = read(tmp_path, "7,8\n1,2.5\n3,-4.5\n", header=True).schema
    assert named.names == ["7", "8"]
    assert len(read(tmp_path, "8,7\n2.5,1\n-4.5,3\n", schema=named)) == 2
    # A header of other names is still one, and it is those names that are missing.
    with pytest.raises(SchemaError, match=r"Expected a column '7'; got a, b\. \(2 columns are missing\.\)$"):
        read(tmp_path, "a,b\n1,2.5\n3,-4.5\n", schema=named)


@pytest.mark.parametrize("delimiter", [";", "semicolon"])
def test_delimiter_by_name(tmp_path, delimiter):
    assert read(tmp_path, "a;b,c\n1.5;2,3\n-1;2,4\n", delimiter=delimiter).schema.names == ["a", "b,c"]


@pytest.mark.parametrize("delimiter", ["tab", "\\t", "\t"])
def test_tabs_have_names(tmp_path, delimiter):
    assert read(tmp_path, "a b\tc\n1 2\t3\n1 3\t4\n", "a.txt", delimiter=delimiter).schema.names == ["a b", "c"]


@pytest.mark.parametrize("delimiter", ["space", " "])
def test_any_white_space(tmp_path, delimiter):
    assert read(tmp_path, "a  b\t c\n1 2   3\n4 5 6\n", delimiter=delimiter).schema.names == ["a", "b", "c"]


@pytest.mark.parametrize(
    "word", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", " ?", "<NA>", "#N/A", '""']
)
def test_words_for_a_missing_cell(tmp_path, word):
    table = read(tmp_path, f"a,b\n1.5,x\n{word},y\n-2.5,{word}\n")
    assert table.mask is not None
    assert table.mask.tolist() == [[True, True], [False, True], [True, False]]
    assert table.values[1, 0] == table.values[2, 1] == 0
    assert table.schema.columns[1].categories == ("x", "y")


def test_further_words_for_a_missing_cell(tmp_path):
    text = "a,b,c,d\n1.5,x,-999,30\n-999,y,3,unknown\n-2.5,unknown,-999.0,10\n"
    table = read(tmp_path, text, missing=["-999", "unknown"])
    assert table.mask is not None
    assert (~table.mask).astype(int).tolist() == [[0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
    assert str(table.frame()["d"].dtype) == "Int64"  # as which the column is read once the word is out of the way
    assert read(tmp_path, text).mask is None


def test_missing_words_in_arrays_and_frames(tmp_path):
    array = np.array([[1, 255], [2, 3]], np.uint8)
    np.save(tmp_path / "a.npy", array)
    table = read_table(tmp_path / "a.npy", missing=["255", "unknown"])
    assert table.mask is not None
    assert table.mask.tolist() == [[True, False], [True, True]]
    assert (table.values.dtype, table.values.tolist()) == (np.uint8, [[1, 0], [2, 3]])
    frame = pd.DataFrame({"a": ["x", "unknown", "y"], "b": [1.5, -9.0, -2.5]})
    frame.to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet", missing=["unknown", "-9"])
    assert table.mask is not None
    assert table.mask.tolist() == [[True, True], [False, False], [True, True]]


def test_blank_lines_are_skipped_in_a_single_column_too(tmp_path):
    assert cells(read(tmp_path, "a\n1.5\n\n-2.5\nNA\n\n")) == [[1.5], [-2.5], [None]]


def test_columns_without_a_name(tmp_path):
    table = read(tmp_path, ",a,b\n0,1.5,x\n1,-2.5,y\n")
    assert table.schema.names == ["a", "b"]
    assert table.notes == ("column 1, which has no name and holds row numbers or nothing, was left out",)
    assert read(tmp_path, "a,b,\n1.5,x,\n-2.5,y,\n").schema.names == ["a", "b"]
    assert read(tmp_path, ",a\n5,1.5\n9,-2.5\n").schema.names == ["column 1", "a"]


def test_constant_columns_are_remarked_on(tmp_path):
    table = read(tmp_path, "a,b,c,d\n3.5,x,7,1\n3.5,x,7,2\n,x,7,3\n")
    assert table.notes == ("constant columns (3 of 4): a, b, c",)
    assert [(c.kind, c.center, c.scale) for c in table.schema.columns[:1]] == [("real", 3.5, 1.0)]
    assert cells(table)[0][:3] == [3.5, "x", 7]
    assert cells(table)[2][0] is None


def test_rows_without_a_cell_are_remarked_on(tmp_path):
    assert read(tmp_path, "a,b\n1.5,x\n,\n-2.5,y\n").notes == ("rows without an observed cell: 1",)


def test_integers_with_holes_stay_integers(tmp_path):
    frame = read(tmp_path, "a,b,c\n1,true,2.0\n,,\n30,False,3.0\n").frame()
    assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "boolean", "float64"]
    assert frame["a"].tolist() == [1, pd.NA, 30]


def test_columns_are_found_by_name(tmp_path):
    schema = read(tmp_path, "a,b,c\n1.5,x,1\n-2.5,y,0\n").schema
    table = read(tmp_path, "c,extra,b,a\n0,5,y,3.5\n", schema=schema)
    assert cells(table) == [[3.5, "y", 0]]
    assert table.notes[0] == "columns that the schema does not have were left out: extra"
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, "c,a\n0,3.5\n", schema=schema)
    assert str(caught.value) == f"{tmp_path}/a.csv: Expected a column 'b'; got c, a."


def test_texts_that_look_like_numbers_stay_texts_where_the_schema_says_so(tmp_path):
    schema = read(tmp_path, "zip,b\n0123,1.5\nA1,2.5\n0007,-1\n").schema
    assert schema.columns[0].categories == ("0007", "0123", "A1")
    assert [row[0] for row in cells(read(tmp_path, "zip,b\n0123,1.5\n0007,2.5\n", schema=schema))] == ["0123", "0007"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("oslo,1,true", "column 'city': expected one of the categories Oslo, Rome; got 'oslo' in row 2"),
        ("Oslo,9,true", "column 'level': expected one of the categories 1, 2, 3; got 9 in row 2"),
        ("Oslo,x,true", "column 'level': expected one of the categories 1, 2, 3; got 'x' in row 2"),
        ("Oslo,1,maybe", "column 'open': expected one of the categories 0, 1; got 'maybe' in row 2"),
    ],
)
def test_unknown_categories_are_refused(tmp_path, rows, words):
    frame = pd.DataFrame({"city": ["Rome", "Oslo"] * 9, "level": [1, 2, 3] * 6, "open": [True, False] * 9})
    schema = infer_schema(frame)
    assert [column.kind for column in schema.columns] == ["binary", "ordinal", "binary"]
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, f"city,level,open\nRome,2,false\n{rows}\n", schema=schema)
    assert str(caught.value) == (
        f"{tmp_path}/a.csv: {words} (counting from 1). Mend it or mark it missing; a new category needs a schema that "
        "has it, and a new fit."
    )


def test_what_a_schema_leaves_open_is_learnt(tmp_path):
    open_ = Schema.from_dict(
        {"columns": [{"name": "b", "kind": "real", "family": "student-t"}, {"name": "a", "kind": "count"}]}
    )
    table = read(tmp_path, "a,b\n1,2.5\n3,0.5\n", schema=open_)
    b, a = table.schema.columns
    assert (b.name, b.family, b.center, b.scale, b.dtype) == ("b", "student-t", 1.5, 1.0, "float64")
    assert (a.name, a.family, a.dtype) == ("a", "poisson", "int64")


def test_a_stray_text_among_numbers_is_remarked_upon(tmp_path):
    lines = ["a", *(str(i % 7) for i in range(40)), "?!"]
    path = write.put(tmp_path / "a.csv", "\n".join(lines).encode())
    assert read_table(path).schema.columns[0].kind == "categorical"
    assert read_table(path).notes == (
        "column 'a' would be numbers but for 1 of 41 cells, such as '?!'. If that stands for a hole, say so (missing, "
        "--missing)",
    )
    assert read_table(path, missing=["?!"]).schema.columns[0].kind == "ordinal"


def test_one_column_as_it_stands(tmp_path):
    """Labels need not be the model's; holes are empty texts, and numbers beside them texts too."""
    from dlgm.data import SchemaError, read_column

    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,x,2.5\n,y,3.5\n3,,4.5\n")
    assert read_column(path, "a").tolist() == ["1", "", "3"]
    assert read_column(path, "b").tolist() == ["x", "y", ""]
    assert read_column(path, "c").tolist() == [2.5, 3.5, 4.5]
    with pytest.raises(SchemaError, match="expected a column 'd'; got"):
        read_column(path, "d")

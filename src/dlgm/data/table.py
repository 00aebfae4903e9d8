"""A user's own rows: what a file or folder holds, with its holes and its schema."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from dlgm.data.content import Content, Reading
from dlgm.data.errors import DataFileError, DataNotFoundError, SchemaError, listed
from dlgm.data.formats.amat import read_amat
from dlgm.data.formats.arrays import read_npy, read_npz
from dlgm.data.formats.delimited import read_csv, read_text, read_tsv
from dlgm.data.formats.idx import read_idx_array
from dlgm.data.formats.images import SUFFIXES, read_images
from dlgm.data.formats.mat import read_mat_array
from dlgm.data.formats.parquet import read_parquet
from dlgm.data.schema import Schema, infer_schema
from dlgm.data.schema.arrays import constant_columns
from dlgm.data.schema.cells import plain, shown, to_numbers
from dlgm.data.schema.column import CODED, Category
from dlgm.names import closest

# How a name ends, and who reads it; `.gz` may follow.
READERS: dict[str, Callable[[Path, Reading], Content]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".txt": read_text,
    ".data": read_text,
    ".dat": read_text,
    ".parquet": read_parquet,
    ".npy": read_npy,
    ".npz": read_npz,
    ".mat": read_mat_array,
    ".amat": read_amat,
    ".idx": read_idx_array,
    "-ubyte": read_idx_array,
}
_SAMPLE = 10_000  # rows of a memory-mapped array from which its schema is learnt


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with holes, and what their columns are.

    `values` of shape `(n, x)` are the numbers that a model sees (`Schema.encode`), zero in holes: uint8 for codes and
    pixels, else float32. If `encoded` is false, they are the file's own numbers, memory-mapped: take some rows and
    `schema.encode` them.
    """

    name: str
    values: Shaped[np.ndarray, "n x"]
    mask: Bool[np.ndarray, "n x"] | None  # true where observed; None: everywhere
    schema: Schema
    shape: tuple[int, ...] | None = None  # of one row as an image
    notes: tuple[str, ...] = ()  # what a person should know about the file, each a clause
    missing: tuple[str, ...] = ()  # values that meant a hole, beside the usual ones
    encoded: bool = True

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Int[np.ndarray, " m"]) -> "Table":
        """Some of the rows."""
        mask = None if self.mask is None else self.mask[rows]
        return dataclasses.replace(self, values=self.values[rows], mask=None if mask is None or mask.all() else mask)

    def frame(self) -> Any:
        """The rows as a DataFrame in the user's own columns and units."""
        values, mask = self.values, self.mask
        if not self.encoded:
            values, mask = self.schema.encode(np.asarray(self.values), missing=self.missing)
        return self.schema.decode(values, mask)

    def described(self) -> dict[str, Any]:
        """Name, shape, schema and words for a hole, for a model file."""
        return {
            "name": self.name,
            "shape": list(self.shape or ()),
            "schema": self.schema.to_dict(),
            "missing": list(self.missing),
        }


def read_table(
    path: str | Path,
    *,
    schema: Schema | None = None,
    types: Mapping[str, str] | None = None,
    ordinal: Mapping[str, Sequence[Category]] | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    key: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    mmap: bool = False,
) -> Table:
    """Read a file of rows, or a folder of images.

    | name | content |
    | --- | --- |
    | `.csv`, `.tsv`, `.txt`, `.data`, `.dat` | text; delimiter, header, decimal sign and encoding are found out |
    | `.parquet` | a table |
    | `.npy`, `.npz`, `.mat` | an array whose first axis counts rows; of several, the one that `key` names |
    | `.amat` | text, numbers separated by spaces |
    | `.idx`, `-ubyte` | MNIST's format |
    | a folder | PNG or JPEG images of one size, all grey or all RGB |

    Each may be gzipped (`.gz`). Empty cells, NaN, NA, null, ? and what else pandas takes for missing are holes.
    A file that cannot be read raises a `DataError` of one line that names it and the line, row or key at fault.

    **Arguments**

    - `path`: a file or folder; `"file.npz:key"` names an array too.
    - `schema`: what the columns are, from a trained model or a schema file. Columns are found by name; others are left
      out, with a note. What the schema leaves open is learnt from the rows. By default everything is: see
      `infer_schema`, which also explains `types` and `ordinal`.
    - `drop`: columns to leave out.
    - `missing`: further values that mean a hole, such as `"-999"`.
    - `delimiter`, `decimal`, `header`, `encoding`: of text files, in place of what is found out. A delimiter of `" "`
      is any run of white space.
    - `mmap`: leave an npy file on the disk. The values are then a read-only memory map, unscanned and as they are in
      the file, and the schema is learnt from at most 10,000 rows, evenly spaced.
    """
    path, key = _path_and_key(path, key)
    how = Reading(
        key=key,
        delimiter=delimiter,
        decimal=decimal,
        header=header,
        encoding=encoding,
        missing=tuple(missing),
        **_expected(schema),
        mmap=mmap,
    )
    read = _reader(path, how)
    try:
        content = read(path, how)
        rows, notes = _chosen(content, schema, drop)
        sample = rows[:: -(-len(rows) // _SAMPLE)] if mmap else rows
        if schema is None or not schema.complete or types or ordinal:
            is_image = content.shape is not None
            schema = infer_schema(
                sample, schema=schema, types=types, ordinal=ordinal, missing=missing, is_image=is_image
            )
        if mmap:
            return Table(path.name, rows, None, schema, content.shape, notes, tuple(missing), encoded=False)
        values, mask = schema.encode(rows, missing=missing)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None
    notes = (*notes, *_nearly_numbers(schema, rows, missing), *_remarks(schema, values, mask))
    return Table(path.name, values, mask, schema, content.shape, notes, tuple(missing))


def read_frame(path: str | Path, schema: Schema, *, missing: Sequence[str] = (), **reading: Any) -> Any:
    """A table with all of its columns as they stand in the file, those of `schema` among them; None for an array.

    `reading` says how, as for `read_table`.
    """
    path, key = _path_and_key(path, reading.pop("key", None))
    how = Reading(key=key, missing=tuple(missing), **_expected(schema), **reading)
    rows = _reader(path, how)(path, how).rows
    return None if isinstance(rows, np.ndarray) else rows.set_axis([str(name) for name in rows.columns], axis=1)


def _expected(schema: Schema | None) -> dict[str, Any]:
    """What a schema tells the reader of a text file: names, and which columns hold texts."""
    if schema is None:
        return {}
    texts = (column.name for column in schema.columns if isinstance((column.categories or (0,))[0], str))
    return {"names": tuple(schema.names), "texts": tuple(texts)}


def read_column(path: str | Path, name: str, **reading: Any) -> Shaped[np.ndarray, " n"]:
    """One column of a table as it stands in the file, such as the labels of its rows. Holes are empty texts.

    `reading` says how, as for `read_table`.
    """
    path, key = _path_and_key(path, reading.pop("key", None))
    how = Reading(key=key, missing=tuple(reading.pop("missing", ())), **reading)
    rows = _reader(path, how)(path, how).rows
    if isinstance(rows, np.ndarray):
        raise SchemaError(f"{path}: an array has no column {name!r}: only tables have names.")
    if name not in (names := [str(column) for column in rows.columns]):
        raise SchemaError(f"{path}: expected a column {name!r}; got {listed(names)}.{closest(name, names)}")
    column = rows.iloc[:, names.index(name)]
    if not column.isna().any():
        return np.asarray(column)
    texts = [v if isinstance(v, str) else shown(v) for v in column[column.notna()]]
    cells = np.full(len(column), "", object)
    cells[column.notna().to_numpy()] = texts
    return cells


def is_table_path(text: str) -> bool:
    """Whether a text means a file or folder: by a separator, a known ending, or because it is there."""
    return "/" in text or "\\" in text or Path(text).exists() or _ending(Path(text.partition(":")[0]).name) is not None


def _path_and_key(path: str | Path, key: str | None) -> tuple[Path, str | None]:
    """The path, and the key that may follow it after a colon."""
    whole = Path(path)
    before, colon, after = str(path).rpartition(":")
    if colon and not whole.exists() and Path(before).exists():
        return Path(before), after if key is None else key
    return whole, key


def _ending(name: str) -> str | None:
    bare = name.lower().removesuffix(".gz")
    return next((ending for ending in READERS if bare.endswith(ending)), None)


def _reader(path: Path, how: Reading) -> Callable[[Path, Reading], Content]:
    ending = _ending(path.name)
    if not path.exists():
        raise DataNotFoundError(f"{path}: no such file or folder.")
    if path.is_dir():
        ending = None
    elif ending is None:
        single = " One image is no table: name the folder that has them." if path.suffix.lower() in SUFFIXES else ""
        raise DataFileError(
            f"{path}: expected a folder of images, or a name that ends in {', '.join(READERS)} (and .gz).{single}"
        )
    if how.key is not None and ending not in (".npz", ".mat"):
        raise DataFileError(f"{path}: has no keys; only .npz and .mat files have. Leave {how.key!r} out.")
    if how.mmap and ending != ".npy":
        raise DataFileError(f"{path}: only .npy files can be memory-mapped.")
    return read_images if ending is None else READERS[ending]


def _chosen(content: Content, schema: Schema | None, drop: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """The rows without the columns that nobody wants, and what to say about it."""
    rows, notes = content.rows, content.notes
    if isinstance(rows, np.ndarray):
        if drop:
            raise SchemaError("Only columns with names can be dropped; the file is an array.")
        return rows, notes
    rows.columns = [str(name) for name in rows.columns]
    columns, remarks = choose_columns(list(rows.columns), schema, drop)
    if not len(rows):
        raise SchemaError("Expected at least one row; there is none.")
    return rows[columns], (*notes, *remarks)


def choose_columns(
    names: Sequence[str], schema: Schema | None, drop: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """The names without those that nobody wants, and what to say about it."""
    if unknown := [name for name in drop if name not in names]:
        raise SchemaError(
            f"Expected the names of columns to drop; got {unknown[0]!r}. There are: {listed(list(names))}."
        )
    chosen = [name for name in names if name not in drop]
    if not chosen:
        raise SchemaError("Expected at least one column; there is none.")
    known = set(chosen if schema is None else schema.names)
    extra = [name for name in chosen if name not in known]
    return chosen, (f"columns that the schema does not have were left out: {listed(extra)}",) if extra else ()


def _nearly_numbers(schema: Schema, rows: Any, missing: Sequence[str]) -> Iterator[str]:
    """Columns of categories which nearly all look like numbers: a stray text may stand for a hole."""
    for column in () if isinstance(rows, np.ndarray) else schema.columns:
        cells = plain(column.name, rows[column.name], missing)
        if column.kind not in CODED or not cells.is_text:
            continue
        seen = cells.seen
        texts = seen[np.isnan(to_numbers(seen))]
        if 0 < len(texts) <= 0.1 * len(seen):
            yield (
                f"column {column.name!r} would be numbers but for {len(texts):,} of {len(seen):,} cells, such as "
                f"{shown(texts[0])}. If that stands for a hole, say so (missing, --missing)"
            )


def _remarks(
    schema: Schema, values: Shaped[np.ndarray, "n x"], mask: Bool[np.ndarray, "n x"] | None
) -> tuple[str, ...]:
    remarks = []
    same = constant_columns(values, mask)
    if same.any():
        names = [name for name, constant in zip(schema.names, same, strict=True) if constant]
        remarks.append(f"constant columns ({len(names):,} of {len(same):,}): {listed(names)}")
    for i, column in enumerate(schema.columns):
        # Whole numbers, each once and without a gap: they number the rows, and say nothing about them.
        if column.kind in ("count", "real", "positive") and column.low is not None and column.high is not None:
            own = values[:, i] if mask is None else values[mask[:, i], i]
            if len(own) > 20 and column.high - column.low == len(own) - 1 and len(np.unique(own)) == len(own):
                remarks.append(f"column {column.name!r} numbers the rows; leave it out (drop, --drop)")
    if mask is not None and not mask.any(axis=1).all():
        remarks.append(f"rows without an observed cell: {int((~mask.any(axis=1)).sum()):,}")
    return tuple(remarks)

"""`dlgm data`: the named data sets, and what users' own files hold."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.options import AsJson, DataName, Quiet, Seed, load_data, writable
from dlgm.cli.tables import (
    Delimiter,
    Drop,
    Encoding,
    Header,
    Key,
    Missing,
    Ordinal,
    SchemaFile,
    Types,
    is_file,
    load_table,
    print_schema,
    refuse_for_named,
)

if TYPE_CHECKING:
    from dlgm.data import Dataset, Table

app = typer.Typer(
    help="The named data sets: which there are, and what is in them; and what is in your own files.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    pass


@app.command("list")
def list_(seed: Seed = 0, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Which data sets there are, and where to put the files of those that are not here.

    Example: dlgm data list
    """
    from dlgm.data import list_datasets

    infos = list_datasets()
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(info) for info in infos], indent=1))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading in ("name", "train/valid/test", "shape", "family", "files"):
            table.add_column(heading, no_wrap=True)
        for info in infos:
            rows = "/".join(f"{count:,}" for count in info.rows.values())
            files = info.location if not info.files else "found" if info.found else "missing"
            table.add_row(info.name, rows, _shape(info.shape), info.family, files)
        Console().print(table)
        for info in infos:
            if not info.found:
                typer.echo(f"{info.name}: put {', '.join(info.files)} (or the same with .gz) in {info.location}")
            elif info.note:
                typer.echo(f"{info.name}: {info.note}")


@app.command()
def show(
    name: DataName,
    out: Annotated[Path | None, typer.Option(help="Write your file's schema here, as JSON to be edited.")] = None,
    schema: SchemaFile = None,
    types: Types = None,
    ordinal: Ordinal = None,
    drop: Drop = None,
    missing: Missing = None,
    key: Key = None,
    delimiter: Delimiter = None,
    header: Header = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Load a data set or your own file and say what is in it: rows, type of value, mean; the kind of each column.

    Example: dlgm data show digits

    Example: dlgm data show adult.csv --out schema.json
    """
    reading: dict[str, Any] = {
        "drop": drop,
        "missing": missing,
        "key": key,
        "delimiter": delimiter,
        "header": header,
        "encoding": encoding,
    }
    if is_file(name):
        if out is not None:
            writable("--out", out, (".json",))
        _show_table(name, load_table(name, schema=schema, types=types, ordinal=ordinal, **reading), out, quiet, as_json)
        return
    refuse_for_named(name, out=out, schema=schema, type=types, ordinal=ordinal, **reading)
    summary = _summary(load_data(name))
    if as_json:
        import json

        typer.echo(json.dumps(summary, indent=1))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        mean = "share of ones" if summary["family"] == "bernoulli" else "mean level"
        table = Table("split", title=f"{name}: {_shape(summary['shape'])} {summary['dtype']}, {summary['family']}")
        for heading in ("rows", mean, "classes"):
            table.add_column(heading, justify="right")
        for split, row in summary["splits"].items():
            table.add_row(split, f"{row['rows']:,}", f"{row['mean']:.4f}", str(row["classes"] or "-"))
        Console().print(table)


def _show_table(name: str, table: "Table", out: Path | None, quiet: bool, as_json: bool) -> None:
    if out is not None:
        from dlgm.data import write_schema

        # Centers and scales are learnt when a model is fitted: here they would only be in the way of editing kinds.
        write_schema(out, table.schema.without_units())
    if as_json:
        from dlgm.files import to_json

        holes = 0 if table.mask is None else int((~table.mask).sum())
        typer.echo(
            to_json(
                {
                    "name": table.name,
                    "rows": len(table),
                    "columns": len(table.schema.columns),
                    "missing_cells": holes,
                    "shape": table.shape,
                    "dtype": str(table.values.dtype),
                    "notes": table.notes,
                    "schema": table.schema.to_dict(),
                }
            )
        )
    elif not quiet:
        print_schema(table)
        if out is not None:
            typer.echo(f"Schema written to {out}. Edit it, then: dlgm fit {name} --schema {out}")


def _summary(dataset: "Dataset") -> dict[str, Any]:
    splits = {"train": dataset.train, "valid": dataset.valid, "test": dataset.test}
    return {
        "name": dataset.name,
        "shape": list(dataset.shape),
        "family": dataset.family,
        "dtype": str(dataset.train.dtype),
        "splits": {
            split: {
                "rows": len(rows),
                "mean": float(rows.mean()),
                "classes": len(set(dataset.labels[split].tolist())) if dataset.labels else 0,
            }
            for split, rows in splits.items()
        },
    }


def _shape(shape: "tuple[int, ...] | list[int]") -> str:
    return "x".join(str(size) for size in shape)

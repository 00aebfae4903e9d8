"""`dlgm data`: the named data sets, and what users' own files hold."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, DataName, Offline, Quiet, Seed, load_data, users_mistakes, writable
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
    from dlgm.data import Dataset, Fetched, Table

app = typer.Typer(
    help="The named data sets: which there are, where their files are, what is in them; and what is in your own files.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    pass


@app.command("list")
def list_(seed: Seed = 0, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Which data sets there are, and where each was found: DLGM_DATA, the cache, or not yet. Nothing is fetched.

    Example: dlgm data list
    """
    from dlgm.data import list_datasets
    from dlgm.data.files import data_folder

    with users_mistakes():
        data_folder()  # a DLGM_DATA that names none is a mistake, and not the same as sets that are not there
    infos = list_datasets()
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(info) for info in infos], indent=1))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        from dlgm.data.sources import size_in_words

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in ("name", "train/valid/test", "shape", "where", "size", "terms"):
            table.add_column(heading, no_wrap=True)
        for info in infos:
            rows = "/".join(f"{count:,}" for count in info.rows.values())
            size = size_in_words(info.size) if info.size else "-"
            table.add_row(info.name, rows, _shape(info.shape), info.where or "not yet", size, info.terms)
        Console().print(table)
        for info in infos:
            if info.note:
                typer.echo(f"{info.name}: {info.note}")
        if not all(info.found for info in infos):
            from dlgm.data.fetching import forbidden

            typer.echo(
                "What is not here yet would be fetched, but DLGM_OFFLINE forbids it."
                if forbidden()
                else "What is not here yet is fetched when first used, or with `dlgm data fetch NAME`."
            )


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="A name from `dlgm data list`.")],
    files: Annotated[bool, typer.Option("--files", help="Print the files, one a line, not the folder.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Print the folder where a data set's files were found. Nothing is fetched: exit code 2 if they are not here.

    Example: dlgm data path mnist
    """
    from dlgm.data import find_dataset

    with users_mistakes():
        where, folder, paths = find_dataset(name)
    if as_json:
        import json

        described = {"name": name, "where": where, "folder": folder and str(folder), "files": [str(p) for p in paths]}
        typer.echo(json.dumps(described, indent=1))
    elif folder is None:
        raise UsageError(f"{name} is embedded: it has no files.")
    elif not quiet:
        for found in paths if files else [folder]:
            typer.echo(str(found))


@app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names from `dlgm data list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All data sets.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Fetch again what is here and whole.")] = False,
    offline: Offline = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Download the published files into the cache and compare them with their checksums; mend what is damaged there.

    The cache is the folder that DLGM_CACHE names, or the system's usual place. Terms of use: `dlgm data list`.

    Example: dlgm data fetch mnist frey-faces
    """
    from dlgm.data import fetch_datasets, list_datasets

    if everything == bool(names):
        raise UsageError("Expected names of data sets, or --all: see `dlgm data list`.")
    results = []
    with users_mistakes():
        wanted = names or [info.name for info in list_datasets()]
        for result in fetch_datasets(wanted, force=force, offline=offline, quiet=quiet):
            results.append(result)
            if result.status == "failed":
                typer.echo(f"dlgm: {result.message}", err=True)
            elif not (quiet or as_json):
                typer.echo(f"{result.name}: {_outcome(result)}")
    if as_json:
        import json

        typer.echo(
            json.dumps(
                [
                    {
                        "name": result.name,
                        "status": result.status,
                        "where": result.located.where if result.located else None,
                        "files": [str(p) for p in result.located.paths] if result.located else [],
                        "message": result.message,
                    }
                    for result in results
                ],
                indent=1,
            )
        )
    if any(result.status == "failed" for result in results):
        raise typer.Exit(2)


def _outcome(result: "Fetched") -> str:
    if result.located is None or result.located.folder is None:
        return "embedded"
    words = {
        "found": f"found in {result.located.folder}, where DLGM_DATA points; not checked",
        "whole": f"whole, in {result.located.folder}",
        "fetched": f"fetched to {result.located.folder}",
    }[result.status]
    if result.status == "fetched" and result.located.where == "DLGM_DATA":
        return f"fetched to the cache; but {result.located.folder}, where DLGM_DATA points, comes first"
    return words


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
    offline: Offline = False,
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
    summary = _summary(load_data(name, offline=offline, quiet=quiet))
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

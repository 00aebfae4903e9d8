"""`dlgm data`: the named data sets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.options import AsJson, Quiet, Seed, load_data

if TYPE_CHECKING:
    from dlgm.data import Dataset

app = typer.Typer(help="The named data sets: which there are, and what is in them.", no_args_is_help=True)


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
    name: Annotated[str, typer.Argument(help="A name from `dlgm data list`.")],
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Load a data set and say what is in it: rows, type of value, mean.

    Example: dlgm data show digits
    """
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

"""`dlgm reproduce`: rerun the paper's evidence, one study or all of them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dlgm.cli import reproduce_figures, reproduce_samples, reproduce_table1, reproduce_variance
from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, Quiet, Seed, load_data
from dlgm.cli.reproduce_figures import Budget, Page, check_options

app = typer.Typer(help="Rerun the paper's tables and figures.", no_args_is_help=True)

# In the order in which `all` runs them: what takes seconds first, what takes hours last.
STUDIES: dict[str, Callable[..., None]] = {
    "variance": reproduce_variance.variance,
    "posterior": reproduce_figures.posterior,
    "samples": reproduce_samples.samples,
    "embedding": reproduce_figures.embedding,
    "imputation": reproduce_figures.imputation,
    "bayes": reproduce_figures.bayes,
    "table1": reproduce_table1.table1,
}


@app.callback()
def _group() -> None:
    pass


for study in STUDIES.values():
    app.command()(study)


@app.command("all")
def every(
    out: Annotated[Path, typer.Option(help="Folder with a folder for each study.")] = Path("out"),
    data: Annotated[
        str | None, typer.Option(help="One data set with a name and classes for all studies. Default: each one's own.")
    ] = None,
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Every study, one after the other. One that cannot run, for want of data, is named, and the next one begins.

    What is done is not done again, so that the same command goes on with what was stopped or is missing. Afterwards
    the exit code is 2 if a study could not run.

    Example: dlgm reproduce all --budget full --page docs/results.md

    Example: dlgm reproduce all --data digits --budget quick --out out/quick
    """
    check_options(budget, out, page)
    if data is not None:
        load_data(data, quiet=quiet)  # a name that is wrong, or a set that is missing, would stop every study
    silent, done, failed = quiet or as_json, {}, {}
    for name, run in STUDIES.items():
        given: dict[str, Any] = {}
        if data is not None and name != "variance":
            given["data"] = [data] if name in ("samples", "imputation") else data
        began = time.monotonic()
        if not silent:
            typer.echo(f"== {name}")
        try:
            run(out=out / name, budget=budget, page=page, seed=seed, quiet=silent, **given)
        except UsageError as error:
            failed[name] = str(error)
            if not quiet:
                typer.echo(f"dlgm: {name} could not run: {error}", err=True)
        else:
            done[name] = round(time.monotonic() - began, 1)
    if as_json:
        from dlgm.files import to_json

        typer.echo(to_json({"seconds": done, "could not run": failed}))
    if failed:
        raise UsageError(f"{len(failed)} of {len(STUDIES)} studies could not run: {', '.join(failed)}.")

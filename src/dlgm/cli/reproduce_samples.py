"""`dlgm reproduce samples`: data, means and samples side by side."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dlgm.cli.options import AsJson, Offline, Quiet, Seed, load_data
from dlgm.cli.reproduce_figures import (
    Budget,
    Page,
    check_options,
    load_those_there,
    put,
    stoppable,
    watcher_for,
    write_results,
)


def samples(
    out: Annotated[Path, typer.Option(help="Folder for models, samples.json and a picture for each data set.")] = Path(
        "out/samples"
    ),
    data: Annotated[list[str] | None, typer.Option(help="A data set with a name; may be given again.")] = None,
    budget: Budget = "full",
    page: Page = None,
    offline: Offline = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Training rows, pixel probabilities and samples beside each other (paper, figs. 3a and 4).

    Of binarised MNIST, Frey faces, patches of CIFAR-10 and small NORB, unless others are named. A set that is not there
    and cannot be fetched is left out, and named.

    Example: dlgm reproduce samples --data digits --budget quick
    """
    check_options(budget, out, page)
    began = time.monotonic()

    from dlgm.reproduce.samples import SETS, markdown, run

    loaded, missing = load_those_there(data or SETS, partial(load_data, offline=offline, quiet=quiet), quiet)
    results: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    with stoppable("samples"):
        for name, rows in loaded.items():
            watchers = watcher_for(quiet or as_json)(name)
            results[name], figures[name] = run(rows, out, budget=budget, seed=seed, watchers=watchers)
    write_results(out, "samples", {"data": results, "missing": missing}, figures, as_json)
    settings = {name: found["settings"] for name, found in results.items()}
    put(page, "samples", markdown(results, list(missing)), began, {"budget": budget, **settings}, figures)
    if not (quiet or as_json):
        for name, found in results.items():
            of_samples, of_rows = (found[f"distance of {of}"]["mean"] for of in ("samples", "test rows"))
            typer.echo(
                f"{name}: validation bound {found['valid_bound']:.2f}; distance to the nearest training row "
                f"{of_samples:.4f} for samples, {of_rows:.4f} for test rows."
            )
        typer.echo(f"Written to {out}: samples.json, {', '.join(f'{name}.png' for name in figures)}.")

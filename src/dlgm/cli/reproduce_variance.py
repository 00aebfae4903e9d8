"""`dlgm reproduce variance`: appendix D, measured."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.options import AsJson, Quiet, Seed
from dlgm.cli.reproduce_figures import Budget, Page, check_options, put, write_results

if TYPE_CHECKING:
    from rich.table import Table


def variance(
    out: Annotated[Path, typer.Option(help="Folder for variance.json and the PNG plots; made if absent.")] = Path(
        "out/variance"
    ),
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """How much each gradient estimator varies (paper, app. D), beside the formulas.

    Example: dlgm reproduce variance --budget quick --out out/variance
    """
    check_options(budget, out, page)
    began = time.monotonic()

    from rich.console import Console
    from rich.progress import Progress

    from dlgm.reproduce import variance as study
    from dlgm.reproduce.variance_page import markdown, ratio_and_growth
    from dlgm.reproduce.variance_plots import draw_all

    settings = study.QUICK if budget == "quick" else study.Settings()
    with Progress(console=Console(stderr=True), disable=quiet or as_json, transient=True) as progress:
        task = progress.add_task("variance study", total=study.num_steps(settings))

        def advance(what: str) -> None:
            progress.update(task, advance=1, description=f"variance study: {what}")

        results = study.run(settings, seed, advance)

    figures = draw_all(results)
    write_results(out, "variance", results, figures, as_json)
    put(page, "variance", markdown(results), began, {"budget": budget, "seed": seed}, figures)
    if not (quiet or as_json):
        console = Console()
        for table in _summary(results):
            console.print(table)
        console.print(ratio_and_growth(results))
        console.print(f"Written to {out}: variance.json, formulas.png, ratio.png, growth.png, comparison.png")


def _summary(results: dict[str, Any]) -> "list[Table]":
    from rich.table import Table

    from dlgm.reproduce import variance_page as page

    against = Table(*page.AGAINST, title=page.against_title(results))
    compared = Table(*page.COMPARED, title=page.COMPARED_TITLE)
    for table, lines in ((against, page.against_formulas(results)), (compared, page.compared(results))):
        for column in table.columns[1:]:
            column.justify = "right"
        for line in lines:
            table.add_row(*line)
    return [against, compared]

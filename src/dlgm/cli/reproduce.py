"""`dlgm reproduce`: rerun the paper's evidence."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli import reproduce_figures, reproduce_table1
from dlgm.cli.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Rerun the paper's tables and figures.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


app.command()(reproduce_figures.posterior)
app.command()(reproduce_figures.embedding)
app.command()(reproduce_figures.imputation)
app.command()(reproduce_table1.table1)
app.command()(reproduce_figures.bayes)


@app.command()
def variance(
    out: Annotated[Path, typer.Option(help="Folder for variance.json and the PNG plots; made if absent.")] = Path(
        "out/variance"
    ),
    seed: Annotated[int, typer.Option(help="Seed of all draws.", min=0, max=2**32 - 1)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples and settings: seconds.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing but errors (and, with --json, the JSON).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON in place of the table.")] = False,
) -> None:
    """How much each gradient estimator varies (paper, app. D), beside the formulas.

    Example: dlgm reproduce variance --quick --out out/variance
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out: expected a folder to write to; {out} is a file.")
    out.mkdir(parents=True, exist_ok=True)

    import json

    from rich.console import Console
    from rich.progress import Progress

    from dlgm.files import write_atomically
    from dlgm.plots import as_png
    from dlgm.reproduce import variance as study
    from dlgm.reproduce.variance_plots import draw_all

    settings = study.QUICK if quick else study.Settings()
    with Progress(console=Console(stderr=True), disable=quiet or as_json, transient=True) as progress:
        task = progress.add_task("variance study", total=study.num_steps(settings))

        def advance(what: str) -> None:
            progress.update(task, advance=1, description=f"variance study: {what}")

        results = study.run(settings, seed, advance)

    text = json.dumps(results, indent=1) + "\n"
    write_atomically(out / "variance.json", text.encode())
    for name, figure in draw_all(results).items():
        write_atomically(out / f"{name}.png", as_png(figure))

    if as_json:
        typer.echo(text, nl=False)
    elif not quiet:
        console = Console()
        for table in _summary(results):
            console.print(table)
        smallest, exponents = results["ratio"]["smallest"], results["growth"]["exponents"]
        console.print(
            f"REINFORCE / Bonnet: the smallest ratio over all settings is {smallest['formula']:.3f} by the formula "
            f"(lower bound 5/2), measured {smallest['measured']:.3f} with a standard error of "
            f"{smallest['standard_error']:.3f}. "
            f"Growth with K: REINFORCE K^{exponents['REINFORCE']:z.2f}, Bonnet K^{exponents['Bonnet']:z.2f}."
        )
        console.print(f"Written to {out}: variance.json, formulas.png, ratio.png, growth.png, comparison.png")


def _summary(results: dict[str, Any]) -> "list[Table]":
    from rich.table import Table

    from dlgm.reproduce.variance import FORMULAS, ONE

    against = Table(title=f"f = c x^2 / 2: {len(results['quadratic'])} settings of mu, sigma, c")
    for heading in ("gradient", "largest deviation from the formula", "in standard errors"):
        against.add_column(heading, justify="left" if heading == "gradient" else "right")
    for name in FORMULAS:
        cells = [row["variances"][name] for row in results["quadratic"]]
        gaps = [abs(cell["measured"] - cell["formula"]) for cell in cells]
        if all(cell["formula"] == 0 for cell in cells):
            against.add_row(name, f"{max(gaps):.1e} (formula: 0)", "-")
            continue
        relative = max(gap / cell["formula"] for gap, cell in zip(gaps, cells, strict=True))
        errors = max(gap / cell["standard_error"] for gap, cell in zip(gaps, cells, strict=True))
        against.add_row(name, f"{100 * relative:.2f} %", f"{errors:.1f}")

    compared = Table(title="f = cos 2x + x under N(0.5, 0.8^2): variance of one sample's gradient")
    for heading in ("estimator", "in mu", "in sigma"):
        compared.add_column(heading, justify="left" if heading == "estimator" else "right")
    for row in results["comparison"]:
        if row["law"] == ONE:
            cells = [row[p] and f"{row[p]['variance']:.3f}" for p in ("mu", "sigma")]
            compared.add_row(row["estimator"], *(cell or "diverges" for cell in cells))
    return [against, compared]

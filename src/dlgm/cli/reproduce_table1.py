"""`dlgm reproduce table1`: the paper's table of likelihoods, row by row."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, Quiet, Seed, load_data, settings_mistakes
from dlgm.cli.reproduce_figures import Budget, Page, check_options, stoppable, watcher_for


def table1(
    row: Annotated[
        list[str] | None, typer.Option(help="A row by its name, such as nlgbn; may be given again. Default: all.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for what each row found, its model and checkpoints, and table1.json.")
    ] = Path("out/table1"),
    data: Annotated[str, typer.Option(help="A data set with a name, of binary rows.")] = "binarized-mnist",
    budget: Budget = "full",
    score_rows: Annotated[
        int | None, typer.Option(help="Score so many test rows, evenly spaced. Default: all, or 500 if quick.", min=2)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Importance samples a row. Default: 5,000 (of the DBN 1,000), or 100 if quick.", min=2),
    ] = None,
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The likelihoods of the paper's table 1, beside the paper's: the model's rows and those that it is compared with.

    A row that is done is not run again with the same settings, and one that was stopped goes on where it was, in
    training as in scoring. Models with latents that are scored otherwise, by --score-rows or --samples, are not trained
    anew if their model is in the folder; others are.

    Example: dlgm reproduce table1 --row factor-analysis --row nlgbn --page docs/results.md

    Example: dlgm reproduce table1 --data digits --budget quick --row mixture-10
    """
    check_options(budget, out, page)

    from dlgm.names import closest
    from dlgm.reproduce.table1_rows import ROWS

    for name in row or ():
        if name not in ROWS:
            raise UsageError(f"--row: expected one of {', '.join(ROWS)}; got {name!r}.{closest(name, ROWS)}")
    loaded = load_data(data, quiet=quiet)
    if loaded.family != "bernoulli":
        raise UsageError(f"--data: expected binary rows; those of {data} are not.")

    from dlgm.files import to_json, write_atomically
    from dlgm.reproduce import table1 as study
    from dlgm.reproduce.page import put_section
    from dlgm.reproduce.table1_page import markdown

    scored = study.Scoring(score_rows, samples)
    silent, results = quiet or as_json, {}
    with _Scoring(silent) as scoring:
        for wanted in dict.fromkeys(row or ROWS):
            with _named(wanted), stoppable(wanted):
                found = study.run_row(
                    ROWS[wanted],
                    loaded,
                    out,
                    budget=budget,
                    seed=seed,
                    scoring=scored,
                    watch=watcher_for(silent),
                    progress=scoring.progress,
                )
            # After each row: what is done by then is on the page, whatever comes of the next.
            results = study.results(loaded, out, budget=budget, seed=seed, scoring=scored)
            write_atomically(out / "table1.json", (to_json(results) + "\n").encode())
            if page is not None:
                with settings_mistakes():
                    put_section(page, "table1", markdown(results))
            if not silent:
                typer.echo(_sentence(ROWS[wanted].title, found, study.paper_for(ROWS[wanted], loaded)))
    if as_json:
        typer.echo(to_json(results))
    elif not quiet:
        typer.echo(f"Written to {out}: table1.json, and a file of JSON and a model for each row.")


@contextmanager
def _named(row: str) -> Iterator[None]:
    """Inside, a file of results that cannot be used is the user's to see to."""
    from dlgm.reproduce.table1 import ResultError

    try:
        yield
    except ResultError as error:
        raise UsageError(f"{row}: {error}") from error


def _sentence(title: str, found: dict[str, Any], paper: float | None) -> str:
    error = f"standard error {found['standard_error']:.2f}"
    if found["monte_carlo_error"] is not None:
        error += f", Monte Carlo {found['monte_carlo_error']:.3f}"
    beside = "" if paper is None else f"; the paper has {paper:.2f}"
    return f"{title}: -ln p(v) = {found['nats']:.2f} nats a row ({error}){beside}."


class _Scoring:
    """A bar for the rows scored, on a terminal; nothing elsewhere. It is there only while something is scored."""

    def __init__(self, silent: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._bar = Progress(console=console, disable=silent or not console.is_terminal, transient=True)
        self._task: Any = None

    def __enter__(self) -> "_Scoring":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def progress(self, what: str, done: int, total: int) -> None:
        if self._task is None:
            self._task = self._bar.add_task(f"{what}: scoring", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)
        if done >= total:
            self._bar.remove_task(self._task)
            self._bar.stop()
            self._task = None

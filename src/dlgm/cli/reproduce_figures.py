"""`dlgm reproduce posterior`, `embedding`, `imputation` and `bayes`: the paper's figures, with numbers beside them."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, Quiet, Seed, load_data, new_folder, settings_mistakes, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dlgm.data import Dataset
    from dlgm.learning import AbstractWatcher

PAGE_DPI = 100.0  # of pictures on a page: enough for a screen, and files stay small

Budget = Annotated[str, typer.Option(help="quick (minutes: a smoke test) or full (what docs/results.md reports).")]
Page = Annotated[
    Path | None, typer.Option(help="A page of Markdown whose section of this study is written anew: docs/results.md.")
]


def posterior(
    out: Annotated[Path, typer.Option(help="Folder for models, posterior.json, posterior.png and rows.png.")] = Path(
        "out/posterior"
    ),
    data: Annotated[str, typer.Option(help="A data set with a name.")] = "binarized-mnist",
    row: Annotated[int, typer.Option(help="The test row to look at.", min=0)] = 0,
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """True and approximate posteriors of a row under models of two latents (paper, fig. 2a, b): diagonal and rank-one.

    Example: dlgm reproduce posterior --data digits --budget quick
    """
    check_options(budget, out, page)
    began = time.monotonic()
    loaded = load_data(data, quiet=quiet)
    if row >= len(loaded.test):
        raise UsageError(f"--row: expected a row below {len(loaded.test):,}; got {row:,}.")

    from dlgm.reproduce.posterior import markdown, run

    with stoppable("posterior"):
        results, figures = run(loaded, out, budget=budget, seed=seed, row=row, watcher=watcher_for(quiet or as_json))
    write_results(out, "posterior", results, figures, as_json)
    put(page, "posterior", markdown(results), began, {"budget": budget, **results["settings"]}, figures)
    if not (quiet or as_json):
        for name, found in results["models"].items():
            typer.echo(
                f"{name}: KL(q || p) is {found['mean divergence']:.3f} nats "
                f"(standard error {found['standard error']:.3f}) over {found['rows']} test rows, "
                f"{found['divergence of the row']:.3f} for row {row}."
            )
        typer.echo(f"Written to {out}: posterior.json, posterior.png, rows.png.")


def embedding(
    out: Annotated[Path, typer.Option(help="Folder for the model, embedding.json and embedding.png.")] = Path(
        "out/embedding"
    ),
    data: Annotated[str, typer.Option(help="A data set with a name and classes.")] = "mnist",
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The data in the plane of two latents, coloured by class (paper, fig. 3b). Grey images are made black and white.

    Example: dlgm reproduce embedding --data digits --budget quick
    """
    check_options(budget, out, page)
    began = time.monotonic()
    loaded = load_data(data, quiet=quiet)
    if not loaded.labels:
        raise UsageError(f"--data: {data} has no classes to colour by.")

    from dlgm.data.dataset import binarised
    from dlgm.reproduce.embedding import markdown, run

    with stoppable("embedding"):
        results, figure = run(binarised(loaded), out, budget=budget, seed=seed, watcher=watcher_for(quiet or as_json))
    figures = {"embedding": figure}
    write_results(out, "embedding", results, figures, as_json)
    put(page, "embedding", markdown(results), began, {"budget": budget, **results["settings"]}, figures)
    if not (quiet or as_json):
        share = results["neighbours of the same class"]
        typer.echo(f"{results['rows']:,} test rows; {share:.1%} of their ten nearest neighbours have their class.")
        typer.echo(f"Written to {out}: embedding.json, embedding.png.")


def imputation(
    out: Annotated[Path, typer.Option(help="Folder for models, imputation.json and pictures.")] = Path(
        "out/imputation"
    ),
    data: Annotated[list[str] | None, typer.Option(help="A data set with a name; may be given again.")] = None,
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Images with 60 %, 80 % or the middle of their pixels gone, filled in (paper, fig. 5), and how well that went.

    Of MNIST itself, which is grey, in black and white: its bits are easier to tell than those of the binarised one,
    which were drawn at random.

    Example: dlgm reproduce imputation --data digits --budget quick
    """
    check_options(budget, out, page)
    began = time.monotonic()

    from dlgm.reproduce import imputation as study

    results: dict[str, Any] = {}
    drawn: dict[str, dict[str, Any]] = {}
    names = data or ["binarized-mnist", "mnist", "mnist-ink", "frey-faces", "svhn"]
    load = partial(study.prepared, load=partial(load_data, quiet=quiet))
    for name, loaded in load_those_there(names, load, quiet)[0].items():
        watchers = watcher_for(quiet or as_json)(name)
        with stoppable("imputation"):
            model, summary = study.train(loaded, out, budget=budget, seed=seed, watchers=watchers)
        results[name] = summary
        drawn[name] = {f"{name}-{kind.strip('%')}": figure for kind, figure in study.pictures(model, loaded, seed=seed)}
        if loaded.family == "bernoulli":
            results[name]["scores"] = study.scores(model, loaded, budget=budget, seed=seed)
    figures = {picture: figure for own in drawn.values() for picture, figure in own.items()}
    write_results(out, "imputation", results, figures, as_json)
    for name, found in results.items():
        settings = {"budget": budget, **found["settings"]}
        put(page, f"imputation --data {name}", study.markdown(name, found), began, settings, drawn[name])
    if not (quiet or as_json):
        for name, found in results.items():
            for record in found.get("scores", []):
                given = record.get("log p(missing | observed)")
                typer.echo(
                    f"{name}, {record['holes']} gone, {record['method']}: F1 {record['F1 of the best']:.3f}, "
                    f"wrong bits {record['wrong bits of the best']:.2%}"
                    + ("" if given is None else f", log p(missing | observed) {given:.2f}")
                )
        typer.echo(f"Written to {out}: imputation.json, {', '.join(f'{name}.png' for name in figures)}.")


def bayes(
    out: Annotated[Path, typer.Option(help="Folder for models, bayes.json and bayes.png.")] = Path("out/bayes"),
    data: Annotated[str, typer.Option(help="A data set with a name, of which few rows are used.")] = "binarized-mnist",
    budget: Budget = "full",
    page: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """A posterior over the parameters beside a point estimate, where rows are scarce (paper, second appendix).

    Example: dlgm reproduce bayes --data digits --budget quick
    """
    check_options(budget, out, page)
    began = time.monotonic()
    loaded = load_data(data, quiet=quiet)

    from dlgm.data.dataset import binarised
    from dlgm.reproduce.bayes import markdown, run

    with stoppable("bayes"):
        results, figure = run(binarised(loaded), out, budget=budget, seed=seed, watcher=watcher_for(quiet or as_json))
    figures = {"bayes": figure}
    write_results(out, "bayes", results, figures, as_json)
    put(page, "bayes", markdown(results), began, {"budget": budget, **results["settings"]}, figures)
    if not (quiet or as_json):
        for name, found in results["models"].items():
            typer.echo(
                f"{name}: log p(v) of test rows {found['log_p']:.2f} (standard error {found['standard error']:.2f}), "
                f"{found['gain']:+.2f} over the point estimate at its best epoch."
            )
        typer.echo(f"Written to {out}: bayes.json, bayes.png.")


def check_options(budget: str, out: Path, page: Path | None) -> None:
    """Refuse what every study refuses, and make its folder."""
    from dlgm.names import require_one_of

    try:
        require_one_of("--budget", budget, ("quick", "full"))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if page is not None:
        writable("--page", page, (".md",))
    new_folder("--out", out)
    out.mkdir(parents=True, exist_ok=True)


def load_those_there(
    names: Iterable[str], load: "Callable[[str], Dataset]", quiet: bool
) -> "tuple[dict[str, Dataset], dict[str, str]]":
    """The data sets that can be had, and of the others what is missing, which is said; an error if there are none."""
    from dlgm.data.errors import DataFetchError, DataNotFoundError

    loaded, missing = {}, {}
    for name in dict.fromkeys(names):
        try:
            loaded[name] = load(name)
        except UsageError as error:
            if not isinstance(error.__cause__, DataNotFoundError | DataFetchError):
                raise
            missing[name] = str(error)
            if not quiet:
                print(f"dlgm: {name} is left out: {error}", file=sys.stderr)
    if not loaded:
        raise UsageError(f"none of the data sets is there: {', '.join(missing)}. {next(iter(missing.values()))}")
    return loaded, missing


@contextmanager
def stoppable(study: str) -> Iterator[None]:
    """Inside, training that is stopped by a signal ends the command, as it should, and not as a bug would."""
    from dlgm.learning import CheckpointError, Interrupted, NonFiniteError

    try:
        yield
    except Interrupted as stop:
        print(f"dlgm: {study}: {stop} Go on with the same command.", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    except (CheckpointError, NonFiniteError) as error:
        raise UsageError(f"{study}: {error}") from error


def watcher_for(silent: bool) -> "Callable[[str], Sequence[AbstractWatcher]]":
    """How training is watched, by what is trained."""
    from dlgm.learning import TerminalProgress

    return lambda what: () if silent else (TerminalProgress(what),)


def write_results(out: Path, name: str, results: dict[str, Any], figures: dict[str, Any], as_json: bool) -> None:
    """A study's numbers and pictures in its folder, and the numbers on the terminal if they are asked for."""
    from dlgm.files import to_json, write_atomically
    from dlgm.plots import as_png

    text = to_json(results) + "\n"
    write_atomically(out / f"{name}.json", text.encode())
    for picture, figure in figures.items():
        write_atomically(out / f"{picture}.png", as_png(figure))
    if as_json:
        typer.echo(text, nl=False)


def put(
    page: Path | None,
    name: str,
    text: str,
    began: float,
    settings: dict[str, Any],
    figures: "Mapping[str, Figure] | None" = None,
) -> None:
    """A study's section of the page, if there is one, with its pictures, and how it came about."""
    from dlgm.plots import as_png
    from dlgm.reproduce.page import provenance, put_pictures, put_section

    if page is None:
        return
    with settings_mistakes():
        pictures = {picture: as_png(figure, dpi=PAGE_DPI) for picture, figure in (figures or {}).items()}
        shown = put_pictures(page, name.split()[0], pictures)
        parts = [text, shown, provenance(time.monotonic() - began, settings)]
        put_section(page, name, "\n\n".join(part for part in parts if part))

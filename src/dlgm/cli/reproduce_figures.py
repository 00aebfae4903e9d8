"""`dlgm reproduce posterior`, `embedding`, `imputation` and `bayes`: the paper's figures, with numbers beside them."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, Quiet, Seed, load_data, new_folder, settings_mistakes, writable

if TYPE_CHECKING:
    from dlgm.learning import AbstractWatcher

Budget = Annotated[str, typer.Option(help="quick (minutes: a smoke test) or full (what docs/results.md reports).")]
Page = Annotated[
    Path | None, typer.Option(help="A page of Markdown whose section of this study is written anew: docs/results.md.")
]


def posterior(
    out: Annotated[Path, typer.Option(help="Folder for models, posterior.json and posterior.png.")] = Path(
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

    results, figure = run(loaded, out, budget=budget, seed=seed, row=row, watcher=watcher_for(quiet or as_json))
    _write(out, "posterior", results, {"posterior": figure}, as_json)
    _put(page, "posterior", markdown(results), began, {"budget": budget, **results["settings"]})
    if not (quiet or as_json):
        for name, found in results["models"].items():
            typer.echo(
                f"{name}: KL(q || p) is {found['mean divergence']:.3f} nats "
                f"(standard error {found['standard error']:.3f}) over {found['rows']} test rows, "
                f"{found['divergence of the row']:.3f} for row {row}."
            )
        typer.echo(f"Written to {out}: posterior.json, posterior.png.")


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

    from dlgm.reproduce.embedding import markdown, run
    from dlgm.reproduce.training import binarised

    results, figure = run(binarised(loaded), out, budget=budget, seed=seed, watcher=watcher_for(quiet or as_json))
    _write(out, "embedding", results, {"embedding": figure}, as_json)
    _put(page, "embedding", markdown(results), began, {"budget": budget, **results["settings"]})
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
    figures: dict[str, Any] = {}
    for name in data or ["binarized-mnist", "mnist", "mnist-ink", "frey-faces", "svhn"]:
        loaded = study.prepared(name, partial(load_data, quiet=quiet))
        watchers = watcher_for(quiet or as_json)(name)
        model, summary = study.train(loaded, out, budget=budget, seed=seed, watchers=watchers)
        results[name] = summary
        figures |= {f"{name}-{kind.strip('%')}": figure for kind, figure in study.pictures(model, loaded, seed=seed)}
        if loaded.family == "bernoulli":
            results[name]["scores"] = study.scores(model, loaded, budget=budget, seed=seed)
    _write(out, "imputation", results, figures, as_json)
    for name, found in results.items():
        settings = {"budget": budget, **found["settings"]}
        _put(page, f"imputation --data {name}", study.markdown(name, found), began, settings)
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

    from dlgm.reproduce.bayes import markdown, run
    from dlgm.reproduce.training import binarised

    results, figure = run(binarised(loaded), out, budget=budget, seed=seed, watcher=watcher_for(quiet or as_json))
    _write(out, "bayes", results, {"bayes": figure}, as_json)
    _put(page, "bayes", markdown(results), began, {"budget": budget, **results["settings"]})
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


def watcher_for(silent: bool) -> "Callable[[str], Sequence[AbstractWatcher]]":
    """How training is watched, by what is trained."""
    from dlgm.learning import TerminalProgress

    return lambda what: () if silent else (TerminalProgress(what),)


def _write(out: Path, name: str, results: dict[str, Any], figures: dict[str, Any], as_json: bool) -> None:
    from dlgm.files import to_json, write_atomically
    from dlgm.plots import as_png

    text = to_json(results) + "\n"
    write_atomically(out / f"{name}.json", text.encode())
    for picture, figure in figures.items():
        write_atomically(out / f"{picture}.png", as_png(figure))
    if as_json:
        typer.echo(text, nl=False)


def _put(page: Path | None, name: str, text: str, began: float, settings: dict[str, Any]) -> None:
    from dlgm.reproduce.page import provenance, put_section

    if page is not None:
        with settings_mistakes():
            put_section(page, name, f"{text}\n\n{provenance(time.monotonic() - began, settings)}")

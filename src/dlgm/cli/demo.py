"""`dlgm demo`: the whole story on embedded data."""

from pathlib import Path
from typing import Annotated

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, Quiet, Seed


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html and digits.dlgm; made if absent.")] = Path(
        "out/demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Train for a few epochs only, to see that all works.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on the embedded digits, score, draw, fill in holes, make a map, and write report.html. About a minute.

    Example: dlgm demo --out out/demo
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out: expected a folder to write to; {out} is a file.")
    out.mkdir(parents=True, exist_ok=True)

    import time

    from dlgm import demo as story
    from dlgm.artifact import SavedModel, save_model
    from dlgm.files import to_json, write_atomically
    from dlgm.learning import TerminalProgress

    silent = quiet or as_json
    found = story.run(
        seed,
        watcher=lambda what: [] if silent else [TerminalProgress(what)],
        clock=time.perf_counter,
        epochs=20 if quick else None,
    )
    summary = {**found.fitted.summary(), "seed": seed, "diagnostics": found.diagnostics.to_dict()}
    training = {"config": found.settings.to_dict(), "summary": summary}
    save_model(out / "digits.dlgm", SavedModel(found.fitted.model, found.config, found.data.described(), training))
    write_atomically(out / "report.html", story.write_report(found, seed).encode())
    names = {name: {"mean_log_p": mean, "standard_error": error} for name, mean, error in found.compared}
    if as_json:
        typer.echo(to_json({"test": names, "seconds": round(found.seconds, 1), "seed": seed}))
    elif not quiet:
        typer.echo(f"Test rows of the digits, {story.NUM_SAMPLES:,} importance samples a row:")
        for name, mean, error in found.compared:
            typer.echo(f"  {name:<40} -ln p(v) = {-mean:6.2f} nats, standard error {error:.2f}")
        typer.echo(f"{found.seconds:.0f} s. Open {out / 'report.html'}.")

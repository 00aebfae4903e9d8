"""`dlgm info`: what is in a model file."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from dlgm.cli.options import AsJson, Quiet, Seed, schema_of, users_mistakes


def info(
    model: Annotated[Path, typer.Argument(help="A model file that `dlgm fit` wrote, or the name of a shipped model.")],
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """What a model file holds: the model's shape, the data it saw, how it was trained and how that went.

    Example: dlgm info digits.dlgm
    """
    from dlgm.artifact import check_model, describe_model

    with users_mistakes():
        saved = describe_model(model)
        check_model(model)
    config, parameters = saved.config.to_dict(), saved.parameters
    if as_json:
        from dlgm.files import to_json

        everything = {"config": config, "parameters": parameters, "data": saved.data, "training": saved.training}
        typer.echo(to_json(everything))
        return
    if quiet:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=str(model), show_header=False)
    name, shape = saved.data.get("name", "unknown"), saved.data.get("shape", [])
    table.add_row("data", f"{name}, rows as {'x'.join(map(str, shape))}" if shape else name)
    schema = schema_of(saved)
    if schema is None:
        table.add_row("observations", ", ".join(f"{key} {value}" for key, value in config["observation"].items()))
    else:
        kinds = Counter(f"{column.kind} ({column.family})" for column in schema.columns)
        table.add_row("columns", ", ".join(f"{number} {kind}" for kind, number in kinds.items()))
    table.add_row("latents, by layer", ", ".join(map(str, config["latent"])))
    table.add_row("hidden layers", str(config["hidden"]))
    table.add_row("posterior", f"{config['covariance']}, {config['structure']}")
    table.add_row("parameters", ", ".join(f"{kind} {number:,}" for kind, number in parameters.items()))
    summary = saved.training.get("summary")
    if summary:
        seed = saved.training.get("config", summary).get("seed")
        table.add_row("trained", f"{summary['epochs']} epochs, {summary['seconds']:,.0f} s, seed {seed}")
        table.add_row("best epoch", str(summary["best_epoch"]))
        if summary["valid_bound"] is not None:
            table.add_row("validation bound", f"{summary['valid_bound']:.2f} nats a row")
    if likelihood := saved.training.get("likelihood"):
        of = f"{likelihood['rows']} {likelihood['split']} rows of {likelihood['data']}, S = {likelihood['samples']:,}"
        table.add_row("log p(v)", f"{likelihood['log_p']:.2f} ({of})")
    if summary and "diagnostics" in summary:  # which the studies' models do not have
        found = summary["diagnostics"]
        used = ", ".join(f"{a} of {k}" for a, k in zip(found["active_units"], found["latent"], strict=True))
        table.add_row("latents in use", used)
        table.add_row("log p(v), validation", f"{found['log_p']:.2f}, {found['gap']:.2f} above the bound")
        for warning in found["warnings"]:
            table.add_row("warning", warning)
    Console().print(table)

"""The `dlgm` command and its groups."""

import sys
import traceback
import warnings
from typing import Annotated, NoReturn

import typer

from dlgm.cli import data, demo, fit, info, reproduce, sample, score
from dlgm.cli.errors import UsageError
from dlgm.cli.processes import leave

app = typer.Typer(
    help="Deep latent Gaussian models: stochastic backpropagation with structured posteriors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(fit.fit)
app.command()(score.score)
app.command()(sample.sample)
app.command()(info.info)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.app, name="reproduce")


def _version(wanted: bool | None) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dlgm {version('dlgm')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = None,
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input is a message and exit code 2, never a traceback."""
    warnings.showwarning = lambda message, *_: print(f"dlgm: {message}", file=sys.stderr)
    try:
        app()
    except (UsageError, OSError) as error:
        print(f"dlgm: {error}", file=sys.stderr)
        leave(2)
    except (MemoryError, RuntimeError) as error:
        # JAX has an error of its own for this, which is imported only where it is needed.
        if not isinstance(error, MemoryError) and "ut of memory" not in str(error):
            _bug()
        print("dlgm: Not enough memory for a model or a batch of this size. Make them smaller.", file=sys.stderr)
        leave(2)
    except Exception:
        _bug()


def _bug() -> NoReturn:
    traceback.print_exc()
    leave(1)

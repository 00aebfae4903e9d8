"""The `dlgm` command and its groups."""

import hashlib
import os
import platform
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dlgm.cli import data, demo, embed, fit, impute, info, reproduce, sample, score
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
app.command()(impute.impute)
app.command()(embed.embed)
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
    _keep_compiled()


def _keep_compiled() -> None:
    """What is compiled for one command serves the next, from the cache folder, unless JAX has been told of another.

    Programs are for one kind of processor, so that each kind has a folder of its own: a home may be shared by machines.
    The folder is the user's alone, for its programs are run.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    from dlgm.data.files import cache_folder

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else [platform.processor()]
    kind = sorted({line for line in lines if line.startswith(("model name", "flags"))} or set(lines))
    folder = cache_folder() / "compiled" / hashlib.blake2b("".join(kind).encode(), digest_size=8).hexdigest()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return
    if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
        return  # what others can write there would be run
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


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

"""The command line. One file a command, each thin: parse, call, print.

Only Typer is imported here; what a command needs is imported when it runs, so that `--help` answers at once.
"""

from dlgm.cli.app import main

__all__ = ["main"]

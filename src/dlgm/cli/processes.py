"""`--distributed`: one run in several processes."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from dlgm.cli.errors import UsageError

_PANEL = "Several processes"
_joined = False  # with others, and not yet parted
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="This is one of several processes, started alike. SLURM, Kubernetes, Open MPI and the like say which.",
        rich_help_panel=_PANEL,
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Where the first process listens, if nothing else says.", rich_help_panel=_PANEL
    ),
]
NumProcesses = Annotated[int | None, typer.Option(min=1, help="How many there are.", rich_help_panel=_PANEL)]
ProcessId = Annotated[int | None, typer.Option(min=0, help="Which one this is, from 0.", rich_help_panel=_PANEL)]


def join(distributed: bool, coordinator: str | None, num_processes: int | None, process_id: int | None) -> bool:
    """Meet the other processes, if there are any; whether this one speaks and writes."""
    if not distributed:
        for name, value in (("coordinator", coordinator), ("num-processes", num_processes), ("process-id", process_id)):
            if value is not None:
                raise UsageError(f"--{name}: only with --distributed.")
        return True
    given = [value is not None for value in (coordinator, num_processes, process_id)]
    if any(given) and not all(given):
        raise UsageError("--distributed: expected --coordinator, --num-processes and --process-id together, or none.")
    if process_id is not None and num_processes is not None and process_id >= num_processes:
        raise UsageError(f"--process-id: expected less than --num-processes, {num_processes}; got {process_id}.")

    import jax

    global _joined
    # The library that CPUs talk through greets on the standard output, which is for results.
    results = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(results, "w", buffering=1)
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"--distributed: {str(error).splitlines()[0]}") from error
    _joined = True
    return jax.process_index() == 0


def part_company() -> None:
    """Where all processes are in step, after training: from here on, each is by itself and may take its time."""
    global _joined
    if _joined:
        import jax

        jax.distributed.shutdown()
        _joined = False


def leave(code: int) -> NoReturn:
    """Exit. While others may still wait for this process, at once: an ordinary exit would wait for them in turn."""
    if _joined:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)

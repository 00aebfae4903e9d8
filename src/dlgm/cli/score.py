"""`dlgm score`: how likely are these rows."""

from pathlib import Path
from typing import Annotated

import typer

from dlgm.cli.options import (
    AsJson,
    DataName,
    Limit,
    ModelFile,
    Offline,
    Quiet,
    Seed,
    Split,
    load_saved,
    users_mistakes,
    writable,
)
from dlgm.cli.rows import rows_to_ask
from dlgm.cli.tables import Delimiter, Encoding, Header, Key, Missing, is_file, print_notes


def score(
    data: DataName,
    model: ModelFile,
    split: Split = None,
    samples: Annotated[int, typer.Option(help="Importance samples a row.", min=1)] = 5000,
    limit: Limit = None,
    out: Annotated[Path | None, typer.Option(help="A .csv file for the rows' scores.")] = None,
    missing: Missing = None,
    key: Key = None,
    delimiter: Delimiter = None,
    header: Header = None,
    encoding: Encoding = None,
    offline: Offline = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The log likelihood of each row by importance sampling, with its error, and the mean over the rows.

    Your own file is read as the model's training file was; the likelihood is in its units, and of observed cells only.

    Example: dlgm score digits --model digits.dlgm --samples 1000 --out scores.csv

    Example: dlgm score new.csv --model adult.dlgm --out scores.csv
    """
    if out is not None:
        writable("--out", out, (".csv",))
    saved = load_saved(model)
    reading = {"missing": missing, "key": key, "delimiter": delimiter, "header": header, "encoding": encoding}
    rows = rows_to_ask(data, saved, split, limit, offline=offline, quiet=quiet, **reading)

    import io
    import time

    import jax
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from dlgm.files import to_json, write_atomically
    from dlgm.inference import log_likelihood

    if not (quiet or as_json):
        print_notes(rows.notes)
    began = time.perf_counter()
    console = Console(stderr=True)
    shown = not (quiet or as_json)
    told = 0

    def tell(done: int) -> None:
        """Move the bar or, where there is no terminal, print a line at every tenth."""
        nonlocal told
        bar.update(task, completed=done)
        if shown and not console.is_terminal and done * 10 // len(rows) > told:
            told = done * 10 // len(rows)
            print(f"score {data}: {done:,} of {len(rows):,} rows", file=console.file)

    with Progress(console=console, disable=not (shown and console.is_terminal), transient=True) as bar:
        task = bar.add_task(f"score {data}", total=len(rows))
        with users_mistakes():  # a file that is read as it is scored may have a bad cell anywhere
            scores = log_likelihood(
                saved.model,
                rows.values,
                rows.mask,
                num_samples=samples,
                key=jax.random.key(seed),
                progress=tell,
            )
    # To the user's own units; a data set with a name is in them already.
    jacobian = rows.log_jacobian()
    scores = scores._replace(log_p=scores.log_p + jacobian, bound=scores.bound + jacobian)
    seconds = time.perf_counter() - began
    split = None if is_file(data) else split or "test"
    if out is not None:
        buffer = io.StringIO()
        table = np.column_stack(scores)
        np.savetxt(buffer, table, "%.9g", ",", header=",".join(scores._fields), comments="")
        write_atomically(out, buffer.getvalue().encode())
    mean, error = scores.mean()
    monte_carlo = float(np.sqrt(np.sum(scores.standard_error.astype(np.float64) ** 2)) / len(rows))
    result = {
        "data": data,
        "split": split,
        "rows": len(rows),
        "samples": samples,
        "seed": seed,
        "mean_log_p": mean,
        "standard_error_over_rows": error,
        "monte_carlo_standard_error": monte_carlo,
        "mean_bound": float(np.mean(scores.bound, dtype=np.float64)),
        "mean_effective_sample_size": float(np.mean(scores.effective_sample_size)),
        "seconds": round(seconds, 1),
    }
    if as_json:
        typer.echo(to_json(result))
    elif not quiet:
        of = data if split is None else f"{data}, {split}"
        typer.echo(f"{of}: {len(rows):,} rows, {samples:,} importance samples each, {seconds:,.0f} s.")
        typer.echo(f"-ln p(v) = {-mean:.2f} nats a row.")
        over_rows = f"{error:.2f} over rows" if len(rows) > 1 else "unknown over a single row"
        sampling = f"{monte_carlo:.3f} from the sampling" if samples > 1 else "unknown from a single sample"
        typer.echo(f"Standard error {over_rows}, {sampling}.")
        typer.echo(
            f"The bound is {result['mean_bound']:.2f}; effective sample size "
            f"{result['mean_effective_sample_size']:,.0f} of {samples:,} on average."
        )
        if out is not None:
            typer.echo(f"Row by row in {out}.")

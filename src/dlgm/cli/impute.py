"""`dlgm impute`: what belongs in the holes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import (
    AsJson,
    DataName,
    Limit,
    ModelFile,
    Offline,
    Quiet,
    Seed,
    Split,
    images_of,
    load_saved,
    new_folder,
    settings_mistakes,
    users_mistakes,
)
from dlgm.cli.rows import Part, rows_to_ask
from dlgm.cli.tables import Delimiter, Encoding, Header, Key, Missing, is_file, print_notes

if TYPE_CHECKING:
    import numpy as np

    from dlgm.inference import Imputation

_SHOWN = 12  # images of the picture


def impute(
    data: DataName,
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="Folder for what is written; made if absent.")] = Path("imputed"),
    method: Annotated[
        str | None,
        typer.Option(help="metropolis, chain or resample. Default: resample for models of tables, else metropolis."),
    ] = None,
    copies: Annotated[int, typer.Option(help="Completed copies to write, beside the best fill.", min=0, max=1000)] = 5,
    draws: Annotated[int, typer.Option(help="Draws of each hole, for means and intervals.", min=1)] = 100,
    chains: Annotated[
        int | None, typer.Option(help="Chains for each row. Default: 4; 1 where a table's holes are resampled.", min=1)
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            help="Steps of the plain chain at the start. Default: 50; 0 where a table's holes are resampled.",
            min=0,
            max=10**9,
        ),
    ] = None,
    thin: Annotated[int, typer.Option(help="Steps between two draws.", min=1, max=10**9)] = 10,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.9,
    hide: Annotated[
        str | None,
        typer.Option(help="Hide cells first and report the errors: a share such as 0.6, or `square` of images."),
    ] = None,
    split: Split = None,
    limit: Limit = None,
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
    """Fill holes, with their uncertainty. No row needs to have been seen in training, and none changes another's fill.

    Into OUT go `best` (one fill for each hole), `copy-1`, `copy-2`, .. (draws), cells.csv (each hole's mean and
    interval), summary.json, and for images filled.png. Tables come in your columns, categories and units.

    Example: dlgm impute people.csv --model people.dlgm --out filled

    Example: dlgm impute digits --model digits.dlgm --hide 0.6 --limit 50
    """
    new_folder("--out", out)
    saved = load_saved(model)
    reading = {"missing": missing, "key": key, "delimiter": delimiter, "header": header, "encoding": encoding}
    rows = rows_to_ask(data, saved, split, limit, offline=offline, quiet=quiet, **reading)

    import time
    import warnings

    import jax
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from dlgm.files import to_json, write_atomically
    from dlgm.inference import impute as fill
    from dlgm.inference.imputation.result import least_draws
    from dlgm.tables import NEWTON

    if not 0 < level < 1:
        raise UsageError(f"--level: expected a probability between 0 and 1; got {level:g}.")
    if draws < (least := least_draws(level)):
        raise UsageError(f"--draws: an interval of {level:g} needs {least} or more.")
    if copies > draws:
        raise UsageError(f"--copies: expected at most as many as draws, {draws}; got {copies}.")
    part = rows.first(len(rows))  # in memory: what is written is as large
    truth = np.asarray(part.values, np.float32)
    given = np.ones(truth.shape, bool) if part.mask is None else part.mask
    shape = tuple(saved.data.get("shape", ()))
    mask = given if hide is None else given & _hidden(hide, truth.shape, shape, seed)
    if mask.all():
        raise UsageError(
            f"{data}: there is no hole in these {len(truth):,} rows. Hide some cells with --hide 0.5, say."
        )
    knows_holes = saved.config.covariance == "cells"  # its proposals need no chains to get warm
    method = method or ("resample" if knows_holes else "metropolis")
    cold = knows_holes and method == "resample"
    chains = chains or (1 if cold else 4)
    warm_up = (0 if cold else 50) if warm_up is None else warm_up
    shown = not (quiet or as_json)
    if shown:
        print_notes(rows.notes)
    began = time.perf_counter()
    console, words = Console(stderr=True), []
    with (
        Progress(console=console, disable=not (shown and console.is_terminal), transient=True) as bar,
        warnings.catch_warnings(record=True) as caught,
        settings_mistakes({"method", "draws", "chains"}),
    ):
        warnings.simplefilter("always")
        task = bar.add_task(f"impute {data}", total=int((~mask).any(axis=1).sum()))
        found = fill(
            saved.model,
            part.values,
            mask,
            method=method,
            draws=draws,
            chains=chains,
            warm_up=warm_up,
            thin=thin,
            newton=NEWTON if knows_holes and method == "resample" else 0,
            key=jax.random.key(seed),
            progress=lambda done: bar.update(task, completed=done),
        )
        words = [str(warning.message) for warning in caught if warning.category is UserWarning]
    seconds = time.perf_counter() - began

    result = {
        "data": data,
        "out": str(out),
        "method": method,
        "rows": len(truth),
        "rows with holes": int((~mask).any(axis=1).sum()),
        "holes": int((~mask).sum()),
        "draws": draws,
        "seed": seed,
        **_diagnosed(found),
        "warnings": words,
        "seconds": round(seconds, 1),
    }
    told = found if part.schema is None else found.in_units(part.schema)
    if hide is not None:
        known = truth if part.schema is None else part.schema.in_units(truth, limited=False)
        result["hidden"] = _compared(
            told, known, given, given & ~mask, level, None if part.schema is None else list(part.schema.names)
        )
    out.mkdir(parents=True, exist_ok=True)
    with users_mistakes():
        each = max(1, draws // max(copies, 1))
        tables = {"best": told.best()} | {f"copy-{i + 1}": told[i * each] for i in range(copies)}
        ending = _ending(data, part)
        frame = _frame(data, part, reading)
        for name, values in tables.items():
            write_atomically(out / f"{name}{ending}", _table(values, told, frame, part, ending))
    write_atomically(out / "cells.csv", _cells(told, part, level).to_csv(index=False, float_format="%.9g").encode())
    write_atomically(out / "summary.json", to_json(result).encode())
    written = [f"best{ending}", *([f"copy-1{ending} to copy-{copies}{ending}"] if copies else []), "cells.csv"]
    if (images := images_of(saved)) is not None:
        _picture(found, truth, given, *images, out / "filled.png")
        written.append("filled.png")
    if as_json:
        typer.echo(to_json(result))
    elif not quiet:
        _tell(result, level, out, written)


def _hidden(hide: str, size: tuple[int, int], shape: tuple[int, ...], seed: int) -> "np.ndarray":
    """Which cells stay."""
    import numpy as np

    from dlgm.data.masks import hide_at_random, hide_square

    if hide == "square":
        if len(shape) not in (2, 3):
            raise UsageError("--hide: only images have a square in the middle; give a share of the cells.")
        with settings_mistakes():
            return hide_square(size[0], shape)
    try:
        share = float(hide)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--hide: expected a share between 0 and 1, or square; got {hide!r}.")
    return hide_at_random(size, share, np.random.default_rng(seed))


def _diagnosed(found: "Imputation") -> dict[str, Any]:
    """What tells how far to trust the draws."""
    import numpy as np

    holes = ~found.mask
    if found.method == "resample":
        sizes = found.effective_sample_size[holes.any(axis=1)]
        return {"median effective sample size": float(np.median(sizes)), "smallest": float(sizes.min())}
    r_hat = found.r_hat()[holes]
    known = np.isfinite(r_hat)
    described: dict[str, Any] = {}
    if known.any():
        described["R-hat limit"] = found.r_hat_limit()
        described["holes with R-hat above it"] = int(np.sum(r_hat > found.r_hat_limit()))
        described["median effective draws"] = float(np.nanmedian(found.effective_draws()[holes]))
    if found.method == "metropolis":
        described["mean acceptance"] = float(np.nanmean(found.acceptance))
    return described


def _compared(
    found: "Imputation",
    truth: "np.ndarray",
    given: "np.ndarray",
    hidden: "np.ndarray",
    level: float,
    names: "list[str] | None",
) -> dict[str, Any]:
    """How the fills of hidden cells compare with what was there, in the user's units; `names` are those of columns."""
    import numpy as np

    from dlgm.inference import OverImputation

    described: dict[str, Any] = {"cells": int(hidden.sum())}
    best, is_code = found.best(), found.levels > 0
    codes, numbers = hidden & is_code, hidden & ~is_code
    if codes.any():
        described["share of wrong codes"] = float(np.mean(best[codes] != truth[codes]))
        sure = [_probability_of(found, best, int(i))[codes[:, i]] for i in np.flatnonzero(is_code)]
        described["as the model expects"] = float(1 - np.mean(np.concatenate(sure)))
    if codes.any() and max(found.levels) == 2:
        hits = np.sum(best[codes] * truth[codes])
        described["F1 of ones"] = float(2 * hits / max(np.sum(best[codes]) + np.sum(truth[codes]), 1))
    if numbers.any():
        coverage, error = OverImputation(found, numbers, truth, level).coverage()
        described |= {"coverage": coverage, "coverage standard error": error}
        squares = np.where(numbers, (best - truth) ** 2, 0.0)
        if names is None:  # all in one unit
            described["root mean squared error"] = float(np.sqrt(squares.sum() / numbers.sum()))
        else:
            # Columns have units of their own: each by itself, and together over their variances.
            asked = [int(i) for i in np.flatnonzero(numbers.any(axis=0))]
            own = {i: float(np.sqrt(squares[:, i].sum() / numbers[:, i].sum())) for i in asked}
            described["root mean squared error by column"] = {names[i]: own[i] for i in asked}
            spread = {i: float(np.std(truth[given[:, i], i], dtype=np.float64)) for i in asked}
            over = [squares[numbers[:, i], i] / spread[i] ** 2 for i in asked if spread[i] > 0]
            if over:
                described["root mean squared error over standard deviations"] = float(
                    np.sqrt(np.mean(np.concatenate(over)))
                )
    return described


def _probability_of(found: "Imputation", fills: "np.ndarray", column: int) -> "np.ndarray":
    """How probable each row's fill of a column of codes is."""
    import numpy as np

    return np.take_along_axis(found.probabilities(column), fills[:, [column]].astype(int), axis=1)[:, 0]


def _ending(data: str, part: Part) -> str:
    """Text for text, Parquet for Parquet, and arrays for arrays."""
    if part.schema is None or not is_file(data):
        return ".npy"
    suffix = Path(data.removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        return ".parquet"
    numbers = all(not isinstance((c.categories or (0,))[0], str | bool) for c in part.schema.columns)
    return ".npy" if numbers and suffix not in (".csv", ".tsv", ".txt", ".data", ".dat") else ".csv"


def _frame(data: str, part: Part, reading: dict[str, Any]) -> Any:
    """The user's table with all of its columns, as it stands in the file; None for arrays and sets with a name."""
    from dlgm.data import read_frame

    if part.schema is None or not is_file(data):
        return None
    given = {name: value for name, value in reading.items() if value is not None}
    frame = read_frame(data, part.schema, **given)
    return None if frame is None else frame.iloc[: len(part)]


def _table(values: "np.ndarray", told: "Imputation", frame: Any, part: Part, ending: str) -> bytes:
    from io import BytesIO

    import numpy as np

    from dlgm.tables import TableImputation

    buffer = BytesIO()
    if frame is not None and part.schema is not None:
        # Draws are made in single precision: further digits would say nothing.
        rounded = np.where(told.mask, values, _significant(values))
        table = TableImputation(frame, told, part.schema).completed(rounded)
    else:
        table = None if part.schema is None else part.schema.to_frame(values)
    if ending == ".npy":
        np.save(buffer, values if table is None else table.to_numpy(np.float64), allow_pickle=False)
        return buffer.getvalue()
    assert table is not None
    if ending == ".parquet":
        table.to_parquet(buffer)
        return buffer.getvalue()
    return bytes(table.to_csv(index=False).encode())


def _significant(values: "np.ndarray", digits: int = 7) -> "np.ndarray":
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.nan_to_num(digits - 1 - np.floor(np.log10(np.abs(values))), posinf=0, neginf=0)
    unit = 10.0**places
    return np.where(np.isfinite(unit) & (unit > 0), np.rint(values * unit) / unit, values)


def _cells(found: "Imputation", part: Part, level: float) -> Any:
    """A line for each hole, in the user's own units."""
    import numpy as np
    import pandas as pd

    holes = ~found.mask
    row, column = np.nonzero(holes)
    low, high = found.interval(level)
    found_best = found.best()
    tables = {"best": found_best, "mean": found.mean(), "low": low, "high": high}
    if part.schema is not None:
        from dlgm.tables import TableImputation

        tables["mean"] = TableImputation(pd.DataFrame(index=range(len(holes))), found, part.schema).means()
        # Means and ends of intervals stay between the values that a cell can have.
        frames = {name: part.schema.to_frame(np.nan_to_num(t), rounded=name == "best") for name, t in tables.items()}
        tables = {name: frame.astype(object).to_numpy() for name, frame in frames.items()}
    names = np.array(part.schema.names if part.schema else [f"v{i}" for i in range(holes.shape[1])], object)
    columns: dict[str, Any] = {"row": row, "column": names[column]}
    for name, table in tables.items():
        values = np.asarray(table, object)[holes]
        columns[name] = values if name == "best" else np.where(found.unordered[column], None, values)
    certainty = np.full(len(row), np.nan)
    for i in np.flatnonzero(found.levels > 0):
        certainty[column == i] = _probability_of(found, found_best, int(i))[holes[:, i]]
    columns["probability_of_best"] = certainty
    if found.method == "resample":
        columns["effective_sample_size"] = found.effective_sample_size[row]
    else:
        columns["r_hat"] = found.r_hat()[holes]
        columns["effective_draws"] = found.effective_draws()[holes]
    return pd.DataFrame(columns)


def _picture(
    found: "Imputation", truth: "np.ndarray", given: "np.ndarray", shape: tuple[int, ...], white: float, path: Path
) -> None:
    import numpy as np

    from dlgm.files import write_atomically
    from dlgm.plots import as_png, filled_in

    chosen = np.flatnonzero((~found.mask).any(axis=1))[:_SHOWN]

    def images(values: "np.ndarray") -> "np.ndarray":
        return np.clip(values[chosen] / white, 0, 1).reshape(-1, *shape)

    each = max(1, len(found) // 4)
    draws = np.stack([images(found[i]) for i in range(0, len(found), each)][:4])
    original = np.where(given, truth, 0)  # what was missing from the start is not known
    mask = found.mask[chosen].reshape(-1, *shape)
    was_hidden = bool((given & ~found.mask).any())  # on purpose; if not, nobody knows what belongs into the holes
    ax = filled_in(images(original), mask, draws, images(found.mean()), show_truth=was_hidden)
    write_atomically(path, as_png(ax))


def _tell(result: dict[str, Any], level: float, out: Path, written: list[str]) -> None:
    typer.echo(
        f"{result['data']}: {result['holes']:,} holes in {result['rows with holes']:,} of {result['rows']:,} rows, "
        f"{result['draws']} draws each by {result['method']}, {result['seconds']:,.0f} s."
    )
    for name in ("mean acceptance", "median effective draws", "median effective sample size"):
        if name in result:
            value = result[name]
            typer.echo(f"{name.capitalize()}: {f'{value:.0%}' if 'acceptance' in name else f'{value:,.0f}'}.")
    if hidden := result.get("hidden"):
        typer.echo(f"Of {hidden['cells']:,} cells that were hidden:")
        if "coverage" in hidden:
            error = ""
            if (plain := hidden.get("root mean squared error")) is not None:
                error = f"; root mean squared error {plain:.4g}"
            elif (scaled := hidden.get("root mean squared error over standard deviations")) is not None:
                error = f"; root mean squared error {scaled:.3g} standard deviations of their columns"
            typer.echo(
                f"  {hidden['coverage']:.1%} of the numbers lie within their {level:.0%} intervals "
                f"(standard error {hidden['coverage standard error']:.1%}){error}."
            )
        if "share of wrong codes" in hidden:
            f1 = f"; F1 of ones {hidden['F1 of ones']:.3f}" if "F1 of ones" in hidden else ""
            typer.echo(
                f"  {hidden['share of wrong codes']:.1%} of the codes are wrong, where the model expects "
                f"{hidden['as the model expects']:.1%}{f1}."
            )
    for words in result["warnings"]:
        typer.echo(f"Warning: {words}")
    typer.echo(f"Written to {out}: {', '.join(written)}, summary.json.")

"""`dlgm embed`: the data in two dimensions."""

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
    load_data,
    load_saved,
    settings_mistakes,
    users_mistakes,
    writable,
)
from dlgm.cli.rows import rows_to_ask
from dlgm.cli.tables import Delimiter, Encoding, Header, Key, Missing, is_file, print_notes

if TYPE_CHECKING:
    import numpy as np


def embed(
    data: DataName,
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="A .csv file for the points and latents.")] = Path("embedding.csv"),
    picture: Annotated[Path | None, typer.Option(help="A .png file. Default: OUT with this ending.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of your file to colour by; it need not be the model's.")
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
    """A map: each row a point at the mean of its latents, coloured by its label; beside it what the points look like.

    With two latents (`dlgm fit --preset visualisation`) the map is theirs; with more, the plane of their first two
    principal components. Rows may have holes.

    Example: dlgm embed digits --model digits.dlgm --out map.csv

    Example: dlgm embed people.csv --model people.dlgm --label country
    """
    picture = picture or out.with_suffix(".png")
    writable("--out", out, (".csv",))
    writable("--picture", picture, (".png",))
    saved = load_saved(model)
    reading = {"missing": missing, "key": key, "delimiter": delimiter, "header": header, "encoding": encoding}
    rows = rows_to_ask(data, saved, split, limit, offline=offline, quiet=quiet, **reading)
    labels = _labels(data, label, split, len(rows), offline, reading)

    import jax
    import pandas as pd

    from dlgm.files import to_json, write_atomically
    from dlgm.inference import embed as place
    from dlgm.plots import as_png
    from dlgm.plots.maps import draw_map

    if not (quiet or as_json):
        print_notes(rows.notes)
    with users_mistakes():
        found = place(saved.model, rows.values, rows.mask, key=jax.random.key(seed))
    table: dict[str, Any] = {"row": range(len(rows))} | ({} if labels is None else {"label": labels})
    table |= {"x": found.points[:, 0], "y": found.points[:, 1]}
    for name, values in (("latent", found.latents.mean), ("variance", found.latents.variance)):
        table |= {f"{name}_{i + 1}": column for i, column in enumerate(values.T)}
    with settings_mistakes():  # more labels than colours
        axis = "latent" if found.latents.mean.shape[1] <= 2 else "principal component"
        drawn = as_png(draw_map(found.points, labels, found.decode, images_of(saved), axis))
    write_atomically(out, pd.DataFrame(table).to_csv(index=False, float_format="%.9g").encode())
    write_atomically(picture, drawn)
    result = {
        "data": data,
        "out": str(out),
        "picture": str(picture),
        "rows": len(rows),
        "share": found.share,
        "seed": seed,
    }
    if as_json:
        typer.echo(to_json(result))
    elif not quiet:
        K = found.latents.mean.shape[1]
        if K > 2:
            typer.echo(f"The plane of two principal components holds {found.share:.0%} of the variance of {K} latents.")
        typer.echo(f"{len(rows):,} rows placed; written to {out} and {picture}.")


def _labels(
    data: str, label: str | None, split: str | None, number: int, offline: bool, reading: dict[str, Any]
) -> "np.ndarray | None":
    """The class of each row, if it is known."""
    if not is_file(data):
        if label is not None:
            raise UsageError(f"--label: only for your own files; {data} is a data set with a name.")
        labels = load_data(data, offline=offline, quiet=True).labels
        return labels[split or "test"][:number] if labels else None
    if label is None:
        return None
    import numpy as np

    from dlgm.data import read_column

    with users_mistakes():
        given = {name: value for name, value in reading.items() if value is not None}
        found = read_column(data, label, **given)[:number]
    if found.dtype != object:
        return found
    from dlgm.data.schema.cells import to_numbers
    from dlgm.plots.latents import MOST_NAMED

    numbers, empty = to_numbers(found), found == ""  # numbers with holes come as texts
    many = len(np.unique(numbers[~empty])) > MOST_NAMED
    return numbers if many and np.isfinite(numbers[~empty]).all() else found

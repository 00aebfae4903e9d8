"""`dlgm embed`: the data in two dimensions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import (
    AsJson,
    DataName,
    ModelFile,
    Offline,
    Quiet,
    Seed,
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

    from dlgm.inference import Embedding


def embed(
    data: DataName,
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="A .csv file for the points and latents.")] = Path("embedding.csv"),
    picture: Annotated[Path | None, typer.Option(help="A .png file. Default: OUT with this ending.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of your file to colour by; it need not be the model's.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="train, valid or test, of a data set with a name. Default: test.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many rows.", min=1)] = None,
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

    if not (quiet or as_json):
        print_notes(rows.notes)
    with users_mistakes():
        found = place(saved.model, rows.values, rows.mask, key=jax.random.key(seed))
    table: dict[str, Any] = {} if labels is None else {"label": labels}
    table |= {"x": found.points[:, 0], "y": found.points[:, 1]}
    for name, values in (("latent", found.latents.mean), ("variance", found.latents.variance)):
        table |= {f"{name}_{i + 1}": column for i, column in enumerate(values.T)}
    with settings_mistakes():  # more labels than colours
        drawn = as_png(_draw(found, labels, tuple(saved.data.get("shape", ())), saved))
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
    from dlgm.data import read_column

    with users_mistakes():
        given = {name: value for name, value in reading.items() if value is not None}
        return read_column(data, label, **given)[:number]


def _draw(found: "Embedding", labels: "np.ndarray | None", shape: tuple[int, ...], saved: Any) -> Any:
    """The map; of images, with decoded points beside it."""
    import numpy as np

    from dlgm.plots import embedding, latent_grid, new_figure

    family = saved.model.generative.observation.name
    highest = {"bernoulli": 1.0, "discretised-logistic": 255.0}.get(family)
    is_plane = found.latents.mean.shape[1] > 2
    figure = new_figure(13.0 if len(shape) in (2, 3) and highest else 7.0, 6.0)
    axes = figure.subplots(1, 2 if len(shape) in (2, 3) and highest else 1, squeeze=False)[0]
    embedding(found.points, labels, ax=axes[0])
    if is_plane:
        axes[0].set(xlabel="principal component 1", ylabel="principal component 2")
    if len(axes) == 2:
        low, high = np.quantile(found.points, [0.01, 0.99], axis=0)
        high = np.maximum(high, low + 1e-3)
        latent_grid(lambda points: found.decode(points) / highest, shape, low=low, high=high, ax=axes[1])
        axes[1].set(xlabel=axes[0].get_xlabel(), ylabel=axes[0].get_ylabel(), title="what points decode to")
    return figure

"""`dlgm sample`: new rows from a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, ModelFile, Quiet, Seed, images_of, load_saved, schema_of, writable

if TYPE_CHECKING:
    from dlgm.data import Schema


def sample(
    model: ModelFile,
    num: Annotated[int, typer.Option(help="How many rows.", min=1, max=10_000_000)] = 100,
    out: Annotated[Path, typer.Option(help="A .csv, .parquet or .npy file, or a .png picture for images.")] = Path(
        "samples.csv"
    ),
    means: Annotated[
        bool, typer.Option("--means", help="Write the rows' means (pixel probabilities) instead.")
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw new rows from a trained model. Those of your own table come in its columns, categories and units.

    Example: dlgm sample --model digits.dlgm --num 64 --out samples.png
    """
    writable("--out", out, (".csv", ".parquet", ".npy", ".png"))
    saved = load_saved(model)
    schema = schema_of(saved)
    images = images_of(saved)
    if out.suffix == ".png" and images is None:
        raise UsageError("--out: a .png needs a model of images, in bits or 8-bit pixels; write a .csv or .npy.")
    if out.suffix == ".png" and num > 10_000:
        raise UsageError(f"--num: expected at most 10,000 images for a picture; got {num:,}.")
    if means and schema and (name := _straightened(schema)):
        raise UsageError(
            f"--means: the column {name!r} was straightened, and the mean of the model's numbers is not that of yours. "
            "Leave --means out, and take means of many rows."
        )
    if out.suffix == ".npy" and schema and (name := _column_of_texts(schema)):
        raise UsageError(f"--out: an .npy file holds numbers, and the column {name!r} texts; write a .csv.")

    from io import BytesIO, StringIO

    import jax
    import numpy as np

    from dlgm.files import write_atomically
    from dlgm.inference import sample as draw

    drawn = draw(saved.model, num, key=jax.random.key(seed))
    rows = drawn.means if means else drawn.rows
    if schema and not means and out.suffix != ".png":
        from dlgm.tables import sample_in_range

        rows = sample_in_range(saved.model, schema, num, seed=seed)
    buffer = BytesIO()
    if schema and out.suffix != ".png":
        frame = schema.decode(rows, rounded=not means, limited=True)
        if out.suffix == ".npy":
            np.save(buffer, frame.to_numpy(), allow_pickle=False)
        elif out.suffix == ".parquet":
            frame.to_parquet(buffer, index=False)
        else:
            buffer.write(frame.to_csv(index=False, float_format="%.9g").encode())
    elif out.suffix == ".npy":
        np.save(buffer, rows, allow_pickle=False)
    elif out.suffix == ".parquet":
        import pandas as pd

        pd.DataFrame(rows, columns=[f"v{i}" for i in range(rows.shape[1])]).to_parquet(buffer, index=False)
    elif out.suffix == ".csv":
        text = StringIO()
        np.savetxt(text, rows, "%.9g", ",", header=",".join(f"v{i}" for i in range(rows.shape[1])), comments="")
        buffer.write(text.getvalue().encode())
    elif images is not None:
        from dlgm.plots import as_png, image_grid

        shape, white = images
        shown = np.clip(rows / white, 0, 1).reshape(num, *shape)
        buffer.write(as_png(image_grid(shown, columns=int(np.ceil(np.sqrt(num))))))
    write_atomically(out, buffer.getvalue())
    if as_json:
        import json

        typer.echo(json.dumps({"out": str(out), "rows": num, "columns": rows.shape[1], "seed": seed}))
    elif not quiet:
        typer.echo(f"{num:,} rows of {rows.shape[1]:,} values written to {out}.")


def _straightened(schema: "Schema") -> str | None:
    return next((column.name for column in schema.columns if column.power is not None), None)


def _column_of_texts(schema: "Schema") -> str | None:
    return next((c.name for c in schema.columns if c.categories and isinstance(c.categories[0], str)), None)

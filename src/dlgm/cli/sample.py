"""`dlgm sample`: new rows from a model."""

from pathlib import Path
from typing import Annotated

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, ModelFile, Quiet, Seed, load_saved, writable


def sample(
    model: ModelFile,
    num: Annotated[int, typer.Option(help="How many rows.", min=1)] = 100,
    out: Annotated[Path, typer.Option(help="A .csv or .npy file, or a .png picture for images.")] = Path("samples.csv"),
    means: Annotated[
        bool, typer.Option("--means", help="Write the rows' means (pixel probabilities) instead.")
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw new rows from a trained model.

    Example: dlgm sample --model digits.dlgm --num 64 --out samples.png
    """
    writable("--out", out, (".csv", ".npy", ".png"))
    saved = load_saved(model)
    shape = tuple(saved.data.get("shape", ()))
    if out.suffix == ".png" and len(shape) not in (2, 3):
        raise UsageError("--out: a .png needs a model of images; write a .csv or .npy.")

    from io import BytesIO, StringIO

    import jax
    import numpy as np

    from dlgm.files import write_atomically
    from dlgm.inference import sample as draw

    drawn = draw(saved.model, num, key=jax.random.key(seed))
    rows = drawn.means if means else drawn.rows
    buffer = BytesIO()
    if out.suffix == ".npy":
        np.save(buffer, rows, allow_pickle=False)
    elif out.suffix == ".csv":
        text = StringIO()
        np.savetxt(text, rows, "%.9g", ",", header=",".join(f"v{i}" for i in range(rows.shape[1])), comments="")
        buffer.write(text.getvalue().encode())
    else:
        from dlgm.plots import image_grid

        # The data's range, not the model's family: binary images may be modelled by any.
        highest = 1.0 if saved.data.get("family") == "bernoulli" else 255.0
        images = np.clip(rows / highest, 0, 1).reshape(num, *shape)
        image_grid(images, columns=int(np.ceil(np.sqrt(num)))).savefig(buffer, format="png", dpi=150)
    write_atomically(out, buffer.getvalue())
    if as_json:
        import json

        typer.echo(json.dumps({"out": str(out), "rows": num, "columns": rows.shape[1], "seed": seed}))
    elif not quiet:
        typer.echo(f"{num:,} rows of {rows.shape[1]:,} values written to {out}.")

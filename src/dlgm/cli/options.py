"""What several commands share: options, and how their values are read."""

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlgm.cli.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from dlgm.artifact import ModelDescription, SavedModel
    from dlgm.data import Dataset, Schema

Seed = Annotated[int, typer.Option(help="Seed of all draws.", min=0, max=2**32 - 1)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors (and, with --json, the JSON).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Offline = Annotated[bool, typer.Option("--offline", help="Never fetch data (as does DLGM_OFFLINE=1).")]
Split = Annotated[str | None, typer.Option(help="train, valid or test, of a data set with a name. Default: test.")]
Limit = Annotated[int | None, typer.Option(help="Only the first so many rows.", min=1)]
ModelFile = Annotated[
    Path,
    typer.Option("--model", help="A model file that `dlgm fit` wrote, or the name of a model that comes with dlgm."),
]
DataName = Annotated[
    str, typer.Argument(metavar="DATA", help="A data set's name (see `dlgm data list`), or your own file or folder.")
]


def widths(option: str, text: str | None) -> tuple[int, ...] | None:
    """`"200,200"` as numbers; an empty text as none at all."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"{option}: expected whole numbers with commas, such as 200,200; got {text!r}.") from None


@contextmanager
def users_mistakes() -> Iterator[None]:
    """Inside, an error that says what is wrong with the input becomes a one-line message."""
    from dlgm.artifact import ModelFileError
    from dlgm.data import DataError

    try:
        yield
    except (DataError, ModelFileError) as error:
        raise UsageError(str(error)) from error


@contextmanager
def settings_mistakes(options: Collection[str] = ()) -> Iterator[None]:
    """Inside, a setting that is refused (`ValueError`) becomes a message; about its option, if it has one."""
    try:
        yield
    except ValueError as error:
        name, colon, rest = str(error).partition(":")
        if name in options:
            name = f"--{name.replace('_', '-')}"
        raise UsageError(name + colon + rest) from error


def load_data(name: str, *, offline: bool = False, quiet: bool = False) -> "Dataset":
    """A named data set, fetched if need be, or a message."""
    from dlgm.data import load_dataset

    with users_mistakes():
        return load_dataset(name, offline=offline, quiet=quiet)


def load_saved(path: Path) -> "SavedModel":
    """The model in a file, or one that comes with dlgm, by its name; or a message."""
    from dlgm.artifact import load_model

    with users_mistakes():
        return load_model(path)


def schema_of(saved: "SavedModel | ModelDescription") -> "Schema | None":
    """What the columns of the user's table were that a model was trained on; None for a data set with a name."""
    from dlgm.data import Schema

    with users_mistakes():
        return Schema.from_dict(saved.data["schema"]) if "schema" in saved.data else None


def images_of(saved: "SavedModel") -> "tuple[tuple[int, ...], float] | None":
    """The shape in which a model's rows are images, and the number that white is in them; None if they are none.

    By the data's kind and not the model's family: binary images may be modelled by any.
    """
    shape, schema = tuple(saved.data.get("shape", ())), schema_of(saved)
    bits = schema.kind == "binary" if schema else saved.data.get("family") == "bernoulli"
    if len(shape) not in (2, 3) or (schema is not None and schema.kind not in ("binary", "pixel")):
        return None
    return shape, 1.0 if bits else 255.0


def split_of(dataset: "Dataset", split: str, limit: int | None, saved: "SavedModel") -> "np.ndarray":
    """Some rows of a split, checked against the model they are meant for."""
    if split not in ("train", "valid", "test"):
        raise UsageError(f"--split: expected train, valid or test; got {split!r}.")
    rows = getattr(dataset, split)
    columns = saved.model.generative.observation.columns
    if rows.shape[1] != columns:
        raise UsageError(
            f"{dataset.name} has rows of {rows.shape[1]} values; the model takes {columns} "
            f"(it was trained on {saved.data.get('name', 'other data')})."
        )
    with settings_mistakes():
        saved.model.generative.observation.check(rows[:limit])
    return rows[:limit]


def new_folder(option: str, path: Path) -> Path:
    """A place where a folder is, or could be made; nothing is made yet."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option}: expected a folder to write to; {path} is a file.")
    writable(option, path / "file")
    return path


def writable(option: str, path: Path, suffixes: tuple[str, ...] = ()) -> Path:
    """A place where a file could be written, seen to before any work is done; nothing is made yet."""
    if path.is_dir():
        raise UsageError(f"{option}: expected a file to write to; {path} is a folder.")
    if suffixes and path.suffix not in suffixes:
        raise UsageError(f"{option}: expected a name ending in {' or '.join(suffixes)}; got {path.name!r}.")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):  # asking is not enough: some folders only say that one may
            pass
    except OSError:
        raise UsageError(f"{option}: cannot write to {path}: {nearest} is not a folder one may write to.") from None
    return path

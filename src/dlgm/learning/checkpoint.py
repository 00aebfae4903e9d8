"""Checkpoints: everything a run needs to go on as if it had never stopped."""

import dataclasses
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlgm.files import to_json
from dlgm.learning.config import TrainingConfig
from dlgm.learning.mesh import by_first
from dlgm.locking import only_one
from dlgm.tensorfile import TensorFileError, parse_json, read_tensors, write_tensors

FORMAT, VERSION = "dlgm checkpoint", 1
DIGEST = "'s digest"  # ends the names of what is described by a digest
_SUFFIX, _DAMAGED, _LOCK = ".checkpoint", ".damaged", "lock"
_LAYER = "layer-"  # a folder in the folder, for each layer that is trained by itself


class CheckpointError(RuntimeError):
    """A folder of checkpoints that cannot be used, with the reason and what to do."""


@dataclass
class Snapshot:
    """A run between two steps: all that changes while it goes on."""

    state: Any  # what the next step needs, its number `step` included: `State` of a Model's training
    best: Any  # the model with the best validation bound so far
    best_bound: float
    best_epoch: int
    history: list[dict[str, Any]]
    seconds: float  # spent so far


@dataclass
class Checkpoints:
    """A folder for a run's checkpoints.

    **Arguments**

    - `folder`: made if it is not there. One run at a time has it.
    - `resume`: go on from the newest whole checkpoint there, if there is one. Otherwise a folder that holds
      checkpoints is refused, so that none is overwritten by mistake.
    - `every`: seconds between checkpoints at least. They are written at the end of an epoch or between two steps.
    - `keep`: how many to keep. Each holds the best weights so far too, so that these outlive the steps after them.
    """

    folder: Path
    resume: bool = False
    every: float = 60.0
    keep: int = 2

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        if self.keep < 1:
            raise ValueError(f"keep: expected at least 1; got {self.keep}.")
        self._saved_at = time.monotonic()

    def paths(self) -> list[Path]:
        """The checkpoints there are, oldest first."""
        return sorted(self.folder.glob(f"step-*{_SUFFIX}"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, the folder is this run's alone. The system lets go of it with the process, however that ends.

        Of several processes the first one holds it, reads and writes; the others need not see it.
        """
        with ExitStack() as stack:
            by_first(lambda: self._hold(stack), CheckpointError)
            yield

    def _hold(self, stack: ExitStack) -> bytes:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            locked = stack.enter_context(only_one(self.folder / _LOCK, waiting=self._taken))
        except OSError as error:
            raise CheckpointError(f"{self.folder}: cannot be a folder for checkpoints ({error.strerror}).") from None
        if not locked:
            warnings.warn(f"{self.folder}: has no locks. See to it that no other run uses it.", stacklevel=2)
        if not self.resume and self.paths():
            raise CheckpointError(
                f"{self.folder}: holds the checkpoints of an earlier run. Resume it (resume=True, --resume), or choose "
                "another folder."
            )
        self._sweep()
        return b""

    def _sweep(self) -> None:
        """Take away what a kill in the middle of writing has left."""
        for path in self.folder.glob(f".step-*{_SUFFIX}.*"):
            path.unlink(missing_ok=True)

    def layer(self, number: int) -> "Checkpoints":
        """Those of one layer, for a model whose layers are trained one after the other: in a folder of their own."""
        return dataclasses.replace(self, folder=self.folder / f"{_LAYER}{number}")

    def remove(self) -> None:
        """Take away the checkpoints, those of layers too, and the folder unless something else is in it or another run
        has it.
        """
        if not self.folder.is_dir():
            return
        for folder in self.folder.glob(f"{_LAYER}*/"):
            dataclasses.replace(self, folder=folder).remove()
        with suppress(CheckpointError), only_one(self.folder / _LOCK, waiting=self._taken):
            self._sweep()
            for path in [*self.paths(), *self.folder.glob(f"step-*{_DAMAGED}"), self.folder / _LOCK]:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _taken(self) -> None:
        raise CheckpointError(
            f"{self.folder}: another run is writing its checkpoints here. Wait for it, or choose another folder."
        )

    def due(self) -> bool:
        """Whether it is time for another."""
        return time.monotonic() - self._saved_at >= self.every

    def save(self, snapshot: Snapshot, described: dict[str, Any]) -> Path:
        """Write a checkpoint, then remove the oldest. `described` is what a resuming run must agree with."""
        written = by_first(lambda: self._write(snapshot, described), CheckpointError)
        self._saved_at = time.monotonic()  # not before: writing may take longer than `every`
        return self.folder / written.decode()

    def _write(self, snapshot: Snapshot, described: dict[str, Any]) -> bytes:
        path = self.folder / f"step-{int(snapshot.state.step):010d}{_SUFFIX}"
        tensors = {f"state.{name}": array for name, array in _arrays(snapshot.state).items()}
        tensors |= {f"best.{name}": array for name, array in _arrays(snapshot.best).items()}
        text = {
            "format": FORMAT,
            "version": str(VERSION),
            "run": to_json(described, indent=None),
            # repr of a float is exact; infinity, before the first look at the validation rows, is not JSON's.
            "best_bound": repr(snapshot.best_bound),
            "best_epoch": str(snapshot.best_epoch),
            "history": json.dumps(snapshot.history),
            "seconds": repr(snapshot.seconds),
        }
        try:
            write_tensors(path, tensors, text)
        except OSError as error:
            kept = self.paths()
            last = f" The last good one is {kept[-1]}." if kept else ""
            raise CheckpointError(f"{path}: cannot be written ({error.strerror}).{last}") from None
        others = [other for other in self.paths() if other != path]
        for old in others[: max(0, len(others) - self.keep + 1)]:
            old.unlink(missing_ok=True)
        return path.name.encode()

    def load(self, like: Snapshot, described: dict[str, Any]) -> Snapshot | None:
        """The newest checkpoint that is whole, or none. `like` has the shapes; another run's checkpoint is refused."""
        found: list[Snapshot] = []
        content = by_first(lambda: self._newest(like, described, found), CheckpointError)
        if not content:
            return None
        if not found:  # not the first process
            with TemporaryDirectory() as folder:
                path = Path(folder) / "received"
                path.write_bytes(content)
                found.append(_read(path, like, described))
        return found[0]

    def _newest(self, like: Snapshot, described: dict[str, Any], found: list[Snapshot]) -> bytes:
        """The content of the newest checkpoint that is whole, what it says in `found`; or nothing."""
        there = self.paths()
        for path in reversed(there):
            try:
                found.append(_read(path, like, described))
                return path.read_bytes() if jax.process_count() > 1 else b"found"
            except TensorFileError as error:
                # Out of the way, or it would be counted among those that are kept.
                path.rename(path.with_suffix(_DAMAGED))
                warnings.warn(f"{path}: passed over: {error}.", stacklevel=2)
            except OSError as error:
                warnings.warn(f"{path}: passed over: {error}.", stacklevel=2)
        if there:
            raise CheckpointError(f"{self.folder}: no checkpoint there can be read. Remove it to start afresh.")
        return b""


def _read(path: Path, like: Snapshot, described: dict[str, Any]) -> Snapshot:
    tensors, text = read_tensors(path)
    if (text.get("format"), text.get("version")) != (FORMAT, str(VERSION)):
        raise CheckpointError(
            f"{path}: expected {FORMAT!r}, version {VERSION}; got {text.get('format')!r}, {text.get('version')}."
        )
    now = json.loads(to_json(described, indent=None))
    # A setting that the run did not know yet had its default.
    defaults = {name: value for name, value in TrainingConfig().to_dict().items() if name in now}
    then = {**defaults, **parse_json(text["run"])}
    for name in [*now, *(name for name in then if name not in now)]:
        if then.get(name) == now.get(name):
            continue
        if name.endswith(DIGEST):
            difference = f"with other {name.removesuffix(DIGEST)}."
        else:
            difference = f"with {name} {_brief(then.get(name))}; this one has {_brief(now.get(name))}."
        raise CheckpointError(
            f"{path}: is of a run {difference} Resume with the same data and settings, or choose another folder."
        )
    return Snapshot(
        _restored("state.", tensors, like.state),
        _restored("best.", tensors, like.best),
        float(text["best_bound"]),
        int(text["best_epoch"]),
        parse_json(text["history"]),
        float(text["seconds"]),
    )


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(leaf: Any) -> Any:
    """Keys as the numbers they are made of."""
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _arrays(tree: Any) -> dict[str, np.ndarray]:
    # This process's own copy: with arrays of all processes, it could not compute alone.
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(_plain(leaf.addressable_data(0)))
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def _restored(prefix: str, tensors: dict[str, np.ndarray], like: Any) -> Any:
    """A tree like `like`, its leaves from the file."""

    def one(path: Any, leaf: Any) -> Any:
        name = prefix + jax.tree_util.keystr(path, simple=True, separator=".")
        wanted = jax.eval_shape(_plain, leaf)
        array = tensors.get(name)
        if array is None or array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise TensorFileError(f"{name}: expected {wanted.dtype} of shape {wanted.shape}")
        return jax.random.wrap_key_data(jnp.asarray(array)) if wanted.dtype != leaf.dtype else jnp.asarray(array)

    return jax.tree.map_with_path(one, like)


__all__ = ["CheckpointError", "Checkpoints", "Snapshot"]

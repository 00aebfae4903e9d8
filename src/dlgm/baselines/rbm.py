r"""The restricted Boltzmann machine as a model of binary rows (Salakhutdinov and Murray, 2008).

$$\log p(v) = -F(v) - \log Z$$

The free energy $F$ is exact. $\log Z$ is exact for machines with few units on one side, and for others estimated by
annealed importance sampling, whose error is the same for all rows.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Key, UInt8

from dlgm.baselines.boltzmann import BoltzmannMachine, as_bits, base_logits, sample_chains
from dlgm.baselines.contrastive import Contrastive, new_machine
from dlgm.baselines.contrastive_loop import digest, train
from dlgm.baselines.partition import Annealing, LogPartition, log_partition
from dlgm.inference.rows import blocks
from dlgm.learning.checkpoint import DIGEST, Checkpoints
from dlgm.learning.progress import AbstractWatcher
from dlgm.names import require_whole
from dlgm.tensorfile import TensorFileError, read_tensors, write_tensors

_ROWS = 500  # scored together
_FORMAT, _VERSION = "dlgm rbm", "1"


class FittedRBM(eqx.Module):
    r"""A restricted Boltzmann machine that knows its $\log Z$: `partition` says how, and how well."""

    machine: BoltzmannMachine
    base: Float[Array, " x"]  # the logits of the data's rates, from which chains start
    partition: LogPartition = eqx.field(static=True)
    sample_steps: int = eqx.field(static=True, default=2000)

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        r"""$-F(v) - \log Z$ of each row: exact if `partition.method` is "counted", else an estimate.

        An annealed $\log Z$ is low on average, and the scores high by as much.

        Nothing is drawn for it, and `seed` is of no effect.
        """
        v = as_bits("score_samples", rows, len(self.base))
        return -free_energies(self.machine, v) - self.partition.log_z

    def sample(self, num: int, *, seed: int = 0) -> UInt8[np.ndarray, "num x"]:
        """New rows, each from a Gibbs chain of its own: `sample_steps` steps from independent bits.

        During the first half the chains are led from the bits' law to the machine's, which they would otherwise take
        long to spread over.
        """
        require_whole("sample", "num", num, 0)
        v = sample_chains(self.machine, self.base, self.sample_steps, jax.random.key(seed), num)
        return np.asarray(v, np.uint8)

    def save(self, path: Path | str) -> None:
        """Write it as a safetensors file, which `FittedRBM.load` reads."""
        described = {
            "format": _FORMAT,
            "version": _VERSION,
            "partition": json.dumps(self.partition._asdict()),
            "sample_steps": str(self.sample_steps),
        }
        write_tensors(Path(path), {**machine_tensors(self.machine), "base": np.asarray(self.base)}, described)

    @classmethod
    def load(cls, path: Path | str) -> "FittedRBM":
        """The machine that `save` wrote."""
        tensors, text = read_model(path, _FORMAT, _VERSION)
        partition = LogPartition(**json.loads(text["partition"]))
        return cls(machine_from(tensors), jnp.asarray(tensors["base"]), partition, int(text["sample_steps"]))


@dataclass(frozen=True)
class RBM:
    """A restricted Boltzmann machine of binary rows: the settings from which `fit` makes a `FittedRBM`.

    - `hidden`: hidden units.
    - `training`: how it is trained.
    - `annealing`: how log Z is estimated at the end, where it cannot be counted.
    - `sample_steps`: Gibbs steps for a sample.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = (rng.random((600, 1)) < 0.5) ^ (rng.random((600, 4)) < 0.1)  # all zeros or ones, a tenth of them flipped
    >>> model = RBM(hidden=4, training=Contrastive(epochs=60, batch_size=50, learning_rate=0.1)).fit(rows)
    >>> model.partition.method, model.sample(3).shape
    ('counted', (3, 4))
    >>> bool(model.score_samples(rows).mean() > -2.1)  # independent bits have -2.77
    True
    """

    hidden: int = 500
    training: Contrastive = field(default_factory=Contrastive)
    annealing: Annealing = field(default_factory=Annealing)
    sample_steps: int = 2000

    def __post_init__(self) -> None:
        require_whole("RBM", "hidden", self.hidden, 1)
        require_whole("RBM", "sample_steps", self.sample_steps, 1)

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: Sequence[AbstractWatcher] = (),
        checkpoints: Checkpoints | None = None,
    ) -> FittedRBM:
        """Train on rows of zeros and ones, shape `(n, x)`.

        With `valid` rows, the averaged machine is looked at every `training.validate_every` epochs, by its mean log p
        of these rows with log Z annealed through `training.valid_temperatures` laws (or counted); the best is kept.
        """
        v = as_bits("RBM.fit", rows)
        held_out = None if valid is None else as_bits("RBM.fit", valid, v.shape[1], "valid")
        key_start, key_run, key_valid, key_partition = jax.random.split(jax.random.key(seed), 4)
        base = base_logits(v.sum(axis=0), len(v))
        machine = train(
            self.training,
            new_machine(base, self.hidden, key_start),
            v,
            base=base,
            judge=None if held_out is None else make_judge(self.training, held_out, base, key_valid),
            key=key_run,
            watchers=watchers,
            checkpoints=checkpoints,
            described={"hidden": self.hidden, f"validation data{DIGEST}": digest(held_out)},
        )
        partition = log_partition(machine, base, self.annealing, key_partition)
        return FittedRBM(machine, base, partition, self.sample_steps)


def make_judge(
    training: Contrastive,
    v: UInt8[np.ndarray, "n x"],
    base: Float[Array, " x"],
    key: Key[Array, ""],
    offset: float = 0.0,
) -> Callable[[BoltzmannMachine], float]:
    """The mean log p of rows by a machine, with a quick estimate of its log Z, plus `offset`."""
    annealing = Annealing(training.valid_temperatures)

    def judge(machine: BoltzmannMachine) -> float:
        log_z = log_partition(machine, base, annealing, key).log_z
        return offset - float(free_energies(machine, v).mean()) - log_z

    return judge


def free_energies(machine: BoltzmannMachine, v: UInt8[np.ndarray, "n x"]) -> Float[np.ndarray, " n"]:
    """F of each row, the same bits in any company."""
    pieces = [
        np.asarray(_free_energy(machine, block), np.float64)[:real] for (block, _, _), real in blocks(v, None, _ROWS)
    ]
    return np.concatenate([np.zeros(0), *pieces])


@jax.jit
def _free_energy(machine: BoltzmannMachine, v: Float[Array, "b x"]) -> Float[Array, " b"]:
    return machine.free_energy(v)


def machine_tensors(machine: BoltzmannMachine, prefix: str = "") -> dict[str, np.ndarray]:
    """Its arrays by name, for a file."""
    names = ("weights", "visible_bias", "hidden_bias")
    return {prefix + name: np.asarray(getattr(machine, name)) for name in names}


def machine_from(tensors: dict[str, np.ndarray], prefix: str = "") -> BoltzmannMachine:
    """The machine that `machine_tensors` took apart."""
    return BoltzmannMachine(*(jnp.asarray(tensors[prefix + n]) for n in ("weights", "visible_bias", "hidden_bias")))


def read_model(path: Path | str, format: str, version: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """A model file's arrays and description, if it is of the format that is wanted."""
    try:
        tensors, text = read_tensors(Path(path))
    except TensorFileError as error:
        raise TensorFileError(f"{path}: {error}") from None
    if (text.get("format"), text.get("version")) != (format, version):
        raise TensorFileError(
            f"{path}: expected {format!r}, version {version}; got {text.get('format')!r}, {text.get('version')}."
        )
    return tensors, text

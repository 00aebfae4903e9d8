r"""The deep belief network of two layers (Hinton, Osindero and Teh, 2006): a Boltzmann machine as another one's prior.

$$p(v) = \sum_h p(v \mid h)\, p(h), \qquad p(v_i = 1 \mid h) = \sigma(b_i + (W h)_i), \qquad p(h) = e^{-F_2(h)} / Z_2$$

The first machine gives $p(v \mid h)$ and, as an approximate posterior, $q(h \mid v) = \prod_j q(h_j \mid v)$ with
$q(h_j = 1 \mid v) = \sigma(c_j + (W^\top v)_j)$; the top machine learns from draws of $q$. The sum over $h$ is bounded,
or estimated by importance sampling from $q$.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import sigmoid
from jaxtyping import Float, Key, UInt8

from dlgm.baselines.boltzmann import BoltzmannMachine, as_bits, base_logits, draw_bits, sample_chains
from dlgm.baselines.contrastive import Contrastive, new_machine
from dlgm.baselines.contrastive_loop import digest, train
from dlgm.baselines.dbn_likelihood import BoundedLikelihood, entropy, log_bits, score_rows
from dlgm.baselines.partition import Annealing, LogPartition, log_partition
from dlgm.baselines.rbm import machine_from, machine_tensors, make_judge, read_model
from dlgm.keys import quick_key
from dlgm.learning.checkpoint import DIGEST, Checkpoints
from dlgm.learning.progress import AbstractWatcher
from dlgm.names import require_whole
from dlgm.tensorfile import write_tensors

_FORMAT, _VERSION = "dlgm dbn", "1"


class FittedDBN(eqx.Module):
    r"""A deep belief network that knows its top machine's $\log Z$: `partition` says how, and how well."""

    first: BoltzmannMachine
    top: BoltzmannMachine
    base: Float[Array, " k"]  # the logits of the rates of h, from which chains in the top machine start
    partition: LogPartition = eqx.field(static=True)
    num_samples: int = eqx.field(static=True, default=100)
    sample_steps: int = eqx.field(static=True, default=2000)

    def __check_init__(self) -> None:
        k, below = len(self.top.visible_bias), len(self.first.hidden_bias)
        if k != below or self.base.shape != (k,):
            raise ValueError(
                f"FittedDBN: expected a top machine with as many visible units, and values of `base`, as the first has "
                f"hidden ones, {below}; got {k} and shape {self.base.shape}."
            )

    def score_samples(self, rows: Any, *, seed: int = 0) -> Float[np.ndarray, " n"]:
        r"""The variational bound on each row's $\log p(v)$, estimated with `num_samples` draws: the usual report.

        For more samples, errors, and the tighter estimate, see `likelihood`.
        """
        return self.likelihood(rows, seed=seed).bound

    def likelihood(self, rows: Any, *, num_samples: int | None = None, seed: int = 0) -> BoundedLikelihood:
        r"""Bound and importance-sampled estimate of $\log p(v)$, from the same draws $h_s \sim q(h \mid v)$.

        With $\log w_s = \log p(v \mid h_s) - F_2(h_s) - \log Z_2 - \log q(h_s \mid v)$ the bound is $E[\log w_s]$, for
        which the entropy of $q$ is taken exactly, and the estimate $\log \frac1S \sum_s w_s$. Samples are streamed, and
        a row's draws are its own: its numbers are the same whatever other rows come with it.
        """
        S = self.num_samples if num_samples is None else num_samples
        require_whole("likelihood", "num_samples", S, 1)
        v = as_bits("likelihood", rows, len(self.first.visible_bias))
        return score_rows(self.first, self.top, self.partition.log_z, v, S, jax.random.key(seed))

    def sample(self, num: int, *, seed: int = 0) -> UInt8[np.ndarray, "num x"]:
        """New rows: `sample_steps` of Gibbs sampling in the top machine, led to it from independent bits, then down."""
        require_whole("sample", "num", num, 0)
        key_top, key_down = jax.random.split(jax.random.key(seed))
        h = sample_chains(self.top, self.base, self.sample_steps, key_top, num)
        return np.asarray(draw_bits(self.first.visible_logits(h), key_down), np.uint8)

    def save(self, path: Path | str) -> None:
        """Write it as a safetensors file, which `FittedDBN.load` reads."""
        tensors = machine_tensors(self.first, "first.") | machine_tensors(self.top, "top.")
        described = {
            "format": _FORMAT,
            "version": _VERSION,
            "partition": json.dumps(self.partition._asdict()),
            "num_samples": str(self.num_samples),
            "sample_steps": str(self.sample_steps),
        }
        write_tensors(Path(path), {**tensors, "base": np.asarray(self.base)}, described)

    @classmethod
    def load(cls, path: Path | str) -> "FittedDBN":
        """The network that `save` wrote."""
        tensors, text = read_model(path, _FORMAT, _VERSION)
        return cls(
            machine_from(tensors, "first."),
            machine_from(tensors, "top."),
            jnp.asarray(tensors["base"]),
            LogPartition(**json.loads(text["partition"])),
            int(text["num_samples"]),
            int(text["sample_steps"]),
        )


@dataclass(frozen=True)
class DBN:
    """A deep belief network of binary rows, trained greedily: the settings from which `fit` makes a `FittedDBN`.

    - `hidden`: units of the layers, the first one's and the top's.
    - `training`: how each of the two machines is trained.
    - `annealing`: how log Z of the top machine is estimated at the end, where it cannot be counted.
    - `num_samples`: draws a row for `score_samples`.
    - `sample_steps`: Gibbs steps in the top machine for a sample.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = (rng.random((600, 1)) < 0.5) ^ (rng.random((600, 4)) < 0.1)  # all zeros or ones, a tenth of them flipped
    >>> quick = Contrastive(epochs=60, batch_size=50, learning_rate=0.1)
    >>> model = DBN(hidden=(3, 4), training=(quick, quick)).fit(rows)
    >>> bool(model.score_samples(rows).mean() > -2.2), model.sample(3).shape  # independent bits have -2.77
    (True, (3, 4))
    """

    hidden: tuple[int, ...] = (500, 2000)
    training: tuple[Contrastive, ...] = field(default_factory=lambda: (Contrastive(), Contrastive()))
    annealing: Annealing = field(default_factory=Annealing)
    num_samples: int = 100
    sample_steps: int = 2000

    def __post_init__(self) -> None:
        for name, what in (("hidden", "sizes of layers"), ("training", "settings, Contrastive(...) for each layer")):
            value = getattr(self, name)
            if not isinstance(value, Sequence) or len(value) != 2:
                raise ValueError(f"DBN: expected two {what}, in `{name}`; got {value!r}.")
        for size in self.hidden:
            require_whole("DBN", "hidden", size, 1)
        for name in ("num_samples", "sample_steps"):
            require_whole("DBN", name, getattr(self, name), 1)

    def fit(
        self,
        rows: Any,
        valid: Any = None,
        *,
        seed: int = 0,
        watchers: Sequence[AbstractWatcher] = (),
        checkpoints: Checkpoints | None = None,
    ) -> FittedDBN:
        """Train on rows of zeros and ones, shape `(n, x)`: the first machine, then the top one on its hidden units.

        With `valid` rows, each machine is the best by them that was seen: the first by its mean log p, the top one by
        the bound. Watchers see two runs, one after the other; checkpoints are in `layer-1` and `layer-2` of the folder.
        """
        v = as_bits("DBN.fit", rows)
        held_out = None if valid is None else as_bits("DBN.fit", valid, v.shape[1], "valid")
        validated = {f"validation data{DIGEST}": digest(held_out)}
        keys = jax.random.split(jax.random.key(seed), 8)
        base = base_logits(v.sum(axis=0), len(v))
        first = train(
            self.training[0],
            new_machine(base, self.hidden[0], keys[0]),
            v,
            base=base,
            judge=None if held_out is None else make_judge(self.training[0], held_out, base, keys[1]),
            key=keys[2],
            watchers=watchers,
            checkpoints=checkpoints and checkpoints.layer(1),
            described={"hidden": self.hidden[0], **validated},
        )
        base = base_logits(_hidden_sums(first, v), len(v))
        judge = None
        if held_out is not None:
            h, offset = _lifted(first, held_out, keys[3])
            judge = make_judge(self.training[1], h, base, keys[4], offset)
        top = train(
            self.training[1],
            top_machine(first, self.hidden[1], base, keys[5]),
            v,
            base=base,
            judge=judge,
            below=first,
            key=keys[6],
            watchers=watchers,
            checkpoints=checkpoints and checkpoints.layer(2),
            described={"hidden": list(self.hidden), f"first layer{DIGEST}": digest(first.weights), **validated},
        )
        partition = log_partition(top, base, self.annealing, keys[7])
        return FittedDBN(first, top, base, partition, self.num_samples, self.sample_steps)


def top_machine(
    first: BoltzmannMachine, hidden: int, base: Float[Array, " k"], key: Key[Array, ""]
) -> BoltzmannMachine:
    r"""A top machine to start from: with room for it, the first one upside down, and units that do almost nothing.

    Then $p(h)$ is the first machine's own, $q$ is the exact posterior, and the bound starts at the first machine's
    $\log p(v)$; whatever the top machine learns about $h$ raises it. With fewer hidden units than columns, it
    starts with small weights, and h at its rates, whose logits are `base`.
    """
    x = len(first.visible_bias)
    small = new_machine(base, hidden, key)
    if hidden < x:
        return small
    return BoltzmannMachine(
        small.weights.at[:, :x].set(first.weights.T),
        first.hidden_bias,
        small.hidden_bias.at[:x].set(first.visible_bias),
    )


def _hidden_sums(first: BoltzmannMachine, v: UInt8[np.ndarray, "n x"]) -> Float[np.ndarray, " k"]:
    """The sum of q(h | v) over the rows."""
    sums = jax.jit(lambda machine, v: jnp.sum(sigmoid(machine.hidden_logits(v.astype(machine.weights.dtype))), axis=0))
    total = sum(np.asarray(sums(first, v[i : i + 5000]), np.float64) for i in range(0, len(v), 5000))
    return np.asarray(total)


@jax.jit
def _lift(
    first: BoltzmannMachine, v: Float[Array, "n x"], key: Key[Array, ""]
) -> tuple[Float[Array, "n k"], Float[Array, ""]]:
    logits = first.hidden_logits(v)
    h = draw_bits(logits, quick_key(key))
    return h, jnp.mean(log_bits(v, first.visible_logits(h)) + entropy(logits))


def _lifted(
    first: BoltzmannMachine, v: UInt8[np.ndarray, "n x"], key: Key[Array, ""]
) -> tuple[UInt8[np.ndarray, "n k"], float]:
    r"""A draw of h for each row, and the mean of $\log p(v \mid h) + H(q)$: the bound without the top machine."""
    h, offset = _lift(first, jnp.asarray(v, first.weights.dtype), key)
    return np.asarray(h, np.uint8), float(offset)

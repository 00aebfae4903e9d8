r"""Learning a Boltzmann machine: the likelihood's gradient, with its second term from Markov chains.

$$-\nabla \log p(v) = \nabla F(v) - E_{p(v')}[\nabla F(v')]$$

Contrastive divergence (Hinton, 2002) starts k steps of Gibbs sampling at the batch. Persistent contrastive divergence
(Tieleman, 2008) goes on from where the chains were after the last step, so that they follow the machine as it changes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.nn import sigmoid
from jaxtyping import Bool, Float, Int, Key, PyTree, UInt8

from dlgm.baselines.boltzmann import BoltzmannMachine, draw_bits, sample_chains
from dlgm.keys import quick_key
from dlgm.learning.config import OPTIMISERS, SCHEDULES, TrainingConfig
from dlgm.names import require_one_of, require_whole

_MEMORY = 0.99  # of the running mean of the hidden units
_LEADING_STEPS = 500  # of the persistent chains before training
_START_SCALE = 0.01  # of the first weights


@dataclass(frozen=True)
class Contrastive:
    """How a Boltzmann machine is trained."""

    epochs: int = 100  # passes over the rows
    batch_size: int = 100  # rows in a step
    gibbs_steps: int | tuple[int, int] = 1  # k; or its first and last value, between which it grows evenly
    persistent: bool = True  # chains go on where they were, rather than start at the batch
    chains: int | None = None  # persistent ones; None: as many as rows in a batch
    optimiser: str = "sgd"  # one of OPTIMISERS of dlgm.learning.config; sgd has a momentum of 0.9
    learning_rate: float = 0.02  # at its highest
    schedule: str = "linear"  # how it falls to zero: linear, cosine, or constant
    weight_decay: float = 0.0  # the precision of a Gaussian prior of the weights, per row; biases have none
    averaging: float = 0.999  # decay of the running average of the parameters, which is what is kept; 0 for none
    centred: bool = True  # follow the gradient of the centred machine, see `centre`; for sgd only
    validate_every: int = 5  # epochs between looks at the validation rows, which cost an annealing each
    valid_temperatures: int = 2000  # of that annealing

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "validate_every", "valid_temperatures"):
            require_whole("Contrastive", name, getattr(self, name), 1)
        for k in self._gibbs_range():
            require_whole("Contrastive", "gibbs_steps", k, 1)
        if self.chains is not None:
            require_whole("Contrastive", "chains", self.chains, 1)
        require_one_of("optimiser", self.optimiser, tuple(OPTIMISERS))
        require_one_of("schedule", self.schedule, SCHEDULES)
        if self.centred and self.optimiser != "sgd":
            raise ValueError(
                f"Contrastive: expected sgd for the centred gradient; got {self.optimiser}, which rescales each "
                "parameter alone and undoes it. Use centred=False with it."
            )
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"Contrastive: expected a positive `learning_rate`; got {self.learning_rate!r}.")
        for name, high in (("weight_decay", math.inf), ("averaging", 1.0)):
            if not 0 <= getattr(self, name) < high:
                raise ValueError(
                    f"Contrastive: expected `{name}` from 0 to below {high:g}; got {getattr(self, name)!r}."
                )

    def _gibbs_range(self) -> tuple[int, int]:
        k = self.gibbs_steps
        return k if isinstance(k, tuple) else (k, k)

    def gibbs_steps_at(self, step: Int[Array, ""] | int, num_steps: int) -> Int[Array, ""]:
        """The number of Gibbs steps k in a step of training."""
        first, last = self._gibbs_range()
        share = jnp.asarray(step, jnp.float32) / max(1, num_steps - 1)
        return jnp.round(first + share * (last - first)).astype(jnp.int32)

    def make_optimiser(self, num_steps: int) -> optax.GradientTransformation:
        """The optimiser with its schedule, after a short rise of the rate."""
        config = TrainingConfig(optimiser=self.optimiser, learning_rate=self.learning_rate, schedule=self.schedule)
        return config.make_optimiser(num_steps)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class State(eqx.Module):
    """What the next step needs."""

    machine: BoltzmannMachine
    averaged: BoltzmannMachine  # a running average of the machine's parameters: what is evaluated and kept
    optimiser: PyTree
    chains: Float[Array, "c x"]  # the visible units of the persistent chains
    hidden_mean: Float[Array, " k"]  # a running mean of p(h | v) over rows
    key: Key[Array, ""]  # of the whole run; steps and epochs fold their number into it
    step: Int[Array, ""]
    loss: Float[Array, ""]  # the mean of `contrast` over the steps of this epoch


Run = Callable[[State, UInt8[Array, "n x"], Int[Array, "steps b"], Int[Array, ""] | int], State]


def new_machine(base: Float[Array, " x"], hidden: int, key: Key[Array, ""]) -> BoltzmannMachine:
    """Small random weights, and visible biases that make the columns' rates what they are in the rows."""
    weights = _START_SCALE * jax.random.normal(key, (len(base), hidden), base.dtype)
    return BoltzmannMachine(weights, jnp.copy(base), jnp.zeros(hidden, base.dtype))


def start_state(
    config: Contrastive, machine: BoltzmannMachine, base: Float[Array, " x"], num_steps: int, key: Key[Array, ""]
) -> State:
    """The state before the first step, its chains led from independent bits with the logits `base` to the machine.

    The top machine of a deep network starts with large weights: from chains that are not yet its own it would unlearn.
    """
    num_chains = config.chains or config.batch_size
    chains = sample_chains(machine, base, _LEADING_STEPS, jax.random.fold_in(key, 2), num_chains)
    zero = jnp.zeros((), base.dtype)
    state = State(
        machine=machine,
        averaged=machine,
        optimiser=config.make_optimiser(num_steps).init(machine),
        chains=chains,
        hidden_mean=sigmoid(machine.hidden_bias),
        key=key,
        step=jnp.zeros((), jnp.int32),
        loss=zero,
    )
    return jax.tree.map(jnp.copy, state)  # the steps take the buffers over, and none may be theirs twice


def contrast(machine: BoltzmannMachine, v: Float[Array, "b x"], fantasies: Float[Array, "c x"]) -> Float[Array, ""]:
    r"""$\overline{F(v)} - \overline{F(v')}$ of rows and of the chains' draws $v'$.

    With draws from the machine its gradient is, on average, that of $-\log p$; its value is not a likelihood's.
    """
    return jnp.mean(machine.free_energy(v)) - jnp.mean(machine.free_energy(fantasies))


def run_chains(
    machine: BoltzmannMachine, v: Float[Array, "c x"], k: Int[Array, ""] | int, key: Key[Array, ""]
) -> Float[Array, "c x"]:
    """The visible units after k steps of Gibbs sampling."""
    return jax.lax.fori_loop(0, k, lambda i, v: machine.gibbs(v, jax.random.fold_in(key, i)), v)


def centre(
    gradient: BoltzmannMachine, visible_mean: Float[Array, " x"], hidden_mean: Float[Array, " k"]
) -> BoltzmannMachine:
    r"""The gradient of a machine whose energy is in $v - \mu$ and $h - \lambda$, as a change of the plain parameters.

    It no longer depends on which of two values of a bit is called one (Cho et al., 2011; Melchior et al., 2016):
    $\Delta W = \nabla_W - \mu \nabla_c^\top - \nabla_b \lambda^\top$, $\Delta b = \nabla_b - \Delta W \lambda$,
    $\Delta c = \nabla_c - \Delta W^\top \mu$. It is a descent direction, and zero only where the gradient is.
    """
    mu, lam = visible_mean, hidden_mean
    W = gradient.weights - jnp.outer(mu, gradient.hidden_bias) - jnp.outer(gradient.visible_bias, lam)
    return BoltzmannMachine(W, gradient.visible_bias - W @ lam, gradient.hidden_bias - mu @ W)


def make_run(
    config: Contrastive,
    *,
    visible_mean: Float[Array, " x"],
    num_steps: int,
    below: BoltzmannMachine | None = None,
) -> Run:
    """`run(state, rows, order, stop)`: steps up to the one numbered `stop`, in one compiled loop.

    `order` has the numbers of an epoch's rows, a line a step. With a machine `below`, what is learned from is its
    hidden units, drawn anew given each row each time.
    """
    optimiser = config.make_optimiser(num_steps)

    def step(state: State, v: Float[Array, "b x"], steps_per_epoch: int) -> State:
        key_below, key_chains = jax.random.split(
            jax.random.fold_in(quick_key(jax.random.fold_in(state.key, 1)), state.step)
        )
        machine = state.machine
        if below is not None:
            v = draw_bits(below.hidden_logits(v), key_below)
        k = config.gibbs_steps_at(state.step, num_steps)
        chains = run_chains(machine, state.chains if config.persistent else v, k, key_chains)
        loss, gradient = jax.value_and_grad(contrast)(machine, v, chains)
        gradient = eqx.tree_at(lambda g: g.weights, gradient, gradient.weights + config.weight_decay * machine.weights)
        hidden_mean = state.hidden_mean
        if config.centred:
            hidden_now = jnp.mean(sigmoid(machine.hidden_logits(v)), axis=0)
            hidden_mean = _MEMORY * hidden_mean + (1 - _MEMORY) * hidden_now
            gradient = centre(gradient, visible_mean, hidden_mean)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, machine)
        machine = optax.apply_updates(machine, updates)
        # A short memory at first, while the start still weighs too much, and a longer one later.
        t = state.step.astype(loss.dtype)
        decay = jnp.minimum(config.averaging, (1 + t) / (10 + t))
        averaged = jax.tree.map(lambda a, m: decay * a + (1 - decay) * m, state.averaged, machine)
        done = (state.step % steps_per_epoch).astype(loss.dtype)
        mean = jnp.where(done > 0, state.loss + (loss - state.loss) / (done + 1), loss)
        return State(
            machine=machine,
            averaged=averaged,
            optimiser=optimiser_state,
            chains=chains if config.persistent else state.chains,
            hidden_mean=hidden_mean,
            key=state.key,
            step=state.step + 1,
            loss=mean,
        )

    def run(state: State, rows: UInt8[Array, "n x"], order: Int[Array, "steps b"], stop: Int[Array, ""] | int) -> State:
        def one(state: State) -> State:
            v = rows[order[state.step % len(order)]].astype(state.chains.dtype)
            return step(state, v, len(order))

        def going(state: State) -> Bool[Array, ""]:
            return (state.step < stop) & jnp.isfinite(state.loss)

        return jax.lax.while_loop(going, one, state)

    return jax.jit(run, donate_argnums=0)

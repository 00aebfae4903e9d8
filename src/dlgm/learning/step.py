"""The training step and the compiled run of many. Pure: no files, clocks or printing."""

from collections.abc import Callable
from functools import lru_cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Bool, Float, Int, Key, PyTree, Shaped

from dlgm.keys import quick_key
from dlgm.learning.config import TrainingConfig
from dlgm.learning.mesh import over_rows
from dlgm.learning.moves import moved
from dlgm.learning.objective import AbstractObjective, FreeEnergy, minibatch_free_energy
from dlgm.model.trainable import AbstractTrainable

MOVES = 2**31 - 2  # the key's branch for how images are moved; small numbers are those of chunks
# Why a step was refused: the place of each flag in Info.causes.
CAUSES = ("the reconstruction term", "the KL term", "the gradient", "the update of the parameters")


class Info(eqx.Module):
    """What a person wants to see of an epoch: means over its steps, per row, in nats."""

    loss: Float[Array, ""]
    reconstruction: Float[Array, ""]
    kl: Float[Array, " g"]
    prior: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    beta: Float[Array, ""]  # of the last step, as is the learning rate
    learning_rate: Float[Array, ""]


class State(eqx.Module):
    """What the next step needs."""

    model: AbstractTrainable
    averaged: AbstractTrainable  # a running average of the model's parameters: what is evaluated and kept
    optimiser: PyTree
    key: Key[Array, ""]  # of the whole run; steps and epochs fold their number into it
    step: Int[Array, ""]
    info: Info  # means over the steps of this epoch
    causes: Bool[Array, " c"]  # which of CAUSES were not finite; once one is, the state no longer changes

    @property
    def sound(self) -> Bool[Array, ""]:
        """Whether every step so far was finite."""
        return ~jnp.any(self.causes)


class Resident(eqx.Module):
    """Rows that are all on the device, and the order in which this epoch takes them."""

    rows: Shaped[Array, "n x"]
    mask: Bool[Array, "n x"] | None
    order: Int[Array, "steps b"]

    def batch(self, n: Int[Array, ""] | int) -> tuple[Shaped[Array, "b x"], Bool[Array, "b x"] | None]:
        """The rows of the epoch's step `n`."""
        index = self.order[n]
        return self.rows[index], None if self.mask is None else self.mask[index]


class Chunk(eqx.Module):
    """Some steps' rows, put into their order before they came to the device."""

    rows: Shaped[Array, "steps b x"]
    mask: Bool[Array, "steps b x"] | None
    first: Int[Array, ""]  # the epoch's step that the first batch is for

    def batch(self, n: Int[Array, ""] | int) -> tuple[Shaped[Array, "b x"], Bool[Array, "b x"] | None]:
        """The rows of the epoch's step `n`."""
        return self.rows[n - self.first], None if self.mask is None else self.mask[n - self.first]


Batches = Resident | Chunk
Run = Callable[[State, Batches, Int[Array, ""] | int], State]


def start_state(model: AbstractTrainable, optimiser: optax.GradientTransformation, key: Key[Array, ""]) -> State:
    """The state before the first step. Every array is a fresh one, for the steps take them over."""
    return _starter(optimiser)(model, key)


@lru_cache(maxsize=4)
def _starter(optimiser: optax.GradientTransformation) -> Callable[..., State]:
    @jax.jit
    def start(model: AbstractTrainable, key: Key[Array, ""]) -> State:
        def copy() -> AbstractTrainable:
            return jax.tree.map(jnp.copy, model)

        zero = jnp.zeros(())
        info = Info(zero, zero, jnp.zeros(model.num_groups), zero, zero, zero, zero)
        causes = jnp.zeros(len(CAUSES), bool)
        return State(copy(), copy(), optimiser.init(model), key, jnp.zeros((), jnp.int32), info, causes)

    return start


@partial(jax.jit, static_argnames="num_rows")
def epoch_order(key: Key[Array, ""], epoch: Int[Array, ""] | int, *, num_rows: int) -> Int[Array, " n"]:
    """The order of rows in an epoch (from 0), from the run's key."""
    return jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, 0), epoch), num_rows)


def make_run(
    config: TrainingConfig,
    objective: AbstractObjective,
    optimiser: optax.GradientTransformation,
    *,
    num_rows: int,
    batch_size: int,
    mesh: Mesh,
) -> Run:
    """`run(state, batches, stop)`: steps up to the one numbered `stop`, in one compiled loop that reuses the buffers.

    The number of steps is not part of the program, so that a run cut anywhere ends with the same bits. It ends early
    with a step that is not finite, before which the state stays.
    """
    steps_per_epoch = num_rows // batch_size
    num_steps = steps_per_epoch * config.epochs
    noise, rates = config.noise(), config.learning_rates(num_steps)

    def step(state: State, rows: Float[Array, "b x"], mask: Bool[Array, "b x"] | None, noises: Key[Array, ""]) -> State:
        key = jax.random.fold_in(noises, state.step)
        beta = config.beta(state.step.astype(jnp.float32), num_steps)

        def loss(model: AbstractTrainable, objective: AbstractObjective) -> tuple[Float[Array, ""], PyTree]:
            total, terms = minibatch_free_energy(
                objective,
                model,
                rows,
                mask,
                num_rows=num_rows,
                beta=beta,
                noise=noise,
                key=key,
                parameter_draws=config.parameter_draws,
                parameter_weight=config.parameter_weight,
            )
            return total / num_rows, terms  # per row, so that learning rates and clipping do not depend on N

        def slope(objective: AbstractObjective) -> Callable[[AbstractTrainable], PyTree]:
            return lambda model: jax.value_and_grad(loss, has_aux=True)(model, objective)

        if config.free_until:
            is_free = state.step < config.free_until * num_steps
            (value, terms), gradient = jax.lax.cond(is_free, slope(FreeEnergy()), slope(objective), state.model)
        else:
            (value, terms), gradient = slope(objective)(state.model)
        now = Info(
            loss=value,
            reconstruction=jnp.mean(terms.reconstruction),
            kl=jnp.mean(terms.kl, axis=0),
            prior=state.model.penalty() / num_rows,
            gradient_norm=optax.tree.norm(gradient),
            beta=beta,
            learning_rate=jnp.asarray(rates(state.step)),
        )
        # Whether the step is finite is known before it is taken: no optimiser of ours goes further than a thousand
        # times `reach` of the longest gradient so far. What is refused is far below what overflows.
        reach = now.learning_rate * (1 + now.gradient_norm)
        causes = ~jnp.isfinite(
            jnp.stack([now.reconstruction, jnp.sum(now.kl), now.loss + now.gradient_norm, 1e18 * reach])
        )
        state = eqx.tree_at(lambda s: s.causes, state, causes)
        return jax.lax.cond(state.sound, take, lambda state, *_: state, state, gradient, now)

    def take(state: State, gradient: AbstractTrainable, now: Info) -> State:
        """The state after a step along a finite gradient."""
        if config.clip:
            shorter = jnp.minimum(1, config.clip / now.gradient_norm)
            gradient = jax.tree.map(lambda g: shorter * g, gradient)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.model)
        model = optax.apply_updates(state.model, updates)
        # A short memory at first, while the start still weighs too much, and a longer one later.
        t = state.step.astype(jnp.float32)
        decay = jnp.minimum(config.averaging, (1 + t) / (10 + t))
        averaged = jax.tree.map(lambda a, m: decay * a + (1 - decay) * m, state.averaged, model)
        # Running means over the epoch, which begin anew with its first step.
        done = (state.step % steps_per_epoch).astype(jnp.float32)
        info = jax.tree.map(
            lambda mean, new: jnp.where(done > 0, mean + (new - mean) / (done + 1), new), state.info, now
        )
        info = eqx.tree_at(lambda i: (i.beta, i.learning_rate), info, (now.beta, now.learning_rate))
        return State(model, averaged, optimiser_state, state.key, state.step + 1, info, state.causes)

    def moved_batch(
        rows: Shaped[Array, "b x"], mask: Bool[Array, "b x"] | None, number: Int[Array, ""], moves: Key[Array, ""]
    ) -> tuple[Shaped[Array, "b x"], Bool[Array, "b x"] | None]:
        """Images moved a little, with their holes."""
        share, key = config.share_moved(number.astype(jnp.float32), num_steps), jax.random.fold_in(moves, number)

        def move(cells: Shaped[Array, "b x"]) -> Shaped[Array, "b x"]:
            image = config.image_of(cells.shape[1])
            return moved(cells, image, furthest=config.move, steepest=config.slant, share=share, key=key)

        return move(rows), None if mask is None else move(mask)

    def run(state: State, batches: Batches, stop: Int[Array, ""] | int) -> State:
        noises, moves = (quick_key(jax.random.fold_in(state.key, branch)) for branch in (1, MOVES))

        def one(state: State) -> State:
            rows, mask = batches.batch(state.step % steps_per_epoch)
            if config.moves:
                rows, mask = moved_batch(rows, mask, state.step, moves)
            rows, mask = jax.lax.with_sharding_constraint((rows, mask), over_rows(mesh))
            return step(state, rows.astype(jnp.float32), mask, noises)

        return jax.lax.while_loop(lambda state: state.sound & (state.step < stop), one, state)

    return jax.jit(run, donate_argnums=0)

"""The training step and the compiled epoch. Pure: no files, clocks or printing."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Bool, Float, Int, Key, PyTree, Shaped

from dlgm.learning.config import TrainingConfig
from dlgm.learning.mesh import over_rows
from dlgm.learning.objective import AbstractObjective, minibatch_free_energy
from dlgm.model import Model

# Why a step was refused: the place of each flag in Info.causes.
CAUSES = ("the reconstruction term", "the KL term", "the gradient", "the update of the parameters")


class State(eqx.Module):
    """What the next step needs."""

    model: Model
    averaged: Model  # a running average of the model's parameters: what is evaluated and kept
    optimiser: PyTree
    key: Key[Array, ""]  # of the whole run; steps and epochs fold their number into it
    step: Int[Array, ""]
    sound: Bool[Array, ""]  # whether every step so far was finite; a state that is not sound no longer changes


class Info(eqx.Module):
    """What a person wants to see of a step or, averaged, of an epoch. Per row, in nats."""

    loss: Float[Array, "*steps"]
    reconstruction: Float[Array, "*steps"]
    kl: Float[Array, "*steps g"]
    prior: Float[Array, "*steps"]
    gradient_norm: Float[Array, "*steps"]
    beta: Float[Array, "*steps"]
    learning_rate: Float[Array, "*steps"]
    causes: Bool[Array, "*steps c"]  # which of CAUSES were not finite


Epoch = Callable[[State, Shaped[Array, "n x"], Bool[Array, "n x"] | None], tuple[State, Info]]


def start_state(model: Model, optimiser: optax.GradientTransformation, key: Key[Array, ""]) -> State:
    """The state before the first step. Every array is a fresh one, for the epoch takes them over."""

    @jax.jit
    def start(model: Model, key: Key[Array, ""]) -> State:
        def copy() -> Model:
            return jax.tree.map(jnp.copy, model)

        return State(copy(), copy(), optimiser.init(model), key, jnp.zeros((), jnp.int32), jnp.ones((), bool))

    return start(model, key)


def make_epoch(
    config: TrainingConfig,
    objective: AbstractObjective,
    optimiser: optax.GradientTransformation,
    *,
    num_rows: int,
    batch_size: int,
    mesh: Mesh,
) -> Epoch:
    """One pass over the data as a single compiled scan over steps; the state's buffers are reused.

    Rows come in an order drawn anew for each epoch; those left over after the last whole batch wait for another.
    """
    steps_per_epoch = num_rows // batch_size
    num_steps = steps_per_epoch * config.epochs
    noise, rates = config.noise(), config.learning_rates(num_steps)

    def step(state: State, rows: Float[Array, "b x"], mask: Bool[Array, "b x"] | None) -> tuple[State, Info]:
        key = jax.random.fold_in(jax.random.fold_in(state.key, 1), state.step)
        beta = config.beta(state.step.astype(jnp.float32), num_steps)

        def loss(model: Model) -> tuple[Float[Array, ""], PyTree]:
            total, terms = minibatch_free_energy(
                objective, model, rows, mask, num_rows=num_rows, beta=beta, noise=noise, key=key
            )
            return total / num_rows, terms  # per row, so that learning rates and clipping do not depend on N

        (value, terms), gradient = jax.value_and_grad(loss, has_aux=True)(state.model)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.model)
        model = optax.apply_updates(state.model, updates)
        # A short memory at first, while the start still weighs too much, and a longer one later.
        t = state.step.astype(jnp.float32)
        decay = jnp.minimum(config.averaging, (1 + t) / (10 + t))
        averaged = jax.tree.map(lambda a, m: decay * a + (1 - decay) * m, state.averaged, model)

        norm = optax.tree.norm(gradient)
        causes = ~jnp.isfinite(
            jnp.stack([jnp.sum(terms.reconstruction), jnp.sum(terms.kl), norm + value, optax.tree.norm(updates)])
        )
        sound = state.sound & ~jnp.any(causes)
        after = State(model, averaged, optimiser_state, state.key, state.step + 1, sound)
        kept = jax.tree.map(lambda new, old: jnp.where(sound, new, old), _without_key(after), _without_key(state))
        info = Info(
            loss=value,
            reconstruction=jnp.mean(terms.reconstruction),
            kl=jnp.mean(terms.kl, axis=0),
            prior=state.model.generative.penalty() / num_rows,
            gradient_norm=norm,
            beta=beta,
            learning_rate=jnp.asarray(rates(state.step)),
            causes=causes,
        )
        return eqx.tree_at(lambda s: s.sound, eqx.combine(kept, state), sound), info

    def epoch(state: State, rows: Shaped[Array, "n x"], mask: Bool[Array, "n x"] | None) -> tuple[State, Info]:
        key = jax.random.fold_in(jax.random.fold_in(state.key, 0), state.step // steps_per_epoch)
        order = jax.random.permutation(key, num_rows)[: steps_per_epoch * batch_size]

        def one(state: State, index: Int[Array, " b"]) -> tuple[State, Info]:
            def take(array: Array) -> Array:
                return jax.lax.with_sharding_constraint(array[index], over_rows(mesh))

            return step(state, take(rows).astype(jnp.float32), None if mask is None else take(mask))

        return jax.lax.scan(one, state, order.reshape(steps_per_epoch, batch_size))

    return jax.jit(epoch, donate_argnums=0)


def _without_key(state: State) -> State:
    return eqx.tree_at(lambda s: s.key, state, None)

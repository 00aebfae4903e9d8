"""NumPyro: python numpyro_peer.py (step | likelihood) (each | scan)"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, RenyiELBO, TraceMeanField_ELBO

from protocol import BATCH, DECAY, FLIPPED, HIDDEN, LATENTS, PIXELS, RATE, ROWS, SAMPLES, bits, serve


def dense(name: str, num_in: int, num_out: int, bias: bool = True) -> Callable[[jax.Array], jax.Array]:
    weight = numpyro.param(f"{name}_weight", lambda key: jax.random.normal(key, (num_in, num_out)) / num_in**0.5)
    shift = numpyro.param(f"{name}_bias", jnp.zeros(num_out)) if bias else 0.0
    return lambda x: x @ weight + shift


def model(rows: jax.Array, noisy: jax.Array) -> None:
    G = dense("G", LATENTS, LATENTS, bias=False)
    first, second = dense("decode_1", LATENTS, HIDDEN), dense("decode_2", HIDDEN, HIDDEN)
    last = dense("decode_3", HIDDEN, PIXELS)
    with numpyro.plate("rows", rows.shape[0]):
        xi = numpyro.sample("xi", dist.Normal(0, 1).expand([LATENTS]).to_event(1))
        logits = last(jnp.tanh(second(jnp.tanh(first(G(xi))))))
        numpyro.sample("v", dist.Bernoulli(logits=logits).to_event(1), obs=rows)


def guide(rows: jax.Array, noisy: jax.Array) -> None:
    first, second = dense("encode_1", PIXELS, HIDDEN), dense("encode_2", HIDDEN, HIDDEN)
    mean, log_variance = jnp.split(dense("head", HIDDEN, 2 * LATENTS)(jnp.tanh(second(jnp.tanh(first(noisy))))), 2, -1)
    with numpyro.plate("rows", rows.shape[0]):
        numpyro.sample("xi", dist.Normal(mean, jnp.exp(0.5 * log_variance)).to_event(1))


def step(style: str) -> None:
    """As NumPyro's own example does: `each` step a call, or an epoch of them in a `scan`."""
    rows = jnp.asarray(bits(ROWS))
    order = jnp.asarray(np.random.default_rng(1).permutation(ROWS).reshape(-1, BATCH))
    svi = SVI(model, guide, optax.rmsprop(RATE, decay=DECAY), TraceMeanField_ELBO())
    state = svi.init(jax.random.key(0), rows[:BATCH], rows[:BATCH])

    def update(carry: tuple[Any, jax.Array], n: jax.Array) -> tuple[tuple[Any, jax.Array], jax.Array]:
        state, key = carry
        key, key_noise = jax.random.split(key)
        batch = rows[order[n % len(order)]]
        flips = jax.random.bernoulli(key_noise, FLIPPED, batch.shape)
        state, loss = svi.update(state, batch, jnp.where(flips, 1 - batch, batch))
        return (state, key), loss

    carry = (state, jax.random.key(1))
    if style == "scan":
        epoch = jax.jit(lambda carry, n: jax.lax.scan(update, carry, jnp.arange(n)), static_argnums=1)

        def job(n: int) -> None:
            nonlocal carry
            carry, _ = epoch(carry, n)
            jax.block_until_ready(carry)
    else:
        one = jax.jit(update)

        def job(n: int) -> None:
            nonlocal carry
            for i in range(n):
                carry, _ = one(carry, i)
            jax.block_until_ready(carry)

    serve(job)


def likelihood(style: str) -> None:
    """The Renyi bound with alpha = 0 is log mean w, row by row."""
    rows = jnp.asarray(bits(100))
    svi = SVI(model, guide, optax.rmsprop(RATE), RenyiELBO(alpha=0, num_particles=SAMPLES))
    state = svi.init(jax.random.key(0), rows[:1], rows[:1])
    evaluate = jax.jit(svi.evaluate)
    serve(lambda n: [float(evaluate(state, rows[i : i + 1], rows[i : i + 1])) for i in range(n)])


if __name__ == "__main__":
    {"step": step, "likelihood": likelihood}[sys.argv[1]](sys.argv[2])

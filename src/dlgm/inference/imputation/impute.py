"""Filling holes: one call for three methods, all rows at once, each with its own randomness."""

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, UInt32

from dlgm.inference.imputation.chains import ChainState, advance, chain_step, holes_from, metropolis_step, start_chain
from dlgm.inference.imputation.resample import Resampled, pooled, resample_row
from dlgm.inference.imputation.result import Imputation
from dlgm.inference.rows import as_rows, blocks, row_key
from dlgm.keys import quick_key
from dlgm.model import AbstractObservation, GenerativeModel, Model
from dlgm.names import require_one_of
from dlgm.warn import warn

METHODS = ("metropolis", "chain", "resample")
_CHAINS = 200  # that run together
_FEW = 10  # effective proposals, on fewer of which weights should not rest
_TOO_MANY = 0.01  # share of cells or rows for which either is worth a word


class Filled(NamedTuple):
    """What a block of rows gives. Resampled draws count as one chain."""

    draws: Float[Array | np.ndarray, "b c t x"]
    mean: Float[Array | np.ndarray, "b x"]
    probabilities: Float[Array | np.ndarray, "b x k"]
    acceptance: Float[Array | np.ndarray, " b"]
    effective_sample_size: Float[Array | np.ndarray, " b"]
    log_p: Float[Array | np.ndarray, " b"]


def impute(
    model: Model,
    rows: Any,
    mask: Any = None,
    *,
    method: str = "metropolis",
    draws: int = 100,
    chains: int = 4,
    warm_up: int = 50,
    thin: int = 10,
    newton: int = 0,
    key: Key[Array, ""],
    progress: Callable[[int], None] | None = None,
) -> Imputation:
    r"""Draws of the holes from $p(v_m \mid v_o)$, for every row by itself.

    | `method` | what it does | right |
    | --- | --- | --- |
    | `"metropolis"` | the chain below, with every proposal of the recognition model taken or refused | as it runs on |
    | `"chain"` | the paper's: $\xi \sim q(\xi \mid v)$, $v_m \sim p(v_m \mid \xi)$, and again | as far as q is exact |
    | `"resample"` | importance sampling of $\xi$, and draws chosen by weight | as `draws` times `thin` grows |

    A row's draws come from `key` and what was observed of the row, not from the rows around it. (Copies of a row are
    told apart by the order in which they come, so that their draws differ; the first has those that it has alone.)

    **Arguments**

    - `rows`, `mask`: shape `(n, x)`, and which cells were observed; by default, those that are not NaN.
    - `draws`: completed data sets to return. A 90 % interval needs 19 or more, and is steadier with 100.
    - `chains`: for each row; each gives `draws / chains` draws. With two or more, R-hat is known, and a warning says if
      they have not mixed. In a Bayesian model each chain has its own draw of the parameters, the same for all rows, and
      so have as many equal parts of what `resample` draws; R-hat then rises with what the parameters leave open.
    - `warm_up`: steps of the plain chain at the start, for every method. To `resample`, the rows they end with are
      places to propose from, beside the recognition model's answer to the row with its holes; with none, that answer
      is all there is, which is enough for a model that sees its mask and was trained on rows with holes.
    - `thin`: steps between two draws; for `resample`, proposals for each draw.
    - `newton`: for `resample` alone, steps of Newton's method to the peak of each row's $p(\xi \mid v_o)$, another
      place to propose from. A few find it.
    - `progress`: called with the number of rows done, of those that have holes.
    """
    require_one_of("method", method, METHODS)
    for name, value, least in (
        ("draws", draws, 1),
        ("chains", chains, 1),
        ("warm_up", warm_up, 0),
        ("thin", thin, 1),
        ("newton", newton, 0),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}: expected a whole number of at least {least}; got {value!r}.")
    chains = min(chains, draws)
    if draws % chains and (method != "resample" or model.parameters is not None):
        raise ValueError(f"draws: expected a multiple of the number of chains, {chains}; got {draws}.")
    rows, mask = as_rows(model, rows, mask)
    mask = np.ones(rows.shape, bool) if mask is None else mask
    incomplete = np.flatnonzero(~mask.all(axis=1))
    work: Callable[..., Filled]
    if method == "resample":
        work = partial(_resample_block, without_chains=warm_up == 0, newton=newton)
    else:
        work = partial(_chain_block, corrected=method == "metropolis")
    # Only rows with holes are worked on, and only what was drawn for the holes is kept.
    seen: Counter[bytes] = Counter()
    parts, done = [_nothing(model.generative.observation, draws)], 0
    for (v, m, hashes), real in blocks(rows[incomplete], mask[incomplete], max(1, _CHAINS // chains)):
        assert m is not None
        hashes[:real] = _told_apart(hashes[:real], seen)
        filled = work(model, v, m, hashes, key, warm_up, thin, num_draws=draws, num_chains=chains)
        parts.append(_of_holes(jax.tree.map(lambda leaf, real=real: np.asarray(leaf)[:real], filled), ~m[:real]))
        done += real
        if progress is not None:
            progress(done)
    together = Filled(*(np.concatenate(leaves) for leaves in zip(*parts, strict=True)))
    by_row = {}
    for name in ("acceptance", "effective_sample_size", "log_p"):
        by_row[name] = np.full(len(rows), np.nan, np.float32)
        by_row[name][incomplete] = getattr(together, name)
    imputation = Imputation(
        rows=np.where(mask, rows, np.nan).astype(np.float32),
        mask=mask,
        values=np.asarray(together.draws),
        means=np.asarray(together.mean),
        class_probabilities=np.asarray(together.probabilities),
        observation=model.generative.observation,
        method=method,
        num_chains=1 if method == "resample" else chains,
        **by_row,
    )
    _warn(imputation, model)
    return imputation


@partial(jax.jit, static_argnames=("corrected", "num_draws", "num_chains"))
def _chain_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"],
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    warm_up: Int[Array, ""] | int,
    thin: Int[Array, ""] | int,
    *,
    corrected: bool,
    num_draws: int,
    num_chains: int,
) -> Filled:
    generatives, axis = _of_chains(model, key, num_chains)
    each = num_draws // num_chains

    def one(v: Float[Array, " x"], m: Bool[Array, " x"], h: UInt32[Array, "2"]) -> Filled:
        def chain(generative: GenerativeModel, own: Key[Array, ""]) -> tuple[Array, ...]:
            observation, draw = generative.observation, holes_from(generative, v, m)
            plain = chain_step(model, generative, draw)
            step = metropolis_step(model, generative, draw) if corrected else plain
            key_start, key_warm, key_run = jax.random.split(own, 3)
            state = advance(plain, start_chain(generative, draw, key_start), warm_up, key_warm)

            if corrected:  # the plain chain ends elsewhere: what is counted begins once that is forgotten
                state = advance(step, state, thin, jax.random.fold_in(key_warm, warm_up))

            def counted(i: Int[Array, ""], carry: tuple[ChainState, Array, Array, Key[Array, ""]]) -> Any:
                state, mean, probabilities, k = carry
                state = step(state, jax.random.fold_in(k, i))
                mean = mean + observation.mean(state.outputs)
                return state, mean, probabilities + _class_probabilities(observation, state.outputs), k

            def record(carry: tuple[ChainState, Array, Array], t: Int[Array, ""]) -> Any:
                # Means are of every step, those between two records included.
                *carry, _ = jax.lax.fori_loop(0, thin, counted, (*carry, jax.random.fold_in(key_run, t)))
                return tuple(carry), carry[0].v

            nothing = jnp.zeros((observation.columns, num_codes(observation)))
            start = (state, jnp.zeros(v.shape), nothing)
            (end, mean, probabilities), trace = jax.lax.scan(record, start, jnp.arange(each))
            return trace, mean, probabilities, end.accepted - state.accepted

        keys = jax.random.split(row_key(key, h), num_chains)
        draws, mean, probabilities, taken = jax.vmap(chain, (axis, 0))(generatives, keys)
        unknown = jnp.asarray(jnp.nan)
        acceptance = jnp.sum(taken) / (num_draws * thin) if corrected else unknown
        return Filled(
            draws,
            jnp.where(m, v, jnp.sum(mean, axis=0) / (num_draws * thin)),
            jnp.sum(probabilities, axis=0) / (num_draws * thin),
            acceptance,
            unknown,
            unknown,
        )

    return jax.vmap(one)(rows, mask, hashes)


@partial(jax.jit, static_argnames=("thin", "num_draws", "num_chains", "without_chains", "newton"))
def _resample_block(
    model: Model,
    rows: Float[Array, "b x"],
    mask: Bool[Array, "b x"],
    hashes: UInt32[Array, "b 2"],
    key: Key[Array, ""],
    warm_up: Int[Array, ""] | int,
    thin: int,
    *,
    num_draws: int,
    num_chains: int,
    without_chains: bool,
    newton: int,
) -> Filled:
    generatives, axis = _of_chains(model, key, num_chains)
    parts = 1 if axis is None else num_chains

    def one(v: Float[Array, " x"], m: Bool[Array, " x"], h: UInt32[Array, "2"]) -> Filled:
        def part(generative: GenerativeModel, own: Key[Array, ""]) -> Resampled:
            draw = holes_from(generative, v, m)
            plain = chain_step(model, generative, draw)
            key_chains, key_proposals = jax.random.split(own)

            def fill(own: Key[Array, ""]) -> Float[Array, " x"]:
                key_start, key_warm = jax.random.split(own)
                return advance(plain, start_chain(generative, draw, key_start), warm_up, key_warm).v

            chains = jax.random.split(key_chains, num_chains // parts)
            fills = jnp.zeros((0, *v.shape)) if without_chains else jax.vmap(fill)(chains)
            return resample_row(
                model,
                generative,
                v,
                m,
                fills,
                partial(_class_probabilities, generative.observation),
                key_proposals,
                num_draws=num_draws // parts,
                num_proposals=num_draws // parts * thin,
                newton=newton,
            )

        if axis is None:
            found = part(generatives, row_key(key, h))
        else:
            found = pooled(jax.vmap(part)(generatives, jax.random.split(row_key(key, h), parts)))
        return Filled(
            found.draws[None],
            jnp.where(m, v, found.mean),
            found.probabilities,
            jnp.asarray(jnp.nan),
            found.effective_sample_size,
            found.log_p,
        )

    return jax.vmap(one)(rows, mask, hashes)


def _of_chains(model: Model, key: Key[Array, ""], num_chains: int) -> tuple[GenerativeModel, int | None]:
    """The generative model of the chains, and the axis along which it differs from one to the next, if it does."""
    if model.parameters is None:
        return model.generative.folded(), None
    keys = jax.random.split(quick_key(key), num_chains)
    return jax.vmap(lambda k: model.drawn(k).generative.folded())(keys), 0


def num_codes(observation: AbstractObservation) -> int:
    """Codes of which probabilities are kept: none for binary rows, whose means they are."""
    return 0 if observation.name == "bernoulli" else max(observation.levels)


def _class_probabilities(observation: AbstractObservation, outputs: Float[Array, " p"]) -> Float[Array, "x k"]:
    if not num_codes(observation):
        return jnp.zeros((observation.columns, 0))
    return observation.probabilities(outputs)


def _told_apart(hashes: UInt32[np.ndarray, "b 2"], seen: Counter[bytes]) -> UInt32[np.ndarray, "b 2"]:
    """Hashes that differ for copies of a row; the first copy keeps its own."""
    told = hashes.copy()
    for i, own in enumerate(hashes):
        name = own.tobytes()
        if copies := seen[name]:
            digest = hashlib.blake2b(name + copies.to_bytes(8, "little"), digest_size=8).digest()
            told[i] = np.frombuffer(digest, np.uint32)
        seen[name] += 1
    return told


def _of_holes(filled: Filled, holes: Bool[np.ndarray, "b x"]) -> Filled:
    """The cells that are holes, one after another, with their draws last."""
    draws = filled.draws.reshape(len(holes), -1, holes.shape[1]).transpose(0, 2, 1)[holes]
    return filled._replace(draws=draws, mean=filled.mean[holes], probabilities=filled.probabilities[holes])


def _nothing(observation: AbstractObservation, num_draws: int) -> Filled:
    """What no rows give."""
    none, cells = np.zeros(0, np.float32), np.zeros((0, num_draws), np.float32)
    return Filled(cells, none, np.zeros((0, num_codes(observation)), np.float32), none, none, none)


def _warn(imputation: Imputation, model: Model) -> None:
    """A word about chains that have not mixed, or weights that rest on few proposals."""
    if imputation.method == "resample":
        sizes = imputation.effective_sample_size[~imputation.mask.all(axis=1)]
        few = np.sum(~(sizes >= _FEW))
        if few > _TOO_MANY * len(sizes):
            warn(
                f"resample: in {few:,} of {len(sizes):,} rows the weights rest on fewer than {_FEW} proposals. "
                "Raise thin or warm_up, or take method='metropolis'.",
            )
        return
    r_hat, limit = imputation.r_hat()[~imputation.mask], imputation.r_hat_limit()
    unmixed = np.sum(r_hat > limit)  # NaN, where it is not known, is not above it
    if unmixed > _TOO_MANY * r_hat.size:
        taken = np.nanmean(imputation.acceptance) if imputation.method == "metropolis" else np.nan
        rate = f" {taken:.0%} of the proposals were taken." if np.isfinite(taken) else ""
        if model.parameters is not None:
            rate += " Each has parameters of its own, of which R-hat may be telling: model.at_mean() has one set."
        warn(
            f"{imputation.method}: R-hat is above {limit:.3g} in {unmixed:,} of {r_hat.size:,} holes: the chains have "
            f"not mixed there.{rate} Raise warm_up and thin.",
        )

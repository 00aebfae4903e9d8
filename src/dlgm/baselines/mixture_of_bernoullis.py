r"""A mixture of products of Bernoullis, fitted by expectation maximisation.

$$p(v) = \sum_k w_k \prod_j p_{kj}^{v_j} (1 - p_{kj})^{1 - v_j}$$

Inside a component the cells are independent, so a missing cell is summed out by leaving its factor away, and the
likelihood is exact with or without holes. In matrices, with $\ell = \mathrm{logit}\,p$, the log of the product is
$v \ell^\top - \sum_j \log(1 + e^{\ell_j})$: one multiplication for all rows and components.

Plain maximum likelihood would set $p_{kj} = 0$ where a component has seen no 1, and a test row with a 1 there would
be impossible. So $s$ pseudo-observations of either value are added to every cell of every component, and $s$ rows to
every component. That is maximum a posteriori under Beta$(1+s, 1+s)$ and Dirichlet$(1+s)$ priors, and what never
decreases from step to step is the log posterior, not the likelihood.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import log_sigmoid, softplus
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, Key

from dlgm.gaussians.checks import is_traced

_Mask = Bool[Array, "n x"] | None


class MixtureOfBernoullis(eqx.Module):
    r"""$p(v) = \sum_k w_k \prod_j \mathrm{Bernoulli}(v_j \mid p_{kj})$ over rows of zeros and ones.

    **Arguments**

    - `log_weights`: $\log w$, shape `(k,)`, with $\sum_k w_k = 1$.
    - `logits`: $\log p_{kj} - \log(1 - p_{kj})$, shape `(k, x)`.

    Wherever rows are taken, `mask` is true at the cells that were observed; the others contribute nothing, and may
    hold anything, NaN included.

    >>> import jax.numpy as jnp
    >>> coins = MixtureOfBernoullis(jnp.log(jnp.array([0.5, 0.5])), jnp.array([[0.0, 0.0], [-30.0, 30.0]]))
    >>> [round(float(p), 3) for p in jnp.exp(coins.log_likelihood(jnp.array([[0, 1], [1, 1]])))]
    [0.625, 0.125]
    """

    log_weights: Float[Array, "k"]
    logits: Float[Array, "k x"]

    def __check_init__(self) -> None:
        k, shape = jnp.shape(self.log_weights), jnp.shape(self.logits)
        if len(k) != 1 or len(shape) != 2 or shape[0] != k[0]:
            raise ValueError(
                f"MixtureOfBernoullis: expected `log_weights` of shape (k,) and `logits` of shape (k, x); "
                f"got {k} and {shape}."
            )

    def log_likelihood(self, rows: ArrayLike, mask: ArrayLike | None = None) -> Float[Array, "n"]:
        r"""$\log p(v)$ of each row's observed cells, exact."""
        v, m = _check_rows("log_likelihood", rows, mask, self.logits.shape[1])
        return _log_likelihood(self, v, m)

    def responsibilities(self, rows: ArrayLike, mask: ArrayLike | None = None) -> Float[Array, "n k"]:
        r"""$p(k \mid v)$: how likely each component is to have made each row."""
        v, m = _check_rows("responsibilities", rows, mask, self.logits.shape[1])
        return _responsibilities(self, v, m)

    def sample(self, key: Key[Array, ""], num: int) -> Bool[Array, "num x"]:
        """New rows. The first rows of a longer call are those of a shorter one."""
        return _sample(self, key, num)


def fit_mixture_of_bernoullis(
    rows: ArrayLike,
    *,
    num_components: int,
    key: Key[Array, ""],
    iterations: int = 100,
    smoothing: float = 0.1,
    mask: ArrayLike | None = None,
) -> MixtureOfBernoullis:
    """Fit by expectation maximisation: `iterations` steps from a random start, compiled as one scan.

    - `rows`: zeros and ones of any dtype, shape `(n, x)`. A grey image is to be binarised first.
    - `smoothing`: pseudo-observations of either value for each cell of each component; positive.
    - `mask`: true where a cell was observed, shape `(n, x)`; absent, all were.

    It holds one number for each row and component, and each step multiplies matrices of sizes `(n, x)` and `(x, k)`
    twice. A component that no row wants keeps a small weight and probabilities of a half. Where it ends depends on the
    start, and a start can be unlucky: fit with several keys, and keep the model of the highest `mean_log_posterior`.

    >>> import jax, jax.numpy as jnp
    >>> rows = jnp.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]])
    >>> model = fit_mixture_of_bernoullis(rows, num_components=2, key=jax.random.key(0))
    >>> [round(float(w), 3) for w in jnp.exp(model.log_weights)]
    [0.5, 0.5]
    """
    v, m = _check_rows("fit_mixture_of_bernoullis", rows, mask, None)
    if v.shape[0] == 0:
        raise ValueError("fit_mixture_of_bernoullis: expected at least one row; got none.")
    for name, number in (("num_components", num_components), ("iterations", iterations)):
        if number < 1:
            raise ValueError(f"fit_mixture_of_bernoullis: expected `{name}` of at least 1; got {number}.")
    s = _check_smoothing("fit_mixture_of_bernoullis", smoothing)
    return _steps(_start(v, m, s, key, num_components), v, m, s, iterations)


def em_step(
    model: MixtureOfBernoullis, rows: ArrayLike, *, smoothing: float, mask: ArrayLike | None = None
) -> MixtureOfBernoullis:
    """One step of expectation maximisation: `mean_log_posterior` after it is no lower than before."""
    v, m = _check_rows("em_step", rows, mask, model.logits.shape[1])
    return _step(model, v, m, _check_smoothing("em_step", smoothing))


def mean_log_posterior(
    model: MixtureOfBernoullis, rows: ArrayLike, *, smoothing: float, mask: ArrayLike | None = None
) -> Float[Array, ""]:
    r"""What the fit maximises, a row: with $s$ the `smoothing`, and up to a constant of the priors,

    $$\frac{1}{n} \Big[ \sum_i \log p(v_i)
        + s \sum_k \Big( \log w_k + \sum_j \log p_{kj} + \log(1 - p_{kj}) \Big) \Big].$$
    """
    s = _check_smoothing("mean_log_posterior", smoothing)
    v, m = _check_rows("mean_log_posterior", rows, mask, model.logits.shape[1])
    return _mean_log_posterior(model, v, m, s)


def _log_joint(model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask) -> Float[Array, "n k"]:
    # log w_k + log p(v | k); v is zero wherever m is false.
    log_normaliser = softplus(model.logits)
    total = jnp.sum(log_normaliser, axis=-1) if m is None else m.astype(v.dtype) @ log_normaliser.T
    return model.log_weights + v @ model.logits.T - total


@jax.jit
def _log_likelihood(model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask) -> Float[Array, "n"]:
    return logsumexp(_log_joint(model, v, m), axis=-1)


@jax.jit
def _responsibilities(model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask) -> Float[Array, "n k"]:
    return jax.nn.softmax(_log_joint(model, v, m), axis=-1)


@jax.jit
def _mean_log_posterior(model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask, s: Array) -> Float[Array, ""]:
    log_prior = jnp.sum(model.log_weights) + jnp.sum(log_sigmoid(model.logits) + log_sigmoid(-model.logits))
    return (jnp.sum(_log_likelihood(model, v, m)) + s * log_prior) / v.shape[0]


@partial(jax.jit, static_argnames="num")
def _sample(model: MixtureOfBernoullis, key: Key[Array, ""], num: int) -> Bool[Array, "num x"]:
    def one(i: Array) -> Array:
        # One number picks the component, and one each the cells.
        u = jax.random.uniform(jax.random.fold_in(key, i), (p.shape[1] + 1,), p.dtype)
        return u[1:] < p[_pick(weights, u[0])]

    p, weights = jax.nn.sigmoid(model.logits), jnp.exp(model.log_weights)
    return jax.vmap(one)(jnp.arange(num))


@jax.jit
def _step(model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask, s: Array) -> MixtureOfBernoullis:
    r = _responsibilities(model, v, m)
    N = jnp.sum(r, axis=0)
    ones = r.T @ v
    seen = N[:, None] if m is None else r.T @ m.astype(v.dtype)
    zeros = jnp.maximum(seen - ones, 0)  # rounding could take it below
    return MixtureOfBernoullis(jnp.log(N + s) - jnp.log(jnp.sum(N + s)), jnp.log(ones + s) - jnp.log(zeros + s))


@partial(jax.jit, static_argnames="iterations")
def _steps(
    model: MixtureOfBernoullis, v: Float[Array, "n x"], m: _Mask, s: Array, iterations: int
) -> MixtureOfBernoullis:
    def step(model: MixtureOfBernoullis, _: None) -> tuple[MixtureOfBernoullis, None]:
        return _step(model, v, m, s), None

    return jax.lax.scan(step, model, length=iterations)[0]


@partial(jax.jit, static_argnames="K")
def _start(v: Float[Array, "n x"], m: _Mask, s: Array, key: Key[Array, ""], K: int) -> MixtureOfBernoullis:
    """Equal weights, and each component halfway between the column means and a row far from the others' rows.

    The rows are drawn as k-means++ draws its centres (Arthur and Vassilvitskii, 2007): with probability in proportion
    to the squared distance from the nearest one already taken. Of a few such rows, the one that leaves the smallest
    sum of distances is kept; a single draw often lands twice in one cluster, and the steps seldom get out of that.
    """
    column_means = (jnp.sum(v, axis=0) + s) / ((v.shape[0] if m is None else jnp.sum(m, axis=0)) + 2 * s)
    rows = v if m is None else jnp.where(m, v, column_means)
    squares = jnp.sum(rows**2, axis=-1)
    num_tries = 2 + int(np.log(K))

    def draw(nearest: Array, u: Array) -> tuple[Array, Array]:
        # The small number lets a row be taken twice where there are fewer distinct rows than components.
        tries = _pick(nearest + 1e-30, u)
        distances = squares[tries, None] - 2 * rows[tries] @ rows.T + squares
        left = jnp.minimum(nearest, jnp.maximum(distances, 0))
        best = jnp.argmin(jnp.sum(left, axis=-1))
        return left[best], rows[tries[best]]

    everywhere = jnp.full(v.shape[0], v.shape[1], v.dtype)
    centres = jax.lax.scan(draw, everywhere, jax.random.uniform(key, (K, num_tries), v.dtype))[1]
    p = (centres + column_means) / 2
    return MixtureOfBernoullis(jnp.full(K, -np.log(K), v.dtype), jnp.log(p) - jnp.log1p(-p))


def _pick(weights: Float[Array, "n"], u: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """An index for each uniform `u`, with probabilities in proportion to the weights."""
    upto = jnp.cumsum(weights)
    return jnp.minimum(jnp.searchsorted(upto, u * upto[-1], side="right"), len(weights) - 1)


def _check_smoothing(owner: str, smoothing: float) -> Array:
    if not (0 < smoothing < np.inf):
        raise ValueError(
            f"{owner}: expected a positive `smoothing`, so that no probability is 0 or 1; got {smoothing}."
        )
    return jnp.asarray(smoothing, jnp.result_type(float))


def _check_rows(owner: str, rows: ArrayLike, mask: ArrayLike | None, x: int | None) -> tuple[Array, Array | None]:
    """Rows as floats with zeros at the unobserved cells, and the mask, once both have been looked at."""
    shape = np.shape(rows)
    if len(shape) != 2 or (x is not None and shape[1] != x):
        width = "x" if x is None else str(x)
        raise ValueError(f"{owner}: expected `rows` of shape (n, {width}); got {shape}. Flatten images first.")
    if mask is not None:
        if np.shape(mask) != shape:
            raise ValueError(f"{owner}: expected `mask` of the rows' shape {shape}; got {np.shape(mask)}.")
        mask = jnp.asarray(mask)
        if mask.dtype != bool:
            raise TypeError(f"{owner}: expected a boolean `mask`, true where observed; got dtype {mask.dtype}.")
    v = jnp.asarray(rows, jnp.result_type(float))
    if mask is not None:
        v = jnp.where(mask, v, 0)
    if not is_traced(v):
        bad = np.asarray((v != 0) & (v != 1))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"{owner}: expected zeros and ones in `rows`; got {float(v[at]):g} at {at}, and {int(bad.sum())} such "
                f"values in all. Binarise them, and name missing cells with `mask`."
            )
    return v, mask

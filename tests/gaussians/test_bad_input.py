"""Messages, spelled out."""

import re

import jax
import jax.numpy as jnp
import pytest
from numpyro.distributions.kl import kl_divergence

from dlgm.gaussians import AbstractGaussian, DiagonalGaussian, FullGaussian, LowRankGaussian, RankOneGaussian

three, four = jnp.zeros(3), jnp.zeros(4)

MESSAGES = {
    "scalar mean": (
        lambda: DiagonalGaussian(mean=1.0, log_d=three),
        ValueError,
        "DiagonalGaussian: expected `mean` of shape (..., K), at least 1 axes; got shape ().",
    ),
    "no latents": (
        lambda: DiagonalGaussian(mean=jnp.zeros(0), log_d=jnp.zeros(0)),
        ValueError,
        "DiagonalGaussian: expected at least one latent; got `mean` of shape (0,).",
    ),
    "wrong size": (
        lambda: RankOneGaussian(mean=three, log_d=three, u=four),
        ValueError,
        "RankOneGaussian: expected `u` to have K = 3 entries along its latent axis, as `mean` has; got 4 (shape (4,)).",
    ),
    "size one does not broadcast": (
        lambda: RankOneGaussian(mean=three, log_d=jnp.zeros(1), u=three),
        ValueError,
        "RankOneGaussian: expected `log_d` to have K = 3 entries along its latent axis, as `mean` has; "
        "got 1 (shape (1,)).",
    ),
    "U without columns axis": (
        lambda: LowRankGaussian(mean=three, log_d=three, U=three),
        ValueError,
        "LowRankGaussian: expected `U` of shape (..., K, r), at least 2 axes; got shape (3,).",
    ),
    "U transposed": (
        lambda: LowRankGaussian(mean=three, log_d=three, U=jnp.zeros((2, 3))),
        ValueError,
        "LowRankGaussian: expected `U` to have K = 3 entries along its latent axis, as `mean` has; "
        "got 2 (shape (2, 3)).",
    ),
    "rank zero": (
        lambda: LowRankGaussian(mean=three, log_d=three, U=jnp.zeros((3, 0))),
        ValueError,
        "LowRankGaussian: expected `U` to have at least one column; got shape (3, 0). Use DiagonalGaussian for r = 0.",
    ),
    "batches": (
        lambda: DiagonalGaussian(mean=jnp.zeros((2, 3)), log_d=jnp.zeros((5, 3))),
        ValueError,
        "DiagonalGaussian: expected batch shapes that broadcast together; got {'mean': (2,), 'log_d': (5,)}.",
    ),
    "NaN": (
        lambda: DiagonalGaussian(mean=three, log_d=jnp.array([0.0, jnp.nan, jnp.inf])),
        ValueError,
        "DiagonalGaussian: expected finite values in `log_d`; got 2 non-finite of 3, the first at index (1,) (nan).",
    ),
    "not positive": (
        lambda: FullGaussian(mean=jnp.zeros(2), scale_tril=jnp.diag(jnp.array([1.0, -2.0]))),
        ValueError,
        "FullGaussian: expected positive values in `scale_tril's diagonal`; the smallest is -2.0.",
    ),
    "not square": (
        lambda: FullGaussian(mean=three, scale_tril=jnp.zeros((3, 4))),
        ValueError,
        "FullGaussian: expected `scale_tril` to have K = 3 entries along its latent axis, as `mean` has; "
        "got 4 (shape (3, 4)).",
    ),
    "words": (
        lambda: DiagonalGaussian(mean="zero", log_d=three),
        TypeError,
        "DiagonalGaussian: expected `mean` to be an array of real numbers; got str.",
    ),
    "complex": (
        lambda: DiagonalGaussian(mean=three + 1j, log_d=three),
        TypeError,
        "DiagonalGaussian: expected `mean` to be real; got dtype complex64. Pass its real part.",
    ),
    "log_prob of the wrong size": (
        lambda: DiagonalGaussian(three, three).log_prob(four),
        ValueError,
        "DiagonalGaussian: expected `value` to have K = 3 entries along its latent axis, as `mean` has; "
        "got 4 (shape (4,)).",
    ),
    "KL of different sizes": (
        lambda: kl_divergence(DiagonalGaussian(three, three), DiagonalGaussian(four, four)),
        ValueError,
        "kl_divergence: expected two Gaussians over the same number of latents; got K = 3 and K = 4.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message(name):
    call, error, message = MESSAGES[name]
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        call()


def test_values_are_not_checked_when_told_so_or_traced():
    bad = jnp.array([jnp.nan])
    DiagonalGaussian(bad, bad, validate_args=False)
    jax.jit(lambda m: DiagonalGaussian(m, m).log_det)(bad)


def test_shapes_are_checked_under_jit():
    with pytest.raises(ValueError, match="K = 3"):
        jax.jit(lambda m, d: DiagonalGaussian(m, d).log_det)(three, four)


def test_whole_numbers_become_floats():
    assert DiagonalGaussian([0, 1], [0, 0]).variance.dtype == jnp.float32


def test_a_class_with_members_missing_is_refused():
    class Unfinished(AbstractGaussian):
        arg_constraints = DiagonalGaussian.arg_constraints

    missing = "excess_trace, factor_times, factor_transpose_times, log_det, solve_factor, variance"
    with pytest.raises(TypeError, match=f"^Unfinished is abstract: it does not define {missing}.$"):
        Unfinished()

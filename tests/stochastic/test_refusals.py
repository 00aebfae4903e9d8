"""What the estimators refuse, and in which words."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from dlgm.gaussians import DiagonalGaussian
from dlgm.stochastic import (
    BonnetPrice,
    BonnetPriceHVP,
    ConstantBaseline,
    Implicit,
    LeaveOneOut,
    OptimalCoefficient,
    Pathwise,
    ProductRule,
    Reinforce,
    RunningMean,
    expect,
    per_sample_gradients,
)
from dlgm.stochastic.expect import _check
from dlgm.stochastic.transforms import Stable

KEY = jax.random.key(0)
normal = dist.Normal(0.0, 1.0)
gaussian = DiagonalGaussian(jnp.zeros(2), jnp.zeros(2))

dict_valued: Any = lambda x: {"value": x}  # noqa: E731

STEPS: dict[str, Callable] = {
    "comparison": lambda x: (x > 0).astype(float),
    "bool": lambda x: x > 0,
    "floor": jnp.floor,
    "where": lambda x: jnp.where(x > 0, 1.0, -1.0),
    "sign times constant": lambda x: 3 * jnp.sign(x) + 1,
    "argmax": lambda x: jnp.argmax(jnp.stack([x, 0 * x])),
    "inside jit": jax.jit(lambda x: jnp.round(x)),
}
SMOOTH_ENOUGH = {
    "constant": lambda x: 0 * x + 1.0,
    "really constant": lambda x: 1.0,
    "rectifier": jax.nn.relu,
    "absolute value": jnp.abs,
    "where with slopes": lambda x: jnp.where(x > 0, x, 2 * x),
    "step plus slope": lambda x: x + jnp.floor(x),  # a jump that cannot be told from a slope: the docstring says so
    "cond": lambda x: jax.lax.cond(x > 0, lambda y: y, lambda y: -y, x),
    "rounding of something else": lambda x: x * jnp.floor(2.5),
}
NEED_SMOOTHNESS = {"Pathwise": Pathwise(), "Implicit": Implicit(), "ProductRule": ProductRule()}


@pytest.mark.parametrize("f", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("name", NEED_SMOOTHNESS)
def test_step_functions_are_refused(f, name):
    message = (
        f"{name} differentiates f, but f is a step function of the draw: its derivative is zero wherever it exists, "
        "and the estimate would be zero too. Use Reinforce(), which only needs values of f."
    )
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        expect(f, normal, key=KEY, estimator=NEED_SMOOTHNESS[name])


@pytest.mark.parametrize("f", STEPS.values(), ids=STEPS)
def test_reinforce_takes_step_functions(f):
    assert jnp.isfinite(expect(f, normal, key=KEY, estimator=Reinforce(), num_samples=4))


def test_reinforce_is_right_where_the_others_would_be_silent():
    """d/dmu P(x > 0) under N(0, 1) is phi(0) = 0.3989 (n = 100,000, 4 s.e.); the pathwise derivative is zero."""
    grads = per_sample_gradients(
        STEPS["comparison"], normal, key=KEY, estimator=Reinforce(LeaveOneOut()), num_samples=100_000
    )["loc"]
    assert abs(grads.mean() - 0.398942) < 4 * grads.std() / 100_000**0.5


@pytest.mark.parametrize("f", SMOOTH_ENOUGH.values(), ids=SMOOTH_ENOUGH)
def test_other_functions_are_let_through(f):
    assert jnp.isfinite(expect(f, normal, key=KEY))


@pytest.mark.parametrize("estimator", [BonnetPrice(), BonnetPriceHVP()])
def test_price_refuses_kinks_where_it_can_see_them(estimator):
    with pytest.raises(ValueError, match=r"but the gradient of f is a step function of the draw"):
        expect(lambda x: jnp.sum(jax.nn.relu(x)), gaussian, key=KEY, estimator=estimator)
    expect(lambda x: jnp.sum(x), gaussian, key=KEY, estimator=estimator)  # linear: its gradient is constant
    expect(lambda x: jnp.sum(jax.nn.softplus(x)), gaussian, key=KEY, estimator=estimator)


def test_product_rule_refuses_a_divergent_parameter_and_only_that():
    def in_scale(scale):
        return expect(jnp.cos, dist.Normal(0.0, scale), key=KEY, estimator=ProductRule())

    def in_both(loc, scale):
        return expect(jnp.cos, dist.Normal(loc, scale), key=KEY, estimator=ProductRule())

    message = "ProductRule cannot estimate the gradient in sigma2 of the Gaussian law."
    for call in (
        lambda: jax.grad(in_scale)(1.0),
        lambda: jax.jit(jax.grad(in_scale))(1.0),
        lambda: jax.grad(jax.jit(in_scale))(1.0),
        lambda: jax.grad(in_both, argnums=(0, 1))(0.0, 1.0),
    ):
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            call()
    assert jnp.isfinite(jax.grad(in_both)(0.3, 1.0))
    assert jnp.isfinite(in_scale(1.0))
    with pytest.raises(ValueError, match="gradient in alpha, beta of the inverse Gamma law"):
        per_sample_gradients(jnp.cos, dist.InverseGamma(3.0, 2.0), key=KEY, estimator=ProductRule(), num_samples=2)


MESSAGES = {
    "no reparametrisation": (
        lambda: expect(lambda x: x * 1.0, dist.Poisson(1.0), key=KEY),
        TypeError,
        "Pathwise needs a law whose draws are differentiable in its parameters; Poisson is not. "
        "Use Implicit() if it has a CDF, Reinforce() otherwise.",
    ),
    "Price on numpyro's law": (
        lambda: expect(jnp.cos, normal, key=KEY, estimator=BonnetPrice()),
        TypeError,
        "BonnetPrice needs one of dlgm's Gaussians; got Normal. dlgm.as_gaussian converts numpyro's; "
        "for other laws use Pathwise() or Implicit().",
    ),
    "Implicit on vectors": (
        lambda: expect(jnp.sum, dist.Dirichlet(jnp.ones(2)), key=KEY, estimator=Implicit()),
        TypeError,
        "Implicit works on dlgm's Gaussians and laws of one real variable; got Dirichlet with events of shape (2,). "
        "Use Pathwise() for vectors, Reinforce() for discrete laws.",
    ),
    "Implicit without a CDF": (
        lambda: expect(jnp.cos, Stable(1.5, 0.0), key=KEY, estimator=Implicit()),
        TypeError,
        "Implicit needs a CDF; Stable has none. Use Pathwise(), or Reinforce() if it has a density.",
    ),
    "Implicit on numpyro's StudentT": (
        lambda: expect(jnp.cos, dist.StudentT(3.0), key=KEY, estimator=Implicit()),
        TypeError,
        "Implicit: the CDF of numpyro's StudentT has no finite derivative at its centre, and none in `df`. "
        "Use dlgm.stochastic.transforms.StudentT, or Pathwise().",
    ),
    "unknown family": (
        lambda: expect(jnp.cos, dist.Gamma(0.5, 1.0), key=KEY, estimator=ProductRule()),
        TypeError,
        "ProductRule knows the natural form of Normal, InverseGamma, LogNormal, Wald; got Gamma. "
        "Pass ProductRule(family=ExponentialFamily(...)).",
    ),
    "product rule on vectors": (
        lambda: expect(jnp.sum, gaussian, key=KEY, estimator=ProductRule()),
        TypeError,
        "ProductRule works on laws of one real variable; DiagonalGaussian has events of shape (2,). "
        "Use Pathwise() or, for dlgm's Gaussians, BonnetPrice().",
    ),
    "one sample, leave one out": (
        lambda: expect(jnp.cos, normal, key=KEY, estimator=Reinforce(LeaveOneOut())),
        ValueError,
        "LeaveOneOut: expected `num_samples` of at least 2, to have others to average; got 1.",
    ),
    "one sample, optimal": (
        lambda: expect(jnp.cos, normal, key=KEY, estimator=Reinforce(OptimalCoefficient())),
        ValueError,
        "OptimalCoefficient: expected `num_samples` of at least 2, to have others to average; got 1.",
    ),
    "class for an instance": (
        lambda: _check(Pathwise, normal, KEY, 1),
        TypeError,
        f"expect: expected `estimator` to be an estimator such as Pathwise(); got {Pathwise!r}. "
        "Did you mean Pathwise()?",
    ),
    "no samples": (
        lambda: expect(jnp.cos, normal, key=KEY, num_samples=0),
        ValueError,
        "expect: expected `num_samples` to be a whole number of at least 1; got 0.",
    ),
    "not a law": (
        lambda: _check(Pathwise(), "standard normal", KEY, 1),
        TypeError,
        "expect: expected `q` to be a numpyro distribution; got str.",
    ),
    "seed for a key": (
        lambda: _check(Pathwise(), normal, 0, 1),
        TypeError,
        "expect: expected `key` to be a random key, jax.random.key(seed); got 0.",
    ),
    "f of vectors": (
        lambda: expect(lambda x: x, gaussian, key=KEY),
        ValueError,
        "expect: expected `f` to return a scalar for one draw of shape (2,); got shape (2,). "
        "Take a sum, or use vmap over several functions.",
    ),
    "unknown parameter": (
        lambda: per_sample_gradients(jnp.cos, normal, key=KEY, num_samples=2, wrt=("sigma",)),
        ValueError,
        "per_sample_gradients: expected `wrt` to name parameters of Normal (loc, scale); got sigma.",
    ),
    "law in a wrapper": (
        lambda: per_sample_gradients(jnp.sum, normal.expand([2]).to_event(1), key=KEY, num_samples=2),
        TypeError,
        "Expected a law that is made from its parameters, such as Normal(loc, scale); Independent is made in another "
        "way. Take it without expand, mask or to_event, convert it with dlgm.as_gaussian, or differentiate `expect` in "
        "your own parameters.",
    ),
    "baseline of the wrong shape": (
        lambda: expect(jnp.cos, normal, key=KEY, estimator=Reinforce(ConstantBaseline(jnp.ones(3))), num_samples=3),
        ValueError,
        "ConstantBaseline: expected one number, or one for each entry of the law's batch shape (); got shape (3,).",
    ),
    "no density": (
        lambda: expect(jnp.cos, Stable(1.5, 0.0), key=KEY, estimator=Reinforce()),
        TypeError,
        "Reinforce needs a log_prob; Stable has none. Use Pathwise().",
    ),
    "complex f": (
        lambda: expect(lambda x: 1j * x, normal, key=KEY),
        TypeError,
        "expect: expected `f` to return a real number; got a complex one.",
    ),
    "f of dictionaries": (
        lambda: expect(dict_valued, normal, key=KEY),
        TypeError,
        "expect: expected `f` to return a scalar; got dict.",
    ),
    "probes": (
        lambda: BonnetPriceHVP(num_probes=0),
        ValueError,
        "BonnetPriceHVP: expected `num_probes` to be None or at least 1; got 0.",
    ),
    "decay": (lambda: RunningMean(decay=1.0), ValueError, "RunningMean: expected 0 <= `decay` < 1; got 1.0."),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message(name):
    call, error, message = MESSAGES[name]
    # JAX may add a note of its own below
    with pytest.raises(error, match="^" + re.escape(message) + r"(\n|$)"):
        call()


def test_wrt_may_be_one_name_and_parameters_whole_numbers():
    grads = per_sample_gradients(jnp.cos, dist.Normal(0, 1), key=KEY, num_samples=2, wrt="loc")
    assert list(grads) == ["loc"]
    for estimator in (ProductRule(), Reinforce(OptimalCoefficient()), Implicit(), Pathwise()):
        value = expect(jnp.cos, dist.Normal(0.5, 1), key=KEY, estimator=estimator, num_samples=2)
        assert jnp.isfinite(value)
    _check(Pathwise(), normal, KEY, np.int64(2))


def test_a_derivative_of_ones_own_is_not_second_guessed():
    """A straight-through rounding is a step function with a derivative: its author knows."""

    @jax.custom_jvp
    def straight_through(x):
        return jnp.round(x)

    straight_through.defjvp(lambda primals, tangents: (straight_through(*primals), tangents[0]))
    assert jax.grad(lambda loc: expect(straight_through, dist.Normal(loc, 1.0), key=KEY))(0.3) == 1

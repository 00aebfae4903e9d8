"""Configs: what is refused, what is spread over layers, and the presets."""

import json

import jax
import numpy as np
import pytest

from dlgm.model import PRESETS, ModelConfig, build_model, initialise, make_observation, preset

OBSERVATION = make_observation("bernoulli", columns=6).config()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"latent": ()}, "latent: expected a list of positive whole numbers, such as (200, 200); got ()."),
        ({"latent": (3, 0)}, "latent: expected a list of positive whole numbers, such as (200, 200); got (3, 0)."),
        ({"hidden": (2.5,)}, "hidden: expected a list of positive whole numbers, such as (200, 200); got (2.5,)."),
        (
            {"latent": (3, 2), "hidden": ((4,), (4,), (4,))},
            "hidden: expected one entry for each of the 2 stochastic layers; got 3.",
        ),
        (
            {"nonlinearity": "sin"},
            "nonlinearity: expected one of relu, tanh, sigmoid, softplus, elu, silu, gelu, leaky-relu, identity, "
            "gated; got 'sin'.",
        ),
        ({"scale": "dense"}, "scale: expected one of full, diagonal, scalar; got 'dense'."),
        (
            {"covariance": "rank"},
            "covariance: expected one of diagonal, rank-one, rank-r, full, cells; got 'rank'. Did you mean 'rank-r'?",
        ),
        ({"structure": "tree"}, "structure: expected one of factorised, joint, directed; got 'tree'."),
        ({"rank": 0}, "rank: expected a whole number of at least 1; got 0."),
        ({"kappa": -1.0}, "kappa: expected a positive variance; got -1.0."),
        (
            {"latent": (3, 2), "nonlinearity": ("tanh", "gated"), "activate_input": True},
            "activate_input: a gated unit takes two numbers, and an input has one; choose another.",
        ),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError) as error:
        ModelConfig(OBSERVATION, **settings)
    assert str(error.value) == message


def test_unknown_settings_are_refused_by_name():
    with pytest.raises(ValueError, match="Unknown model settings: layers"):
        ModelConfig.from_dict({"observation": OBSERVATION, "layers": 3})
    with pytest.raises(ValueError, match="preset: expected one of default, factor-analysis"):
        preset("vae", make_observation("bernoulli", columns=6))
    with pytest.raises(ValueError, match="preset: factor-analysis is for the family gaussian; got bernoulli"):
        preset("factor-analysis", make_observation("bernoulli", columns=6))
    with pytest.raises(ValueError, match="preset: unknown settings layers"):
        preset("default", make_observation("bernoulli", columns=6), layers=3)


def test_each_layer_may_have_its_own_shape():
    config = ModelConfig(
        OBSERVATION,
        latent=(3, 2),
        hidden=((5,), (7, 4)),
        nonlinearity=("tanh", "relu"),
        scale=("full", "scalar"),
    )
    model = build_model(config, key=jax.random.key(0))
    T0, T1 = model.generative.networks
    assert [layer.weight.shape for layer in T0.layers] == [(5, 3), (6, 5)]
    assert [layer.weight.shape for layer in T1.layers] == [(7, 2), (4, 7), (3, 4)]
    assert (T0.nonlinearity, T1.nonlinearity) == ("tanh", "relu")
    assert [type(G).__name__ for G in model.generative.scales] == ["FullScale", "ScalarScale"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_and_survive_json(name):
    family = "gaussian" if name == "factor-analysis" else "bernoulli"
    config = preset(name, make_observation(family, columns=6))
    again = ModelConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    built = jax.eval_shape(lambda: build_model(again, key=jax.random.key(0)))
    assert built.generative.latent == config.latent


def test_presets_are_the_papers_models():
    def widths(name):
        config = preset(name, make_observation("bernoulli", columns=784))
        return config.latent, config.hidden, config.covariance

    assert widths("paper-mnist") == ((200,), (200, 200), "rank-one")
    assert widths("fig-2c") == ((100,), (300,), "rank-one")
    assert widths("norb") == ((100,), (400,), "rank-one")
    assert widths("visualisation")[0] == (2,)
    assert widths("bernoulli-factor-analysis")[1] == ()


def test_models_start_at_the_datas_mean():
    """The output bias holds the logits of the column means, finite also for a constant column."""
    rng = np.random.default_rng(0)
    rows = (rng.random((500, 6)) < [0.0, 0.1, 0.3, 0.5, 0.9, 0.99]).astype(np.uint8)
    model = initialise(build_model(ModelConfig(OBSERVATION), key=jax.random.key(0)), rows)
    bias = model.generative.networks[0].layers[-1].bias
    np.testing.assert_allclose(jax.nn.sigmoid(bias)[1:], rows.mean(0)[1:], atol=0.01)
    assert np.isfinite(bias).all()


def test_signal_keeps_its_size_through_deep_networks():
    """Fan-in scaling: after ten rectifier layers the variance is within a factor of 3 of the input's."""
    from dlgm.model.networks import MLP

    net = MLP(200, (200,) * 10, 200, output_gain=2**0.5, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (100, 200))
    ratio = np.mean(np.asarray(jax.vmap(net)(x)) ** 2) / np.mean(np.asarray(x) ** 2)
    assert 1 / 3 < ratio / 2 < 3

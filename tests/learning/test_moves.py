"""Images that are moved while training: where they go, how often, and that the end of training has them as they are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlgm.learning import TrainingConfig, fit
from dlgm.learning.moves import moved
from dlgm.model import ModelConfig, make_observation

IMAGES = np.arange(20.0).reshape(1, 4, 5)  # every pixel is known by its value


def by_hand(image, down, across):
    """The image whose pixel (i, j) is the given one's (i + down, j + across), or the nearest that it has."""
    height, width = image.shape[:2]
    return np.array(
        [
            [image[min(max(i + down, 0), height - 1), min(max(j + across, 0), width - 1)] for j in range(width)]
            for i in range(height)
        ]
    )


def test_every_move_is_equally_likely():
    """n = 9,000 rows, nine places: counts within 4.5 standard errors (29.8 each) of 1,000; false alarm 6e-5."""
    rows = jnp.asarray(np.repeat(IMAGES.reshape(1, -1), 9_000, axis=0))
    found = np.asarray(moved(rows, (4, 5), furthest=1, share=1.0, key=jax.random.key(0)))
    kinds, counts = np.unique(found, axis=0, return_counts=True)
    expected = {tuple(by_hand(IMAGES[0], i, j).ravel()) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    assert {tuple(kind) for kind in kinds} == expected
    assert np.abs(counts - 1_000).max() < 4.5 * np.sqrt(9_000 * 1 / 9 * 8 / 9)


def test_a_share_of_the_rows_is_moved():
    """n = 10,000, of which 30 % move, and 24 of 25 such moves change the image: within 4 standard errors, 0.0045."""
    rows = jnp.asarray(np.repeat(np.arange(100.0)[None], 10_000, axis=0))
    found = np.asarray(moved(rows, (10, 10), furthest=2, share=0.3, key=jax.random.key(1)))
    assert abs((found != rows).any(axis=1).mean() - 0.3 * 24 / 25) < 4 * 0.0045


def test_colours_move_together():
    image = np.arange(60.0).reshape(4, 5, 3)
    found = np.asarray(
        moved(jnp.asarray(image.reshape(1, -1)), (4, 5, 3), furthest=3, share=1.0, key=jax.random.key(2))
    )
    found = found.reshape(4, 5, 3)
    places = [(i, j) for i in range(-3, 4) for j in range(-3, 4)]
    assert [(i, j) for i, j in places if np.array_equal(found, by_hand(image, i, j))] not in ([], [(0, 0)])


def slanted_by_hand(image, down, across):
    """Lines moved one after another: those across by `across` for each line from the middle, then those down."""
    height, width = image.shape
    found = np.full(image.shape, np.nan)
    for i in range(height):
        for j in range(width):
            to = j + round(across * (i - (height - 1) / 2))
            at = i + round(down * (to - (width - 1) / 2))
            found[i, j] = image[min(max(at, 0), height - 1), min(max(to, 0), width - 1)]
    return found


def test_slants_move_whole_lines():
    """Each of 2,000 slants of a 9 x 9 image is one by hand; pixels that do not come from an edge are there once."""
    image = np.arange(81.0).reshape(9, 9)
    rows = jnp.asarray(np.repeat(image.reshape(1, -1), 2_000, axis=0))
    found = np.asarray(moved(rows, (9, 9), furthest=0, steepest=0.3, share=1.0, key=jax.random.key(0)))
    steps = np.linspace(-0.3, 0.3, 61)
    known = {tuple(slanted_by_hand(image, i, j).ravel()) for i in steps for j in steps}
    kinds = {tuple(kind) for kind in found}
    assert kinds <= known
    assert len(kinds) > 20
    inner = image[2:-2, 2:-2].ravel()
    assert all(np.isin(found, pixel).sum(axis=1).max() == 1 for pixel in inner)
    still = moved(rows[:1], (9, 9), furthest=0, steepest=0.3, share=0.0, key=jax.random.key(0))
    assert np.array_equal(still, rows[:1])


def test_the_share_falls_to_none():
    config = TrainingConfig(epochs=10, move=1, move_until=0.5, image=(2, 2))
    shares = [float(config.share_moved(jnp.asarray(float(step)), 100)) for step in (0, 25, 50, 100)]
    assert shares == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_the_last_epochs_have_images_as_they_are():
    """A single image can be learnt by heart; moved to nine places it has an entropy of log 9 = 2.2 nats."""
    image = np.zeros((5, 5), np.uint8)
    image[2, 2] = 1
    rows = np.repeat(image.reshape(1, -1), 400, axis=0)
    model = ModelConfig(make_observation("bernoulli", columns=25).config(), latent=(1,), hidden=())
    settings: dict[str, Any] = {"epochs": 100, "batch_size": 100, "learning_rate": 0.05, "schedule": "constant"}
    losses = [
        record["loss"] for record in fit(model, rows, config=TrainingConfig(**settings, move=1, image=(5, 5))).history
    ]
    assert min(losses[:20]) > 1.5
    assert losses[-1] < 0.1


def test_holes_move_with_their_pixels():
    """Rows whose lower half is missing: what comes in from there is a hole, so that only zeros are ever seen."""
    image = np.zeros((4, 3), np.float32)
    image[2:] = np.nan
    rows = np.repeat(image.reshape(1, -1), 100, axis=0)
    model = ModelConfig(make_observation("bernoulli", columns=12).config(), latent=(1,), hidden=())
    config = TrainingConfig(epochs=5, batch_size=50, move=2, image=(4, 3))
    fitted = fit(model, rows, config=config)
    assert all(np.isfinite(record["loss"]) for record in fitted.history)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"image": (4, 5, 0)}, r"image: expected height and width, and perhaps a number of colours.*got \(4, 5, 0\)"),
        ({"slant": 1.5}, "slant: expected pixels for each pixel, at least 0 and less than 1; got 1.5"),
        ({"move": -1}, "move: expected a whole number of at least 0; got -1"),
        ({"move": 1, "image": (4, 5), "move_until": 0.0}, "move_until: expected a share of the epochs, above 0; got 0"),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(ValueError, match=words):
        TrainingConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"image": (4, 4)}, r"image: expected a shape of 12 pixels, as rows have columns; got \(4, 4\)"),
        ({}, "move: expected square images, or their shape as `image`; got rows of 12 columns"),
        ({"image": (1, 12)}, "move: expected fewer pixels than images have to a side, 1; got 1"),
    ],
)
def test_rows_of_another_size_are_refused(settings, words):
    model = ModelConfig(make_observation("bernoulli", columns=12).config(), latent=(1,), hidden=())
    with pytest.raises(ValueError, match=words):
        fit(model, np.zeros((10, 12)), config=TrainingConfig(epochs=1, move=1, **settings))


def test_images_are_squares_unless_told():
    assert TrainingConfig(move=1).image_of(64) == (8, 8)
    assert TrainingConfig(move=1, image=(4, 16)).image_of(64) == (4, 16)


def test_a_config_from_a_file_is_the_same():
    config = TrainingConfig(move=1, image=(4, 5))
    assert TrainingConfig.from_dict({**config.to_dict(), "image": [4, 5]}) == config


def test_patience_waits_until_no_image_is_moved():
    """A judge who likes every model less than the one before: 10 epochs, patience 1, images moved for 8 of them."""
    rows = np.zeros((60, 9), np.uint8)
    model = ModelConfig(make_observation("bernoulli", columns=9).config(), latent=(1,), hidden=())
    settings: dict[str, Any] = {"epochs": 10, "batch_size": 20, "warm_up": 0.0, "patience": 1}

    def epochs(**more):
        scores = iter(range(0, -100, -1))
        fitted = fit(model, rows, judge=lambda _: next(scores), config=TrainingConfig(**settings, **more))
        return len(fitted.history)

    assert epochs() == 1
    assert epochs(move=1) == 9

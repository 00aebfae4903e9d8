import jax.numpy as jnp
import numpy as np
import pytest

from dlgm import plots
from dlgm.plots.images import _GAP, _as_images, _tile

RNG = np.random.default_rng(0)
GREY, COLOUR = RNG.random((7, 6, 5)), RNG.random((3, 4, 8, 3))


def record(epoch, **more):
    return {"epoch": epoch, "train_bound": -80 - 200 / epoch, **more}


FULL = [
    record(
        e,
        valid_bound=-85 - 200 / e if e % 5 == 0 else None,
        beta=min(1, e / 9),
        learning_rate=1e-3,
        rows_per_second=2e4,
    )
    for e in range(1, 41)
]
DRAWS = RNG.random((2, *GREY.shape))
HOLES = RNG.random(GREY.shape) < 0.5

FIGURES = {
    "curves": lambda: plots.training_curves(FULL),
    "curves, one epoch": lambda: plots.training_curves([record(1)]),
    "curves, with gaps": lambda: plots.training_curves([record(1, beta=0.0), record(2, valid_bound=float("nan"))]),
    "grid": lambda: plots.image_grid(GREY, 3),
    "grid, one image": lambda: plots.image_grid(GREY[:1], 5),
    "grid, colours, titles": lambda: plots.image_grid(
        COLOUR, 2, ["one", "", "a title far longer than its image is wide"]
    ),
    "grid, binary, one channel": lambda: plots.image_grid(jnp.asarray(GREY > 0.5)[..., None], 7),
    "side by side": lambda: plots.side_by_side({"data": GREY, "samples": GREY[:2] > 0.5}),
    "side by side, four": lambda: plots.side_by_side(dict.fromkeys("abcd", COLOUR)),
    "embedding": lambda: plots.embedding(RNG.normal(size=(50, 2)), RNG.integers(0, 10, 50)),
    "embedding, numbers": lambda: plots.embedding(
        RNG.normal(size=(50, 2)), np.where(np.arange(50) == 3, np.nan, np.arange(50.0))
    ),
    "embedding, names": lambda: plots.embedding(jnp.zeros((3, 2)), ["cat", "dog", "cat"]),
    "embedding, many classes": lambda: plots.embedding(RNG.normal(size=(45, 2)), np.arange(45)),
    "embedding, no labels": lambda: plots.embedding(RNG.normal(size=(1, 2))),
    "filled in": lambda: plots.filled_in(GREY, HOLES, DRAWS, DRAWS.mean(axis=0)),
    "filled in, colours": lambda: plots.filled_in(COLOUR, COLOUR > 0.3, COLOUR[None], COLOUR),
    "bars": lambda: plots.likelihood_bars([("a", -170.0, 0.3), ("b", -86.6, None)]),
    "bars, close": lambda: plots.likelihood_bars([("a", -87.3, 0.2), ("b", -86.6, float("nan"))]),
    "bars, equal": lambda: plots.likelihood_bars([("a", -87.3, 0.0), ("b", -87.3, 0.0)]),
    "bars, one": lambda: plots.likelihood_bars([("a", 3.0, 0.2)]),
    "course": lambda: plots.training_course(FULL, "beta"),
    "kl": lambda: plots.unit_kl(np.geomspace(1, 1e-6, 100)),
    "kl, none active": lambda: plots.unit_kl(jnp.zeros(1), "top"),
    "latent grid": lambda: plots.latent_grid(lambda p: np.tile(p[:, :1] > 0, (1, 12)), (3, 4), across=5),
    "latent grid, colours": lambda: plots.latent_grid(lambda p: np.full((len(p), 36), 0.5), (3, 4, 3), across=2),
    "posterior": lambda: plots.posterior_plane(
        RNG.normal(size=(20, 30)), (-5.0, 5.0, -4.0, 4.0), prior=np.zeros((3, 2)), draws=np.ones((4, 2)), mode=[0, 1]
    ),
    "posterior, bare": lambda: plots.posterior_plane(np.zeros((5, 5)), (0.0, 1.0, 0.0, 1.0)),
    "trace": lambda: plots.trace(RNG.normal(size=(4, 25)), "age", truth=0.5),
}


@pytest.mark.parametrize("name", FIGURES)
def test_renders(name):
    assert plots.as_png(FIGURES[name](), 40.0).startswith(b"\x89PNG")


def test_every_function_draws_on_the_axes_it_is_given():
    """All of them are called here; what is drawn is on those axes, and no figure is made besides."""
    calls = {
        "embedding": lambda ax: plots.embedding(np.zeros((3, 2)), [1, 2, 3], ax=ax),
        "filled_in": lambda ax: plots.filled_in(GREY, HOLES, DRAWS, GREY, ax=ax),
        "image_grid": lambda ax: plots.image_grid(GREY, 3, ax=ax),
        "latent_grid": lambda ax: plots.latent_grid(lambda p: np.zeros((len(p), 12)), (3, 4), ax=ax),
        "likelihood_bars": lambda ax: plots.likelihood_bars([("a", -1.0, None)], ax=ax),
        "posterior_plane": lambda ax: plots.posterior_plane(np.zeros((5, 5)), (0.0, 1.0, 0.0, 1.0), ax=ax),
        "side_by_side": lambda ax: plots.side_by_side({"data": GREY}, ax=ax),
        "trace": lambda ax: plots.trace(np.zeros((2, 3)), ax=ax),
        "training_course": lambda ax: plots.training_course(FULL, "beta", ax=ax),
        "training_curves": lambda ax: plots.training_curves(FULL, ax=ax),
        "unit_kl": lambda ax: plots.unit_kl([1.0, 0.0], ax=ax),
    }
    assert set(calls) == set(plots.__all__) - {"as_png", "figure_of", "new_figure"}
    for name, draw in calls.items():
        ax = plots.new_figure(4.0, 4.0).add_subplot()
        assert draw(ax) is ax, name
        assert ax.has_data(), name


def test_a_latent_grid_puts_images_where_their_points_are():
    """Brightness rises to the right, and only there."""
    (image,) = plots.latent_grid(lambda p: np.tile((p[:, :1] + 3) / 6, (1, 4)), (2, 2), across=4).images
    picture = np.asarray(image.get_array())
    np.testing.assert_allclose(picture[::3, ::3], np.tile(np.linspace(0, 1, 4), (4, 1)), atol=1e-6)
    (image,) = plots.latent_grid(lambda p: np.tile((p[:, 1:] + 3) / 6, (1, 4)), (2, 2), across=4).images
    np.testing.assert_allclose(np.asarray(image.get_array())[::3, 0], np.linspace(1, 0, 4), atol=1e-6)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_best_epoch_is_the_highest_held_out_bound():
    history = [record(1, valid_bound=-100.0), record(2, valid_bound=-90.0), record(3, valid_bound=-95.0), record(4)]
    assert legend_of(plots.training_curves(history))[-1] == "best validation: −90.00, epoch 2"
    assert legend_of(plots.training_curves([record(1), record(2)]))[-1] == "best training: −180.00, epoch 2"


def test_tiles_hold_the_images_in_reading_order():
    images = _as_images("test", "images", GREY)
    picture, (high, wide) = _tile(images, 3)
    for at, image in enumerate(images):
        row, column = divmod(at, 3)
        cell = picture[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
        inside = cell[_GAP + 1 : -_GAP - 1, _GAP + 1 : -_GAP - 1, :3]
        factor = len(inside) // GREY.shape[1]
        np.testing.assert_array_equal(inside[::factor, ::factor], image)
    assert (picture[2 * high :, wide:, 3] == 0).all()


def test_holes_have_their_own_colour():
    ax = plots.filled_in(GREY, HOLES, DRAWS, GREY)
    (picture,) = (image.get_array() for image in ax.images)
    colours = np.ptp(np.asarray(picture)[..., :3], axis=-1) > 0.1
    rows = np.split(colours, 5)
    assert [bool(row.any()) for row in rows] == [False, True, False, False, False]
    # A share of the images' own pixels, not of the gaps between them.
    images = np.split(np.asarray(picture)[..., 3] > 0, 5)[1]
    assert abs(rows[1].sum() / images.sum() - (~HOLES).mean()) < 0.03


def test_what_nobody_knows_is_not_shown():
    ax = plots.filled_in(GREY, HOLES, DRAWS, GREY, show_truth=False)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["given", "fill 1", "fill 2", "mean"]


def test_units_that_carry_something_are_counted():
    ax = plots.unit_kl([0.5, 0.009, 0.01])
    assert ax.get_title(loc="left") == "layer 1: 0.5 nats in all; 2 of 3 units with 0.01 or more"


def test_bars_start_at_zero_and_dots_say_that_they_do_not():
    far, near = (plots.likelihood_bars([("a", mean, 0.1), ("b", -86.6, 0.1)]) for mean in (-170.0, -87.3))
    assert far.get_xlim()[1] >= 0
    assert "does not start at 0" not in far.get_xlabel()
    assert near.get_xlim()[1] < 0
    assert "does not start at 0" in near.get_xlabel()


REFUSED = [
    (lambda: plots.training_curves([]), "expected at least one record; got an empty history."),
    (lambda: plots.training_curves([{"epoch": 1}]), "expected a finite `train_bound` in some record; found none."),
    (lambda: plots.image_grid(GREY[0], 3), "got (6, 5). Reshape rows to images first."),
    (lambda: plots.image_grid(GREY[:0], 3), "expected at least one image in `images`; got shape (0, 6, 5)."),
    (lambda: plots.image_grid(GREY * 0 + 255, 3), "within [0, 1]; got 255 to 255. Rescale or clip them first."),
    (lambda: plots.image_grid(GREY * np.nan, 3), "within [0, 1]; got nan to nan."),
    (lambda: plots.image_grid(GREY, 0), "expected `columns` of at least 1; got 0."),
    (lambda: plots.image_grid(GREY, 3, ["a"]), "expected 7 titles, one an image; got 1."),
    (lambda: plots.side_by_side({}), "expected at least one group of images; got none."),
    (lambda: plots.embedding(np.zeros((4, 3))), "expected `points` of shape (n, 2); got (4, 3)."),
    (lambda: plots.embedding(np.zeros((4, 2)), [1, 2]), "expected 4 labels, one a point; got shape (2,)."),
    (lambda: plots.filled_in(GREY, HOLES[0], DRAWS, GREY), "`observed_mask` of shape (7, 6, 5); got (6, 5)."),
    (lambda: plots.filled_in(GREY, HOLES, DRAWS[:, :2], GREY), "like `truth`, (7, 6, 5, 3); got (2, 6, 5, 3)."),
    (lambda: plots.likelihood_bars([]), "expected at least one entry; got none."),
    (lambda: plots.unit_kl([]), "expected one number a unit in 'layer 1'; got shape (0,)."),
    (lambda: plots.unit_kl(np.zeros((2, 2))), "expected one number a unit in 'layer 1'; got shape (2, 2)."),
    (lambda: plots.training_course(FULL, "speed"), "expected a finite `speed` in some record; found none."),
    (lambda: plots.trace([1.0, 2.0]), "expected draws of shape (chains, draws); got (2,)."),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert message in str(caught.value)

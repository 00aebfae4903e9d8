"""What the observation families refuse, by name: rows, options, and shapes."""

import numpy as np
import pytest

from dlgm.model.observations import (
    Bernoulli,
    Categorical,
    Composite,
    DiscretisedLogistic,
    Gaussian,
    HeapedLogNormal,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    make_observation,
)
from tests.model.observation_cases import CASES, MIXED

TABLE = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])


def changed(value, row=1, column=2):
    rows = TABLE + 1
    rows[row, column] = value
    return rows


@pytest.mark.parametrize(
    ("family", "rows", "message"),
    [
        (
            Bernoulli(3),
            np.where(np.arange(12).reshape(4, 3) == 11, 7.0, 1.0),
            "bernoulli: expected 0 or 1 in every observed cell; got 7.0 at row 3, column 2. Binarise the column first.",
        ),
        (
            Bernoulli(3),
            np.array([[0, 0.5, 1]]),
            "bernoulli: expected 0 or 1 in every observed cell; got 0.5 at row 0, column 1. Binarise the column first.",
        ),
        (
            Gaussian(3),
            changed(np.nan),
            "gaussian: expected a number in every observed cell; got nan at row 1, column 2. "
            "Mark it missing in the mask.",
        ),
        (
            StudentT(3),
            changed(-np.inf),
            "student-t: expected finite numbers in every observed cell; got -inf at row 1, column 2. "
            "Mark it missing in the mask, or mend it.",
        ),
        (
            LogNormal(3),
            changed(0),
            "log-normal: expected positive numbers in every observed cell; got 0.0 at row 1, column 2. "
            "Shift the column, or use a family for real numbers.",
        ),
        (
            HeapedLogNormal(3),
            changed(-1),
            "heaped-log-normal: expected zero or positive numbers in every observed cell; got -1.0 at row 1, column 2. "
            "Use heaped-gaussian for numbers on both sides of the heap.",
        ),
        (
            Categorical(3, num_classes=3),
            changed(3),
            "categorical: expected whole codes 0 to 2 in every observed cell; got 3.0 at row 1, column 2. "
            "Recode the column, or raise `num_classes`.",
        ),
        (
            Ordinal(3, num_classes=3),
            changed(-1, 0, 0),
            "ordinal: expected whole codes 0 to 2 in every observed cell; got -1.0 at row 0, column 0. "
            "Recode the column, or raise `num_classes`.",
        ),
        (
            NegativeBinomial(3),
            changed(1.5),
            "negative-binomial: expected counts 0, 1, 2, .. in every observed cell; got 1.5 at row 1, column 2. "
            "Use a family for real numbers if these are not counts.",
        ),
        (
            DiscretisedLogistic(3),
            changed(256),
            "discretised-logistic: expected whole levels 0 to 255 in every observed cell; "
            "got 256.0 at row 1, column 2. Scale the pixels to these levels and round them.",
        ),
        (
            Composite([(Gaussian(1), [1]), (Poisson(2), [2, 0])]),
            changed(-2.0),
            "poisson: expected counts 0, 1, 2, .. in every observed cell; got -2.0 at row 1, column 2. "
            "Use a family for real numbers if these are not counts.",
        ),
        (Bernoulli(3), TABLE[0], "bernoulli: expected rows of 3 values, shape (n, 3); got shape (3,)."),
        (Bernoulli(2), TABLE, "bernoulli: expected rows of 2 values, shape (n, 2); got shape (2, 3)."),
        (Bernoulli(1), [["a"]], "bernoulli: expected rows of real numbers; got dtype <U1."),
    ],
)
def test_check(family, rows, message):
    for refuse in (family.check, family.initialise):
        with pytest.raises(ValueError) as error:
            refuse(rows)
        assert str(error.value) == message


@pytest.mark.parametrize("case", [*CASES, MIXED], ids=lambda case: case.name)
def test_check_lets_good_rows_and_missing_cells_pass(case):
    rows = case.rows(np.random.default_rng(0), 50).astype(float)
    case.make().check(rows)
    mask = np.random.default_rng(1).random(rows.shape) < 0.5
    case.make().check(np.where(mask, rows, np.nan), mask)
    case.make().check(np.where(mask, rows, -np.inf), mask)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: make_observation("bernouli", 3),
            "Expected an observation family: bernoulli, gaussian, student-t, logistic, log-normal, "
            "heaped-gaussian, heaped-log-normal, categorical, ordinal, poisson, negative-binomial, "
            "discretised-logistic; got 'bernouli'. Did you mean 'bernoulli'?",
        ),
        (
            lambda: make_observation("gaussian", 3, varience="global"),
            "gaussian: unknown option `varience`; it takes variance, floor. Did you mean 'variance'?",
        ),
        (lambda: make_observation("poisson", 3, floor=1), "poisson: unknown option `floor`; it takes no options."),
        (lambda: make_observation("ordinal", 3), "ordinal: expected the option `num_classes`; got none."),
        (
            lambda: Gaussian(3, variance="per column"),
            "gaussian: expected `variance` to be one of global, per-column, predicted; got 'per column'. "
            "Did you mean 'per-column'?",
        ),
        (lambda: Gaussian(3, floor=0.0), "gaussian: expected a positive `floor`; got 0.0."),
        (lambda: Bernoulli(0), "bernoulli: expected `columns` to be a whole number of at least 1; got 0."),
        (
            lambda: Categorical(2, num_classes=1),
            "categorical: expected `num_classes` to be a whole number of at least 2; got 1.",
        ),
        (
            lambda: Composite([(Bernoulli(2), [0])]),
            "composite: expected 2 column numbers for part 0 (bernoulli); got 1.",
        ),
        (
            lambda: Composite([(Bernoulli(2), [0, 1]), (Gaussian(1), [1])]),
            "composite: expected every column in one part; got column 1 in two.",
        ),
        (
            lambda: Composite([(Bernoulli(2), [0, 3]), (Gaussian(1), [1])]),
            "composite: expected the columns 0 to 2, each once; column 2 is in no part, and there is a column 3.",
        ),
        (lambda: Composite([]), "composite: expected at least one part; got none."),
        (
            lambda: Bernoulli(3).log_prob(np.zeros((5, 3)), np.zeros(3)),
            "bernoulli: expected `v` of shape (3,), one row; got shape (5, 3). Use jax.vmap over rows.",
        ),
        (
            lambda: Categorical(3, num_classes=2).mean(np.zeros(3)),
            "categorical: expected `outputs` of shape (6,), one row; got shape (3,). Use jax.vmap over rows.",
        ),
        (
            lambda: Bernoulli(3).log_prob(np.zeros(3), np.zeros(3), np.ones(3)),
            "bernoulli: expected `mask` of 3 booleans, true where observed; got shape (3,) of float32.",
        ),
        (
            lambda: Bernoulli(3).check(TABLE, [[True, False, True]]),
            "bernoulli: expected `mask` of booleans, true where observed, of the rows' shape (2, 3); "
            "got shape (1, 3) of bool.",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message

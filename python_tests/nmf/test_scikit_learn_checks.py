"""scikit-learn's own checks of an estimator; none is left out."""

import numpy as np
import pytest
import torch

from ptd_ext import SimplexNMF

checks = pytest.importorskip("sklearn.utils.estimator_checks")


@checks.parametrize_with_checks([SimplexNMF(2, random_state=0)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_new_rows_must_be_finite(kind, value):
    rows = np.random.default_rng(0).standard_normal((20, 4))
    fitted = SimplexNMF(2, random_state=0).fit(kind(rows))
    rows[7, 1] = value
    with pytest.raises(ValueError, match="X holds NaN or infinity"):
        fitted.transform(kind(rows))


def test_complex_rows_get_an_error_message():
    with pytest.raises(ValueError, match=r"X must be real; got torch\.complex64"):
        SimplexNMF(2).fit(torch.zeros(4, 3, dtype=torch.complex64))


def test_numbers_whose_squares_are_not_finite_and_half_a_part():
    """The message names the cause, not the probabilities from which torch draws the first parts."""
    x = torch.rand(40, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="numbers whose squares are not finite: scale it"):
        SimplexNMF(2).fit(1e300 * x)
    for options in ({"n_parts": 1.5}, {"n_parts": 2, "max_iter": 2.5}):
        with pytest.raises(ValueError, match=r"must be an integer .*; got [12]\.5"):
            SimplexNMF(**options).fit(x)

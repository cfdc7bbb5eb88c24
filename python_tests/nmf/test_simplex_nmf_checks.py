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


def test_complex_rows_get_a_sentence():
    with pytest.raises(ValueError, match=r"X must be real; got torch\.complex64"):
        SimplexNMF(2).fit(torch.zeros(4, 3, dtype=torch.complex64))

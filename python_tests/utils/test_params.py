"""Estimators by scikit-learn's conventions, and seeds of every kind."""

import numpy as np
import pytest
import torch

from ptd_ext.utils.params import NotFittedError, Params, seed_of


class Estimator(Params):
    def __init__(self, n_parts, *, tol=1e-3):
        self.n_parts, self.tol = n_parts, tol


def test_parameters():
    estimator = Estimator(3)
    assert estimator.get_params() == estimator.get_params(deep=False) == {"n_parts": 3, "tol": 1e-3}
    assert estimator.set_params(tol=0.5) is estimator
    assert estimator.get_params() == {"n_parts": 3, "tol": 0.5}
    assert estimator.set_params() is estimator


def test_an_unknown_parameter_changes_nothing():
    estimator = Estimator(3)
    message = "Estimator has no parameter 'parts'; it has n_parts, tol"
    with pytest.raises(ValueError, match=message):
        estimator.set_params(tol=1, parts=2)
    assert estimator.tol == 1e-3


def test_repr_names_what_differs_from_the_default():
    assert repr(Estimator(3)) == "Estimator(n_parts=3)"
    assert repr(Estimator(None, tol=0.1)) == "Estimator(n_parts=None, tol=0.1)"


def test_tags_are_those_of_a_transformer():
    tags = pytest.importorskip("sklearn.utils").get_tags(Estimator(3))
    assert tags.transformer_tags is not None
    assert not tags.target_tags.required


def test_not_fitted_is_caught_as_scikit_learns():
    exceptions = pytest.importorskip("sklearn.exceptions")
    assert set(NotFittedError.__bases__) == set(exceptions.NotFittedError.__bases__)


@pytest.mark.parametrize(
    "generator",
    [
        lambda seed: torch.Generator().manual_seed(seed),
        np.random.default_rng,
        np.random.RandomState,
    ],
)
def test_generators_give_seeds_and_advance(generator):
    first, second = generator(4), generator(4)
    seeds = [seed_of(first) for _ in range(3)]
    assert seeds == [seed_of(second) for _ in range(3)]
    assert len(set(seeds)) == 3
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)


def test_seeds():
    assert seed_of(np.int64(7)) == seed_of(7) == 7
    torch.manual_seed(1)
    first = seed_of(None)
    assert seed_of(None) != first
    torch.manual_seed(1)
    assert seed_of(None) == first

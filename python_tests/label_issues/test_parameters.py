"""Parameters of the classifier, checked before anything is trained."""

import numpy as np
import pytest

import ptd_ext
from ptd_ext.label_issues._parameters import (
    check_classes,
    check_folds,
    check_parameters,
    check_seed,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "CE"}, r"method must be one with a T\(x\), .*; got 'CE'"),
        ({"network": "mpl"}, "network must be one of auto, linear, mlp"),
        ({"network": 3}, "network must be one of auto, linear, mlp"),
        ({"n_parts": 257}, "n_parts must be an integer from 1 to 256; got 257"),
        ({"epochs": 1.5}, "epochs must be an integer >= 1; got 1.5"),
        ({"validation_fraction": 1.0}, "validation_fraction must be more than 0 and less than 1"),
        ({"validation_fraction": "0.1"}, "validation_fraction must be more than 0"),
        ({"encoder": 7}, "encoder must be a function, .*; got int"),
        ({"encoder": "none.pt"}, "torchvision; got 'none.pt', and there is no such file"),
        ({"flag_share": float("nan")}, "flag_share must be a finite number of at least 0; got nan"),
        ({"random_state": -1}, "random_state must be an integer from 0"),
        ({"device": "nope"}, "device must be auto, cpu, cuda or cuda:1; got 'nope'"),
        ({"progress": "line"}, "progress must be"),
    ],
)
def test_parameters_begin_with_their_name(options, message):
    with pytest.raises(ValueError, match=message):
        check_parameters(ptd_ext.PTDClassifier(**options))


def test_parameters_that_can_work():
    check_parameters(ptd_ext.PTDClassifier())
    own = {"network": "package.module:function", "encoder": __file__, "epochs": 1}
    check_parameters(ptd_ext.PTDClassifier("EM-F", **own, random_state=np.int64(3)))
    check_parameters(ptd_ext.PTDClassifier(random_state=np.random.RandomState(0)))


@pytest.mark.parametrize("folds", [-3, 1, 2.5, 13, "3"])
def test_numbers_of_folds_that_cannot_work(folds):
    with pytest.raises(ValueError, match="cross_fit must be 0 or from 2 to the 12 rows; got"):
        check_folds(folds, 12)


def test_numbers_of_folds():
    for folds in (0, 2, 12, np.int64(3)):
        check_folds(folds, 12)
    with pytest.raises(ValueError, match="cross_fit must be 0 or at least 2; got 1"):
        check_folds(1)


def test_more_classes_than_memory_holds_matrices_for():
    check_classes(1000, 10)
    with pytest.raises(ValueError, match="y holds 1,000,000 classes; 2 matrices"):
        check_classes(1_000_000, 2)


@pytest.mark.parametrize("seed", [2**70, -1, 1.5, "a"])
def test_seeds_that_cannot_be_used(seed):
    with pytest.raises(ValueError, match="random_state must be an integer from 0 to"):
        check_seed(seed)

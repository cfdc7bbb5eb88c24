"""Checks of a model's metadata and tensors."""

import numpy as np
import pytest
import torch

from ptd_ext.engine.model.model_checks import (
    check_about,
    check_numbers,
    classes_of,
    compare,
    preprocessing_of,
)

ABOUT = {
    "method": "EM-F",
    "fingerprint": "",
    "validation": {"rows": 1, "accuracy": 0.5, "beats_chance": True, "warning": ""},
    "curves": {"loss": [1, 0.5]},
    "parameters": {"n_parts": 3, "random_state": None, "flag_share": 1.0, "network": "auto"},
}
ROWS = {"kind": "table", "shape": [3], "width": 3, "as_bytes": False, "files": False}
ROWS |= {"words": None}
MOMENTS = {"mean": torch.zeros(3), "scale": torch.ones(3)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": None}, "fingerprint must be a string; got None"),
        ({"validation": []}, "validation must hold rows, accuracy, beats_chance, warning"),
        ({"validation": {**ABOUT["validation"], "accuracy": 1}}, "validation must hold"),
        ({"curves": {"loss": [True]}}, "curves must be lists of numbers by name"),
        ({"curves": [1]}, "curves must be lists of numbers by name"),
        ({"parameters": {"n_parts": {}}}, "parameters must be numbers and strings by name"),
    ],
)
def test_metadata_of_other_types(change, message):
    check_about(ABOUT)
    with pytest.raises(ValueError, match=message):
        check_about(ABOUT | change)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "<i8"),
        ([1, 2], "|u1"),
        ([False, True], "|b1"),
        ([1.0, 2.0], "<f4"),
        (["a", "bb"], "<U2"),
        (["a", 1, 2**70], "object"),
    ],
)
def test_classes_have_the_type_they_were_saved_with(values, kind):
    found = classes_of(values, kind)
    assert found.tolist() == values
    assert found.dtype == np.dtype(kind)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1], "<i8", "at least two, all different"),
        ([1, 1.0], "object", "at least two, all different"),
        ([1, None], "object", "a list of numbers or strings"),
        (["a", "b"], "<i8", "classes must be of the type <i8"),
        ([1, True], "<i8", "at least two, all different"),
        ([2, True], "<i8", "classes must be of the type <i8"),
        ([1, 2], "<i8,<i8", "class_type must name a type"),
        ([1, 2], 8, "class_type must name a type"),
    ],
)
def test_classes_of_other_types(values, kind, message):
    with pytest.raises(ValueError, match=message):
        classes_of(values, kind)


def test_a_string_type_of_any_length_costs_nothing():
    assert classes_of(["a", "b"], "<U500000000").dtype == "<U1"


@pytest.mark.parametrize(
    ("about", "tensors", "message"),
    [
        ({"width": 4}, {}, "width must be 3, as in shape; got 4"),
        ({"width": 3.0}, {}, "width must be 3"),
        ({"kind": "image"}, {}, r"shape must be .*got \[3\]"),
        ({"shape": [True]}, {}, "shape must be"),
        ({"files": True}, {}, "files must be true or false, and true for images only"),
        ({"words": 5}, {}, "words must be the number of words of tokens; got 5"),
        ({}, {"mean": None}, "mean and scale must both be there"),
        ({}, {"scale": torch.zeros(3)}, "scale must be from 1e-30 to 1e\\+30; got 0 to 0"),
        ({}, {"scale": torch.tensor([1, 1, 1e-300], dtype=torch.float64)}, "got 1e-300 to 1"),
        ({}, {"scale": torch.tensor([1, 1e300, 1], dtype=torch.float64)}, r"got 1 to 1e\+300"),
        ({}, {"mean": torch.zeros(3, 1)}, r"mean must be floats \[3\]; got .*\[3, 1\]"),
        ({}, {"mean": torch.zeros(3).int()}, r"mean must be floats \[3\]; got torch.int32"),
        ({}, {"components": torch.ones(2, 3)}, r"components must be \[3, 3\]; got \[2, 3\]"),
    ],
)
def test_preprocessing_that_contradicts_itself(about, tensors, message):
    tensors = {name: each for name, each in (MOMENTS | tensors).items() if each is not None}
    assert preprocessing_of(ROWS, MOMENTS).shape == (3,)
    with pytest.raises(ValueError, match=message):
        preprocessing_of(ROWS | about, tensors)


def test_tensors_are_those_of_the_network():
    expected = {"weight": torch.zeros(2, 3)}
    compare("network", expected, {"weight": torch.ones(2, 3)})
    for state, message in (
        ({}, "it lacks network.weight"),
        ({**expected, "x" * 999: torch.ones(1)}, r"network\.x+\S* is not a tensor of its network"),
        ({"weight": torch.ones(3, 2)}, r"network.weight must be torch.float32 \[2, 3\]; got"),
        ({"weight": torch.ones(2, 3).double()}, r"got torch.float64 \[2, 3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            compare("network", expected, state)


@pytest.mark.parametrize(
    "tensor", [torch.tensor([torch.inf]), torch.tensor([torch.nan]), torch.ones(1).half()]
)
def test_numbers_that_networks_do_not_compute_with(tensor):
    check_numbers("mean", torch.ones(1).double())
    with pytest.raises(ValueError, match="mean must hold finite numbers of 32 or 64 bits"):
        check_numbers("mean", tensor)

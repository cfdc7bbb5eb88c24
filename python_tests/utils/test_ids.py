"""Labels, ids and rows as callers pass them."""

import numpy as np
import pandas as pd
import pytest
import torch

from ptd_ext.utils.ids import MAX_CLASSES, as_ids, as_labels, as_rows, as_tensor, positions

CPU = torch.device("cpu")
ROWS = [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize(
    "values",
    [
        ROWS,
        np.array(ROWS),
        np.array(ROWS)[::-1][::-1],
        np.asfortranarray(ROWS),
        np.array(ROWS, ">f8"),
        pd.DataFrame(ROWS),
        torch.tensor(ROWS, requires_grad=True),
    ],
)
def test_numbers_of_every_container(values):
    tensor = as_tensor(values, "x")
    assert tensor.tolist() == ROWS
    assert not tensor.requires_grad


def test_a_reversed_array_keeps_its_order():
    assert as_tensor(np.arange(3)[::-1], "x").tolist() == [2, 1, 0]


def test_a_data_frame_is_not_written_to():
    frame = pd.DataFrame(ROWS)
    as_tensor(frame, "x").zero_()
    assert frame.to_numpy().tolist() == ROWS


@pytest.mark.parametrize("values", [None, "text", ["a"], [[1], [1, 2]], object(), [2**70]])
def test_what_holds_no_numbers(values):
    with pytest.raises(TypeError, match="x must be a tensor, an array or a list of numbers; got"):
        as_tensor(values, "x")


def test_ids():
    assert as_ids(None, 3, CPU).tolist() == [0, 1, 2]
    assert as_ids(np.array([7, 3, 0], np.uint8), 3, CPU).tolist() == [7, 3, 0]
    assert as_ids([], 0, CPU).dtype == torch.int64


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([1, 2], ValueError, r"ids must be \[3\], one per sample; got \[2\]"),
        ([[1, 2, 3]], ValueError, r"ids must be \[3\], one per sample; got \[1, 3\]"),
        ([4, -1, -2], ValueError, "ids must not be negative; got -2"),
        ([4, 7, 4], ValueError, "ids must be distinct; 4 occurs twice"),
        ([1.0, 2.0, 3.0], TypeError, "ids must be integers; got torch.float32"),
        ([True, False, True], TypeError, "ids must be integers; got torch.bool"),
    ],
)
def test_ids_that_are_rejected(ids, error, message):
    with pytest.raises(error, match=message):
        as_ids(ids, 3, CPU)


def test_labels():
    labels, n_classes = as_labels(np.array([1, 0, 4], np.int16), None)
    assert labels.dtype == torch.int64
    assert n_classes == 5
    assert as_labels([0, 1], 2)[1] == 2
    assert as_labels([0, 1], MAX_CLASSES)[1] == MAX_CLASSES
    assert as_labels([], 3)[0].shape == (0,)


@pytest.mark.parametrize(
    ("labels", "n_classes", "message"),
    [
        ([[0, 1]], None, r"labels must be \[N\]; got \[1, 2\]"),
        (
            [0, MAX_CLASSES],
            None,
            "n_classes must be at most 32,768; got 32,769, and the largest la",
        ),
        ([0, 0], None, "n_classes must be at least 2; got 1"),
        ([], None, "n_classes must be at least 2; got 0"),
        ([0, 1], 1.5, r"n_classes must be an integer >= 0; got 1\.5"),
        ([0, 3], 3, "labels must be from 0 to 2; got 3"),
        ([-1, 3], 3, "labels must be from 0 to 2; got -1"),
    ],
)
def test_labels_that_are_rejected(labels, n_classes, message):
    with pytest.raises(ValueError, match=message):
        as_labels(torch.tensor(labels, dtype=torch.int64), n_classes)


def test_rows():
    assert as_rows(ROWS, "weights").tolist() == ROWS
    assert as_rows(torch.rand(0, 3), "weights").shape == (0, 3)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([0.5], ValueError, r"weights must be \[N, R\]; got \[1\]"),
        (torch.rand(3, 0), ValueError, r"weights must have at least one column; got \[3, 0\]"),
        ([[1, 2]], TypeError, "weights must be floating-point; got torch.int64"),
        (torch.ones(2, 2).to(torch.float8_e5m2), TypeError, "got torch.float8_e5m2"),
        ([[1j, 2.0]], TypeError, "weights must be floating-point; got torch.complex64"),
        ([[0.0, 1], [2, float("inf")]], ValueError, r"be finite; weights\[1, 1\] is inf"),
        ([[0.0, float("nan")]], ValueError, r"be finite; weights\[0, 1\] is nan"),
    ],
)
def test_rows_that_are_rejected(rows, error, message):
    with pytest.raises(error, match=message):
        as_rows(rows, "weights", "R")


def test_positions():
    ids = torch.tensor([30, 10, 20])
    assert positions(torch.tensor([20, 30, 20]), ids, "w").tolist() == [2, 0, 2]
    for missing in (5, 15, 35):
        with pytest.raises(ValueError, match=f"w must be in ids; 1 of 2 .* first is {missing}"):
            positions(torch.tensor([10, missing]), ids, "w")


def test_positions_among_no_ids():
    none = torch.tensor([], dtype=torch.int64)
    assert positions(none, none, "w").tolist() == []
    with pytest.raises(ValueError, match="w must be in ids; 2 of 2 are missing, the first is 4"):
        positions(torch.tensor([4, 3]), none, "w")

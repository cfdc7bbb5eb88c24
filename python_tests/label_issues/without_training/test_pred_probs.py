"""Probabilities are checked, and their columns are matched with the labels by value."""

import numpy as np
import pytest
import torch

import ptd_ext
from ptd_ext.label_issues.without_training.pred_probs import as_probabilities, labels_by_column


@pytest.mark.parametrize("kind", [bool, float])
def test_numbers_of_columns_are_not_names_of_labels(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1)))
    labels = np.tile([0, 1], 20).astype(kind)
    found = ptd_ext.find_label_issues(None, labels, pred_probs=frame)
    assert found.given_label.dtype == labels.dtype


def test_data_frames_of_probabilities_and_features():
    """Columns that are named by the labels are these labels, whatever their order is."""
    pandas = pytest.importorskip("pandas")
    codes = torch.arange(60) % 2
    points = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)) + 6 * codes[:, None]
    probabilities = (torch.nn.functional.one_hot(codes) * 0.8 + 0.1).numpy()
    labels = [("no", "yes")[code] for code in codes]
    plain = ptd_ext.find_label_issues(None, labels, pred_probs=probabilities)
    frame = pandas.DataFrame(probabilities[:, ::-1], columns=["yes", "no"])
    found = ptd_ext.find_label_issues(None, labels, pred_probs=frame)
    assert found.trusted
    assert found.label_quality.tolist() == plain.label_quality.tolist()
    frame.columns = ["1", "0"]  # as a file names the columns of numbers
    numbered = ptd_ext.find_label_issues(None, codes, pred_probs=frame)
    assert numbered.label_quality.tolist() == plain.label_quality.tolist()
    unnamed = ptd_ext.find_label_issues(None, labels, pred_probs=pandas.DataFrame(probabilities))
    assert unnamed.label_quality.tolist() == plain.label_quality.tolist()
    both = [
        ptd_ext.find_label_issues(None, labels, features=each)
        for each in (points, pandas.DataFrame(points.numpy()))
    ]
    assert both[0].label_quality.tolist() == both[1].label_quality.tolist()


def test_labels_that_are_not_columns_need_classes():
    probabilities = np.eye(4)[[0, 1, 3, 0, 1, 3]] * 0.6 + 0.1
    ptd_ext.find_label_issues(None, [0, 1, 3] * 2, pred_probs=probabilities)
    for labels in ([0, 1, 4], [-1, 0, 3], [0, 1, 2**40]):
        with pytest.raises(ValueError, match="name the class of each column in classes"):
            ptd_ext.find_label_issues(None, labels * 2, pred_probs=probabilities)


BIG = 2**60


@pytest.mark.parametrize(
    ("labels", "columns", "expected"),
    [
        ([0, 1], [1, 0], [1, 0]),
        ([0, 1], [2, 1, 0], [2, 1, 0]),  # a column of a class that no label names
        (["a", "b"], ["b", "a", "c"], ["b", "a", "c"]),
        ([1, 2], ["2", "1"], [2, 1]),
        ([1, 2], [2.0, 1.0], [2, 1]),
        ([1, 2], ["2.0", "1.0"], [2, 1]),
        ([1.0, 2.0], ["2", "1"], [2.0, 1.0]),
        (["1", "2"], [2, 1], ["2", "1"]),
        ([True, False], ["True", "False"], [True, False]),
        ([False, True], [1, 0], [True, False]),
        ([BIG, BIG + 1], [str(BIG + 1), str(BIG)], [BIG + 1, BIG]),  # equal as floats
        # Default numbers are not names: the columns are the sorted labels.
        (["x", "y"], [0, 1], ["x", "y"]),
        ([5, 7], [0, 1], [5, 7]),
        (["0", "1"], [0, 1], ["0", "1"]),
    ],
)
def test_columns_are_matched_by_value(labels, columns, expected):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.full((2, len(columns)), 1 / len(columns)), columns=columns)
    found = labels_by_column(labels, frame, len(columns))
    assert found.classes.tolist() == expected
    assert list(map(type, found.classes.tolist())) == list(map(type, expected))
    assert found.classes[found.codes].tolist() == labels


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (["cat", "dog"], ["p_cat", "p_dog"]),
        (["cat", "dog"], ["dog", "eel"]),
        ([1, 2], [2.0, 3.0]),
        ([1, 2], ["1", "2", "3"]),
        ([1, 2], ["1", "1.0"]),
        ([BIG, BIG + 1], [float(BIG), float(BIG + 1)]),
        ([str(number) for number in range(11)], list(range(11))),  # sorted, "10" is the third
    ],
)
def test_other_column_names_are_rejected(labels, columns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.full((2, len(columns)), 1 / len(columns)), columns=columns)
    with pytest.raises(ValueError, match="must have columns named after the classes of y"):
        labels_by_column(labels, frame, len(columns))


def test_classes_and_names_of_columns_agree():
    pandas = pytest.importorskip("pandas")
    given = np.arange(60) % 2
    probabilities = np.eye(2)[given] * 0.8 + 0.1
    for names in (["b", "a"], ["a", "b"], ["x", "y"], [0, 1]):
        frame = pandas.DataFrame(probabilities, columns=names)
        labels = np.array(["a", "b"])[given]
        if names == ["b", "a"]:
            with pytest.raises(
                ValueError, match=r"order of the columns of pred_probs, \['b', 'a'\]"
            ):
                ptd_ext.find_label_issues(None, labels, pred_probs=frame, classes=["a", "b"])
            continue
        found = ptd_ext.find_label_issues(None, labels, pred_probs=frame, classes=["a", "b"])
        assert found.label_quality.min() > 0.5


def test_exchanged_columns_of_another_type_do_not_change_the_result():
    pandas = pytest.importorskip("pandas")
    given = np.arange(60) % 2
    probabilities = np.eye(2)[given] * 0.8 + 0.1
    probabilities[:6] = probabilities[:6, ::-1]
    frame = pandas.DataFrame(probabilities[:, ::-1], columns=["1.0", "0.0"])
    plain = ptd_ext.find_label_issues(None, given, pred_probs=probabilities)
    found = ptd_ext.find_label_issues(None, given, pred_probs=frame)
    # The columns of T change places, and with them the order of sums.
    np.testing.assert_allclose(found.label_quality, plain.label_quality, atol=1e-6)
    assert found.given_label.tolist() == given.tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.6], [1, 0]], r"row 0 sums to 1\.1\. Apply softmax"),
        ([[0.5, 0.5], [2, -1]], r"must be probabilities; row 1 is \[2\.0, -1\.0\]"),
        ([[0.5, 0.5], [1, float("nan")]], r"must be finite; pred_probs\[1, 1\] is nan"),
        ([0.5, 0.5], "pred_probs must be"),
    ],
)
def test_what_is_not_probabilities_is_rejected(rows, message):
    with pytest.raises(ValueError, match=message):
        as_probabilities(np.array(rows))


def test_rounded_rows_are_normalised():
    found = as_probabilities(torch.tensor([[0.3333, 0.6662]]))
    assert found.dtype == torch.float64
    assert found.sum().item() == pytest.approx(1, abs=1e-15)

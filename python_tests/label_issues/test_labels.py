"""Labels of any kind become class indices, and come back as they went in."""

import numpy as np
import pytest
import torch

from ptd_ext.label_issues._labels import encode_labels


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        ([3, 1, 3], [1, 3], [1, 0, 1]),
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (np.array([True, False]), [False, True], [1, 0]),
        (torch.tensor([7, 5]), [5, 7], [1, 0]),
        (np.array([[2.0], [1.0]]), [1.0, 2.0], [1, 0]),
        ([("x", 1), ("a", 2)], [("a", 2), ("x", 1)], [1, 0]),
        ([1, "one", 1], [1, "one"], [0, 1, 0]),
    ],
)
def test_classes_and_codes(labels, classes, codes):
    found = encode_labels(labels)
    assert found.classes.tolist() == classes
    assert found.codes.tolist() == codes


def test_series_and_categories_of_pandas():
    pandas = pytest.importorskip("pandas")
    for labels in (["cat", "dog", "cat"], pandas.Categorical(["cat", "dog", "cat"])):
        found = encode_labels(pandas.Series(labels, index=[9, 8, 7]))
        assert found.classes.tolist() == ["cat", "dog"]
        assert found.codes.tolist() == [0, 1, 0]


def test_given_classes_set_the_order():
    assert encode_labels(["a", "c"], ["c", "b", "a"]).codes.tolist() == [2, 0]
    with pytest.raises(ValueError, match="holds 'd' at row 1, which is not among classes"):
        encode_labels(["a", "d"], ["a", "b"])
    with pytest.raises(ValueError, match="different from each other"):
        encode_labels(["a"], ["a", "a"])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([1.0, 1.5], r"Unknown label type: continuous, such as 1.5 at row 1"),
        (["a", None], r"holds no label at row 1"),
        ([1.0, float("nan")], r"holds no label at row 1 \(it is nan"),
        ([1.0, float("inf")], r"infinity at row 1"),
        (np.zeros((2, 2)), r"must be one label per row, \[N\]; got \[2, 2\]"),
        (np.array([1j]), r"Complex data not supported"),
        (None, r"must hold a label for every row; got None"),
    ],
)
def test_bad_labels_get_a_sentence(labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        encode_labels(labels)


def test_labels_that_cannot_be_looked_up():
    with pytest.raises(TypeError, match="labels must be hashable"):
        encode_labels([[1], [2]])

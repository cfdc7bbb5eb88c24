"""Labels of any kind become class indices, and come back as they went in."""

import tracemalloc

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows.labels import as_ids, encode_labels, join_ids
from ptd_ext.label_issues.findings import judge


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
    ("labels", "message"),
    [
        ([1.0, 1.5], r"Unknown label type: continuous, such as 1.5 at row 1"),
        (["a", None], r"has a missing label at row 1"),
        ([1.0, float("nan")], r"has a missing label at row 1 \(it is nan"),
        ([1.0, float("inf")], r"infinity at row 1"),
        (np.zeros((2, 2)), r"must be one label per row, \[N\]; got \[2, 2\]"),
        (np.array([1j]), r"Complex data not supported"),
        ([1, 1j], r"Complex data not supported"),
        (np.array(["a", np.complex64(1)], dtype=object), r"Complex data not supported"),
        (None, r"must hold a label for every row; got None"),
    ],
)
def test_bad_labels_get_an_error_message(labels, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(labels)


def test_labels_that_cannot_be_looked_up():
    with pytest.raises(TypeError, match="labels must be hashable"):
        encode_labels([[1], [2]])


@pytest.mark.parametrize("kind", [list, lambda texts: np.array(texts, dtype=object)])
def test_one_long_label_takes_its_own_room_only(kind):
    """An array of NumPy's texts would give every row 4 MB."""
    texts = ["a", "b"] * 500 + ["c" * 1_000_000]
    tracemalloc.start()
    labels = encode_labels(kind(texts))
    found = judge(np.full((1001, 3), 1 / 3, dtype=np.float32), labels, np.eye(3), ids=kind(texts))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8_000_000
    assert found.given_label.tolist() == found.ids.tolist() == texts
    assert labels.names == sorted(set(texts))


def test_short_texts_stay_texts_of_numpy():
    assert encode_labels(["b", "a"]).classes.dtype == "<U1"
    assert encode_labels(np.array(["b", "a"], dtype=object)).classes.dtype == "<U1"
    assert encode_labels(np.array(["b" * 90, "a"])).classes.dtype == "<U90"


@pytest.mark.parametrize(
    "labels",
    [
        ["a\0", "a", "a\0"],
        [2**63, -1, 2**63 + 1],
        [2**70, 2**70 + 1],
        ["ß", "ss", "\u0301a", "á", "🙂", " a", "a "],
        [1, True, "1", (1,)][2:],
    ],
)
def test_labels_that_look_alike_stay_apart(labels):
    found = encode_labels(labels)
    assert [found.classes.tolist()[code] for code in found.codes] == labels
    assert len(found.classes) == len(set(labels))


def test_dates_get_an_error_message():
    with pytest.raises(ValueError, match="it holds dates or durations"):
        encode_labels(np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"))


@pytest.mark.parametrize("labels", [5, {"a": 1}, {1, 2}])
def test_labels_that_are_not_a_sequence(labels):
    with pytest.raises(TypeError, match=r"y must be a sequence, \[N\]; got"):
        encode_labels(labels)
    with pytest.raises(TypeError, match=r"ids must be a sequence, \[N\]; got"):
        as_ids(labels, 2)


def test_ids_of_every_kind():
    assert as_ids(iter("ab"), 2).tolist() == ["a", "b"]
    assert as_ids([2**70, 1], 2).tolist() == [2**70, 1]
    with pytest.raises(ValueError, match="ids must have one row for each of 3 labels; got 2"):
        as_ids([1, 2], 3)
    with pytest.raises(ValueError, match=r"one row for each of 3 labels; got \[3, 1\]"):
        as_ids(np.ones((3, 1)), 3)


def test_ids_of_several_parts_stay_exact():
    """NumPy makes floats of signed and unsigned integers."""
    small, large = np.array([2**53 + 1]), np.array([2**63 + 1], dtype=np.uint64)
    assert join_ids([small, large]).tolist() == [2**53 + 1, 2**63 + 1]
    assert join_ids([-small, large]).tolist() == [-(2**53) - 1, 2**63 + 1]
    assert join_ids([small, small]).dtype == np.int64
    assert join_ids([large, large]).dtype == np.uint64
    assert join_ids([np.array(["a"]), np.array([1])]).tolist() == ["a", 1]

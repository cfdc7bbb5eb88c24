"""The mean T as a table, a picture or a list, and the parts that differ from it."""

import numpy as np
import pytest

from ptd_ext.label_issues.report.matrices import _entry, show_parts, show_transition


def names(count):
    return [f"class {i}" for i in range(count)]


def test_entries_of_a_matrix_in_percent():
    assert [_entry(value) for value in (0.25, 1.0, 0.006, 0.004)] == ["25", "100", "1", ""]


@pytest.mark.parametrize(
    ("classes", "cells", "picture", "confusions"),
    [(2, True, False, 0), (20, True, False, 0), (21, False, True, 1), (101, False, False, 1)],
)
def test_the_form_follows_the_number_of_classes(classes, cells, picture, confusions):
    matrix = np.eye(classes)
    matrix[1, :2] = 0.25, 0.75
    found = show_transition(matrix, names(classes))
    assert (found.cells is not None, found.picture is not None) == (cells, picture)
    assert len(found.confusions) == confusions
    if cells:
        assert found.cells[1][:2] == [("25", 4), ("75", 8)]
    else:
        assert found.confusions[0].value == 0.25
        assert (found.confusions[0].true, found.confusions[0].given) == ("class 1", "class 0")
    assert matrix[0, 0] == 1, "the caller's matrix is left as it is"


def test_confusions_are_sorted_and_at_most_a_hundred():
    matrix = np.arange(1.0, 626).reshape(25, 25) / 1000
    found = show_transition(matrix, names(25)).confusions
    values = [entry.value for entry in found]
    assert len(values) == 100
    assert values == sorted(values, reverse=True)
    assert all(entry.true != entry.given for entry in found)


def test_parts_that_differ_most_come_first_and_are_ten():
    mean, uniform = np.eye(4), np.full((4, 4), 0.25)
    parts = np.stack([mean + (uniform - mean) * (j / 12) for j in range(12)])
    found = show_parts(parts, np.arange(12) / 66, mean, names(4))
    assert [part.number for part in found.shown] == list(range(12, 2, -1))
    assert found.count == 12
    assert found.scale == pytest.approx(0.75 * 11 / 12)
    first = found.shown[0]
    assert first.share == pytest.approx(11 / 66)
    assert first.distance == pytest.approx(0.75 * 11 / 12)  # that share of each row moves
    assert [(each.true, each.given) for each in first.differences] == [
        (f"class {i}",) * 2 for i in range(3)
    ]


def test_one_part_has_no_differences():
    assert show_parts(np.eye(3)[None], np.ones(1), np.eye(3), names(3)) is None
    same = show_parts(np.stack([np.eye(3)] * 2), np.ones(2) / 2, np.eye(3), names(3))
    assert [part.differences for part in same.shown] == [[], []]

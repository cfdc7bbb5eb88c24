"""HTML fragments: escaped, and with the values that they are given."""

import re

import numpy as np

from ptd_ext.utils.html import Markup, heat_map, picture, table
from ptd_ext.utils.png import heat_picture

HOSTILE = "<script>alert(1)</script>"


def texts(html):
    return [text for text in re.split(r"<[^>]*>", html) if text]


def test_cells_are_escaped_once():
    shown = table((HOSTILE, "b"), [(HOSTILE, Markup("<i>x</i>")), (3, "&")])
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 2
    assert "<i>x</i>" in shown
    assert texts(shown)[-2:] == ["3", "&amp;"]


def test_few_classes_are_written_in_numbers():
    shown = heat_map(np.array([[0.9, 0.1], [0.004, 0.996]]), ["cat", HOSTILE])
    assert "<script" not in shown
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert texts(shown)[1:] == ["cat", escaped, "cat", "90", "10", escaped, "0", "100"]
    assert "<img" not in shown


def test_many_classes_are_a_picture_and_the_largest_entries():
    matrix = np.eye(30) * 0.6
    matrix[4, 7], matrix[9, 2] = 0.3, 0.4
    shown = heat_map(matrix)
    assert shown.count("<img") == 1
    assert texts(shown)[4:] == ["9", "2", "40.0%", "4", "7", "30.0%"]
    large = heat_map(np.eye(101))
    assert "<img" not in large
    assert len(large) < 1000


def test_pictures_are_whole():
    assert "object-fit:contain" in picture(heat_picture(np.zeros((2, 9))), "3em")

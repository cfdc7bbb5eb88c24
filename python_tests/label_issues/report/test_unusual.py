"""Columns in which a row is unusual for its given class and usual for the suggested one."""

import numpy as np
import pytest
from label_issues.report.report_cases import findings

from ptd_ext.label_issues.report.unusual import UnusualColumns, is_table
from ptd_ext.label_issues.samples import show_rows

ROWS = 200


def two_classes(**changes):
    """Even rows are of the class a, odd rows of b; row 0 is flagged."""
    flagged = np.arange(ROWS) == 0
    return findings(
        ROWS,
        ["a", "b"],
        is_label_issue=flagged,
        label_quality=np.where(flagged, 0.01, 0.99),
        **changes,
    )


def numbers():
    """Column 0 tells the classes apart, and row 0 is like b; column 1 does not."""
    table = np.stack([np.arange(ROWS) % 2 * 100 + np.arange(ROWS) / ROWS, np.ones(ROWS)], 1)
    table[0, 0] = 100.5
    return table


def test_a_number_of_the_other_class_is_marked():
    (mark,) = UnusualColumns(numbers(), two_classes(), 50).of(0, 0, 1)
    assert mark[0] == 0
    assert mark[1] == "0.059 to 0.941"  # the middle 90 % of the even rows but the first
    assert mark[2] == "100.1 to 100.9"


@pytest.mark.parametrize("value", [0.5, 50.0, 300.0, np.nan, np.inf])
def test_numbers_that_do_not_speak_for_the_other_class_are_not_marked(value):
    table = numbers()
    table[0, 0] = value
    assert UnusualColumns(table, two_classes(), 50).of(0, 0, 1) == []


def test_doubtful_rows_do_not_count():
    table = numbers()
    table[2:100:2, 0] = 100.5  # half of a, all of them flagged
    flagged = (np.arange(ROWS) < 100) & (np.arange(ROWS) % 2 == 0)
    quality = np.where(flagged, 0.01, 0.99)
    found = findings(ROWS, ["a", "b"], is_label_issue=flagged, label_quality=quality)
    assert len(UnusualColumns(table, found, 50).of(0, 0, 1)) == 1
    assert UnusualColumns(table, two_classes(), 50).of(0, 0, 1) == []


def test_a_class_with_few_rows_has_no_range():
    found = findings(ROWS, ["a", "b"], label_quality=np.where(np.arange(ROWS) < 30, 0.99, 0.01))
    assert UnusualColumns(numbers(), found, 50).of(0, 0, 1) == []


def test_a_category_of_the_other_class_is_marked():
    pandas = pytest.importorskip("pandas")
    colour = np.where(np.arange(ROWS) % 2, "blue", "red").astype(object)
    colour[0], colour[1] = "blue", "green"
    names = [f"name {i}" for i in range(ROWS)]
    frame = pandas.DataFrame({"name": names, "colour": colour})
    marks = UnusualColumns(frame, two_classes(), 50).of(0, 0, 1)
    assert marks == [(1, "in 0% of the rows", "in 99% of the rows")]
    assert UnusualColumns(frame, two_classes(), 1).of(0, 0, 1) == [], "of the first column"
    assert UnusualColumns(frame, two_classes(), 50).of(2, 0, 1) == []


def test_tables_are_frames_and_matrices():
    assert is_table(numbers())
    assert is_table(pytest.importorskip("pandas").DataFrame({"a": [1]}))
    for other in (None, ["text"], np.zeros((2, 3, 4)), np.array(["a"]), np.zeros(3)):
        assert not is_table(other)


def test_the_page_highlights_the_column(browser, tmp_path):
    found = two_classes(sample=show_rows(numbers()))
    browser.open(found.report(tmp_path / "report.html"))
    shown = browser.run("document.querySelector('#panel .unusual').textContent")
    assert shown.startswith("0100.5usual in the given class: 0.059 to 0.941; in the suggested")
    assert browser.run("document.querySelectorAll('.sample .unusual').length") == 1

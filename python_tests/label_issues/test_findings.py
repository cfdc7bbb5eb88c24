"""LabelIssues: what is suggested and flagged, the table, the CSV and the caveats."""

import csv
import pickle
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues.findings import COLUMNS, judge
from ptd_ext.label_issues.samples import show_rows

STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def two_classes(ids=None, names=("a", "b"), **changes):
    posterior = np.array([[1 / 3, 2 / 3], [0.7, 0.3], [0.1, 0.9]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0, 1]), np.array(names, dtype=object))
    return judge(posterior, labels, np.eye(2), ids=ids, **changes)


def test_suggestions_are_other_classes_of_flagged_rows_only():
    posterior = np.array([[0.6, 0.4], [0.4, 0.6], [0.1, 0.9], [0.0, 1.0]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0, 0, 1]), np.array(["a", "b"]))
    found = judge(posterior, labels, np.eye(2), ids=["w", "x", "y", "z"])
    # The doubts of "a" sum to 0.4 + 0.6 + 0.9 = 1.9 rows.
    assert found.is_label_issue.tolist() == [False, True, True, False]
    assert found.suggested_label.tolist() == ["a", "b", "b", "b"]
    assert found.suggested_probability == pytest.approx([0.6, 0.6, 0.9, 1.0])
    assert found.label_quality == pytest.approx([0.6, 0.4, 0.1, 1.0])
    assert found.most_doubtful().tolist() == [2, 1, 0, 3]


def test_what_cannot_be_trusted_flags_nothing():
    posterior = np.array([[0.1, 0.9], [0.2, 0.8]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0]), np.array([5, 6]))
    found = judge(posterior, labels, np.eye(2), trusted=False, warnings=("A reason.",))
    assert not found.is_label_issue.any()
    assert found.suggested_label.tolist() == [5, 5]
    assert "warning: A reason." in str(found)


def test_table_and_file_hold_the_same_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    found = two_classes(["one", "two", "three"], ("a, b", 'say "c"'))
    assert tuple(found.table.columns) == COLUMNS
    read = pandas.read_csv(found.to_csv(tmp_path / "labels.csv"))
    pandas.testing.assert_frame_equal(read, found.table, check_dtype=False, check_exact=True)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    ids=st.lists(STRINGS, min_size=3, max_size=3),
    names=st.lists(STRINGS, min_size=2, max_size=2, unique=True),
)
def test_every_id_and_label_reads_back(tmp_path, ids, names):
    path = two_classes(ids, names).to_csv(tmp_path / "labels.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ids
    assert [row["given_label"] for row in rows] == [names[0], names[0], names[1]]
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(path, dtype=object, keep_default_na=False)
    assert frame["id"].tolist() == ids
    assert frame["given_label"].tolist() == [names[0], names[0], names[1]]


def test_table_without_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = r'LabelIssues\.table needs pandas: pip install "ptd_ext\[all\]"'
    with pytest.raises(ModuleNotFoundError, match=message):
        _ = two_classes().table


def test_times_are_written_as_times(tmp_path):
    ids = np.datetime64("2020-01-01", "ns") + np.arange(3)
    lines = two_classes(ids).to_csv(tmp_path / "labels.csv").read_text().splitlines()
    assert lines[2].startswith("2020-01-01T00:00:00.000000001,a,")


def test_ids_beyond_int64_are_written(tmp_path):
    ids = np.array([2**64 - 1, 2**63, 0], dtype=np.uint64)
    assert two_classes(ids).id_strings() == [str(2**64 - 1), str(2**63), "0"]


def test_labels_are_found_among_the_classes():
    found = two_classes()
    assert found.class_indices(found.given_label).tolist() == [0, 0, 1]
    assert found.class_indices(np.array([], dtype=object)).dtype == np.int64


@pytest.mark.parametrize(
    ("codes", "caveat"),
    [
        ([0, 0, 1, 1], None),
        ([0, 0, 1, 1, 2], "Class eel has one row"),
        (
            [0, 0, 1, 1, 2, 3, 4, 5, 6, 7],
            "Classes eel, fox, gnu, hen, ibis and 1 more have one row",
        ),
    ],
)
def test_classes_of_one_row_have_a_caveat(codes, caveat):
    names = np.array(["cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"])
    classes = names[: max(codes) + 1]
    posterior = np.eye(len(classes), dtype=np.float32)[codes]
    found = judge(posterior, GivenLabels(np.array(codes), classes), np.eye(len(classes)))
    assert len(found.warnings) == (caveat is not None)
    if caveat is not None:
        assert found.warnings[0].startswith(caveat)
        assert f"warning: {caveat}" in str(found)


def test_findings_can_be_pickled():
    found = two_classes(sample=show_rows(["x", "y", "z"]))
    assert pickle.loads(pickle.dumps(found)).sample(1).text == "y"

"""read_decisions: every kind of source, and what is rejected at the door."""

from fractions import Fraction
from pathlib import PurePath

import numpy as np
import pandas as pd
import pytest

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.review.read import read_decisions as same

IDS = np.array(["a", "b", "c", "d"])
LABELS = GivenLabels(np.array([0, 1, 1, 0]), np.array([1, 2, 3]))
HEADER = "id,given_label,decision,verified_label,reviewer,time,note\n"


def codes(source, ids=IDS, labels=LABELS):
    return read_decisions(source, ids, labels).codes(ids, labels).tolist()


def written(tmp_path, text, name="d.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_it_is_public():
    assert read_decisions is same


def test_every_source_gives_the_same_decisions(tmp_path):
    mapping = {"b": 3, "a": 1}
    series = pd.Series([3.0, 1.0, np.nan], index=["b", "a", "d"])
    frame = pd.DataFrame({"verified_label": [3, 1]}, index=["b", "a"])
    file = written(tmp_path, "\ufeffid,verified_label\nb,3\n\na,1\nd,\n")
    lines = written(
        tmp_path, '{"id": "b", "verified_label": 3}\n{"id": "a", "verified_label": 1}', "d.jsonl"
    )
    expected = read_decisions(mapping, IDS, LABELS)
    assert [each.answer for each in expected] == [Answer.CORRECTED, Answer.CONFIRMED]
    for source in (
        series,
        frame,
        frame.rename_axis("id").reset_index(),
        file,
        str(file),
        lines,
        expected,
    ):
        assert read_decisions(source, IDS, LABELS) == expected


def test_corrections_of_the_report(tmp_path):
    path = written(
        tmp_path,
        "id,given_label,suggested_label,decision,corrected_label\r\n"
        "a,1,3,accepted,3\r\nb,2,3,rejected,2\r\n",
    )
    assert codes(path) == [2, 1, -1, -1]


def test_answers_without_a_class(tmp_path):
    path = written(tmp_path, f"{HEADER}a,1,wrong,,,,\nb,2,none,,Ann,,odd\nc,2,confirmed,,,,\n")
    assert codes(path) == [-2, -3, 1, -1]
    assert codes({"a": Answer.WRONG, "c": Answer.CONFIRMED}) == [-2, -1, 1, -1]


def test_an_empty_string_may_be_a_class(tmp_path):
    labels = GivenLabels(np.array([0, 1]), np.array(["", "x"]))
    path = written(tmp_path, "id,verified_label\n0,x\n1,\n")
    assert codes(path, np.arange(2), labels) == [1, 0]


def test_values_come_before_the_strings_of_others():
    labels = GivenLabels(np.array([0, 1]), np.array([1, "1"], dtype=object))
    assert codes({0: "1"}, np.arange(2), labels) == [1, -1]


def test_bytes_of_file_names_that_are_not_utf8(tmp_path):
    ids = np.array(["ok", "bad\udcff"])
    labels = GivenLabels(np.array([0, 1]), np.array(["x", "y"]))
    path = read_decisions({"bad\udcff": "x"}, ids, labels).save(tmp_path / "d.csv")
    assert codes(path, ids, labels) == [-1, 0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"z": 1}, r"id in decision 0 must be among the ids of the data; got 'z'\."),
        ({"a": 4}, r"verified_label in decision 0 must be among the classes, \[1, 2, 3\]; got 4"),
        ({"a": [1]}, r"verified_label in decision 0 must be among the classes"),
        ({"a": Answer.CORRECTED}, r"verified_label in decision 0 must be among .* got None"),
        (f"{HEADER}a,2,wrong,,,,\n", r"given_label in line 2 of .* in the data, 1; got '2'"),
        (
            f"{HEADER}a,1,maybe,,,,\n",
            r"decision in line 2 of .* must be one of confirmed, .*'maybe'",
        ),
        (f"{HEADER}a,1,confirmed,2,,,\n", r"decision in line 2 of .* must be 'corrected'"),
        (f"{HEADER}a,1,none,2,,,\n", r"verified_label in line 2 of .* must be empty"),
        (f"{HEADER}a,1,none,,,noon,\n", r"time in line 2 of .* ISO 8601.*'noon'"),
        (f"{HEADER}a,1\n", r"line 2 of .* must have 7 cells, as the header; got 2"),
        ("row,verified_label\na,1\n", r"line 2 of .* must have an id; it has \['row', 'ver"),
        ([("a", 1)], r"must be a mapping or a pandas Series .* got list"),
    ],
)
def test_what_is_rejected(tmp_path, source, message):
    source = written(tmp_path, source) if isinstance(source, str) else source
    with pytest.raises((ValueError, TypeError), match=message):
        read_decisions(source, IDS, LABELS)


@pytest.mark.parametrize("line", ["{", "[1]", "[" * 100_000])
def test_damaged_json_lines(tmp_path, line):
    path = written(tmp_path, f'{{"id": "a", "verified_label": 1}}\n{line}\n', "d.jsonl")
    with pytest.raises(ValueError, match=r"line 2 of .* must be "):
        read_decisions(path, IDS, LABELS)


def test_damaged_csv(tmp_path):
    path = written(tmp_path, f"{HEADER}a,1,wrong,,,,{'x' * 200_000}\n")
    with pytest.raises(ValueError, match="must be a CSV file: field larger"):
        read_decisions(path, IDS, LABELS)


def test_ambiguous_ids_and_classes():
    with pytest.raises(ValueError, match=r"several are 'a'\. Make the ids distinct"):
        read_decisions({"a": 1}, np.array(["a", "a", "b", "c"]), LABELS)
    classes = GivenLabels(np.array([0, 1, 1, 0]), np.array([1, 1.5, "1.5"], dtype=object))
    assert codes({"a": "1.5"}, labels=classes) == [2, -1, -1, -1]
    both = np.empty(2, dtype=object)
    both[:] = [Fraction(1, 2), PurePath("1/2")]
    labels = GivenLabels(np.array([0, 1]), np.array(["x", "y"]))
    with pytest.raises(ValueError, match=r"several are '1/2'\. Make the ids distinct"):
        read_decisions({"1/2": "x"}, both, labels)

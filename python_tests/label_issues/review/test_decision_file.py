"""The file of `ptd-ext review`: what it keeps, rejects and merges."""

import os
import time

import numpy as np
import pytest

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.review.decision_file import DecisionFile
from ptd_ext.label_issues.review.decisions import COLUMNS


def entry(id="1", decision="corrected", label="dog", reviewer="Ann", at="2026-01-01", note=""):
    values = (id, "cat", decision, label, reviewer, at, note, "")
    return dict(zip(COLUMNS, values, strict=True))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.csv"


def test_decisions_are_on_the_disk_after_every_change(path):
    file = DecisionFile(path)
    assert file.entries() == []
    assert not path.exists()
    assert file.change([entry()], []) == 1
    assert DecisionFile(path).entries() == [entry()]
    assert file.change([entry(decision="none", label=""), entry("2", at="2025-01-01")], []) == 2
    found = [entry("2", at="2025-01-01"), entry(decision="none", label="")]
    assert DecisionFile(path).entries() == found == file.entries()
    assert file.change([], [["1", "Ann"], ["1", "Ben"]]) == 1
    assert [each["id"] for each in DecisionFile(path).entries()] == ["2"]


def test_the_package_reads_the_file(path):
    DecisionFile(path).change([entry(note='a "word",\r\nand\rmore'), entry("0", "wrong", "")], [])
    labels = GivenLabels(np.array([0, 0]), np.array(["cat", "dog"]))
    first, second = read_decisions(path, np.arange(2), labels)
    assert (first.id, first.verified_label, first.note) == (1, "dog", 'a "word",\r\nand\rmore')
    assert (second.id, second.answer) == (0, Answer.WRONG)


def test_bytes_of_file_names_are_kept(path):
    name = os.fsdecode(b"\xff\xc3(\xe9.png")
    DecisionFile(path).change([entry(name)], [])
    assert DecisionFile(path).entries()[0]["id"] == name


def test_a_file_with_fewer_columns_is_continued(path):
    path.write_text("decision,id\nnone,7\n")
    file = DecisionFile(path)
    file.change([entry()], [])
    assert [(each["id"], each["decision"]) for each in file.entries()] == [
        ("7", "none"),
        ("1", "corrected"),
    ]


def test_a_change_by_another_program_is_kept(path):
    first, second = DecisionFile(path), DecisionFile(path)
    first.change([entry("1")], [])
    time.sleep(0.01)
    second.change([entry("2")], [])
    assert {each["id"] for each in first.entries()} == {"1", "2"}
    first.change([entry("3")], [])
    assert {each["id"] for each in second.entries()} == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("entries", "removed", "message"),
    [
        ([{"id": "1"}], [], "A decision must have id, given_label"),
        (["no"], [], "A decision must have"),
        ([entry(decision="maybe")], [], "decision must be an answer; got maybe"),
        ([entry(note=3)], [], "must be a string of at most"),
        ([entry(note="x" * 10_001)], [], "must be a string of at most"),
        ([entry(note="a\0b")], [], "NUL"),
        ([entry("\ud800")], [], "surrogates"),
        ([], ["1"], "removed must hold pairs"),
        ([], [["1", None]], "must be a string"),
    ],
)
def test_what_is_not_a_decision_changes_nothing(path, entries, removed, message):
    file = DecisionFile(path)
    file.change([entry()], [])
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        file.change([entry("2"), *entries], removed)
    assert path.read_bytes() == before
    assert file.entries() == [entry()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\n1,none\n", "must have the columns id, given_label"),
        ("id,decision,other\n1,none,2\n", "must have the columns id, given_label"),
        (",".join(COLUMNS) + "\n1,none\n", "Line 2 of .* must have 8 cells; got 2"),
    ],
)
def test_another_file_is_not_overwritten(path, content, message):
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        DecisionFile(path)
    assert path.read_text() == content


def test_a_folder_that_cannot_be_written_to_keeps_the_earlier_decisions(path, monkeypatch):
    file = DecisionFile(path)
    file.change([entry()], [])

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk is full"):
        file.change([entry("2")], [])
    assert file.entries() == [entry()]
    assert os.listdir(path.parent) == ["decisions.csv"]

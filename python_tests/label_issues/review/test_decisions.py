"""Decisions: which ones count, which contradict each other, and what their codes are."""

import json

import numpy as np
import pandas as pd
import pytest

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer, Decision, Decisions, read_decisions

IDS = np.array([10, 11, 12, 13, 14])
LABELS = GivenLabels(np.array([0, 1, 2, 0, 1]), np.array(["cat", "dog", "owl"]))


def decision(row, answer, label=None, **about):
    given = "cat" if row in (10, 13) else "dog"
    return Decision(id=row, given_label=given, answer=answer, verified_label=label, **about)


def test_codes_are_classes_or_what_is_known_without_one():
    made = {10: "cat", 11: "owl", 12: Answer.WRONG, 13: Answer.NONE, 14: Answer.UNSURE}
    assert read_decisions(made, IDS, LABELS).codes(IDS, LABELS).tolist() == [0, 2, -2, -3, -1]


def test_rows_without_a_decision_are_unreviewed():
    assert read_decisions({13: "dog"}, IDS, LABELS).codes(IDS, LABELS).tolist() == [
        *(-1, -1, -1, 1, -1)
    ]


def test_the_last_decision_of_a_reviewer_counts():
    first = decision(10, Answer.CORRECTED, "owl", reviewer="Ann")
    second = decision(10, Answer.CONFIRMED, "cat", reviewer="Ann")
    found = Decisions((first, second))
    assert found.by_row() == {10: (second,)}
    assert not found.conflicts()


def test_the_latest_decision_counts_in_any_order_of_files():
    late = decision(
        10, Answer.CONFIRMED, "cat", reviewer="Ann", time="2026-01-02T00:00:00.000+00:00"
    )
    early = decision(10, Answer.WRONG, reviewer="Ann", time="2026-01-01T00:00:00.000+00:00")
    assert Decisions((late, early)).agreed() == {10: late}
    assert Decisions((early, late)).agreed() == {10: late}


def test_decisions_without_a_name_all_count():
    pair = (decision(10, Answer.CORRECTED, "owl"), decision(10, Answer.CORRECTED, "dog"))
    assert Decisions(pair).conflicts() == {10: pair}


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        (("CONFIRMED", "cat"), ("CORRECTED", "dog"), True),
        (("CORRECTED", "owl"), ("CORRECTED", "dog"), True),
        (("CONFIRMED", "cat"), ("WRONG", None), True),
        (("CORRECTED", "dog"), ("NONE", None), True),
        (("CORRECTED", "dog"), ("WRONG", None), False),
        (("NONE", None), ("WRONG", None), False),
        (("CONFIRMED", "cat"), ("UNSURE", None), False),
        (("CORRECTED", "dog"), ("CORRECTED", "dog"), False),
    ],
)
def test_what_contradicts_what(one, other, contradict):
    made = [
        decision(10, Answer[answer], label, reviewer=name)
        for (answer, label), name in ((one, "Ann"), (other, "Bob"))
    ]
    for pair in (made, made[::-1]):
        found = Decisions(tuple(pair))
        assert bool(found.conflicts()) is contradict
        if contradict:
            with pytest.raises(ValueError, match=r"1 rows have .*\(10: .* by (Ann|Bob)"):
                found.agreed()
        else:  # the first of each pair is the more specific one
            assert found.agreed()[10].answer is Answer[one[0]]


def test_a_sum_keeps_decisions_of_both_once():
    shared, own = decision(10, Answer.WRONG), decision(11, Answer.UNSURE)
    assert (Decisions((shared,)) + Decisions((shared, own))).log == (shared, own)


@pytest.mark.parametrize("name", ["decisions.csv", "decisions.jsonl", "DECISIONS.JSONL"])
def test_files_read_back_equal(tmp_path, name):
    frame = pd.DataFrame(
        {
            "id": [10, 11, 12, 13],
            "decision": ["confirmed", "corrected", "none", "unsure"],
            "verified_label": ["cat", "owl", None, None],
            "reviewer": ["Ann", None, "Ben, jr.", ""],
            "time": ["2026-05-01T12:00:00Z", None, "2026-05-01T12:00:00.25+02:00", None],
            "note": ['blurred\r\n"twice"', None, " é😀", "=1+1"],
        }
    )
    made = read_decisions(frame, IDS, LABELS)
    path = made.save(tmp_path / name)
    assert read_decisions(path, IDS, LABELS) == made
    assert [each.time for each in made][::2] == [
        "2026-05-01T12:00:00.000+00:00",
        "2026-05-01T10:00:00.250+00:00",
    ]


def test_json_lines_keep_numbers(tmp_path):
    path = Decisions((decision(10, Answer.WRONG),)).save(tmp_path / "d.jsonl")
    assert json.loads(path.read_text())["id"] == 10


def test_ids_and_classes_of_other_types_read_back(tmp_path):
    ids = np.empty(2, dtype=object)
    ids[:] = [("a", 1), 2.5]
    labels = GivenLabels(np.array([0, 1]), np.array([False, True]))
    made = read_decisions({("a", 1): True, 2.5: True}, ids, labels)
    for name in ("d.csv", "d.jsonl"):
        assert read_decisions(made.save(tmp_path / name), ids, labels) == made
    dates = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")
    series = pd.Series([True], index=pd.DatetimeIndex(dates[1:]))
    assert read_decisions(series, dates, labels).codes(dates, labels).tolist() == [-1, 1]

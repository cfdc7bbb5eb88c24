"""Labels cleaned by decisions, and the log that undoes it."""

import numpy as np
import pytest
from label_issues.review.review_cases import judged

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer, CleanedLabels, undo
from ptd_ext.label_issues.review.apply import apply_decisions

IDS = np.array([5, 6, 7, 8, 9])
LABELS = GivenLabels(np.array([0, 1, 0, 1, 0]), np.array(["a", "b"]))
MADE = {5: "b", 6: Answer.WRONG, 7: "a", 8: Answer.NONE, 9: Answer.UNSURE}


def test_only_decisions_change_labels():
    cleaned = apply_decisions(MADE, IDS, LABELS)
    assert isinstance(cleaned, CleanedLabels)
    assert cleaned.labels.tolist() == ["b", "b", "a", "b", "a"]
    assert cleaned.keep.tolist() == [True, False, True, False, True]
    assert str(cleaned) == "1 labels corrected, 2 rows left out"


def test_findings_are_cleaned_by_decisions_and_not_by_flags():
    found, _ = judged()
    cleaned = found.apply({})
    assert (cleaned.labels == found.given_label).all()
    assert cleaned.keep.all()


def test_the_log_undoes_the_changes(tmp_path):
    cleaned = apply_decisions(MADE, IDS, LABELS)
    log = cleaned.save_log(tmp_path / "changes.csv")
    rows, labels = undo(log, cleaned.labels[cleaned.keep])
    assert rows == [0, 2, 4]
    assert labels == ["a", "a", "a"]
    assert [line.split(",")[:3] for line in log.read_text().splitlines()[1:]] == [
        ["0", "5", "corrected"],
        ["1", "6", "left out"],
        ["3", "8", "left out"],
    ]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["b", "a"], r"labels must be those of the copy that .* is about; got 2"),
        (["a", "a", "a"], r"row 0 was changed to 'b'; got 'a'"),
    ],
)
def test_the_log_of_another_copy_is_rejected(tmp_path, labels, message):
    log = apply_decisions(MADE, IDS, LABELS).save_log(tmp_path / "changes.csv")
    rows = len(labels)
    if rows == 2:  # more changes than rows
        log = apply_decisions({9: "b"}, IDS, LABELS).save_log(tmp_path / "changes.csv")
    with pytest.raises(ValueError, match=message):
        undo(log, labels)


def test_another_file_is_rejected(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"must be a log of changes; it has the columns \['a'"):
        undo(path, ["x"])

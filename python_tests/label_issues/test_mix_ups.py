"""Arguments that were mixed up get an error that gives the right call."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas

import ptd_ext
from ptd_ext.label_issues.mix_ups import check_names, check_rows_and_labels

LABELS = np.arange(12) % 2
NAMES = ["cat", "dog"] * 6
PROBABILITIES = np.full((12, 2), 0.5)
ROWS = np.arange(24.0).reshape(12, 2)
TEXTS = [f"a text of its own, {n}" for n in range(12)]
TABLE = pandas.DataFrame({"width": ROWS[:, 0], "kind": NAMES})


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (LABELS, PROBABILITIES, r"order of cleanlab. Give find_label_issues\(None, labels, pred_"),
        (NAMES, PROBABILITIES.tolist(), "the order of cleanlab"),
        (LABELS, ROWS, r"X and y look exchanged: X is \[12\] and y \[12, 2\]"),
        (NAMES, TABLE[["width", "kind"]], "X and y look exchanged"),
        (NAMES, TEXTS, "y holds 12 different strings and X 2 in 12 rows. Give the texts first"),
        (TABLE, "kind", r"got the string 'kind'. Give X.drop\(columns='kind'\) and X\['kind'\]"),
        (ROWS, "kind", "y must hold a label for every row; got the string 'kind'.$"),
        ("own.csv", LABELS, "got the path 'own.csv'. Read the file first"),
    ],
)
def test_mixed_up_arguments(X, y, message):  # noqa: N803
    with pytest.raises(ValueError, match=message):
        ptd_ext.find_label_issues(X, y)
    with pytest.raises(ValueError, match=message):
        ptd_ext.PTDClassifier().fit(X, y)


def test_right_arguments_pass():
    for X in (ROWS, TABLE, TEXTS, NAMES, None):  # noqa: N806
        for y in (LABELS, NAMES, LABELS[:, None], None):
            check_rows_and_labels(X, y)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("labels", " Did you mean y?"),
        ("pred_prob", " Did you mean pred_probs?"),
        ("epoch", " Did you mean epochs?"),
        ("qqq", ""),
    ],
)
def test_names_of_other_packages(name, hint):
    with pytest.raises(TypeError) as error:
        ptd_ext.find_label_issues(ROWS, **{name: LABELS})
    assert str(error.value) == f"find_label_issues() has no argument {name!r}.{hint}"
    check_names({"epochs": 1}, ["epochs"])

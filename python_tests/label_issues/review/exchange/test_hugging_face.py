"""Columns of a Hugging Face dataset, of a stand-in and of the package if it is installed."""

import pytest
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues import add_columns


class Table:
    """What a dataset of Hugging Face has of its methods."""

    def __init__(self, columns):
        self.columns, self.column_names = columns, list(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name):
        return self.columns[name]

    def add_column(self, name, column):
        return Table({**self.columns, name: column})


def hugging_face(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


@pytest.mark.parametrize("make", [Table, hugging_face])
def test_findings_are_columns_and_a_column_is_decisions(make):
    found = findings()
    dataset = make({"length": list(range(40))})
    wide = add_columns(found, dataset)
    assert list(dataset.column_names) == ["length"]
    assert list(wide["suggested_label"]) == found.suggested_label.tolist()
    assert list(wide["label_quality"]) == found.label_quality.tolist()
    assert list(wide["is_label_issue"]) == found.is_label_issue.tolist()
    reviewed = wide.add_column("verified_label", [NAMES[1], NAMES[2], *[None] * 38])
    decisions = dict(zip(found.ids.tolist(), reviewed["verified_label"], strict=True))
    assert found.update(decisions).is_verified.tolist() == [True] * 2 + [False] * 38


def test_other_rows_and_columns_are_rejected():
    with pytest.raises(ValueError, match=r"must have the 40 rows that were judged.*it has 3"):
        add_columns(findings(), Table({"a": [1, 2, 3]}))
    with pytest.raises(ValueError, match="must not have columns of the findings; it has label_q"):
        add_columns(findings(), Table({"label_quality": [0] * 40}))

"""Rows to review: which ones, what is shown of them, and the plain formats."""

import csv
import json

import pytest
from label_issues.report.report_cases import NAMES, findings, show

from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.report import Sample
from ptd_ext.label_issues.review.exchange.tasks import make_tasks


def test_tasks_are_the_rows_of_the_page():
    tasks = make_tasks(findings(8), show, None)
    assert [task.id for task in tasks] == [f"row {i:03} & <b>" for i in (0, 1, 2, 4, 5, 6, 3, 7)]
    first = tasks[0]
    assert (first.given_label, first.suggested_label) == (NAMES[0], NAMES[1])
    assert (first.suggested_probability, first.label_quality) == (0.95, 0.01)
    assert [task.is_label_issue for task in tasks] == [True] * 6 + [False] * 2
    assert [task.kind for task in tasks[:3]] == ["image", "text", "row"]
    assert tasks[0].content["image"].startswith("data:image/png;base64,")
    assert len(make_tasks(findings(8), None, 3)) == 3
    assert make_tasks(findings(8), None, 3)[0].content == {}


def filled_in(path, answers):
    """A CSV or JSON Lines with answers: [decision, verified label] by position."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for position, (decision, label) in answers.items():
        rows[position] |= {"decision": decision, "verified_label": label, "reviewer": "Ann"}
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("shown", [show, None, lambda i: Sample(row={"id": f"{i}", "length": "9"})])
def test_a_form_that_is_filled_in_is_read(tmp_path, format, shown):
    found, path = findings(), tmp_path / f"tasks.{format}"
    assert found.export(path, format, sample=shown) == path
    filled_in(path, {0: ("", NAMES[2]), 1: ("wrong", ""), 4: ("none", "")})
    read = read_decisions(path, found.ids, found.given_labels())
    assert [each.id for each in read] == [f"row {i:03} & <b>" for i in (0, 1, 5)]
    assert [each.answer for each in read] == [Answer.CORRECTED, Answer.WRONG, Answer.NONE]
    assert read.log[0].verified_label == NAMES[2]
    assert {each.reviewer for each in read} == {"Ann"}
    assert found.update(path).is_verified.sum() == 3


def test_the_table_holds_what_is_shown(tmp_path):
    found = findings()
    rows = list(csv.DictReader(found.export(tmp_path / "a.csv", "csv").open(newline="")))
    assert rows[1]["text"].startswith("</td></table> text number 1")
    assert rows[2]["length"] == "2"
    clash = found.export(tmp_path / "b.csv", "csv", sample=lambda i: Sample(row={"id": "x"}))
    assert next(csv.DictReader(clash.open(newline="")))["row: id"] == "x"

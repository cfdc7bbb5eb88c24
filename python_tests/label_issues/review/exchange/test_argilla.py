"""Records of Argilla, also against its own package where it is installed."""

import json

import pytest
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.report import Sample
from ptd_ext.label_issues.review.exchange.argilla import is_export

ANN, BEN = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def exported(found, path, sample):
    found.export(path, "argilla", sample=sample)
    return json.loads(path.read_text(encoding="utf-8"))


def test_records_have_suggestions_with_scores(tmp_path):
    found = findings()
    (image, text, row, *_), all_ = exported(found, tmp_path / "a.json", None)[:3], 40
    records = exported(found, tmp_path / "b.json", None)
    assert len(records) == all_
    assert is_export(records)
    assert not is_export([{"fields": {}}])
    assert image["id"] == "row 000 & <b>"
    assert image["fields"]["image"].startswith("data:image/png;base64,")
    assert image["suggestions"] == {"label": {"value": NAMES[1], "score": 0.95, "agent": "ptd_ext"}}
    assert image["metadata"] == {"given_label": "cat", "label_quality": 0.01}
    assert text["fields"]["text"].startswith("</td></table> text number 1")
    assert row["fields"]["row"].startswith("length: 2\n")


def check_read(found, path):
    read = read_decisions(path, found.ids, found.given_labels())
    assert [(each.id[4:7], each.answer, each.reviewer) for each in read] == [
        ("000", Answer.CORRECTED, ANN),
        ("000", Answer.CONFIRMED, BEN),
        ("001", Answer.WRONG, ANN),
    ]
    assert read.log[0].note == "odd"


def test_responses_are_read(tmp_path):
    found, path = findings(), tmp_path / "records.json"
    records = exported(found, path, lambda row: Sample(text="x"))
    records[0]["responses"] = {
        "label": [{"value": NAMES[2], "user_id": ANN}, {"value": "cat", "user_id": BEN}],
        "note": [{"value": "odd", "user_id": ANN}],
    }
    records[1]["responses"] = {"answer": [{"value": "wrong", "user_id": ANN}]}
    path.write_text(json.dumps(records))
    check_read(found, path)


def test_argilla_itself_reads_and_writes_the_records(tmp_path):
    argilla = pytest.importorskip("argilla")
    from argilla.records._io import JsonIO

    found, path = findings(), tmp_path / "records.json"
    found.export(path, "argilla", sample=lambda row: Sample(text="x"))
    records = JsonIO._records_from_json(path)
    assert [record.id for record in records[:2]] == ["row 000 & <b>", "row 001 & <b>"]
    suggestion = records[0].suggestions["label"]
    assert (suggestion.value, suggestion.score, suggestion.agent) == (NAMES[1], 0.95, "ptd_ext")
    for number, question, value, user in (
        (0, "label", NAMES[2], ANN), (0, "note", "odd", ANN), (0, "label", "cat", BEN),
        (1, "answer", "wrong", ANN),
    ):  # fmt: skip
        records[number].responses.add(argilla.Response(question, value, user_id=user))
    check_read(found, JsonIO.to_json(records, tmp_path / "export.json"))

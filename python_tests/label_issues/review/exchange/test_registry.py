"""The registry of formats: every entry can be written, and its export is recognised."""

import json

import pytest
from label_issues.report.report_cases import findings

from ptd_ext.label_issues import read_decisions
from ptd_ext.label_issues.report import Sample
from ptd_ext.label_issues.review.exchange.registry import FORMATS, format_of, read_export


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written_and_read_without_decisions(tmp_path, name):
    found = findings()
    path = tmp_path / f"tasks{FORMATS[name].suffix}"
    assert found.export(path, name, sample=lambda row: Sample(text="x"), max_samples=5) == path
    if name == "label-studio":  # an export has annotations
        tasks = [{**task, "annotations": []} for task in json.loads(path.read_text())]
        path.write_text(json.dumps(tasks))
    assert len(read_decisions(path, found.ids, found.given_labels())) == 0


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("excel", "a.xlsx", "format must be one of csv, jsonl, label-studio, argilla; got 'excel'"),
        ("csv", "a.json", r"path must end in .csv for the format csv; got a.json"),
    ],
)
def test_other_formats_and_endings_are_rejected(tmp_path, name, path, message):
    with pytest.raises(ValueError, match=message):
        findings().export(tmp_path / path, name)
    with pytest.raises(ValueError, match=message):
        format_of(name, tmp_path / path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged: it is not JSON"),
        ('{"a": 1}', "must be an export of one of these tools: label-studio, argilla"),
        ('[{"data": {}, "annotations": [{"result": []}]}]', "damaged or of another version"),
        ('[{"data": {}, "annotations": 3}]', "damaged or of another version"),
        ('[{"fields": {}, "responses": {"label": [3]}}]', "damaged or of another version"),
        ('[{"fields": {}, "responses": [3]}]', "damaged or of another version"),
    ],
)
def test_other_documents_are_rejected(tmp_path, content, message):
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_export(path))

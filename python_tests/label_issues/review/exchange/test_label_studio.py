"""Tasks and exports of Label Studio, also against its own package where it is installed."""

import json
from xml.etree import ElementTree

import pytest
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.report import Sample
from ptd_ext.label_issues.review.exchange.label_studio import config_path, labelling_config


def text(row):
    return Sample(text=f"text <b> {row}")


def image(row):
    from label_issues.report.report_cases import show

    return show(0)


def table(row):
    return Sample(row={"length": str(row)})


def exported(found, path, sample=text):
    found.export(path, "label-studio", sample=sample)
    return json.loads(path.read_text(encoding="utf-8")), config_path(path).read_text("utf-8")


def annotation(label=None, answer=None, note=None, **about):
    """As Label Studio exports it."""
    found = []
    for name, kind, key, value in (
        ("label", "choices", "choices", label),
        ("answer", "choices", "choices", answer),
        ("note", "textarea", "text", note),
    ):
        if value is not None:
            found.append({"from_name": name, "to_name": "x", "type": kind, "value": {key: [value]}})
    about = {"completed_by": 3, "updated_at": "2026-03-09T22:52:43.123456Z"} | about
    return {"result": found, "was_cancelled": False, **about}


def test_tasks_have_predictions_with_their_score_at_the_root(tmp_path):
    tasks, config = exported(findings(), tmp_path / "tasks.json")
    assert len(tasks) == 40
    assert tasks[0]["data"] == {
        "id": "row 000 & <b>", "given_label": "cat", "label_quality": 0.01, "text": "text <b> 0"
    }  # fmt: skip
    prediction = tasks[0]["predictions"][0]
    assert (prediction["model_version"], prediction["score"]) == ("ptd_ext", 0.95)
    assert prediction["result"][0]["value"] == {"choices": [NAMES[1]]}
    view = ElementTree.fromstring(config)
    choices = {c.get("name"): [v.get("value") for v in c] for c in view.iter("Choices")}
    assert choices == {"label": NAMES, "answer": ["wrong", "none", "unsure"]}
    assert view.find("Text").get("value") == "$text"


def test_an_export_is_read(tmp_path):
    found, path = findings(), tmp_path / "tasks.json"
    tasks, _ = exported(found, path)
    said = [
        [annotation(NAMES[2], note="odd"), annotation(NAMES[1], completed_by={"email": "b@c.d"})],
        [annotation(NAMES[1])],
        [annotation(answer="wrong")],
        [annotation(answer="none"), annotation("cat", was_cancelled=True)],
        [],
        [annotation()],
    ]
    for task, annotations in zip(tasks, said, strict=False):
        task["annotations"] = annotations
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks[: len(said)]))
    read = read_decisions(export, found.ids, found.given_labels())
    assert [each.answer for each in read] == [
        Answer.CORRECTED, Answer.CORRECTED, Answer.CONFIRMED, Answer.WRONG, Answer.NONE
    ]  # fmt: skip
    first = read.log[0]
    assert (first.id, first.verified_label, first.note) == ("row 000 & <b>", NAMES[2], "odd")
    assert [each.reviewer for each in read] == ["3", "b@c.d", "3", "3", "3"]
    assert first.time.startswith("2026-03-09T22:52:43")
    assert list(read.conflicts()) == ["row 000 & <b>"]


@pytest.mark.parametrize(("sample", "kind"), [(image, "Image"), (table, "Table"), (None, "Text")])
def test_what_is_shown_has_its_tag(tmp_path, sample, kind):
    found = findings(sample=None)
    tasks, config = exported(found, tmp_path / "tasks.json", sample)
    tag = ElementTree.fromstring(config).find(kind)
    assert tasks[0]["data"][tag.get("value").removeprefix("$")]


def test_what_the_config_cannot_hold_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"must show all rows alike.*got image and row and text"):
        findings().export(tmp_path / "tasks.json", "label-studio")
    with pytest.raises(ValueError, match=r"Class 'a\\x01' has characters that XML cannot hold"):
        labelling_config("text", ["a\x01"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sample", [text, image, table])
def test_label_studio_itself_accepts_tasks_and_config(tmp_path, sample):
    sdk = pytest.importorskip("label_studio_sdk.label_interface")
    tasks, config = exported(findings(), tmp_path / "tasks.json", sample)
    interface = sdk.LabelInterface(config)
    interface.validate()
    assert set(interface.get_control("label").labels) == set(NAMES)
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert not interface.validate_prediction(prediction, return_errors=True)
        assert interface.validate_annotation(annotation(NAMES[2], note="odd"))
    assert interface.validate_prediction(annotation("no class"), return_errors=True)

"""Label Studio: tasks with predictions and the labelling config, and the JSON export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from ptd_ext.label_issues.review.decisions import Answer
from ptd_ext.label_issues.review.exchange.tasks import MODEL, Task
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.bounded_files import shortened

_TAGS = {"image": "Image", "text": "Text", "row": "Table"}
_ANSWERS = (Answer.WRONG.value, Answer.NONE.value, Answer.UNSURE.value)
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def config_path(path: Path) -> Path:
    """The file of the labelling config, beside that of the tasks."""
    return path.with_name(f"{path.stem}_config.xml")


def write_tasks(path: Path, tasks: Sequence[Task], classes: Sequence[str]) -> None:
    """Write the tasks, with the suggestions as predictions, and the labelling config."""
    kinds = {task.kind for task in tasks} or {"text"}
    if len(kinds) > 1:
        raise ValueError(
            "sample must show all rows alike for Label Studio, whose config has one kind of "
            f"object; got {' and '.join(sorted(kinds))}."
        )
    kind = kinds.pop()
    config = labelling_config(kind, classes)
    write_text(path, json.dumps([_task(task, kind) for task in tasks], indent=1))
    write_text(config_path(path), config)


def _task(task: Task, kind: str) -> dict[str, Any]:
    shown = task.content.get(kind, task.id)
    choice = {"from_name": "label", "to_name": "x", "type": "choices"}
    return {
        "data": {
            "id": task.id,
            "given_label": task.given_label,
            "label_quality": task.label_quality,
            kind: shown,
        },
        "predictions": [
            {
                "model_version": MODEL,
                "score": task.suggested_probability,
                "result": [{**choice, "value": {"choices": [task.suggested_label]}}],
            }
        ],
    }


def labelling_config(kind: str, classes: Sequence[str]) -> str:
    """The labelling config: the classes, the answers without a class, and a note.

    Args:
        kind: `text`, `image` or `row`.
        classes: the names of the classes.
    """
    for name in classes:
        if _NOT_XML.search(name):
            raise ValueError(f"Class {shortened(repr(name))} has characters that XML cannot hold.")
    lines = ["<View>", f'  <{_TAGS[kind]} name="x" value="${kind}"/>']
    lines += ['  <Header value="Given label: $given_label"/>']
    for group, values in (("label", classes), ("answer", _ANSWERS)):
        lines += [f'  <Choices name="{group}" toName="x" choice="single" showInline="true">']
        lines += [f"    <Choice value={quoteattr(value)}/>" for value in values]
        lines += ["  </Choices>"]
    lines += ['  <TextArea name="note" toName="x" placeholder="note"/>', "</View>", ""]
    return "\n".join(lines)


def is_export(document: Any) -> bool:
    """Whether a JSON document is an export of Label Studio in its format JSON."""
    return isinstance(document, list) and all(
        isinstance(task, dict) and {"data", "annotations"} <= set(task) for task in document
    )


def read_export(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each annotation that was not cancelled, as a record of a decision."""
    for number, task in enumerate(document):
        for annotation in task["annotations"]:
            if annotation.get("was_cancelled"):
                continue
            answers = {"label": "", "answer": "", "note": ""}
            for result in annotation["result"]:
                values = result["value"].get("choices") or result["value"].get("text") or [""]
                answers[result["from_name"]] = values if isinstance(values, str) else values[0]
            yield (
                f"task {number}",
                {
                    "id": str(task["data"]["id"]),
                    "given_label": task["data"].get("given_label"),
                    "decision": answers["answer"],
                    "verified_label": answers["label"],
                    "reviewer": _reviewer(annotation.get("completed_by")),
                    "time": annotation.get("updated_at") or annotation.get("created_at"),
                    "note": answers["note"],
                },
            )


def _reviewer(user: Any) -> str:
    if isinstance(user, dict):
        return str(user.get("email") or user.get("id") or "")
    return "" if user is None else str(user)

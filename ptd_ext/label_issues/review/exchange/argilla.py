"""Argilla 2: records with suggestions as `Record.from_dict` reads them, and exported records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptd_ext.label_issues.review.exchange.tasks import MODEL, Task
from ptd_ext.utils.atomic_files import write_text

_QUESTIONS = {"label": "verified_label", "answer": "decision", "note": "note"}


def write_records(path: Path, tasks: Sequence[Task], classes: Sequence[str]) -> None:
    """Write a JSON list of records; the questions are `label`, `answer` and `note`."""
    write_text(path, json.dumps([_record(task) for task in tasks], indent=1))


def _record(task: Task) -> dict[str, Any]:
    shown = task.content.get(task.kind, task.id)
    if task.kind == "row":
        shown = "\n".join(f"{name}: {value}" for name, value in shown.items())
    score = task.suggested_probability
    return {
        "id": task.id,
        "fields": {task.kind: shown},
        "metadata": {"given_label": task.given_label, "label_quality": task.label_quality},
        "suggestions": {"label": {"value": task.suggested_label, "score": score, "agent": MODEL}},
        "responses": {},
        "vectors": {},
    }


def is_export(document: Any) -> bool:
    """Whether a JSON document is a list of Argilla's records."""
    return isinstance(document, list) and all(
        isinstance(record, dict) and {"fields", "responses"} <= set(record) for record in document
    )


def read_records(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The responses of every user to a record, as a record of a decision."""
    for number, record in enumerate(document):
        by_user: dict[str, dict[str, str]] = {}
        for question, name in _QUESTIONS.items():
            for response in (record["responses"] or {}).get(question, ()):
                user = str(response.get("user_id") or "")
                by_user.setdefault(user, {})[name] = response["value"] or ""
        for user, answers in by_user.items():
            yield (
                f"record {number}",
                {
                    "id": record["id"],
                    "given_label": (record.get("metadata") or {}).get("given_label"),
                    "reviewer": user,
                    **answers,
                },
            )

"""Rows to review as every format needs them; the plain formats CSV and JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptd_ext.label_issues.report.gallery import rows_shown
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.label_issues.review.decisions import COLUMNS
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.csv_files import write_csv
from ptd_ext.utils.png import data_url

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

MODEL = "ptd_ext"  # who suggests, in tools that ask for it
_FORM = tuple(name for name in COLUMNS if name not in ("id", "given_label"))  # to be filled in
FINDINGS = ("suggested_label", "suggested_probability", "label_quality", "is_label_issue")


@dataclass(frozen=True)
class Task:
    """One row to review; labels are strings.

    Attributes:
        content: what to show: one of `text`, `image` (a data URL) and `row`, or nothing.
    """

    id: str
    given_label: str
    suggested_label: str
    suggested_probability: float
    label_quality: float
    is_label_issue: bool
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """`text`, `image` or `row`; `text` if nothing is to be shown."""
        return next(iter(self.content), "text")


def make_tasks(
    found: LabelIssues, sample: Callable[[int], Sample] | None, max_samples: int | None
) -> list[Task]:
    """The flagged rows and then other doubtful ones, as the page shows them."""
    rows = rows_shown(found)[:max_samples]
    ids = found.id_strings()
    return [
        Task(
            ids[row],
            str(found.given_label[row]),
            str(found.suggested_label[row]),
            round(float(found.suggested_probability[row]), 6),
            round(float(found.label_quality[row]), 6),
            bool(found.is_label_issue[row]),
            {} if sample is None else _content(sample(row)),
        )
        for row in np.asarray(rows).tolist()
    ]


def _content(sample: Sample) -> dict[str, Any]:
    if sample.png is not None:
        return {"image": data_url(sample.png)}
    if sample.text is not None:
        return {"text": sample.text}
    return {"row": {str(name): str(value) for name, value in (sample.row or {}).items()}}


def write_table(path: Path, tasks: Sequence[Task], classes: Sequence[str]) -> None:
    """A CSV whose columns `decision` and `verified_label` are to be filled in."""
    texts = any(task.kind == "text" and task.content for task in tasks)
    names = list(dict.fromkeys(name for task in tasks for name in task.content.get("row", {})))
    taken = {"id", "given_label", *_FORM, *FINDINGS, "text"}
    header = ["id", "given_label", *_FORM, *FINDINGS, *(["text"] if texts else [])]
    header += [f"row: {name}" if name in taken else name for name in names]
    write_csv(path, header, (_cells(task, texts, names) for task in tasks))


def _cells(task: Task, texts: bool, names: Sequence[str]) -> Iterator[Any]:
    yield from (task.id, task.given_label, *[""] * len(_FORM))
    yield from (getattr(task, name) for name in FINDINGS)
    if texts:
        yield task.content.get("text", "")
    yield from (task.content.get("row", {}).get(name, "") for name in names)


def write_lines(path: Path, tasks: Sequence[Task], classes: Sequence[str]) -> None:
    """A JSON object in each line, to which `decision` and `verified_label` are to be added."""
    names = ("id", "given_label", *FINDINGS)
    objects = ({name: getattr(task, name) for name in names} | task.content for task in tasks)
    write_text(path, "".join(json.dumps(each) + "\n" for each in objects))

"""Cleaned labels from decisions, with a log that can undo the changes."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import GivenLabels, id_list
from ptd_ext.label_issues.review.decisions import Answer, Decision
from ptd_ext.label_issues.review.read import read_decisions
from ptd_ext.utils.csv_files import write_csv

_COLUMNS = (
    *("row", "id", "change", "given_label", "new_label"),
    *("decision", "reviewer", "time", "note"),
)
_DROPPED = (Answer.WRONG, Answer.NONE)


@dataclass(frozen=True)
class CleanedLabels:
    """The labels after the review.

    Attributes:
        ids: the ids of all rows, [N].
        keep: false for rows whose label is wrong and whose true class is unknown or none of the
            classes, [N].
        labels: the labels, corrected where a reviewer named another class, [N].
        decisions: the decision about each reviewed row, by position.
    """

    ids: NDArray[Any]
    keep: NDArray[np.bool_]
    labels: NDArray[Any]
    decisions: dict[int, Decision]

    def __str__(self) -> str:
        changed = sum(each.answer is Answer.CORRECTED for each in self.decisions.values())
        return f"{changed:,} labels corrected, {int((~self.keep).sum()):,} rows left out"

    def save_log(self, path: str | os.PathLike[str]) -> Path:
        """Write a CSV file with a line for each change, from which :func:`undo` restores labels."""
        write_csv(path, _COLUMNS, self._lines())
        return Path(path)

    def _lines(self) -> Iterator[list[Any]]:
        for row, made in self.decisions.items():
            if made.answer in _DROPPED or made.answer is Answer.CORRECTED:
                change = "left out" if made.answer in _DROPPED else "corrected"
                about = [made.answer.value, made.reviewer, made.time, made.note]
                yield [row, made.id, change, made.given_label, made.verified_label, *about]


def apply_decisions(decisions: Any, ids: NDArray[Any], labels: GivenLabels) -> CleanedLabels:
    """Clean labels by decisions; rows without a decision keep their label.

    Args:
        decisions: in the forms of :func:`ptd_ext.label_issues.read_decisions`.
        ids: the ids of the rows, [N].
        labels: their given labels, [N].
    """
    agreed = read_decisions(decisions, ids, labels).agreed()
    made = {row: agreed[each] for row, each in enumerate(id_list(ids)) if each in agreed}
    classes = {label: code for code, label in enumerate(labels.classes.tolist())}
    codes, keep = labels.codes.copy(), np.ones(len(labels.codes), dtype=bool)
    for row, decision in made.items():
        keep[row] = decision.answer not in _DROPPED
        if decision.answer is Answer.CORRECTED:
            codes[row] = classes[decision.verified_label]
    return CleanedLabels(ids, keep, labels.classes[codes], made)


def undo(log: str | os.PathLike[str], labels: Any) -> tuple[list[int], list[Any]]:
    """The labels of a cleaned copy as they were before.

    Args:
        log: the file that :meth:`CleanedLabels.save_log` wrote.
        labels: the labels of the cleaned copy, in its order.

    Returns:
        The position that each row of the copy had in the data, and its given label, as a string
        where it was corrected. Rows that were left out are in the log, with their given labels.
    """
    with open(log, newline="", encoding="utf-8", errors="surrogateescape") as file:
        changes = list(csv.DictReader(file))
    if changes and not set(_COLUMNS) <= set(changes[0]):
        raise ValueError(f"{log} must be a log of changes; it has the columns {list(changes[0])}.")
    left_out = {int(each["row"]) for each in changes if each["change"] == "left out"}
    corrected = {int(each["row"]): each for each in changes if each["change"] == "corrected"}
    labels = list(labels)
    rows = [row for row in range(len(labels) + len(left_out)) if row not in left_out]
    if len(rows) != len(labels) or max(corrected, default=-1) >= len(labels) + len(left_out):
        raise ValueError(
            f"labels must be those of the copy that {log} is about; got {len(labels)}."
        )
    restored = []
    for row, label in zip(rows, labels, strict=True):
        change = corrected.get(row)
        if change is not None and str(label) != change["new_label"]:
            raise ValueError(
                f"labels must be those of the copy that {log} is about: row {row} was changed to "
                f"{change['new_label']!r}; got {label!r}."
            )
        restored.append(label if change is None else change["given_label"])
    return rows, restored

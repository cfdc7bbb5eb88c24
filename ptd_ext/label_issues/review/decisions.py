"""Decisions of reviewers about given labels: a log, what it agrees on, and its file."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import GivenLabels, id_list
from ptd_ext.transition.verified import NONE_OF_THEM, UNREVIEWED, WRONG
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.csv_files import write_csv

COLUMNS = (
    *("id", "given_label", "decision", "verified_label"),
    *("reviewer", "time", "note", "audit"),
)
_SHOWN = 3  # conflicts in an error message
_JSON_TYPES = (bool, int, float, str, type(None))


class Answer(Enum):
    """The kinds of decisions about a given label.

    ``CONFIRMED``: it is right. ``CORRECTED``: another class is right. ``WRONG``: it is wrong, and
    the true class unknown. ``NONE``: none of the classes is right. ``UNSURE``: the reviewer does
    not know; the row counts as not reviewed.
    """

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    WRONG = "wrong"
    NONE = "none"
    UNSURE = "unsure"


_SPECIFICITY = {Answer.UNSURE: 0, Answer.WRONG: 1}  # others: 2


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One reviewer's decision about one row.

    Attributes:
        id: the id of the row.
        given_label: its given label.
        answer: what the reviewer found.
        verified_label: the true label if it is confirmed or corrected, otherwise None.
        reviewer: who decided; empty if unknown.
        time: when, as ISO 8601 in UTC with milliseconds; empty if unknown.
        note: a remark.
        audit: the name of the :class:`Audit` that the row was drawn for; empty if for none.
    """

    id: Hashable
    given_label: Hashable
    answer: Answer
    verified_label: Hashable | None = None
    reviewer: str = ""
    time: str = ""
    note: str = ""
    audit: str = ""

    def __str__(self) -> str:
        label = shortened(repr(self.verified_label))
        what = f"corrected to {label}" if self.answer is Answer.CORRECTED else self.answer.value
        return f"{what} by {shortened(self.reviewer)}" if self.reviewer else what


@dataclass(frozen=True)
class Decisions:
    """A log of decisions, of which several may be about one row.

    Of the decisions of one reviewer about a row, the latest counts: by time if known, otherwise by
    the order in the log. Decisions without a reviewer's name all count.

    Attributes:
        log: the decisions.
    """

    log: tuple[Decision, ...] = ()

    def __len__(self) -> int:
        return len(self.log)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.log)

    def __add__(self, other: Decisions) -> Decisions:
        """Both logs one after the other; a decision that is in both is kept once."""
        return Decisions(tuple(dict.fromkeys(self.log + other.log)))

    def by_row(self) -> dict[Hashable, tuple[Decision, ...]]:
        """The decisions that count, by id."""
        found: dict[Hashable, dict[Any, Decision]] = {}
        for number, new in enumerate(self.log):
            of_row = found.setdefault(new.id, {})
            old = of_row.get(new.reviewer)
            if old is None or not (old.time and new.time) or new.time >= old.time:
                of_row[new.reviewer or number] = new
        return {row: tuple(of_row.values()) for row, of_row in found.items()}

    def conflicts(self) -> dict[Hashable, tuple[Decision, ...]]:
        """The decisions about rows on which reviewers contradict each other, by id.

        "Unsure" contradicts no other answer, and "wrong" only "confirmed".
        """
        return {row: each for row, each in self.by_row().items() if _contradict(each)}

    def agreed(self) -> dict[Hashable, Decision]:
        """The most specific decision about each row, by id; raises ValueError for conflicts."""
        conflicts = self.conflicts()
        if conflicts:
            shown = "; ".join(
                f"{shortened(repr(row))}: {', '.join(map(str, each))}"
                for row, each in list(conflicts.items())[:_SHOWN]
            )
            raise ValueError(
                f"decisions must not contradict each other; {len(conflicts):,} rows have "
                f"contradicting ones ({shown}). Keep one decision about each of these rows."
            )
        return {
            row: max(reversed(each), key=lambda one: _SPECIFICITY.get(one.answer, 2))
            for row, each in self.by_row().items()
        }

    def codes(self, ids: NDArray[Any], labels: GivenLabels) -> NDArray[np.int64]:
        """The agreed decisions as codes of `ptd_ext.transition.verified`, [N].

        Args:
            ids: the ids of the rows, [N].
            labels: their given labels, whose classes the codes index.
        """
        classes = {label: code for code, label in enumerate(labels.classes.tolist())}
        agreed = self.agreed()
        decisions = (agreed.get(row) for row in id_list(ids))
        return np.fromiter((_code(each, classes) for each in decisions), np.int64, len(ids))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a CSV file, or JSON Lines if the name ends in .jsonl.

        :func:`read_decisions` reads both back equal.
        """
        if Path(path).suffix.lower() == ".jsonl":
            lines = (json.dumps(dict(zip(COLUMNS, _cells(each), strict=True))) for each in self)
            write_text(path, "".join(f"{line}\n" for line in lines))
        else:
            write_csv(path, COLUMNS, map(_cells, self))
        return Path(path)


def _contradict(decisions: tuple[Decision, ...]) -> bool:
    answers = {each.answer for each in decisions}
    found = {
        (each.answer, each.verified_label)
        for each in decisions
        if each.answer not in (Answer.UNSURE, Answer.WRONG)
    }
    return len(found) > 1 or {Answer.WRONG, Answer.CONFIRMED} <= answers


def _code(decision: Decision | None, classes: Mapping[Any, int]) -> int:
    if decision is None or decision.answer is Answer.UNSURE:
        return UNREVIEWED
    if decision.answer is Answer.WRONG:
        return WRONG
    if decision.answer is Answer.NONE:
        return NONE_OF_THEM
    return classes[decision.verified_label]


def _cells(decision: Decision) -> list[Any]:
    """The values of a line of a file, in the order of `COLUMNS`."""
    each = decision
    values = [each.id, each.given_label, each.answer.value, each.verified_label]
    values += [each.reviewer, each.time, each.note, each.audit]
    return [value if type(value) in _JSON_TYPES else str(value) for value in values]

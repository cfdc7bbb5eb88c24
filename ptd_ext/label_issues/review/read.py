"""Reads decisions from mappings, data frames and files, and checks that they are about the rows."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import GivenLabels, id_list, is_missing
from ptd_ext.label_issues.review.decisions import Answer, Decision, Decisions
from ptd_ext.label_issues.review.exchange.registry import read_export
from ptd_ext.utils.arguments import has_index
from ptd_ext.utils.bounded_files import shortened

_ANSWERS = {answer.value: answer for answer in Answer}
# The report writes these.
_ANSWERS |= {"accepted": Answer.CORRECTED, "rejected": Answer.CONFIRMED}
_LABELS = ("verified_label", "corrected_label")
_NOTHING = (None, "")


def read_decisions(source: Any, ids: NDArray[Any], labels: GivenLabels) -> Decisions:
    """Read decisions, and check that they are about these rows.

    The ids, answers and labels of files may be the strings that stand for them. Frames and files
    have the columns `id` (for a frame, its index by default), `decision` (the value of an
    :class:`Answer`) and `verified_label`, of which one may be missing, and if known `given_label`,
    `reviewer`, `time`, `note` and `audit`. The corrections that the report writes are read too.
    Rows with neither a decision nor a label are skipped.

    Args:
        source: Decisions; a mapping or a pandas Series from ids to verified labels, where an
            :class:`Answer` may stand for a label; a data frame; or the name of a .csv or .jsonl
            file, or of a .json file that Label Studio or Argilla exported.
        ids: the ids of the rows, [N].
        labels: their given labels, of all classes, [N].
    """
    rows = _Rows(ids, labels)
    read = (rows.decision(where, record) for where, record in _records(source))
    return Decisions(tuple(each for each in read if each is not None))


def _records(source: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each decision as a record, with its place for error messages."""
    if isinstance(source, Decisions):
        for number, each in enumerate(source):
            yield f"decision {number}", {**vars(each), "decision": each.answer.value}
    elif isinstance(source, (str, os.PathLike)):
        readers = {".jsonl": _json_lines, ".json": read_export}
        yield from readers.get(Path(source).suffix.lower(), _csv_lines)(Path(source))
    elif has_index(source) and hasattr(source, "columns"):
        columns = {str(name): source[name].tolist() for name in source.columns}
        columns = {"id": id_list(np.asarray(source.index)), **columns}
        for number, cells in enumerate(zip(*columns.values(), strict=True)):
            yield f"row {number} of the frame", dict(zip(columns, cells, strict=True))
    elif has_index(source) or isinstance(source, Mapping):
        index = id_list(np.asarray(source.index)) if has_index(source) else list(source)
        values = source.tolist() if has_index(source) else list(source.values())
        for number, (row, label) in enumerate(zip(index, values, strict=True)):
            yield f"decision {number}", {"id": row, "verified_label": label}
    else:
        raise TypeError(
            "decisions must be a mapping or a pandas Series from ids to labels, a data frame, or "
            f"the name of a .csv or .jsonl file; got {type(source).__name__}."
        )


def _csv_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Bytes of file names that are not UTF-8 are kept, as they are written.
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        lines = csv.reader(file)
        try:
            header = next(lines, [])
            for cells in filter(None, lines):
                where = f"line {lines.line_num} of {path}"
                if len(cells) != len(header):
                    raise ValueError(
                        f"{where} must have {len(header)} cells, as the header; got {len(cells)}."
                    )
                yield where, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise ValueError(f"{path} must be a CSV file: {error}.") from None


def _json_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            where = f"line {number} of {path}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where} must be JSON: {error}.") from None
            if not isinstance(record, dict):
                raise ValueError(f"{where} must be a JSON object; got {shortened(line)}.")
            yield where, record


class _Rows:
    """The rows that decisions may be about."""

    def __init__(self, ids: NDArray[Any], labels: GivenLabels) -> None:
        classes = labels.classes.tolist()
        self._ids = _Values(id_list(ids), "the ids of the data", "ids")
        self._classes = _Values(classes, f"the classes, {shortened(classes)}", "classes")
        self._given = labels.codes.tolist()

    def decision(self, where: str, record: Mapping[str, Any]) -> Decision | None:
        """The decision of one record; None if it has neither an answer nor a label."""
        record = {name: None if is_missing(each) else each for name, each in record.items()}
        answer = record.get("decision")
        label = next((record[name] for name in _LABELS if name in record), None)
        if isinstance(label, Answer):
            answer, label = label.value, None
        if answer in _NOTHING and (label is None or (label == "" and "" not in self._classes)):
            return None
        if "id" not in record:
            raise ValueError(f"{where} must have an id; it has {shortened(list(record))}.")
        row = self._ids.position(record["id"], f"id in {where}")
        given = self._given[row]
        self._check_given(record.get("given_label"), given, where)
        found, verified = self._answer(answer, label, given, where)
        return Decision(
            id=self._ids.values[row],
            given_label=self._classes.values[given],
            answer=found,
            verified_label=None if verified is None else self._classes.values[verified],
            reviewer=_string(record.get("reviewer")),
            time=_time(record.get("time"), where),
            note=_string(record.get("note")),
            audit=_string(record.get("audit")),
        )

    def _check_given(self, named: Any, given: int, where: str) -> None:
        if named in _NOTHING or self._classes.find(named) == given:
            return
        raise ValueError(
            f"given_label in {where} must be the label of this row in the data, "
            f"{self._classes.values[given]!r}; got {shortened(repr(named))}. Were the decisions "
            "made on other data?"
        )

    def _answer(self, named: Any, label: Any, given: int, where: str) -> tuple[Answer, int | None]:
        """The answer, and the position of the verified class."""
        answer = None if named in _NOTHING else _ANSWERS.get(named)
        if answer is None and named not in _NOTHING:
            raise ValueError(
                f"decision in {where} must be one of {', '.join(_ANSWERS)}; got "
                f"{shortened(repr(named))}."
            )
        unnamed = label is None or (label == "" and "" not in self._classes)
        if answer not in (None, Answer.CONFIRMED, Answer.CORRECTED):
            if not unnamed and label != "":
                raise ValueError(
                    f"verified_label in {where} must be empty, since the decision is {named!r}; "
                    f"got {shortened(repr(label))}."
                )
            return answer, None
        if answer is Answer.CONFIRMED and unnamed:
            return answer, given
        code = self._classes.position(label, f"verified_label in {where}")
        found = Answer.CONFIRMED if code == given else Answer.CORRECTED
        if answer not in (None, found):
            raise ValueError(
                f"decision in {where} must be {found.value!r}, since the given label is "
                f"{self._classes.values[given]!r} and the verified label "
                f"{self._classes.values[code]!r}; got {named!r}."
            )
        return found, code


class _Values:
    """Values that are found by themselves, or by the strings that stand for them in files."""

    def __init__(self, values: list[Any], what: str, short: str) -> None:
        self.values, self._what, self._short = values, what, short
        self._positions, self._repeated = _index(values)
        self._strings: tuple[dict[Any, int], set[Any]] | None = None

    def __contains__(self, value: Any) -> bool:
        return value in self._positions

    def find(self, wanted: Any) -> int | None:
        """The position of a value; None if there is none, or several."""
        try:
            return self.position(wanted, "")
        except ValueError:
            return None

    def position(self, wanted: Any, where: str) -> int:
        positions, repeated = self._positions, self._repeated
        known = _is_hashable(wanted) and wanted in positions
        if not known and isinstance(wanted, str):
            if self._strings is None:
                self._strings = _index(map(str, self.values))
            positions, repeated = self._strings
            known = wanted in positions
        if not known:
            raise ValueError(f"{where} must be among {self._what}; got {shortened(repr(wanted))}.")
        if wanted in repeated:
            raise ValueError(
                f"{where} must stand for one of {self._what}; several are "
                f"{shortened(repr(wanted))}. Make the {self._short} distinct."
            )
        return positions[wanted]


def _index(values: Iterable[Any]) -> tuple[dict[Any, int], set[Any]]:
    """The position of each value, and the values that occur more than once."""
    positions: dict[Any, int] = {}
    repeated = {
        value
        for position, value in enumerate(values)
        if positions.setdefault(value, position) != position
    }
    return positions, repeated


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _string(value: Any) -> str:
    return "" if value is None else str(value)


def _time(value: Any, where: str) -> str:
    """The time as ISO 8601 in UTC with milliseconds; a time without a zone is in UTC."""
    if value in _NOTHING:
        return ""
    try:
        found = datetime.fromisoformat(str(value).strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(
            f"time in {where} must be as in ISO 8601, such as 2026-05-01T12:00:00Z; got "
            f"{shortened(repr(value))}."
        ) from None
    found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    return found.astimezone(timezone.utc).isoformat(timespec="milliseconds")

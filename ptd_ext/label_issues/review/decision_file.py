"""The file of decisions that `ptd-ext review` keeps: whole on the disk after every change."""

from __future__ import annotations

import csv
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptd_ext.label_issues.review.decisions import COLUMNS, Answer
from ptd_ext.utils.bounded_files import MAX_BYTES, check_size, shortened
from ptd_ext.utils.csv_files import check_csv_string, write_csv

_NEEDED = frozenset({"id", "decision"})
_MAX_VALUE = 10_000  # characters
_ANSWERS = frozenset(answer.value for answer in Answer)
_ID, _ANSWER, _REVIEWER, _TIME = (
    COLUMNS.index(name) for name in ("id", "decision", "reviewer", "time")
)

Entry = tuple[str, ...]  # in the order of COLUMNS


class DecisionFile:
    """Decisions by id and reviewer, in a CSV file that :func:`read_decisions` reads.

    A change by another program is read before the next one is written.

    Args:
        path: path of the CSV file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Entry] = {}
        self._stamp: tuple[int, int] | None = None
        self._read()

    def entries(self) -> list[dict[str, str]]:
        """All decisions, the oldest first, by the names of their columns."""
        with self._lock:
            self._read()
            return [dict(zip(COLUMNS, each, strict=True)) for each in self._entries.values()]

    def change(self, entries: Iterable[Any], removed: Iterable[Any]) -> int:
        """Write decisions and remove those of pairs (id, reviewer); returns how many there are.

        Raises ValueError, and changes nothing, unless all values are as the page sends them.
        """
        added = [_checked(each) for each in entries]
        gone = [_pair(each) for each in removed]
        with self._lock:
            self._read()
            changed = dict(self._entries)
            for pair in gone:
                changed.pop(pair, None)
            for entry in added:
                changed[entry[_ID], entry[_REVIEWER]] = entry
            ordered = sorted(changed.values(), key=lambda entry: entry[_TIME])
            write_csv(self.path, COLUMNS, ordered)
            self._entries = {(entry[_ID], entry[_REVIEWER]): entry for entry in ordered}
            self._stamp = self._stamp_of_file()
            return len(ordered)

    def _stamp_of_file(self) -> tuple[int, int] | None:
        try:
            about = os.stat(self.path)
        except FileNotFoundError:
            return None
        return about.st_mtime_ns, about.st_size

    def _read(self) -> None:
        stamp = self._stamp_of_file()
        if stamp == self._stamp:
            return
        entries: dict[tuple[str, str], Entry] = {}
        if stamp is not None:
            check_size(stamp[1], self.path, MAX_BYTES)
            with self.path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
                lines = csv.reader(file)
                header = next(lines, [])
                if not _NEEDED <= set(header) <= set(COLUMNS):
                    raise ValueError(
                        f"{self.path} must have the columns {', '.join(COLUMNS)}. Rename the file, "
                        "and import it on the page."
                    )
                for cells in filter(None, lines):
                    if len(cells) != len(header):
                        raise ValueError(
                            f"Line {lines.line_num} of {self.path} must have {len(header)} cells; "
                            f"got {len(cells)}."
                        )
                    found = dict(zip(header, cells, strict=True))
                    entry = tuple(found.get(name, "") for name in COLUMNS)
                    entries[entry[_ID], entry[_REVIEWER]] = entry
        self._entries, self._stamp = entries, stamp


def _checked(entry: Any) -> Entry:
    if not isinstance(entry, dict) or set(entry) != set(COLUMNS):
        raise ValueError(f"A decision must have {', '.join(COLUMNS)}; got {shortened(entry)}.")
    values = tuple(_string(entry[name]) for name in COLUMNS)
    if values[_ANSWER] not in _ANSWERS:
        raise ValueError(f"decision must be an answer; got {shortened(values[_ANSWER])}.")
    return values


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"removed must hold pairs of id and reviewer; got {shortened(value)}.")
    return _string(value[0]), _string(value[1])


def _string(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_VALUE:
        raise ValueError(
            f"A value must be a string of at most {_MAX_VALUE:,} characters; got "
            f"{shortened(value)}."
        )
    check_csv_string(value)
    return value

"""The columns in which a row is unusual for its given class and usual for the suggested one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.columns import is_frame

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

_TAIL = 0.05  # share of rows on either side of the usual range
_RARE, _COMMON = 0.05, 0.2  # shares of the rows of a class that have a value
_MIN_ROWS = 20  # a class with fewer has no usual range
_MAX_VALUES = 50  # a column of strings with more is not compared

Mark = tuple[int, str, str]  # column, what is usual in the given and in the suggested class


class UnusualColumns:
    """Compares values of a table with those of the rows whose labels are not doubtful.

    Args:
        table: a data frame, or numbers [N, D].
        found: the findings about its rows.
        limit: maximum number of columns that are compared, the first ones.
    """

    def __init__(self, table: Any, found: LabelIssues, limit: int) -> None:
        given = found.class_indices(found.given_label)
        good = ~found.is_label_issue & (found.label_quality >= 0.5)
        rows = [np.flatnonzero(good & (given == code)) for code in range(len(found.classes))]
        self._columns = [_column(values, rows) for values in _columns(table, limit)]

    def of(self, row: int, given: int, suggested: int) -> list[Mark]:
        """The columns of a row, by their positions."""
        found = []
        for position, column in enumerate(self._columns):
            mark = None if column is None else column.mark(row, given, suggested)
            if mark is not None:
                found.append((position, *mark))
        return found


def is_table(rows: Any) -> bool:
    """Whether rows have columns that can be compared."""
    if is_frame(rows):
        return True
    numeric = isinstance(rows, np.ndarray) and rows.dtype.kind in "fiub"
    return numeric and rows.ndim == 2


def _columns(table: Any, limit: int) -> list[NDArray[Any]]:
    if is_frame(table):
        return [np.asarray(table[name].to_numpy()) for name in list(table.columns)[:limit]]
    return [table[:, column] for column in range(min(limit, table.shape[1]))]


def _column(values: NDArray[Any], rows: list[NDArray[np.int64]]) -> _Numbers | _Categories | None:
    if values.dtype.kind in "fiu":
        return _Numbers(values.astype(np.float64), rows)
    strings = values.astype(str)
    return _Categories(strings, rows) if len(set(strings.tolist())) <= _MAX_VALUES else None


class _Numbers:
    def __init__(self, values: NDArray[np.float64], rows: list[NDArray[np.int64]]) -> None:
        self._values = values
        self._ranges = [_range(values[each]) for each in rows]

    def mark(self, row: int, given: int, suggested: int) -> tuple[str, str] | None:
        value, own, other = self._values[row], self._ranges[given], self._ranges[suggested]
        if own is None or other is None or not np.isfinite(value):
            return None
        if own[0] <= value <= own[1] or not other[0] <= value <= other[1]:
            return None
        return f"{own[0]:.4g} to {own[1]:.4g}", f"{other[0]:.4g} to {other[1]:.4g}"


def _range(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The middle 90 % of the values, or None if there are too few."""
    known = values[np.isfinite(values)]
    if len(known) < _MIN_ROWS:
        return None
    low, high = np.quantile(known, [_TAIL, 1 - _TAIL])
    return float(low), float(high)


class _Categories:
    def __init__(self, values: NDArray[Any], rows: list[NDArray[np.int64]]) -> None:
        self._values = values
        self._rows = rows

    def mark(self, row: int, given: int, suggested: int) -> tuple[str, str] | None:
        if min(len(self._rows[given]), len(self._rows[suggested])) < _MIN_ROWS:
            return None
        same = (self._values[self._rows[code]] == self._values[row] for code in (given, suggested))
        own, other = (float(each.mean()) for each in same)
        if own >= _RARE or other < _COMMON:
            return None
        return f"in {own:.0%} of the rows", f"in {other:.0%} of the rows"

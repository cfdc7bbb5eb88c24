"""One column of a table: what kind of values it has, and these values as numbers."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.dates import are_dates, days, spelling_of
from ptd_ext.engine.rows.labels import is_missing
from ptd_ext.engine.rows.words import WordVectors
from ptd_ext.utils.bounded_files import shortened

KINDS = ("number", "date", "category", "text", "left out")

_MAX_CATEGORIES = 200
_MOSTLY = 0.9  # share of values that make a column of strings one of numbers or dates
_MARKERS = 3  # so many different strings beside numbers stand for missing ones, such as "?"
# An indicator of fewer rows helps little, and standardised it is far from zero.
_MARKED = 5
_ENOUGH = 20  # rows in which all values differ by more than coincidence
_ID_NAME = re.compile(r"(?:.*[\W_])?(?:id|uuid|guid|key|index)|.*[a-z]I[dD]")
_NUMBERS = (int, float, np.number, np.bool_)
_NESTED = (list, dict, set, np.ndarray)


@dataclass(frozen=True)
class Column:
    """A column and what becomes of it.

    Attributes:
        name: the name of the column.
        kind: one of `KINDS`.
        note: what becomes of it, for the summary.
        median: what stands in for missing numbers and dates.
        missing: whether missing values have a column of their own, if they are not too few.
        categories: the values of a category, each of which takes a column.
        spelling: how dates in strings are written.
        words: the words of a text; None for other kinds.
    """

    name: str
    kind: str
    note: str = ""
    median: float = 0.0
    missing: bool = False
    categories: tuple[str, ...] = ()
    spelling: str | None = None
    words: WordVectors | None = None

    @classmethod
    def fit(
        cls, name: str, values: NDArray[Any], *, named: bool = False, category: bool = False
    ) -> Column:
        """Find out what the values are. The words of a text are learned later.

        Args:
            name: the name of the column.
            values: its values in the rows to train on, [N].
            named: true if the caller asks for the column, which is then no id.
            category: true if the values are known to be categories.
        """
        absent = missing_values(values)
        present = values[~absent]
        if not len(present):
            return cls(name, "left out", "left out: no value")
        if values.dtype == object and any(isinstance(each, _NESTED) for each in present):
            found = next(type(each).__name__ for each in present if isinstance(each, _NESTED))
            return cls(name, "left out", f"left out: cells hold values of type {found}")
        if are_dates(present):
            return cls._of_numbers(name, "date", days(values, None), absent, "dates as days")
        strings = _strings(present)
        counts = Counter(strings)
        limit = min(_MAX_CATEGORIES, max(10, len(values) // 2))
        if not category:
            numbers = numbers_of(values)
            if _mean_numbers(present, numbers[~absent], strings, len(counts) <= limit):
                if not named and _are_ids(name, numbers):
                    return cls(name, "left out", _ID_NOTE)
                return cls._of_numbers(name, "number", numbers, absent, "number")
            spelling = spelling_of(list(counts), _MOSTLY) if _all_strings(present) else None
            if spelling is not None:
                note = f"{spelling} as days"
                return cls._of_numbers(name, "date", days(values, spelling), absent, note, spelling)
        if len(counts) == 1 and not absent.any():
            return cls(name, "left out", _CONSTANT_NOTE)
        if category or len(counts) <= limit:
            categories, missing = tuple(sorted(counts)), bool(absent.any())
            note = f"category of {len(categories)} values"
            if missing:
                note += f", and one for {_share(absent)} missing"
            return cls(name, "category", note, missing=missing, categories=categories)
        if not named and len(counts) == len(values) >= _ENOUGH:
            spaces = any(len(each.split()) > 1 for each in counts)
            if _ID_NAME.fullmatch(name) or not spaces:
                return cls(name, "left out", _ID_NOTE)
        return cls(name, "text", "text")

    @classmethod
    def _of_numbers(
        cls,
        name: str,
        kind: str,
        numbers: NDArray[np.float64],
        given_absent: NDArray[np.bool_],
        note: str,
        spelling: str | None = None,
    ) -> Column:
        absent = np.isnan(numbers)
        known = numbers[~absent]
        if not len(known):
            return cls(name, "left out", "left out: no finite value")
        if not absent.any() and known.min() == known.max():
            return cls(name, "left out", _CONSTANT_NOTE)
        median = float(np.median(known))
        if absent.any():
            # The median of dates is a number of days, which nobody could read.
            shown = f"the median {median:.4g}" if kind == "number" else "the median date"
            what = "missing" if (absent == given_absent).all() else f"missing or not a {kind}"
            note += f"; {_share(absent)} {what}: {shown}"
        missing = bool(absent.sum() >= _MARKED)
        if missing:
            note += " and an indicator column"
        return cls(name, kind, note, median=median, missing=missing, spelling=spelling)

    @property
    def width(self) -> int:
        """The number of columns that the network gets."""
        if self.kind == "text":
            return 0 if self.words is None else self.words.width
        own = {"number": 1, "date": 1, "category": len(self.categories)}.get(self.kind, 0)
        return own + self.missing

    def encode(self, values: NDArray[Any], into: NDArray[np.float64]) -> None:
        """Write the values as numbers to an array [N, width] of zeros."""
        if self.kind == "text":
            assert self.words is not None
            self.words.encode(texts_of(values), into)
        elif self.kind == "category":
            absent = missing_values(values)
            codes = np.full(len(values), len(self.categories) if self.missing else -1)
            codes[~absent] = _codes(values[~absent], self.categories)
            known = codes >= 0  # a value that fit has not seen is zero in all categories
            into[np.flatnonzero(known), codes[known]] = 1
        else:
            numbers = self._numbers(values)
            absent = np.isnan(numbers)
            into[:, 0] = np.where(absent, self.median, numbers)
            if self.missing:
                into[:, 1] = absent

    def _numbers(self, values: NDArray[Any]) -> NDArray[np.float64]:
        dates = self.kind == "date"
        found = days(values, self.spelling) if dates else numbers_of(values)
        given = ~missing_values(values)
        if given.any() and values.dtype.kind not in "biuf" and np.isnan(found).all():
            row = int(np.flatnonzero(given)[0])
            raise ValueError(
                f"column {self.name!r} of X must hold {'dates' if dates else 'numbers'}, as it did "
                f"in fit; it holds {shortened(repr(values[row]))} in row {row}."
            )
        return found


_CONSTANT_NOTE = "left out: the same value in every row"
_ID_NOTE = "left out: another value in every row, like an id"


def missing_values(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are missing, [N]."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter((is_missing(each) for each in values), dtype=bool, count=len(values))


def numbers_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Values as numbers, NaN for those that are missing, infinite or not numbers, [N]."""
    if values.dtype.kind in "mM":
        return np.full(len(values), np.nan)
    if values.dtype.kind in "biuf":
        found = values.astype(np.float64)
    else:
        found = np.fromiter(map(_number, values), dtype=np.float64, count=len(values))
    return np.where(np.isfinite(found), found, np.nan)


def texts_of(values: NDArray[Any]) -> list[str]:
    """Values as texts; a missing one is an empty text."""
    return ["" if is_missing(each) else str(each) for each in values]


def _number(value: Any) -> float:
    try:
        return float(value)  # also of NumPy, Decimal, and strings
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _mean_numbers(
    present: NDArray[Any], numbers: NDArray[np.float64], strings: list[str], few: bool
) -> bool:
    """True for values that are numbers, apart from some that stand for missing ones.

    Args:
        present: the values that are not missing.
        numbers: the same as numbers.
        strings: the same as strings.
        few: true if the different values are few enough for categories.
    """
    if present.dtype.kind in "biuf":
        return True
    known = ~np.isnan(numbers)
    if known.all():
        # Strings such as postal codes were made strings for a reason.
        return not (few and _all_strings(present))
    others = {each for each, number in zip(strings, known, strict=True) if not number}
    share = known.mean()
    return bool(share >= _MOSTLY or (share >= 0.5 and len(others) <= _MARKERS))


def _all_strings(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "U" or all(isinstance(each, str) for each in values)


def _are_ids(name: str, numbers: NDArray[np.float64]) -> bool:
    """True for integers that differ in every row and are named, or follow each other, like ids."""
    if len(numbers) < _ENOUGH or np.isnan(numbers).any() or (numbers % 1).any():
        return False
    # Of consecutive numbers, only those of the rows to train on are seen.
    dense = numbers.max() - numbers.min() < 2 * len(numbers)
    return (dense or _ID_NAME.fullmatch(name) is not None) and len(np.unique(numbers)) == len(
        numbers
    )


def _codes(values: NDArray[Any], categories: tuple[str, ...]) -> NDArray[np.int64]:
    """The category of each value, or -1; a number may be spelled otherwise in it, such as 01."""
    index = {category: position for position, category in enumerate(categories)}
    spellings: dict[float, list[int]] = {}
    for category, position in index.items():
        with contextlib.suppress(ValueError):
            spellings.setdefault(float(category), []).append(position)
    codes = np.full(len(values), -1, dtype=np.int64)
    for row, (value, string) in enumerate(zip(values, _strings(values), strict=True)):
        codes[row] = index.get(string, -1)
        if codes[row] < 0 and isinstance(value, _NUMBERS):
            found = spellings.get(float(value), [])
            codes[row] = found[0] if len(found) == 1 else -1
    return codes


def _strings(values: NDArray[Any]) -> list[str]:
    """Values as strings; an integer is the same category as a float or a string of it."""
    whole = (float, np.floating)
    return [
        str(int(value)) if isinstance(value, whole) and float(value).is_integer() else str(value)
        for value in values
    ]


def _share(absent: NDArray[np.bool_]) -> str:
    return f"{max(0.001, absent.mean()):.1%}"

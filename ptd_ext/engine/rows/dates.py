"""Dates and durations of many spellings as days."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import is_missing

# The spellings of dates in strings, by the name that a note shows. Where days and months cannot be
# told apart, the first of the spellings is taken.
SPELLINGS = {
    "year-month-day": "%Y-%m-%d",
    "year/month/day": "%Y/%m/%d",
    "day.month.year": "%d.%m.%Y",
    "month/day/year": "%m/%d/%Y",
    "day/month/year": "%d/%m/%Y",
    "month-day-year": "%m-%d-%Y",
    "day-month-year": "%d-%m-%Y",
    "day name year": "%d %b %Y",
    "name day, year": "%b %d, %Y",
    "day full-name year": "%d %B %Y",
    "full-name day, year": "%B %d, %Y",
}
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_SECONDS = 86_400
_MICROSECONDS = 1e6 * _SECONDS
_LONGEST = 50  # characters of a date
_LOOKED_AT = 100  # values by which a spelling is chosen
_TIME = re.compile(
    r"(?P<date>.+?)"
    r"(?:[ T]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)


def are_dates(values: NDArray[Any]) -> bool:
    """True for an array of dates or durations, or of objects that are."""
    if values.dtype.kind in "mM":
        return True
    if values.dtype.kind != "O":
        return False
    kinds = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
    present = [value for value in values if not is_missing(value)]
    return bool(present) and all(isinstance(value, kinds) for value in present)


def spelling_of(strings: list[str], share: float) -> str | None:
    """The spelling that at least this share of the strings have; None if they are not dates."""
    few = strings[:: max(1, len(strings) // _LOOKED_AT)]
    found = {name: sum(_parsed(each, name) is not None for each in few) for name in SPELLINGS}
    best = max(found, key=lambda name: found[name])
    if not few or found[best] < share * len(few):
        return None
    return best if np.isfinite(days(strings, best)).mean() >= share else None


def days(values: Any, spelling: str | None) -> NDArray[np.float64]:
    """Days since 1970, and durations in days; NaN for what is missing or not a date, [N]."""
    values = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if values.dtype.kind in "mM":
        unit = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
        found = values.astype(unit).astype(np.int64) / _MICROSECONDS
        return np.where(np.isnat(values), np.nan, found)
    known: dict[str, float | None] = {}  # reading a string takes time, and many are equal
    result = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if isinstance(value, str):
            if value not in known:
                known[value] = None if spelling is None else _parsed(value, spelling)
            day = known[value]
        else:
            day = _object_days(value)
        result[row] = np.nan if day is None else day
    return result


def _object_days(value: Any) -> float | None:
    if is_missing(value):
        return None
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return float(days(np.array([value]), None)[0])
    if isinstance(value, datetime.timedelta):
        return value.total_seconds() / _SECONDS
    if not isinstance(value, datetime.date):
        return None
    day = float(value.toordinal() - _EPOCH)
    if isinstance(value, datetime.datetime):
        time = value - datetime.datetime.combine(value.date(), datetime.time(), value.tzinfo)
        day += time.total_seconds() / _SECONDS
        offset = value.utcoffset()
        day -= 0 if offset is None else offset.total_seconds() / _SECONDS
    return day


def _parsed(text: str, spelling: str) -> float | None:
    match = _TIME.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    try:
        date = datetime.datetime.strptime(match["date"].strip(), SPELLINGS[spelling])
    except ValueError:
        return None
    hours = _hours(match)
    return None if hours is None else date.toordinal() - _EPOCH + hours / 24


def _hours(match: re.Match[str]) -> float | None:
    """The time of the day, in UTC if the time has a zone; None if there is no such time."""
    if match["hour"] is None:
        return 0.0
    hour, minute, second = int(match["hour"]), int(match["minute"]), float(match["second"] or 0)
    if hour > 24 or minute > 59 or not 0 <= second < 61 or not math.isfinite(second):
        return None
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    zone = match["zone"]
    shift = 0.0
    if zone and zone[0] in "+-":
        shift = int(zone[1:3]) + int(zone[-2:]) / 60
        shift = -shift if zone[0] == "-" else shift
    return hour + minute / 60 + second / 3600 - shift

"""Dates of many spellings as days."""

import datetime

import numpy as np
import pytest

from ptd_ext.engine.rows.dates import SPELLINGS, are_dates, days, spelling_of

NOON = datetime.datetime(2024, 2, 29, 12)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found_and_read(spelling):
    dates = [datetime.date(2024, 1, 1) + datetime.timedelta(3 * day) for day in range(60)]
    strings = [date.strftime(SPELLINGS[spelling]) for date in dates]
    assert spelling_of(strings, 0.9) == spelling
    expected = np.array(dates, dtype="datetime64[D]").astype(float)
    np.testing.assert_array_equal(days(strings, spelling), expected)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("2024-02-29", 0),
        ("2024-02-29 12:30", 12.5),
        ("2024-02-29T12:30:36.5", 12.5 + 36.5 / 3600),
        ("2024-02-29T12:30:00Z", 12.5),
        ("2024-02-29T12:30:00+02:00", 10.5),
        ("2024-02-29T12:30:00-0130", 14),
        ("2024-02-29 1:30 PM", 13.5),
        ("2024-02-29 12:00 am", 0),
    ],
)
def test_times(text, hours):
    assert days([text], "year-month-day")[0] == pytest.approx(19782 + hours / 24, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    ["2023-02-29", "2024-2", "2024-02-29 25:00", "2024-02-29 10:70", "2024-02-29 13:00 PM", "x"],
)
def test_what_is_not_a_date(text):
    assert np.isnan(days([text], "year-month-day")).all()
    assert spelling_of([text], 0.9) is None


def test_strings_that_are_not_dates():
    assert spelling_of([], 0.9) is None
    assert spelling_of(["1.2.3", "2.0"], 0.9) is None
    assert spelling_of(["2024-01-01"] * 8 + ["x"] * 2, 0.9) is None


def test_objects():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    values = [
        NOON.date(),
        NOON,
        NOON.replace(tzinfo=zone),
        np.datetime64(NOON),
        datetime.timedelta(hours=6),
        np.timedelta64(6, "h"),
        np.datetime64("NaT"),
        None,
        7,
    ]
    found = days(values, None)
    np.testing.assert_allclose(found[:6], [19782, 19782.5, 19782.5 - 2 / 24, 19782.5, 0.25, 0.25])
    assert np.isnan(found[6:]).all()
    assert are_dates(np.array([*values[:6], None], dtype=object))
    assert not are_dates(np.array(values, dtype=object))
    assert not are_dates(np.array([None], dtype=object))
    assert not are_dates(np.ones(2))


def test_arrays_of_dates_and_durations():
    dates = np.array(["2024-02-29T12", "NaT"], dtype="datetime64[h]")
    np.testing.assert_array_equal(days(dates, None), [19782.5, np.nan])
    np.testing.assert_array_equal(days(np.array([12], dtype="timedelta64[h]"), None), [0.5])
    assert are_dates(dates)

"""Dates in English, stamps and ages."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from Middleware.utilities.datetime_utils import (
    age_text,
    format_stamp,
    month_name,
    parse_stamp,
    pretty_date,
    twelve_hour_time,
    weekday_name,
)

NOW = datetime(2026, 3, 5, 19, 9, 41)
STAMP = "(Thursday, 2026-03-05 19:09:41)"


def test_names():
    """English, whatever the locale."""
    assert (month_name(NOW), weekday_name(NOW), pretty_date(NOW)) == ("March", "Thursday", "March 05, 2026")


@pytest.mark.parametrize(
    ("hour", "shown"), [(0, "12:09 AM"), (9, "9:09 AM"), (12, "12:09 PM"), (19, "7:09 PM")]
)
def test_twelve_hour_time(hour, shown):
    """Without a leading zero."""
    assert twelve_hour_time(NOW.replace(hour=hour)) == shown


def test_stamps():
    """What is written can be read."""
    assert format_stamp(NOW) == STAMP
    assert parse_stamp(format_stamp(NOW)) == NOW


@pytest.mark.parametrize(
    "stamp",
    ["", "now", "(Thursday, 2026-13-05 19:09:41)", "2026-03-05 19:09:41", STAMP + "x", None, 5],
    ids=str,
)
def test_what_is_no_stamp(stamp):
    """Is nothing."""
    assert parse_stamp(stamp) is None


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(0), "less than a minute"),
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(seconds=60), "1 minute"),
        (timedelta(minutes=5), "5 minutes"),
        (timedelta(hours=3), "3 hours"),
        (timedelta(days=1, minutes=2), "1 day, 2 minutes"),
        (timedelta(days=1, hours=2, minutes=5), "1 day, 2 hours, 5 minutes"),
        (timedelta(days=2, hours=1, seconds=59), "2 days, 1 hour"),
        (timedelta(days=400), "400 days"),
        (timedelta(seconds=-500), "less than a minute"),
    ],
    ids=str,
)
def test_ages(age, text):
    """Zero units are left out; the future counts as now."""
    now = NOW.replace(tzinfo=UTC)
    assert age_text(now - age, now) == text


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set")
@pytest.mark.parametrize(
    ("moment", "now", "text"),
    [
        (datetime(2026, 3, 29, 1, 30), datetime(2026, 3, 29, 3, 30), "1 hour"),
        (datetime(2026, 3, 28, 12), datetime(2026, 3, 29, 12), "23 hours"),
        (datetime(2026, 10, 25, 1, 30), datetime(2026, 10, 25, 3, 30), "3 hours"),
        (datetime(2026, 10, 24, 12), datetime(2026, 10, 25, 12), "1 day, 1 hour"),
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 2, 40, fold=1), "1 hour, 10 minutes"),
        (datetime(2026, 10, 25, 1, 30), datetime(2026, 10, 25, 3, 30, tzinfo=UTC), "4 hours"),
        (datetime(1, 1, 1), datetime(1, 1, 2), "1 day"),
    ],
    ids=[
        "spring",
        "a-day-in-spring",
        "autumn",
        "a-day-in-autumn",
        "the-hour-twice",
        "a-zone",
        "no-such-year",
    ],
)
def test_an_age_over_a_change_of_the_clock_is_the_time_that_passed(berlin, moment, now, text):
    assert age_text(moment, now) == text

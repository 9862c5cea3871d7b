"""Dates in English, stamps and ages."""

from __future__ import annotations

from datetime import datetime, timedelta

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
    assert format_stamp(NOW) == "(Thursday, 2026-03-05 19:09:41)"
    assert parse_stamp(format_stamp(NOW)) == NOW


@pytest.mark.parametrize(
    "stamp", ["", "now", "(Thursday, 2026-13-05 19:09:41)", "2026-03-05 19:09:41", None, 5], ids=str
)
def test_what_is_no_stamp(stamp):
    """Is nothing."""
    assert parse_stamp(stamp) is None


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(days=2, hours=1, seconds=59), "2 days, 1 hour"),
        (timedelta(days=1, minutes=2), "1 day, 2 minutes"),
        (timedelta(hours=3), "3 hours"),
        (timedelta(minutes=1), "1 minute"),
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(seconds=-500), "less than a minute"),
    ],
    ids=str,
)
def test_ages(age, text):
    """Zero units are left out; the future counts as now."""
    assert age_text(age) == text

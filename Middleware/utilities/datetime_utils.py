"""Dates as English text whatever the locale, message stamps and ages. Pure: the caller brings the clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_STAMP = re.compile(r"\(\w+, (\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})\)", re.ASCII)


def month_name(moment: datetime) -> str:
    return MONTHS[moment.month - 1]


def weekday_name(moment: datetime) -> str:
    return WEEKDAYS[moment.weekday()]


def pretty_date(moment: datetime) -> str:
    """`March 05, 2026`."""
    return f"{month_name(moment)} {moment.day:02d}, {moment.year:04d}"


def twelve_hour_time(moment: datetime) -> str:
    """`7:09 PM`."""
    return f"{moment.hour % 12 or 12}:{moment.minute:02d} {'AM' if moment.hour < 12 else 'PM'}"


def format_stamp(moment: datetime) -> str:
    """`(Thursday, 2026-03-05 19:09:41)`. Source: workflows.md 9.1."""
    return f"({weekday_name(moment)}, {moment:%Y-%m-%d %H:%M:%S})"


def parse_stamp(stamp: object) -> datetime | None:
    """The moment of a stamp, local time without zone; None when it is none. The weekday is not checked."""
    found = _STAMP.fullmatch(stamp.strip()) if isinstance(stamp, str) else None
    if found is None:
        return None
    try:
        return datetime.fromisoformat(found[1])
    except ValueError:
        return None


def time_passed(since: datetime, now: datetime) -> timedelta:
    """The time between two moments, of which one without a zone is local time; negative if `since` is later.

    Local times are not subtracted as they stand: over a change of the clock that is an hour wrong. Source:
    memory.md 18.2 (22).
    """
    try:
        return now.astimezone(UTC) - since.astimezone(UTC)
    except (OverflowError, OSError, ValueError):  # a year that the system has no zone for
        return now.replace(tzinfo=None) - since.replace(tzinfo=None)


def age_text(moment: datetime, now: datetime) -> str:
    """`2 days, 1 hour`; below a minute, or in the future, `less than a minute`. Source: workflows.md 9.1."""
    minutes, _ = divmod(max(0, int(time_passed(moment, now).total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = (("day", days), ("hour", hours), ("minute", minutes))
    said = [f"{count} {unit}{'s' if count > 1 else ''}" for unit, count in units if count]
    return ", ".join(said) or "less than a minute"

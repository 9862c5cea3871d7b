"""A warning that is true of every message of a client is logged once an hour."""

from __future__ import annotations

import pytest

from Middleware.workflows.dispatch import prompt_assembly as hourly_warnings
from Middleware.workflows.dispatch.prompt_assembly import HourlyWarnings


class TestHourlyWarnings:
    @pytest.mark.parametrize(
        ("times", "due"),
        [
            pytest.param([0, 0, 3599], [True, False, False], id="once-within-the-hour"),
            pytest.param([0, 3600, 7199, 7200], [True, True, False, True], id="again-after-it"),
            pytest.param([-5, 10], [True, False], id="the-clock-may-begin-anywhere"),
        ],
    )
    def test_when(self, times, due):
        """The hour begins with the warning that was logged, not with the last one that was not."""
        clock = iter(times)
        warnings = HourlyWarnings(lambda: next(clock))
        assert [warnings.is_due("anna", "tools") for _ in times] == due

    def test_each_user_and_subject_has_its_own_hour(self):
        """One user's warning hides no other's."""
        warnings = HourlyWarnings(lambda: 0.0)
        asked = [("anna", "tools"), ("bob", "tools"), ("anna", "other"), ("anna", "tools")]
        assert [warnings.is_due(*pair) for pair in asked] == [True, True, True, False]

    def test_what_is_remembered_is_bounded(self, monkeypatch):
        """The oldest gives way."""
        monkeypatch.setattr(hourly_warnings, "MOST", 2)
        warnings = HourlyWarnings(lambda: 0.0)
        assert [warnings.is_due(name, "tools") for name in "abca"] == [True, True, True, True]
        assert warnings.is_due("c", "tools") is False

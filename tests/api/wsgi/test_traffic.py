"""What goes through the front door, in numbers (more-fronts.md 4.2)."""

from __future__ import annotations

from Middleware.api.wsgi.processes import Traffic


def test_counts():
    """What runs, what has ended."""
    traffic = Traffic(needs_key=lambda: True, waiting=lambda: 3)
    traffic.begin()
    traffic.begin()
    traffic.end()
    assert (traffic.running, traffic.finished, traffic.waiting(), traffic.needs_key()) == (1, 1, 3, True)


def test_it_is_not_idle_while_something_runs():
    """However long that takes."""
    traffic = Traffic()
    traffic._ended -= 60
    assert traffic.idle_s >= 60 and traffic.uptime_s >= 0
    traffic.begin()
    assert traffic.idle_s == 0

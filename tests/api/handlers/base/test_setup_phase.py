"""A few requests at a time in their set-up phase; nobody is held up for long."""

from __future__ import annotations

from Middleware.api.handlers.base.base_api_handler import SetupPhase


def test_places_are_given_back_once():
    """Leaving again does nothing."""
    phase = SetupPhase(places=1, patience_s=0.005)
    leave = phase.enter()
    leave()
    leave()
    first, second = phase.enter(), phase.enter()
    second()
    first()


def test_who_waited_long_enough_goes_on_without_a_place():
    """And has none to give back."""
    phase = SetupPhase(places=1, patience_s=0.005)
    first, second = phase.enter(), phase.enter()
    second()
    third = phase.enter()
    third()
    first()
    phase.enter()()

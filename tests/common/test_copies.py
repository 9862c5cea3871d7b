"""Copies of frozen values with some fields changed."""

from dataclasses import dataclass, field, replace

import pytest

from Middleware.common.copies import copy_with


@dataclass(frozen=True, slots=True)
class Trip:
    start: str
    stops: list[str] = field(default_factory=list)
    miles: int = 0


@dataclass(frozen=True, slots=True)
class LongTrip(Trip):
    nights: int = field(default=1, kw_only=True)


@pytest.mark.parametrize("value", [Trip("Ulm", ["Bonn"], 3), LongTrip("Ulm", ["Bonn"], 3, nights=2)])
@pytest.mark.parametrize("changes", [{}, {"miles": 7}, {"start": "Kiel", "stops": []}], ids=str)
def test_a_copy_is_what_the_standard_library_makes(value, changes):
    """Its class, the fields that are not named, and the very objects in them."""
    copy = copy_with(value, **changes)
    assert copy == replace(value, **changes) and type(copy) is type(value)
    assert "stops" in changes or copy.stops is value.stops


def test_a_field_that_the_class_does_not_have_is_refused():
    """A name that was changed elsewhere is an error here, not a change that gets lost."""
    with pytest.raises(TypeError, match="mile"):
        copy_with(Trip("Ulm"), mile=1)


def test_the_original_stays_as_it_is():
    """Values are shared by all who hold them."""
    trip = Trip("Ulm")
    copy_with(trip, miles=9)
    assert trip.miles == 0

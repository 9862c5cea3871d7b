"""What users and model names used today, as one process has counted it."""

from __future__ import annotations

import pytest

from Middleware.api.console import today as today_module
from Middleware.api.console.hour import Hour
from Middleware.api.console.today import DayLine
from tests.api.console.traced import call_of, node_of, run_of
from tests.clock import Clock

NOON = 1_790_000_000.0
DAY = 24 * 3600


@pytest.fixture
def clock():
    return Clock(NOON)


@pytest.fixture
def hour(clock):
    return Hour(clock, lambda: None)


@pytest.fixture
def end(hour, clock):
    """`end(...)`: a run that arrived now has ended; its call used 100 and 20 tokens."""

    def end(user="mira", model="mira:novel", state="done", wall=None):
        usage = {"prompt_tokens": 100, "completion_tokens": 20}
        node = node_of(1, "Answer", call_of(sent=1.0, ended=2.0, usage=usage))
        run = run_of(
            node, user=user, model=model, state=state, wall=clock() if wall is None else wall, ended=3.0
        )
        hour.note_change(run, "ended", None)

    return end


def test_each_user_and_each_model_name_has_a_line(hour, end):
    end()
    end(model="mira:quick")
    end("jo", "jo", state="failed")
    assert hour.today.by_user() == [DayLine("mira", 2, 0, 200, 40), DayLine("jo", 1, 1, 100, 20)]
    assert hour.today.by_name() == [
        DayLine("jo", 1, 1, 100, 20),
        DayLine("mira:novel", 1, 0, 100, 20),
        DayLine("mira:quick", 1, 0, 100, 20),
    ]


def test_a_request_that_named_no_model_has_the_name_of_its_user(hour, end):
    end(model="")
    assert [line.name for line in hour.today.by_name()] == ["mira"]


def test_the_model_names_of_one_user_alone(hour, end):
    end()
    end("jo", "mira:novel")
    end("jo", "jo", state="failed")
    assert hour.today.by_name("jo") == [DayLine("jo", 1, 1, 100, 20), DayLine("mira:novel", 1, 0, 100, 20)]
    assert hour.today.by_name("rex") == []


def test_a_refused_one_ran_under_no_name(hour, end):
    """What a client may send as a name is not kept."""
    end("", "no-such-model", state="refused")
    assert [line.name for line in hour.today.by_name()] == [""]


def test_a_new_day_begins_with_nothing(hour, end, clock):
    end()
    clock.now += DAY
    assert hour.today.by_user() == []
    end()
    assert hour.today.by_user() == [DayLine("mira", 1, 0, 100, 20)]


def test_a_run_belongs_to_the_day_on_which_it_arrived(hour, end, clock):
    end(wall=clock() - DAY)
    assert hour.today.by_user() == []


def test_more_names_than_are_told_apart_are_counted_together(hour, end, monkeypatch):
    monkeypatch.setattr(today_module, "MOST_NAMES", 2)
    for name in ("a", "b", "c", "d"):
        end(model=name)
    assert {line.name: line.requests for line in hour.today.by_name()} == {"a": 1, "b": 1, "": 2}
    assert [line.requests for line in hour.today.by_user()] == [4]


def test_that_it_counts_from_is_the_start(hour):
    assert hour.today.started == NOON

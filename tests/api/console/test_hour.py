"""The last hour in numbers, and the last calls of each endpoint."""

from __future__ import annotations

import subprocess
import sys

import pytest

from Middleware.api.console.hour import (
    MOST_CALLS,
    MOST_ENDPOINTS,
    MOST_VALUES,
    SLOTS,
    Hour,
    medians_of,
    rate_of,
    resident_mb,
)
from Middleware.services.run_trace import Observers
from tests.api.console.traced import call_of, node_of, run_of
from tests.clock import Clock

NOW = 1_760_000_003.0


@pytest.fixture
def clock():
    return Clock(NOW)


@pytest.fixture
def hour(clock):
    return Hour(clock, lambda: 88.5)


@pytest.fixture
def begin(hour):
    """`begin()`: a request whose run `hour` observes."""
    observers = Observers()
    observers.observe(hour)
    return lambda: observers.begin("r", "/api/chat")


def last(hour, name, count=1):
    return hour.series()["series"][name][-count:]


def note(hour, *calls, user="mira", **facts):
    hour.note_change(run_of(user=user, **facts), "node_ended", node_of(1, "", *calls))


class TestSlots:
    def test_their_shape(self, hour):
        """360 of ten seconds; the end is a multiple of that; what was before the server is no value."""
        told = hour.series()
        assert (told["step_s"], told["end"]) == (10, 1_760_000_010)
        assert list(told["series"]) == [
            "requests", "failed", "cancelled", "tokens", "tokens_after", "first_p50", "first_p95", "running", "waiting", "memory_mb"
        ]  # fmt: skip
        assert {len(values) for values in told["series"].values()} == {SLOTS}
        assert told["series"]["requests"] == [None] * (SLOTS - 1) + [0]

    def test_requests_and_their_ends(self, hour, begin):
        for state in ("done", "failed", "cancelled", "refused"):
            begin().end(state)
        assert [last(hour, name) for name in ("requests", "failed", "cancelled")] == [[4], [1], [1]]

    def test_tokens_of_all_nodes(self, hour, begin):
        run = begin()
        run.nodes = [node_of(n, "", call_of(usage={"completion_tokens": 20 + n})) for n in (1, 2)]
        run.end("done")
        assert last(hour, "tokens") == [43]

    def test_tokens_of_every_call_and_those_after_the_answer(self, hour, begin):
        """The client's sum ends with its answer, that of the page does not (workbench.md 16.2)."""
        run = begin()
        run.all_usage = {"prompt_tokens": 5, "completion_tokens": 20, "calls": 1}
        run.whole_usage = {"prompt_tokens": 9, "completion_tokens": 70, "calls": 2}
        run.end("done")
        assert (last(hour, "tokens"), last(hour, "tokens_after")) == ([70], [50])

    def test_tokens_of_a_long_answer_stand_where_they_came(self, hour, clock):
        """Not as a peak at its end (workbench.md 16.10)."""
        hour.note_change(run_of(), "arrived", None)
        clock.now += 30
        call = call_of(first=2.0, ended=30.0, usage={"completion_tokens": 280})
        run = run_of(node_of(1, "", call), wall=NOW, ended=30.0)
        hour.note_change(run, "ended", None)
        assert last(hour, "tokens", 4) == [50, 100, 100, 30]

    @pytest.mark.parametrize(
        "facts",
        [
            {"first": None, "ended": 30.0},
            {"first": 2.0, "ended": None},
            {"first": 2.0, "ended": 2.0},
            {"first": 2.0, "ended": 30.0, "kind": "embedding"},
            {"first": -7200.0, "ended": -7100.0},
        ],
        ids=["nothing-came", "not-ended", "at-once", "no-model", "before-the-hour"],
    )
    def test_tokens_without_such_a_time_stand_at_the_end(self, hour, clock, facts):
        """All of them, whatever is known of when they came."""
        hour.note_change(run_of(), "arrived", None)
        clock.now += 30
        call = call_of(**facts, usage={"completion_tokens": 280})
        run = run_of(node_of(1, "", call), wall=NOW, ended=30.0, all_usage={"completion_tokens": 290})
        hour.note_change(run, "ended", None)
        assert last(hour, "tokens", 4) == [0, 0, 0, 290]

    def test_first_texts(self, hour):
        """The middle of them, and what 95 of 100 do not exceed."""
        for i in range(1, 21):
            hour.note_change(run_of(first_text=i / 10), "first_text", None)
        assert (last(hour, "first_p50"), last(hour, "first_p95")) == ([1.0], [1.9])

    def test_no_more_than_some_of_them(self, hour):
        for _ in range(MOST_VALUES):
            hour.note_change(run_of(first_text=1.0), "first_text", None)
        for _ in range(10 * MOST_VALUES):
            hour.note_change(run_of(first_text=9.0), "first_text", None)
        assert last(hour, "first_p95") == [1.0]

    def test_the_most_at_once(self, hour, begin):
        """Of those that run and those that wait; afterwards none does."""
        made = [begin() for _ in range(3)]
        for run in made[:2]:
            run.begin()
        for run in made:
            run.end("done")
        assert (last(hour, "running"), last(hour, "waiting")) == ([2], [3])
        assert (hour._running, hour._waiting) == (0, 0)

    def test_slots_without_news(self, hour, begin, clock):
        """Who ran went on running; the memory was not looked at."""
        begin().begin()
        clock.now += 30
        assert last(hour, "running", 4) == [1, 1, 1, 1]
        assert last(hour, "requests", 4) == [1, 0, 0, 0]
        assert last(hour, "memory_mb", 4) == [88.5, None, None, 88.5]

    @pytest.mark.parametrize("passed", [3600, 10**9])
    def test_a_long_time_without_news(self, hour, begin, clock, passed):
        """All that was is over."""
        begin().end("done")
        clock.now += passed
        assert set(hour.series()["series"]["requests"]) == {0}

    def test_a_clock_that_is_set_back(self, hour, begin, clock):
        """Counted where we are."""
        begin()
        clock.now -= 5000
        begin()
        assert last(hour, "requests") == [2]


class TestHeldShare:
    """How much of its prompts an endpoint's server had, over the last hour."""

    @staticmethod
    def prompt(tokens, held, **facts):
        return call_of(sent=0.1, usage={"prompt_tokens": tokens, "cached_tokens": held}, **facts)

    def test_of_all_prompts_together(self, hour, clock):
        note(hour, self.prompt(9000, 9000))
        clock.now += 600
        note(hour, self.prompt(1000, 0))
        assert hour.held_share(("mira", "Big")) == 0.9

    def test_what_is_older_than_an_hour_is_forgotten(self, hour, clock):
        note(hour, self.prompt(9000, 9000))
        clock.now += 3605
        note(hour, self.prompt(1000, 100))
        assert hour.held_share(("mira", "Big")) == 0.1

    def test_by_characters_where_the_backend_says_nothing(self, hour):
        """As an estimate."""
        note(hour, call_of(sent=0.1, compared=True, prompt_chars=4000, shared_chars=1000))
        assert hour.held_share(("mira", "Big")) == 0.25

    @pytest.mark.parametrize(
        "call",
        [
            call_of(sent=0.1, prompt_chars=4000),
            call_of(sent=0.1, error="gone", compared=True, prompt_chars=4000, shared_chars=1000),
            call_of(sent=0.1, kind="embedding"),
        ],
        ids=["the first", "failed", "no model"],
    )
    def test_where_nothing_is_known(self, hour, call):
        note(hour, call)
        assert hour.held_share(("mira", "Big")) is None

    def test_of_a_private_run(self, hour):
        """Numbers, no text."""
        note(hour, self.prompt(100, 50), private=True)
        assert hour.held_share(("mira", "Big")) == 0.5

    def test_of_each_endpoint(self, hour):
        note(hour, self.prompt(100, 50), self.prompt(100, 0, endpoint="Small"))
        assert [hour.held_share(("mira", name)) for name in ("Big", "Small", "Other")] == [0.5, 0.0, None]


class TestCalls:
    def test_a_good_one(self, hour):
        call = call_of(
            begun=1.0, sent=1.5, first=2.0, ended=4.0, outcome="stop", usage={"completion_tokens": 60}
        )
        note(hour, call)
        assert hour.calls("mira", "Big") == [(1_760_000_001.0, 0.5, 30.0, True, "", "", "")]

    @pytest.mark.parametrize(
        ("facts", "told"),
        [
            ({"outcome": "timeout"}, (False, "timeout", "")),
            ({"outcome": "error", "error": "it said abcdef99"}, (False, "error", "it said ***")),
            ({"outcome": "cancelled", "error": "x"}, (None, "", "")),
            ({"outcome": "dropped"}, (None, "", "")),
            ({"outcome": "3 texts", "kind": "embedding"}, (True, "", "")),
        ],
        ids=["failed", "failed-after-output", "cancelled", "left", "embedding"],
    )
    def test_how_it_ended(self, hour, facts, told):
        """No secret is kept."""
        note(hour, call_of(sent=0.1, secrets=("abcdef99",), **facts))
        call = hour.calls("mira", "Big")[0]
        assert (call.ok, call.kind, call.text) == told

    def test_of_a_private_run(self, hour):
        """An error may quote."""
        note(hour, call_of(sent=0.1, outcome="bad_answer", error="a prompt"), private=True)
        assert hour.calls("mira", "Big")[0][3:] == (False, "bad_answer", "", "")

    @pytest.mark.parametrize("outcome", ["stop", "timeout", "cancelled"])
    def test_at_which_address(self, hour, outcome):
        """Of an endpoint that has several."""
        note(hour, call_of(sent=0.1, outcome=outcome, address="http://b:1"))
        assert hour.calls("mira", "Big")[0].address == "http://b:1"

    def test_others(self, hour):
        """Tools are no endpoints, and what was not sent is no call."""
        note(hour, call_of(kind="http", sent=0.1), call_of())
        assert hour.calls("mira", "Big") == []

    def test_no_more_than_the_last(self, hour):
        for i in range(MOST_CALLS + 5):
            note(hour, call_of(begun=float(i), sent=float(i)))
        calls = hour.calls("mira", "Big")
        assert (len(calls), calls[0].unix, calls[-1].unix) == (100, 1_760_000_005.0, 1_760_000_104.0)

    def test_each_user_has_his_own(self, hour):
        note(hour, call_of(sent=0.1), user="jo")
        assert hour.calls("mira", "Big") == [] and len(hour.calls("jo", "Big")) == 1

    def test_no_more_than_some_endpoints(self, hour):
        for i in range(MOST_ENDPOINTS + 1):
            note(hour, call_of(f"E{i}", sent=0.1))
        assert hour.calls("mira", "E0") == [] and len(hour.calls("mira", "E500")) == 1

    def test_medians(self, hour):
        for first in (1.0, 2.0, 9.0):
            note(hour, call_of(sent=0.5, first=first, ended=first + 1, usage={"completion_tokens": 30}))
        assert medians_of(hour.calls("mira", "Big")) == {"first_s": 1.5, "rate": 30.0}
        assert medians_of(hour.calls("mira", "Small")) == {"first_s": None, "rate": None}

    def test_the_model_that_was_used_before(self, hour):
        """At the same machine, else at the same host and port, whichever endpoint and user asked."""
        at = {"url": "http://desk:1/v1/chat/completions"}
        note(hour, call_of(begun=1.0, sent=1.0, **at))
        note(hour, call_of("Small", begun=2.0, sent=2.0, model="small", **at), user="jo")
        note(hour, call_of("Unnamed", begun=3.0, sent=3.0, model="", machine="desk", **at))
        note(hour, call_of("Vectors", begun=2.5, sent=2.5, kind="embedding", **at))
        start = 1_760_000_000.0
        assert [hour.model_before("desk:1", start + at_s) for at_s in (0.5, 1.5, 2.6)] == [
            "",
            "big-32b",
            "small",
        ]
        assert hour.model_before("machine desk", start + 4.0) == "Unnamed"
        assert hour.model_before("attic:1", start + 4.0) == ""

    @pytest.mark.parametrize(
        "facts",
        [
            {"usage": {"completion_tokens": 4}},
            {"usage": None},
            {"first": None},
            {"ended": None},
            {"ended": 0.1},
        ],
    )
    def test_what_has_no_rate(self, facts):
        known = {"first": 0.0, "ended": 1.0, "usage": {"completion_tokens": 30}, **facts}
        assert rate_of(call_of(**known)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells in this way")
def test_memory_of_this_process():
    """As the kernel tells others."""
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(__import__("os").getpid())], capture_output=True, check=True
    )
    assert resident_mb() == pytest.approx(int(told.stdout) / 1024, rel=0.2)

"""What pages are told of changes: which events, in which order, how often, and when a stream ends."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest

from Middleware.api.console import events as module
from Middleware.api.console.events import (
    LASTS_S,
    RUN_EVERY_S,
    SILENCE_S,
    STATE_EVERY_S,
    EventStream,
    News,
    Stream,
)
from Middleware.api.console.recorder import MOST_ENDED, MOST_READERS, Recorder
from Middleware.api.console.views import Views
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers
from tests.api.console.conftest import a_hub, asking
from tests.clock import Clock
from tests.patience import PATIENCE_S

RIGHTS = ("look",)


class House:
    """A server whose runs are recorded, and its time."""

    def __init__(self):
        self.recorder, self.clock, self.stopping = Recorder(), Clock(1000.0), False
        self.observers = Observers()
        self.observers.observe(self.recorder)
        self.gate = {"level": "request", "limit": 1, "running": 0, "waiting": 0}
        self.hub = a_hub(recorder=self.recorder, stopping=lambda: self.stopping, gate=lambda: dict(self.gate))

    def arrive(self, name="r1"):
        run = self.observers.begin(name, "/api/chat")
        run.enter_line()
        return run

    def answering(self, name="r1"):
        """A run whose answer goes out; its count is that of `counted`."""
        run = self.arrive(name)
        run.begin()
        self.counted = [3]
        run.node(NodeTrace("Workflows/mira/Main.json", 1, "Standard", answers=True)).note_first_text(
            SimpleNamespace(pieces=lambda: self.counted[0], text=str)
        )
        return run

    def news(self, after=0):
        return News(self.hub, RIGHTS, after, self.clock)

    def stream(self, after=0, gone=lambda: False):
        self.recorder.enter()
        self.last_answers = []
        connection = EventStream(gone, lambda: self.last_answers.append(True))
        return Stream(self.hub, RIGHTS, after, connection, self.clock)


@pytest.fixture
def house():
    return House()


@pytest.fixture
def no_pause(monkeypatch):
    """A reader that does not wait for its beat, nor for news."""
    monkeypatch.setattr(module, "BEAT_S", 0.0)
    monkeypatch.setattr(module, "NAP_S", 0.0)


def told(data, *names):
    """`[(event, id, value)]` of a piece of the stream; only the events of these names."""
    made = []
    for block in data.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        made.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return [one for one in made if not names or one[0] in names]


def runs_of(data):
    return [(value["id"], value["state"]) for _, _, value in told(data, "run")]


class TestRuns:
    def test_the_first_bytes(self, house):
        """16.12."""
        run = house.arrive("5b1e")
        run.seq = house.recorder.seq = 812
        assert house.news().since_last().startswith(b'id: 812\nevent: run\ndata: {"id":"5b1e",')

    def test_a_page_that_comes(self, house):
        """It is told what it does not know, in the order of the changes, then the state."""
        first, second = house.arrive("a"), house.arrive("b")
        first.begin()
        assert [(name, at) for name, at, _ in told(house.news().since_last())] == [
            ("run", 2), ("run", 3), ("state", 3)
        ]  # fmt: skip
        assert runs_of(house.news(after=first.seq - 1).since_last())[-1] == ("a", "running")
        second.end("cancelled")
        assert runs_of(house.news(after=3).since_last()) == [("b", "cancelled")]

    def test_nothing_new(self, house):
        news = house.news()
        house.arrive().end("done")
        before = news.since_last()
        house.clock.now += 60
        assert runs_of(before) == [("r1", "done")] and news.since_last() == b""

    def test_at_most_two_a_second(self, house):
        """What came between is told then."""
        news, run = house.news(), house.arrive()
        at_once = news.since_last()
        run.begin()
        too_soon = news.since_last()
        house.clock.now += RUN_EVERY_S
        assert [runs_of(data) for data in (at_once, too_soon, news.since_last())] == [
            [("r1", "waiting")], [], [("r1", "running")]
        ]  # fmt: skip

    def test_a_page_that_comes_back_misses_nothing(self, house):
        """The id of an event is a change up to which all was told, also when one run had to wait."""
        news, slow = house.news(), house.arrive("slow")
        news.since_last()
        slow.begin()
        house.arrive("other")
        known = max(at for _, at, _ in told(news.since_last()))
        assert ("slow", "running") in runs_of(house.news(after=known).since_last())

    def test_a_growing_answer(self, house):
        """Each half second, while its count grows."""
        house.answering()
        news = house.news()
        seen = [[value["tokens"] for *_, value in told(news.since_last(), "run")]]
        for count in (3, 8, 8):
            house.clock.now += RUN_EVERY_S
            house.counted[0] = count
            seen.append([value["tokens"] for *_, value in told(news.since_last(), "run")])
        assert seen == [[3], [], [8], []]

    def test_a_model_that_begins_to_think(self, house):
        """Told at once; what is too short to be shown yet is told again when it is long enough."""
        run = house.arrive()
        run.begin()
        node = NodeTrace("w", 1, "Standard", answers=True, begun=house.clock.now)
        at = run.node(node).call(CallTrace("model", "Big", "openAIChatCompletion", "m"))
        run.arrived = run.begun = house.clock.now
        news = house.news()
        news.since_last()
        seen = []
        house.clock.now += RUN_EVERY_S
        at.call.first = house.clock.now
        at.note_thought()
        for _ in range(3):
            seen.append([value["shape"][-1] for *_, value in told(news.since_last(), "run")])
            house.clock.now += RUN_EVERY_S
        assert seen == [[["first", 0.5]], [["think", 0.5]], []]

    def test_a_place_in_the_line(self, house):
        """It changes when another one goes."""
        first, _ = house.arrive("a"), house.arrive("b")
        news = house.news()
        before = [value["where"] for *_, value in told(news.since_last(), "run")]
        house.clock.now += 1
        first.begin()
        after = {value["id"]: value["where"] for *_, value in told(news.since_last(), "run")}
        assert before == ["1st in line", "2nd in line"] and after == {"a": None, "b": "1st in line"}

    def test_a_page_of_a_server_that_was_there_before(self, house):
        """Its number says nothing here: it is told all."""
        house.arrive()
        assert runs_of(house.news(after=99_999).since_last()) == [("r1", "waiting")]


class TestGone:
    def test_runs_that_left(self, house):
        """Once; a page that is new knew none of them."""
        runs = [house.arrive(f"r{i}") for i in range(MOST_ENDED + 2)]
        news = house.news()
        news.since_last()
        for run in runs[:-1]:
            run.end("done")
        house.clock.now += 1
        first = [value for *_, value in told(news.since_last(), "gone")]
        house.clock.now += 1
        assert first == [["r0"]] and told(news.since_last(), "gone") == []
        assert told(house.news().since_last(), "gone") == []

    def test_while_a_page_was_away(self, house):
        runs = [house.arrive(f"r{i}") for i in range(MOST_ENDED + 1)]
        known = house.recorder.seq
        for run in runs:
            run.end("done")
        assert [value for *_, value in told(house.news(after=known).since_last(), "gone")] == [["r0"]]


class TestState:
    def test_when_it_changes(self, house):
        """At most each two seconds; that runs changed is not news of the server."""
        news = house.news()
        seen = [len(told(news.since_last(), "state"))]
        house.gate["running"] = 1
        seen.append(len(told(news.since_last(), "state")))
        house.clock.now += STATE_EVERY_S
        seen.append(len(told(news.since_last(), "state")))
        house.arrive().begin()
        house.clock.now += STATE_EVERY_S
        [[_, _, state]] = told(news.since_last(), "state")
        house.clock.now += STATE_EVERY_S
        house.recorder.run("r1").tell("node")
        seen.append(len(told(news.since_last(), "state")))
        assert seen == [1, 0, 1, 0] and state["kept"]["runs"] == 1


@pytest.mark.usefixtures("no_pause")
class TestStream:
    def test_silence(self, house):
        """A comment after 15 seconds."""
        pieces = iter(house.stream())
        next(pieces)
        house.clock.now += SILENCE_S
        assert next(pieces) == b": \n\n"

    def test_ten_minutes(self, house):
        """Then it ends, and the page comes back."""
        pieces = iter(house.stream())
        next(pieces)
        house.clock.now += LASTS_S + 1
        assert list(pieces) == [] and not house.last_answers

    def test_the_server_stops(self, house):
        pieces = iter(house.stream())
        next(pieces)
        house.stopping = True
        assert list(pieces) == [] and house.last_answers

    def test_a_reader_that_hung_up(self, house):
        assert list(house.stream(gone=lambda: True)) == []

    def test_it_is_closed_twice(self, house):
        """Its place is freed once."""
        stream, _ = house.stream(), [house.recorder.enter() for _ in range(MOST_READERS - 1)]
        stream.close()
        stream.close()
        assert [house.recorder.enter(), house.recorder.enter()] == [True, False]

    def test_news_wake_it(self, house, monkeypatch):
        """It sleeps on the recorder's condition."""
        monkeypatch.setattr(module, "NAP_S", 60.0)
        stream, seen, reads = house.stream(), [], threading.Event()

        def read():
            for piece in stream:
                seen.extend(runs_of(piece))
                reads.set()
                if seen:
                    return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert reads.wait(PATIENCE_S)
        house.clock.now += RUN_EVERY_S
        house.arrive()
        reader.join(PATIENCE_S)
        assert seen == [("r1", "waiting")]


class TestBeat:
    @pytest.fixture
    def passing(self, house, monkeypatch):
        """Time passes where a reader rests, and `house.at(time)` is asked what happens then."""

        def rest(seconds):
            house.clock.now += seconds
            house.at(house.clock.now - 1000.0)

        monkeypatch.setattr(module.time, "sleep", rest)
        monkeypatch.setattr(
            house.recorder,
            "wait",
            lambda after, timeout_s: rest(timeout_s) if house.recorder.seq <= after else None,
        )
        return house

    def test_a_growing_answer_beside_another_run(self, passing):
        """It is told each half second, whatever happens to others meanwhile."""
        passing.answering()
        other = passing.arrive("other")

        def at(now):
            passing.counted[0] += 1
            other.tell("node")

        passing.at = at
        times = []
        for piece in passing.stream():
            times += [passing.clock.now for *_, run in told(piece, "run") if run["id"] == "r1"]
            if len(times) == 5:
                break
        assert [round(after - before, 3) for before, after in pairwise(times)] == [RUN_EVERY_S] * 4


class TestRoute:
    def ask(self, hub, query=""):
        return Views(hub).answer(asking("GET", "events", query=query), RIGHTS)

    def test_how_it_answers(self, house):
        """Nothing between keeps it."""
        reply = self.ask(house.hub, "after=0")
        assert (reply.status, reply.content_type) == (200, "text/event-stream")
        assert reply.headers["X-Accel-Buffering"] == "no"

    def test_no_more_than_eight(self, house):
        """The ninth is told so; one that leaves makes room, also one that nobody read."""
        replies = [self.ask(house.hub) for _ in range(MOST_READERS + 1)]
        replies[0].stream.close()
        assert [reply.status for reply in replies] == [200] * MOST_READERS + [503]
        assert (
            replies[-1].value == {"error": "the console is open in 8 places already"}
            and self.ask(house.hub).status == 200
        )

    @pytest.mark.parametrize("query", ["after=x", "after=-1", "after=1.5", "since=1", "after=" + "9" * 30])
    def test_bad_queries(self, house, query):
        """And no place is lost by them."""
        replies = [self.ask(house.hub, query).status for _ in range(MOST_READERS + 1)]
        assert set(replies) == {400} and self.ask(house.hub).status == 200

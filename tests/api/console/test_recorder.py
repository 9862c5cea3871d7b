"""The runs that are kept: which, how many, how much of them, and who is told."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Mapping

import pytest

from Middleware.api.console import recorder as module
from Middleware.api.console.recorder import (
    MOST_ENDED,
    MOST_ODD,
    MOST_PINNED,
    MOST_READERS,
    MOST_REFUSED,
    Cut,
    Recorder,
    is_odd,
)
from Middleware.common.request_context import RequestContext
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers, RunTrace
from tests.api.console.traced import call_of, node_of, run_of
from tests.patience import PATIENCE_S

PARALLEL = 1000


class Runs:
    """Requests of a server whose runs are recorded."""

    def __init__(self, memory_mb=16):
        self.recorder = Recorder(memory_mb)
        self.observers = Observers()
        self.observers.observe(self.recorder)
        self._count = 0

    def begin(self, *, private=False, name=""):
        """A run that has its slot and its user."""
        self._count += 1
        run = self.observers.begin(name or f"r{self._count}", "/v1/chat/completions")
        run.begin()
        request = RequestContext(run.id, "mira", "openaichatcompletion", privacy=private)
        run.name(request, front="OpenAI chat", stream=True, asked=b"q" * 10)
        return run

    def whole(self, *, output="out", state="done", private=False):
        """One that has ended, of one node with this output."""
        run = self.begin(private=private)
        node = run.node(NodeTrace("Workflows/mira/Main.json", 1, "Standard")).node
        node.output = output
        run.end(state)
        return run

    @property
    def ids(self):
        return [run.id for run in self.recorder.runs()]


@pytest.fixture
def runs():
    return Runs()


class TestTextsThatAreNotForReaders:
    """Another observer wants texts (traces do), and this console was told to keep facts only."""

    @pytest.fixture
    def run(self):
        """One that runs, with a node in a node."""
        self.runs = Runs(memory_mb=0)
        self.runs.observers.observe(Wanting())
        run = self.runs.begin()
        run.said, run.text_so_far = "my secret plan", lambda: "my secret answer"
        outer = run.node(NodeTrace("Workflows/mira/Main.json", 1, "CustomWorkflow", output="my secret")).node
        inner = run.node(NodeTrace("Workflows/mira/Sub.json", 1, "Standard", parent=outer)).node
        inner.calls.append(
            CallTrace("model", "Big", "openAIChatCompletion", "m", body=b"my secret", raw="my secret")
        )
        return run

    @pytest.mark.parametrize("ended", [False, True])
    def test_they_are_left_out(self, run, ended):
        """Of a run that goes on, and of one that has ended; facts and lengths are there."""
        if ended:
            run.end("done")
        for shown in (self.runs.recorder.run(run.id), *self.runs.recorder.runs()):
            assert "my secret" not in repr(
                [vars_of(one) for one in (shown, *shown.nodes, shown.nodes[1].calls[0])]
            )
            assert (shown.keeps_text, shown.text_so_far) == (False, None)
            assert shown.nodes[1].parent is shown.nodes[0]
            assert shown.nodes[1].calls[0].body_left_out == len("my secret")

    def test_the_other_observer_keeps_them(self, run):
        """A look takes nothing away."""
        self.runs.recorder.run(run.id)
        assert (run.said, run.nodes[0].output, run.keeps_text) == ("my secret plan", "my secret", True)


class Wanting:
    keeps_text = True

    def note_change(self, run, what, node):
        """Nothing."""


def vars_of(thing):
    return {name: getattr(thing, name) for name in thing.__slots__}


class TestWhatIsKept:
    def test_the_newest_come_first(self, runs):
        """Those that wait and run among them."""
        runs.observers.begin("waits", "/api/chat")
        runs.begin(name="runs")
        ended = runs.whole()
        assert runs.ids == [ended.id, "runs", "waits"]

    def test_one_by_its_id(self, runs):
        run = runs.whole()
        assert runs.recorder.run(run.id) is run and runs.recorder.run("r99") is None

    def test_the_last_that_ended(self, runs):
        """200; what runs is never dropped, and the order is that of their ends."""
        old = runs.begin()
        others = [runs.whole() for _ in range(MOST_ENDED)]
        assert len(runs.ids) == MOST_ENDED + 1
        old.end("done")
        assert len(runs.ids) == MOST_ENDED
        assert old.id in runs.ids and others[0].id not in runs.ids

    def test_runs_that_go_on(self, runs):
        """There may be any number."""
        assert len([runs.begin() for _ in range(300)]) == len(runs.ids)

    def test_refused_ones(self, runs):
        """The last 20 of them, and the others stay."""
        good = runs.whole()
        refused = [runs.whole(state="refused") for _ in range(MOST_REFUSED + 5)]
        assert runs.ids == [*[run.id for run in reversed(refused[5:])], good.id]

    def test_refused_ones_that_went_with_the_others(self, runs):
        """They do not count any more."""
        for _ in range(MOST_REFUSED):
            runs.whole(state="refused")
        for _ in range(MOST_ENDED):
            runs.whole()
        refused = [runs.whole(state="refused").id for _ in range(3)]
        assert runs.ids[:3] == refused[::-1] and len(runs.ids) == MOST_ENDED

    def test_one_that_arrived_before(self):
        """A recorder that comes later does not know how it began."""
        observers, recorder = Observers(), Recorder()
        observers.observe(Recorder())
        run = observers.begin("r1", "/api/chat")
        observers.observe(recorder)
        run.begin()
        run.end("done")
        assert recorder.runs() == [] and recorder.kept_sizes()["runs"] == 0


class TestOddOnes:
    """Those that failed or had trouble stay longer (workbench.md 12)."""

    def test_they_stay_beside_the_newest(self, runs):
        """Fifty of them, the oldest goes first; they do not take the place of the newest ones."""
        odd = [runs.whole(state="failed").id for _ in range(MOST_ODD + 2)]
        for _ in range(MOST_ENDED):
            runs.whole()
        assert runs.ids[MOST_ENDED:] == odd[:1:-1] and len(runs.ids) == MOST_ENDED + MOST_ODD
        assert runs.recorder.kept_sizes()["odd"] == MOST_ODD

    @pytest.mark.parametrize(
        ("facts", "odd"),
        [
            ({"state": "failed"}, True),
            ({"state": "refused"}, False),
            ({"state": "cancelled"}, False),
            ({"finish_reason": "length"}, True),
            ({"answered": 1.0, "first_text": None}, True),
            ({"answered": 1.0, "first_text": None, "finish_reason": "tool_calls"}, False),
            ({"answered": 1.0, "first_text": 0.5}, False),
        ],
    )
    def test_which_are(self, facts, odd):
        assert is_odd(run_of(node_of(1, "", call_of(tries=1)), **facts)) is odd

    @pytest.mark.parametrize(
        "node",
        [
            node_of(1, warnings=["w"]),
            node_of(1, state="went_on"),
            node_of(1, state="stopped"),
            node_of(1, "", call_of(tries=2)),
            node_of(1, "", call_of(backup_of="Big")),
            node_of(1, "", call_of(truncated=True)),
        ],
    )
    def test_which_are_for_a_node(self, node):
        """The second of two."""
        assert is_odd(run_of(node_of(1), node))


class TestPinnedOnes:
    """Those that somebody keeps stay until the restart (workbench.md 12)."""

    def test_they_stay_beside_the_newest_and_the_odd_ones(self, runs):
        """And take nobody's place."""
        pinned = [runs.whole(state=state).id for state in ("done", "failed", "refused")]
        assert all(runs.recorder.pin(run_id, True) for run_id in pinned)
        odd = [runs.whole(state="failed").id for _ in range(MOST_ODD)]
        for _ in range(MOST_ENDED):
            runs.whole()
        assert runs.ids[MOST_ENDED:] == [*odd[::-1], *pinned[::-1]]
        sizes = runs.recorder.kept_sizes()
        assert (sizes["odd"], sizes["pinned"]) == (MOST_ODD, 3)

    def test_not_too_many(self, runs):
        """What is pinned already may be pinned again, and one that is let go makes room."""
        made = [runs.whole().id for _ in range(MOST_PINNED + 1)]
        first, *_, last = made
        assert [runs.recorder.pin(run_id, True) for run_id in made] == [True] * MOST_PINNED + [False]
        assert runs.recorder.pin(first, True)
        assert runs.recorder.pin(first, False) and runs.recorder.pin(last, True)

    def test_refused_ones_that_are_pinned_are_not_the_oldest(self, runs):
        made = [runs.whole(state="refused").id for _ in range(MOST_REFUSED)]
        runs.recorder.pin(made[0], True)
        more = [runs.whole(state="refused").id for _ in range(2)]
        assert runs.ids == [*more[::-1], *made[:1:-1], made[0]]

    def test_one_that_is_let_go_leaves_when_the_next_one_ends(self, runs):
        """If it is older than the newest ones, and had no trouble."""
        done, failed = runs.whole().id, runs.whole(state="failed").id
        for run_id in (done, failed):
            runs.recorder.pin(run_id, True)
        for _ in range(MOST_ENDED):
            runs.whole()
        for run_id in (done, failed):
            runs.recorder.pin(run_id, False)
        assert runs.ids[-2:] == [failed, done]
        runs.whole()
        assert runs.ids[-1] == failed and done not in runs.ids

    def test_their_texts_go_last(self):
        runs = Runs(memory_mb=1)
        first = runs.whole(output="first" * 12_000)
        runs.recorder.pin(first.id, True)
        made = [runs.whole(output=f"{i:04d}" * 16_000) for i in range(40)]
        assert first.nodes[0].output == "first" * 12_000 and not made[0].keeps_text
        for run in made:
            runs.recorder.pin(run.id, True)
        assert not runs.whole(output="x" * 64_000).keeps_text and first.keeps_text
        last = runs.begin()
        runs.recorder.pin(last.id, True)
        last.node(NodeTrace("w", 1, "Standard")).node.output = "x" * 64_000
        last.end("done")
        assert last.keeps_text and not first.keeps_text

    def test_it_is_a_change_of_the_run(self, runs):
        run = runs.whole()
        before = runs.recorder.seq
        runs.recorder.pin(run.id, True)
        runs.recorder.pin(run.id, True)
        assert run.seq == runs.recorder.seq == before + 1


class TestMemory:
    def test_how_much_is_kept(self, runs):
        run = runs.whole(output="x" * 1000)
        assert (run.bytes_kept, runs.recorder.kept_sizes()) == (
            1010,
            {"runs": 1, "bytes": 1010, "limit": 16777216, "odd": 0, "pinned": 0},
        )

    def test_the_oldest_lose_their_texts(self):
        """Their facts stay, and the length of each text."""
        runs = Runs(memory_mb=1)
        made = [runs.whole(output=f"{i:04d}" * 16_000) for i in range(20)]
        kept = runs.recorder.kept_sizes()
        assert len(runs.ids) == 20 and kept["bytes"] <= kept["limit"]
        assert made[0].nodes[0].output == Cut("", "", 64_000) and not made[0].keeps_text
        assert made[-1].nodes[0].output == "0019" * 16_000 and made[-1].keeps_text
        assert kept["bytes"] == sum(run.bytes_kept for run in made) == 16 * 64_010

    def test_a_run_that_is_too_much_by_itself(self):
        """It loses its own."""
        runs = Runs(memory_mb=1)
        run = runs.begin()
        for i in range(30):
            run.node(NodeTrace("w", i + 1, "Standard")).node.output = f"{i:04d}" * 16_000
        run.end("done")
        assert runs.recorder.kept_sizes() == {"runs": 1, "bytes": 0, "limit": 1 << 20, "odd": 0, "pinned": 0}

    def test_what_leaves_counts_no_more(self, runs):
        for _ in range(MOST_ENDED + 10):
            runs.whole()
        assert runs.recorder.kept_sizes()["bytes"] == MOST_ENDED * 13

    def test_facts_only(self):
        """With a memory of 0 no text is even asked for."""
        runs = Runs(memory_mb=0)
        run = runs.whole()
        assert (run.keeps_text, run.asked, runs.recorder.kept_sizes()["bytes"]) == (False, b"", 0)
        assert run.nodes[0].output == Cut("", "", 3) and run.user == "mira"


class TestPrivateRuns:
    def test_nothing_that_was_written_is_referred_to(self, runs):
        """Whatever somebody put into the trace. Facts are."""
        marker = "private words " * 3
        run = runs.begin(private=True)
        at = run.node(NodeTrace("Workflows/mira/Main.json", 1, "Standard", "Answer"))
        call = at.call(CallTrace("model", "Big", "x", "m"))
        call.note_body("http://h/v1", marker.encode(), {"X": marker})
        at.node.note_cleaning(marker, marker, [marker], ({}, {}, {}, None))
        at.node.output = marker
        call.end("stop")
        run.end("done")
        assert marker not in everything_in(runs.recorder)
        assert "Answer" in everything_in(runs.recorder)


class TestChanges:
    def test_every_change_has_a_number(self, runs):
        """A run's own is that of its last one."""
        first = runs.observers.begin("a", "/api/chat")
        second = runs.observers.begin("b", "/api/chat")
        before = (first.seq, second.seq, runs.recorder.seq)
        first.begin()
        assert before == (1, 2, 2) and (first.seq, runs.recorder.seq) == (3, 3)

    def test_runs_that_left(self, runs):
        """Since a change."""
        made = [runs.whole() for _ in range(MOST_ENDED + 1)]
        seen = runs.recorder.seq
        made += [runs.whole() for _ in range(2)]
        assert runs.recorder.removed_since(seen) == [made[1].id, made[2].id]
        assert runs.recorder.removed_since(0) == [run.id for run in made[:3]]

    def test_readers_have_places(self, runs):
        """One that leaves makes room."""
        came = [runs.recorder.enter() for _ in range(MOST_READERS + 1)]
        runs.recorder.leave()
        assert came == [True] * MOST_READERS + [False] and runs.recorder.enter()

    def test_a_reader_that_waits_is_woken(self, runs):
        """By the next change; one that knows less does not wait at all."""
        runs.recorder.enter()
        waits, woken = threading.Event(), threading.Event()

        def read():
            waits.set()
            runs.recorder.wait(0, 60.0)
            woken.set()

        threading.Thread(target=read, daemon=True).start()
        assert waits.wait(PATIENCE_S)
        runs.begin()
        runs.recorder.wait(0, 60.0)
        assert woken.wait(PATIENCE_S)

    def test_no_news(self, runs):
        """It waits as long as it said."""
        runs.recorder.enter()
        runs.recorder.wait(runs.recorder.seq, 0.001)
        assert runs.recorder.seq == 0


def texts(dice):
    """What a run might hold: nothing, little, and too much."""
    return "x" * dice.choice([0, 10, 1000, 70_000, 200_000])


def live_through(runs, seed, checks):
    """A request with random texts, which is looked at while it runs."""
    dice = random.Random(seed)
    run = runs.begin(name=f"p{seed}")
    for number in range(dice.randrange(1, 4)):
        at = run.node(NodeTrace("Workflows/mira/Main.json", number + 1, "Standard"))
        call = at.call(CallTrace("model", "Big", "x", "m"))
        call.note_body("http://h/v1", texts(dice).encode(), {})
        at.node.note_cleaning(texts(dice), texts(dice), [texts(dice)], None)
        at.node.output = texts(dice)
        call.end("stop")
        at.node.end()
        at.tell("node_ended")
        checks.append(runs.recorder.run(run.id) is run)
        kept = runs.recorder.kept_sizes()
        checks.append(kept["bytes"] <= kept["limit"])
    run.end(dice.choice(["done", "failed", "cancelled", "refused"]))


@pytest.mark.parametrize("switch_s", [0.005, 1e-6], ids=["usual", "pauses-at-every-step"])
def test_many_at_once(switch_s):
    """1,000 parallel runs of random texts: no limit is ever passed, and none is lost while it runs.

    With the interpreter handing over all the time, as on a machine that is busy.
    """
    runs, checks = Runs(memory_mb=2), []
    start = threading.Barrier(50)

    def work(first):
        start.wait(PATIENCE_S)
        for seed in range(first, PARALLEL, 50):
            live_through(runs, seed, checks)

    before = sys.getswitchinterval()
    sys.setswitchinterval(switch_s)
    try:
        threads = [threading.Thread(target=work, args=(first,)) for first in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        sys.setswitchinterval(before)
    assert checks and all(checks)
    kept = runs.recorder.runs()
    assert len(kept) <= MOST_ENDED + MOST_ODD and sum(run.state == "refused" for run in kept) <= MOST_REFUSED
    assert sum(run.bytes_kept for run in kept) == runs.recorder.kept_sizes()["bytes"] <= 2 << 20
    assert runs.recorder.seq == len(set(runs.recorder.removed_since(0))) + told_by(PARALLEL)


def told_by(count):
    """How many changes `count` such runs tell of."""
    return sum(4 + 4 * random.Random(seed).randrange(1, 4) for seed in range(count))


def everything_in(start):
    """All texts that an object refers to, however deep."""
    seen, found, left = {id(start)}, [], [start]
    while left:
        one = left.pop()
        if isinstance(one, str | bytes):
            found.append(one.decode("utf-8", "replace") if isinstance(one, bytes) else one)
            continue
        if isinstance(one, type) or type(one).__name__ in (
            "module",
            "function",
            "builtin_function_or_method",
        ):
            continue
        more = [*one.keys(), *one.values()] if isinstance(one, Mapping) else gc.get_referents(one)
        left += [other for other in more if id(other) not in seen]
        seen |= {id(other) for other in more}
    return "\n".join(found)


def test_the_walk_finds_what_is_there():
    """The one that other tests trust."""
    run = RunTrace("r1", "/x", Observers(), user="mira")
    run.nodes.append(NodeTrace("w", 1, "Standard", output={"a": ["deep"]}))
    assert {"mira", "deep"} <= set(everything_in({"runs": [run]}).split("\n"))


def test_limits_are_those_of_the_specification():
    limits = (module.MOST_ENDED, module.MOST_ODD, module.MOST_REFUSED, module.MOST_READERS)
    assert limits == (200, 50, 20, 8)

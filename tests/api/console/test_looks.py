"""One look at the runs of a server: what shapes need to know of the rest of it is found for them."""

from __future__ import annotations

import json

import pytest

from Middleware.api.console import left_places
from Middleware.api.console.hour import Hour
from Middleware.api.console.recorder import MOST_ENDED, MOST_ODD, Recorder
from Middleware.api.console.shapes import Look
from Middleware.api.console.stood_out import RowWords
from Middleware.common.request_context import RequestContext
from Middleware.llmapis.call.sent_prompt import digest_payload
from Middleware.services.held_prompts import HeldPrompts
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers
from tests.api.console.conftest import a_hub


class Server:
    """Runs that are recorded. `slots`: of its gate."""

    slots = 1

    def __init__(self):
        self.recorder = Recorder()
        self.observers = Observers()
        self.observers.observe(self.recorder)

    def arrive(self, name):
        run = self.observers.begin(name, "/api/chat")
        run.enter_line()
        return run

    def failed(self, name, error="no answer today"):
        run = self.arrive(name)
        run.begin()
        run.error = error
        run.end("failed")
        return run

    def look(self, **facts):
        gate = {"level": "request", "limit": self.slots, "running": 0, "waiting": 0}
        return Look(a_hub(recorder=self.recorder, gate=lambda: gate, **facts))


@pytest.fixture
def server():
    return Server()


class TestRuns:
    def test_the_newest_comes_first(self, server):
        for name in "abc":
            server.arrive(name)
        assert [run.id for run in server.look().runs] == ["c", "b", "a"]

    def test_it_knows_up_to_which_change_it_has_looked(self, server):
        """What changes while it looks is looked at again, never missed."""
        run = server.arrive("a")
        look = server.look()
        run.begin()
        assert look.seq < run.seq == server.recorder.seq

    def test_all_is_told_of_one_moment(self, server):
        """That of its clock."""
        runs = [server.arrive(name) for name in "ab"]
        look = Look(a_hub(recorder=server.recorder), lambda: runs[0].arrived + 7)
        runs[1].arrived = runs[0].arrived + 3
        assert [look.summary(run)["took_s"] for run in runs] == [7.0, 4.0]


class TestPlace:
    def test_in_the_line(self, server):
        """In the order in which they came into it, of those alone that still wait; the others have none."""
        first, second, third, fourth = (server.arrive(name) for name in "abcd")
        first.begin()
        third.end("cancelled")
        look = server.look()
        lines = [look.line(run) for run in (first, second, third, fourth)]
        assert [line and line.words for line in lines] == [None, "1st in line", None, "2nd in line"]
        assert look.summary(fourth)["ahead"] == {"place": 2, "holders": []}
        assert (look.summary(fourth)["short"], look.summary(first)["ahead"]) == ("2nd", None)
        assert look.summary(fourth)["where"] == look.run_json(fourth)["where"] == "2nd in line"

    def test_of_a_run_that_arrived_later(self, server):
        """This look has not seen it."""
        look = server.look()
        assert look.line(server.arrive("late")) is None

    def test_behind_those_that_hold_the_slots(self, server):
        """By the model names that were asked, the oldest first; one that is not named yet is none."""
        holders = [server.arrive(name) for name in ("a", "b", "nameless")]
        for run, folder in zip(holders, ("big", None), strict=False):
            request = RequestContext(run.id, "mira", "ollamaapichat", workflow_folder=folder)
            run.name(request, front="Ollama chat", stream=False, asked=b"{}")
        for run in holders:
            run.begin()
        assert server.look().line(server.arrive("late")) is None
        waiting = server.arrive("waits")
        told = server.look().summary(waiting)
        assert told["where"] == "2nd in line, while mira:big and 1 more run"
        assert (told["short"], told["ahead"]) == (
            "2nd, while mira:big +1 run",
            {"place": 2, "holders": ["mira:big", "mira"]},
        )


class TestWhatStoodOut:
    def test_a_summary_counts_it(self, server):
        """The whole run tells it."""
        run, look = server.failed("a"), server.look()
        told = look.run_json(run)["stood_out"]
        assert [(one["rule"], one["text"]) for one in told] == [("failed", "no answer today")]
        assert look.summary(run)["stood_out"] == 1

    def test_more_than_are_told(self, server):
        """The count is of all, the list ends with how many more."""
        run = server.arrive("a")
        run.begin()
        node = run.node(NodeTrace("w", 1, "Standard")).node
        for _ in range(12):
            node.calls.append(CallTrace("model", "Big", "x", "m", tries=2))
        run.end("done")
        look = server.look()
        assert look.summary(run)["stood_out"] == 12
        assert look.run_json(run)["stood_out"][-1]["text"] == "and 4 more"

    def test_the_server_s_slots_are_known(self, server):
        server.slots = 3
        run = server.arrive("a")
        run.begin()
        run.begun = run.arrived + 4.2
        run.end("done")
        [told] = server.look().run_json(run)["stood_out"]
        assert told["text"] == "Waited 4.2 s for a free slot: 3 requests at a time (--concurrency)."

    def test_earlier_calls_of_the_endpoint_are_known(self, server):
        """Those that the hour has noted."""
        hour = Hour(memory_mb=lambda: None)
        server.observers.observe(hour)
        for name, seconds in [*((f"r{i}", 1.0) for i in range(20)), ("slow", 100.0)]:
            run = server.arrive(name)
            run.begin()
            run.name(RequestContext(name, "mira", "ollamaapichat"), front="x", stream=True, asked=b"")
            node = run.node(NodeTrace("w", 1, "Standard", answers=True)).node
            call = CallTrace("model", "Big", "x", "m", outcome="stop", usage={"completion_tokens": 100})
            call.sent = call.first = call.begun
            call.ended = call.first + seconds
            node.calls.append(call)
            run.tell("node_ended", node)
            run.wall += int(name.removeprefix("r")) if name != "slow" else 60
            run.end("done")
        [told] = server.look(hour=hour).run_json(run)["stood_out"]
        assert told["text"] == "Big wrote 1 tokens a second; 100 is usual."

    def test_of_an_ended_run_it_is_found_out_once(self, server):
        """The recorder remembers it, for as long as it keeps the run."""
        run = server.failed("a")
        server.look().summary(run)
        assert server.recorder.row_words == {"a": RowWords(1, "bad", "failed")}
        server.recorder.note_words("a", RowWords(5, None, ""))
        assert server.look().summary(run)["stood_out"] == 5
        for i in range(MOST_ENDED + MOST_ODD):
            server.failed(f"r{i}")
        server.look().summary(run)
        assert server.recorder.row_words == {}

    def test_of_a_running_one_each_time(self, server):
        """More may stand out by then."""
        run = server.arrive("a")
        run.begin()
        node = run.node(NodeTrace("w", 1, "Standard")).node
        before = server.look().summary(run)["stood_out"]
        node.warnings.append("a field that nobody knows")
        assert (before, server.look().summary(run)["stood_out"], server.recorder.row_words) == (0, 1, {})


class TestReadAgain:
    @pytest.fixture
    def run(self, server):
        """The second of two that said another time in front."""
        runs, held = [], HeldPrompts()
        for clock in ("12:04", "12:05"):
            run = server.arrive(clock)
            run.begin()
            run.name(RequestContext(clock, "mira", "ollamaapichat"), front="x", stream=True, asked=b"")
            text = f"It is now {clock}. " + "The sea is grey. " * 600
            sent = {
                "messages": [{"role": "system", "content": text}, *([{"role": "user", "content": "Hi"}] * 3)]
            }
            prompt = digest_payload(sent)
            call = CallTrace("model", "Big", "x", "m", sent=len(runs) + 1.0, body=json.dumps(sent).encode())
            call.note_prompt(prompt.chars, held.record("h", "m", prompt))
            node = NodeTrace(
                "w", 1, "Standard", fields={"systemPrompt": "It is now {clock}. {card}"}, calls=[call]
            )
            run.node(node)
            run.keeps_text = True
            run.end("done")
            runs.append(run)
        return runs[1]

    def test_the_placeholder_is_named(self, server, run):
        """From the texts that both runs left."""
        [told] = server.look().run_json(run)["stood_out"]
        assert told["text"].endswith("its prompt left the one before in the system prompt, at {clock}.")

    def test_the_list_does_not_look_into_texts(self, server, run, monkeypatch):
        """It only counts."""
        monkeypatch.setattr(left_places, "kept_parts", lambda call: pytest.fail("a text was read"))
        assert server.look().summary(run)["stood_out"] == 1

    def test_how_much_the_servers_held(self, server, run):
        """Of all its prompts."""
        assert server.look().summary(run)["held"] == 0.0


class TestSecrets:
    @pytest.mark.parametrize("shown", ["summary", "run_json"])
    def test_none_is_told(self, server, shown):
        """Neither the server's own, nor the client's, nor that of an endpoint that was called."""
        run = server.arrive("a")
        run.begin()
        run.secrets = ("client-key-1",)
        node = run.node(NodeTrace("w", 1, "Standard")).node
        node.calls.append(CallTrace("model", "Big", "x", "m", secrets=("endpoint-key-1",)))
        run.error = "no client-key-1, no endpoint-key-1, no server-key-1"
        run.end("failed")
        look = server.look(secrets=("server-key-1",))
        assert getattr(look, shown)(run)["error"] == "no ***, no ***, no ***"
        assert look.secrets(run).out_of("server-key-1") == "***"

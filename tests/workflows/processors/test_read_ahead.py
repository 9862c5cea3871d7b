"""Which nodes have prompts read ahead, and what becomes of the run beside it."""

from __future__ import annotations

import logging
import threading

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.readings_ahead import Reading
from Middleware.services.run_trace import Observers, RunTrace
from Middleware.workflows.processors import read_ahead
from Middleware.workflows.processors.read_ahead import obstacle_to_reading
from Middleware.workflows.variables.workflow_variable_manager import LiveValues
from tests.patience import PATIENCE_S, wait_until

OBSTACLES = [
    ("a-steady-system-prompt", {"systemPrompt": "{chat_system_prompt}\n{rules}"}, ""),
    ("the-steady-part-of-it", {"systemPrompt": "{chat_system_prompt_steady}"}, ""),
    ("no-system-prompt", {}, ""),
    ("late-texts-may-hold-anything", {"latePrompt": "{agent1Output} {current_time_24h}"}, ""),
    ("a-day-is-no-time", {"systemPrompt": "Today is {todays_date_pretty}."}, ""),
    ("braces-that-are-text", {"systemPrompt": 'Answer as {"a": 1}'}, ""),
    ("a-prompt", {"prompt": "Say"}, 'the node has a "prompt", so it sends no conversation'),
    ("an-output", {"systemPrompt": "Facts: {agent1Output}"}, '"systemPrompt" contains {agent1Output}, which is not known before'),
    ("a-thought", {"systemPrompt": "{agent2Thinking}"}, '"systemPrompt" contains {agent2Thinking}, which is not known before'),
    ("an-output-behind-a-variable", {"systemPrompt": "{moving}"}, '"systemPrompt" contains {agent1Output}, which is not known before'),
    ("the-time", {"systemPrompt": "It is {current_time_24h}."}, '"systemPrompt" contains {current_time_24h}, which is not known before'),
    ("the-newest-message", {"systemPrompt": "{chat_user_prompt_last_one}"}, '"systemPrompt" contains {chat_user_prompt_last_one}, which is not known before'),
    ("a-template", {"jinja2": True, "systemPrompt": "{{ agent1Output }}"}, '"systemPrompt" contains {agent1Output}, which is not known before'),
    ("a-template-that-does-not-parse", {"jinja2": True, "systemPrompt": "{% if %}"}, ""),
    ("times-that-move", {"addDiscussionIdTimestampsForLLM": True, "useRelativeTimestamps": True}, "relative times change every message"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "why"), [o[1:] for o in OBSTACLES], ids=[o[0] for o in OBSTACLES])
def test_what_keeps_a_prompt_from_being_read_ahead(fields, why):
    """Only what is known before the next message comes."""
    values = LiveValues({"rules": "Be kind.", "moving": "Facts: {agent1Output}"})
    assert obstacle_to_reading([{"type": "Standard", **fields}], 0, values) == why


@pytest.mark.parametrize(("index", "why"), [(0, ""), (1, "group"), (2, "group"), (3, "")])
def test_not_in_a_group_that_runs_at_the_same_time(index, why):
    """One node by itself is none."""
    names = ["alone", "two", "two", ""]
    nodes = [{"parallelGroup": name} for name in names]
    assert why in obstacle_to_reading(nodes, index, LiveValues({}))
    assert bool(why) == bool(obstacle_to_reading(nodes, index, LiveValues({})))


# --- in runs ---


def node(**fields):
    return {
        "type": "Standard",
        "endpointName": "chat",
        "systemPrompt": "Be Mara.",
        "latePrompt": "LATE",
        "lastMessagesToSendInsteadOfPrompt": 4,
        "readAhead": "end",
        **fields,
    }


class Reads:
    """What was given to servers to read; `gate`: none is read before it is set."""

    def __init__(self):
        self.calls, self.gate = [], threading.Event()
        self.gate.set()

    def __call__(self, service, call, reading):
        self.calls.append((service.endpoint.name, call, reading))
        try:
            assert self.gate.wait(PATIENCE_S)
        finally:
            reading.end()

    def texts(self):
        return [[m["content"] for m in call.conversation] for _, call, _ in self.calls]


@pytest.fixture
def reads(monkeypatch):
    """The seam to the server."""
    recorder = Reads()
    monkeypatch.setattr(read_ahead, "read_ahead", recorder)
    yield recorder
    recorder.gate.set()
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join(PATIENCE_S)


def all_done():
    wait_until(lambda: not any(thread.name == "read-ahead" for thread in threading.enumerate()))


class TestEnd:
    @pytest.mark.parametrize("stream", [False, True])
    def test_the_next_turns_prompt(self, house, reads, stream):
        """The answer as the user sees it, and nothing late; once."""
        house.model.replies = ["A tale."]
        assert house.ask(node(), stream=stream, say="tell").text == "A tale."
        all_done()
        assert reads.texts() == [["Be Mara.", "tell", "A tale."]]

    def test_behind_nodes_after_the_answer(self, house, reads):
        """When they have ended."""
        order = []
        house.model.replies = ["A tale.", lambda call: order.append(len(reads.calls)) or "noted"]
        house.ask(node(returnToUser=True), node(prompt="Note it.", readAhead="off"))
        all_done()
        assert order == [0] and len(reads.calls) == 1

    def test_also_where_one_of_them_found_a_lock_or_failed(self, house, reads):
        """The user has the answer."""
        lock = {"type": "WorkflowLock", "workflowLockId": "one"}
        house.model.replies = ["A tale."]
        house.ask(node(returnToUser=True), lock, lock)
        house.ask(node(returnToUser=True), {"type": "PythonModule", "module_path": "gone.py"})
        all_done()
        assert len(reads.calls) == 2

    @pytest.mark.parametrize(
        "reply",
        ["", " ", {"content": "", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}], "finish_reason": "tool_calls"}],
        ids=["nothing", "blank", "tool-call"],
    )  # fmt: skip
    def test_not_without_an_answer_in_words(self, house, reads, reply):
        """Nobody knows how the next turn begins."""
        house.model.replies = [reply]
        house.ask(node())
        all_done()
        assert reads.calls == []

    def test_not_of_a_run_that_failed(self, house, reads):
        """There is no answer."""
        with pytest.raises(Exception, match="gone"):
            house.ask(node(), {"type": "PythonModule", "module_path": "gone.py", "returnToUser": True})
        all_done()
        assert reads.calls == []

    @pytest.mark.parametrize("task", ["title", "tags"])
    def test_not_of_what_a_front_end_asks_for_itself(self, house, reads, task):
        """No chat goes on there."""
        house.request["task"] = task
        house.ask(node())
        all_done()
        assert reads.calls == []

    def test_not_of_a_workflow_that_another_one_called(self, house, reads):
        """Whatever its nodes say."""
        house.workflow("Child", node())
        house.ask({"type": "CustomWorkflow", "workflowName": "Child"})
        all_done()
        assert reads.calls == []

    def test_not_for_backends_that_take_one_text(self, house, reads):
        """What they are sent ends in the middle of a turn."""
        house.ask(node(endpointName="flat"))
        all_done()
        assert reads.calls == []

    def test_two_nodes_one_after_the_other(self, house, reads):
        """In one thread: they may be of the same server."""
        house.ask(node(systemPrompt="One"), node(systemPrompt="Two"))
        all_done()
        assert [texts[0] for texts in reads.texts()] == ["One", "Two"]
        assert len({reading.id for *_, reading in reads.calls}) == 2

    def test_the_clients_usage_is_as_without_it(self, house, reads):
        """One call was made for the answer."""
        manager_usage = []
        house.model.replies = ["A tale."]
        for value in ("off", "end"):
            manager = house.manager()
            house.workflow("Main", node(readAhead=value))
            list(manager.open_run("Main", ClientQuestion([{"role": "user", "content": "tell"}])))
            manager_usage.append(manager.request.usage.numbers())
        all_done()
        assert manager_usage[0] == manager_usage[1] and manager_usage[0]["calls"] == 1


class TestStart:
    def test_this_turns_prompt_while_other_nodes_work(self, house, reads):
        """Without the late prompt, which names their outputs; and the log warns of nothing."""
        seen = []
        house.model.replies = [lambda call: seen.append(wait_until(reads.texts)) or "a draft", "A tale."]
        house.ask(
            node(prompt="Draft.", readAhead="off"),
            node(readAhead="start", latePrompt="{agent1Output}"),
            say="tell",
        )
        assert seen == [[["Be Mara.", "tell"]]] and len(reads.calls) == 1
        assert house.model.calls[-1].conversation[-1]["content"] == "tell\n\na draft"

    def test_the_call_waits_until_it_has_been_read(self, house, reads):
        """It would only stand in the same line."""
        reads.gate.clear()
        came = []
        house.model.replies = ["a draft", lambda call: came.append(reads.gate.is_set()) or "A tale."]

        def open_gate():
            wait_until(lambda: reads.calls and len(house.model.calls) == 1)
            reads.gate.set()

        opener = threading.Thread(target=open_gate, daemon=True)
        opener.start()
        house.ask(node(prompt="Draft.", readAhead="off"), node(readAhead="start"))
        opener.join(PATIENCE_S)
        assert came == [True]

    def test_not_for_the_first_node(self, house, reads):
        """Its call comes at once."""
        house.ask(node(readAhead="start"))
        assert reads.calls == []

    def test_what_is_not_needed_any_more_is_stopped(self, house, reads, monkeypatch):
        """The run ended before its node."""
        stopped = []
        lock = {"type": "WorkflowLock", "workflowLockId": "one"}

        def stop_seen(service, call, reading):
            stopped.append(wait_until(lambda: reading._is_stopped))
            reading.end()

        monkeypatch.setattr(read_ahead, "read_ahead", stop_seen)
        house.ask(lock, lock, node(readAhead="start"))
        all_done()
        assert stopped == [True]


@pytest.mark.parametrize("when", ["start", "end"])
def test_without_a_thread_the_run_goes_on(house, reads, monkeypatch, when):
    """The system gives no more of them: nothing is read ahead, and nobody waits for it or is cancelled with
    it.
    """

    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(read_ahead.threading, "Thread", NoThread)
    house.model.replies = ["a draft", "A tale."]
    assert house.ask(node(prompt="Draft.", readAhead="off"), node(readAhead=when)).text == "A tale."
    assert reads.calls == [] and cancellation_service._callbacks == {}


def test_a_prompt_that_cannot_be_put_together_is_nobodys_trouble(house, reads, caplog):
    """The run goes on; the log says it at DEBUG."""
    caplog.set_level(logging.DEBUG, logger=read_ahead.__name__)
    house.ask(
        node(prompt="Draft.", readAhead="off"),
        node(readAhead="start", endpointName="chat", structuredOutputFile="gone", onNodeError="continue"),
    )
    all_done()
    assert reads.calls == []
    assert [r.levelno for r in caplog.records if r.name == read_ahead.__name__] == [logging.DEBUG]


class TestCallThatWaits:
    """The call of a node whose prompt is being read ahead (`start`) waits for the end of that; the trace says so."""

    @pytest.fixture
    def traced(self):
        run = RunTrace("r1", "/v1/chat/completions", Observers())
        return run.node(NodeTrace("Workflows/ana/Main.json", 2, "Standard"))

    def test_as_long_as_it_lasts(self, traced):
        reading = Reading("r1.ahead2")
        waiting = threading.Thread(target=read_ahead._wait_for, args=(reading, traced), daemon=True)
        waiting.start()
        wait_until(lambda: traced.node.waits)
        assert (traced.node.waits[0].what, traced.node.waits[0].ended) == ("its prompt to be read", 0.0)
        reading.end()
        waiting.join(PATIENCE_S)
        assert traced.node.waits[0].ended

    @pytest.mark.parametrize("is_observed", [True, False])
    def test_what_has_been_read_is_not_waited_for(self, traced, is_observed):
        reading = Reading("r1.ahead2")
        reading.end()
        read_ahead._wait_for(reading, traced if is_observed else None)
        assert traced.node.waits == []

"""What the console tells of real requests: sentences made of what the engine and the backend's socket left behind."""

from __future__ import annotations

import json
import time

import pytest

from Middleware.api.console.call_views import steps
from Middleware.api.console.stood_out import stood_out
from tests.patience import PATIENCE_S
from tests.workflows.served.conftest import Recorder, observe

PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
HELLO = [{"role": "user", "content": "Hello"}]
EVENTS = {"Content-Type": "text/event-stream"}
OF_TIME = ("slot", "before", "slow_first", "thinking", "slow_tokens")
"""Rules that a slow machine may call; tests/api/console/test_stood_out.py has their vectors."""
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def ask(title, endpoint="big", **fields):
    return {"type": "Standard", "endpointName": endpoint, "prompt": "Hi", "title": title, **fields}


def say(content, title, **fields):
    return {"type": "StaticResponse", "content": content, "title": title, **fields}


@pytest.fixture
def told(house, served):
    """`told(*nodes)`: the sentences about one request that these nodes answer."""
    recorder = observe(served, Recorder())

    def told(*nodes, stream=False, messages=HELLO):
        house.workflow("Main", *nodes)
        served.save_user()
        body = {"model": "ana", "messages": messages, "stream": stream}
        reply = served.app.test_client().post(PATH, json=body)
        reply.get_data()
        reply.close()  # as a server does: now the request has ended
        assert recorder.ended.wait(PATIENCE_S)
        told.run = recorder.run
        told_all = stood_out(recorder.run, time.monotonic())
        return [one["text"] for one in told_all if one["rule"] not in OF_TIME]

    return told


@pytest.fixture
def answers(site):
    """`answers(reason, content, ...)`: what the backend says from now on, whole or in a stream."""

    def answers(reason="stop", content="Hello", end=b"data: [DONE]\n\n", **message):
        def page(handler):
            if json.loads(site.seen[-1].body).get("stream"):
                delta = {"choices": [{"delta": {"content": content, **message}, "finish_reason": reason}]}
                body, headers = f"data: {json.dumps(delta)}\n\n".encode() + end, EVENTS
            else:
                choice = {"message": {"content": content, **message}, "finish_reason": reason}
                body, headers = json.dumps({"choices": [choice]}).encode(), JSON
            handler.send_response(200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

        site.pages[PATH] = page

    return answers


@STREAMED
class TestTheAnswer:
    def test_as_usual(self, told, big, stream):
        assert told(ask("Answer"), stream=stream) == []

    def test_nothing_but_thoughts_in_the_text(self, told, big, answers, stream):
        big(removeThinking=True, thinkTagNames=["think"])
        answers(content="<think>hm, let me see</think>")
        assert told(ask("Answer"), stream=stream) == [
            "The client got an empty answer: the model said 29 characters, all of them thoughts."
        ]

    def test_nothing_but_thoughts_beside_the_text(self, told, big, answers, stream):
        answers(content="", reasoning_content="hm, let me see")
        assert told(ask("Answer"), stream=stream) == [
            "The client got an empty answer: the model said 14 characters, all of them thoughts."
        ]

    def test_a_prefix_that_was_all(self, told, big, answers, stream):
        answers(content="Assistant:")
        node = ask("Answer", removeCustomTextFromResponseStart=True, responseStartTextToRemove=["Assistant:"])
        assert told(node, stream=stream) == [
            "The client got an empty answer: the model said 10 characters, all of them taken away by node_prefixes."
        ]

    def test_a_tool_call_is_no_empty_answer(self, told, big, answers, stream):
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        answers("tool_calls", "", tool_calls=[call])
        assert told(ask("Answer", allowTools=True), stream=stream) == []

    def test_a_limit(self, told, big, answers, stream):
        answers("length")
        assert told(ask("Answer", maxResponseSizeInTokens=7), stream=stream) == [
            "The answer was cut at 7 tokens (maxResponseSizeInTokens of node 1)."
        ]

    def test_a_failure(self, told, big, answers, site, stream):
        """The sentence that the client got."""
        site.pages[PATH] = (400, JSON, b'{"error": {"message": "no such thing"}}')
        [sentence] = told(ask("Answer"), stream=stream)
        assert "no such thing" in sentence and sentence == told.run.error


class TestOnTheWay:
    @STREAMED
    def test_a_limit_of_nothing(self, told, big, stream):
        """Said in the run, too."""
        assert "maxResponseSizeInTokens: found 0, allowed: a whole number of 1 or more" in told(
            ask("Answer", maxResponseSizeInTokens=0), stream=stream
        )

    def test_a_file_that_is_not_there(self, told, big, tmp_path):
        """The answer is made without it."""
        path = str(tmp_path / "gone.txt")
        [sentence] = told({"type": "GetCustomFile", "filepath": path, "title": "Get"}, ask("Answer"))
        assert sentence.startswith(f"filepath: no file '{path}'")

    def test_a_stream_without_its_end_mark(self, told, big, answers):
        answers(reason=None, end=b"")
        assert told(ask("Answer"), stream=True) == [
            "big ended its stream without an end mark: the answer may be incomplete."
        ]

    @STREAMED
    def test_a_backup(self, told, big, stream):
        big("dead", endpoint="http://127.0.0.1:9", backupEndpointName="big")
        assert told(ask("Answer", "dead"), stream=stream) == [
            "dead failed (connect_error); big answered instead."
        ]

    def test_a_node_that_failed(self, told, big, site):
        site.pages["/bad/v1/chat/completions"] = (400, JSON, b'{"error": {"message": "no such thing"}}')
        big("bad", endpoint=site.url("/bad"))
        critic = ask("Critic", "bad", onNodeError="continue", errorText="none")
        [sentence] = told(critic, say("{agent1Output}", "Answer"))
        assert sentence.startswith(
            "Critic failed and the run went on: endpoint 'bad' (Endpoints/bad.json) answered 400"
        )

    def test_a_lock(self, house, told):
        """A child finds the lock of its parent."""
        lock = {"type": "WorkflowLock", "title": "Lock", "workflowLockId": "one"}
        house.workflow("Child", say("a", "Inner"), lock, say("b", "Never"))
        child = {"type": "CustomWorkflow", "title": "Child", "workflowName": "Child"}
        assert told(lock, child, say("c", "Answer")) == ["Ended by a lock that is held (node 2)."]

    def test_messages_that_did_not_fit(self, told, big):
        """The oldest of ten long ones."""
        big(maxContextTokenSize=1000)
        node = ask("Answer", prompt="", lastMessagesToSendInsteadOfPrompt=10, clampPromptToContextWindow=True)
        messages = [{"role": "user", "content": f"{i} " + "word " * 50} for i in range(10)]
        [sentence] = told({**node, "maxResponseSizeInTokens": 10}, messages=messages)
        left = told.run.nodes[0].dropped
        assert 1 < left < 10
        assert sentence == f"Answer left {left} older messages out, to fit the context of big."

    def test_a_warning(self, told, big):
        node = {"type": "StringConcatenator", "title": "Join", "strings": "no list"}
        assert told(node, say("a", "Answer")) == ["'strings' must be a list, not str; the output is empty"]


@STREAMED
def test_the_steps_of_a_real_answer(told, big, answers, stream):
    """Those of console.md 16.4, of what the trace has kept."""
    big(
        thinkTagNames=["think"],
        removeThinking=True,
        trimBeginningAndEndLineBreaks=True,
        removeCustomTextFromResponseStartEndpointWide=True,
        responseStartTextToRemoveEndpointWide=["Assistant:"],
    )
    answers(content="<think>hm, let me see</think>\n\nAssistant: Hello there\n\n")
    told(ask("Answer"), stream=stream)
    [call] = told.run.nodes[0].calls
    made = steps(call.raw, call.cleaned, call.cleaning)
    assert (made["agrees"], [step["order"] for step in made["steps"]]) == (True, [110, 300, 320, 400])

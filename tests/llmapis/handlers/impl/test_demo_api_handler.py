"""The built-in demo answers without a network, in its own time, and can be cancelled."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers.impl.demo_api_handler import (
    QUOTED_CHARACTERS,
    QUOTED_OF_A_RESULT,
    DemoBackend,
)
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers

TYPE = "builtInDemo"


@pytest.fixture
def pauses(monkeypatch):
    """The demo's delays, asked for and not slept."""
    asked = []
    monkeypatch.setattr(DemoBackend, "sleep", asked.append)
    return asked


@pytest.fixture
def handler(make_handler, pauses):
    return make_handler(TYPE)


def call(*said, request_id=None):
    conversation = [{"role": "user", "content": text} for text in said]
    return CallArguments(conversation=conversation, request_id=request_id)


def answer(handler, *said):
    return "".join(chunk["token"] for chunk in handler.handle_streaming(call(*said)))


class TestWords:
    def test_it_thinks_repeats_its_name_and_quotes(self, handler):
        """Something for every cleaning rule, and the user's own words."""
        text = answer(handler, "first", "Hello you!")
        thought, said = text.split("</think>")
        assert thought.startswith("<think>")
        assert said.lstrip().startswith("Assistant:")
        assert '"Hello you!"' in said
        assert "first" not in text

    @pytest.mark.parametrize("name", ["Main.json", "Main.example.json"])
    def test_it_says_what_it_is_and_how_to_go_on(self, handler, name):
        """In one line, with the file that the user writes, whether it is there or its example alone."""
        endpoint = replace(handler.settings.endpoint, file=f"Endpoints/my-model/{name}")
        handler.settings = replace(handler.settings, endpoint=endpoint)
        last = answer(handler, "Hi").splitlines()[-1]
        assert "built-in demo" in last
        assert "(Public/Configs/Endpoints/my-model/Main.json)" in last

    @pytest.mark.parametrize(
        ("said", "quoted"),
        [
            pytest.param("x" * 300, "x" * QUOTED_CHARACTERS + "...", id="long-texts-are-cut"),
            pytest.param("a\n\n b", "a b", id="one-line"),
            pytest.param("</think> {x}", "(/think) {x}", id="no-tags"),
            pytest.param("  ", "(nothing yet)", id="blank"),
            pytest.param([{"type": "text", "text": "p"}, "junk"], "p", id="parts"),
        ],
    )
    def test_the_quote(self, handler, said, quoted):
        """Of the last user message."""
        assert f'You wrote: "{quoted}"' in answer(handler, said)

    def test_no_message_at_all(self, handler):
        """A greeting may be asked for."""
        assert "(nothing yet)" in answer(handler)


class TestStream:
    def test_word_by_word_with_a_moment_between(self, handler, pauses):
        """One dict a word; a finish with usage at the end."""
        *words, last = list(handler.handle_streaming(call("Hi")))
        assert len(words) == len(pauses) == last["usage"]["completion_tokens"]
        assert all(len(chunk["token"].split()) == 1 for chunk in words)
        assert (last["finish_reason"], words[0]["model"]) == ("stop", "built-in-demo")
        assert last["usage"]["prompt_tokens"] == 1

    def test_the_moment_is_short(self):
        """Fifteen to twenty milliseconds."""
        assert 0.015 <= DemoBackend.word_delay_s <= 0.02
        assert DemoBackend.sleep is time.sleep

    def test_whole_is_the_same_answer(self, make_handler, handler, pauses, joined, whole):
        """As late as the stream."""
        streamed = joined(list(handler.handle_streaming(call("Hi"))))
        spent = len(pauses)
        assert whole(make_handler(TYPE, stream=False).handle_non_streaming(call("Hi"))) == streamed
        assert len(pauses) == 2 * spent

    def test_whole_says_how_it_ended_too(self, make_handler, handler):
        """With the numbers and the name that the stream gives."""
        first, *_, last = handler.handle_streaming(call("Hi"))
        answer = make_handler(TYPE, stream=False).handle_non_streaming(call("Hi"))
        assert (answer.finish_reason, answer.usage, answer.model) == ("stop", last["usage"], first["model"])

    def test_reasoning_parser(self, make_handler, pauses):
        """Splits here as everywhere."""
        handler = make_handler(TYPE, endpoint={"reasoningParser": "think"})
        chunks = list(handler.handle_streaming(call("Hi")))
        assert "The user said" in "".join(chunk.get("thinking", "") for chunk in chunks)
        assert "<think>" not in "".join(chunk["token"] for chunk in chunks)

    def test_the_wait_for_the_backend_is_announced(self, handler):
        """The edge may let go of the request's set-up."""
        done = []
        request = RequestContext("r", "u", "openai", setup_done=lambda: done.append(1))
        with enter_request(request):
            handler.handle_non_streaming(call("Hi"))
        assert done == [1]


class TestCancelled:
    @pytest.fixture
    def request_id(self):
        yield "demo-cancelled"
        cancellation_service.acknowledge_cancellation("demo-cancelled")

    def test_a_stream_ends_without_a_finish(self, handler, request_id):
        """A clean end."""
        batches = handler.stream_batches(call("Hi", request_id=request_id))
        next(batches)
        cancellation_service.request_cancellation(request_id)
        assert list(batches) == []

    def test_a_whole_answer_is_empty(self, handler, request_id):
        """Never an error."""
        cancellation_service.request_cancellation(request_id)
        assert handler.handle_non_streaming(call("Hi", request_id=request_id)) == ""


def test_nothing_is_sent(handler):
    """The endpoint's URL has no meaning here."""
    assert handler._get_api_endpoint_url() == ""


class TestTold:
    """It is told as a call to a backend is."""

    @pytest.fixture
    def node(self):
        observers = Observers()
        observers.observe(SimpleNamespace(keeps_text=True, note_change=lambda *_: None))
        run = observers.begin("r1", "/api/chat")
        run.name(RequestContext("r1", "mira", ""), front="", stream=False, asked=b"")
        return run.node(NodeTrace("w", 1, "Standard"))

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_one_that_is_answered(self, handler, node, stream, caplog):
        """Sent text, finish reason and numbers; a line in the log with the same."""
        caplog.set_level("INFO")
        asked = replace(call("Hi"), trace=node)
        (list(handler.handle_streaming(asked)) if stream else handler.handle_non_streaming(asked))
        [told] = node.node.calls
        assert (told.kind, told.backend, told.outcome, told.finish_reason) == ("model", TYPE, "stop", "stop")
        assert (told.tries, bool(told.first), told.usage["prompt_tokens"]) == (1, stream, 1)
        assert json.loads(told.body)["messages"] == [{"role": "user", "content": "Hi"}]
        assert f"ended stop, usage {told.usage}" in caplog.text

    @pytest.mark.parametrize(("cancels", "outcome"), [(True, "cancelled"), (False, "closed")])
    def test_one_that_is_left(self, handler, node, cancels, outcome):
        """By a cancellation, or because nobody pulls any more."""
        asked = replace(call("Hi", request_id="demo-left"), trace=node)
        pieces = handler.handle_streaming(asked)
        next(pieces)
        if cancels:
            cancellation_service.request_cancellation("demo-left")
            list(pieces)
            cancellation_service.acknowledge_cancellation("demo-left")
        else:
            pieces.close()
        assert [told.outcome for told in node.node.calls] == [outcome]


LIST = {"type": "function", "function": {"name": "list_directory", "parameters": {"type": "object"}}}
PAGE = {
    "type": "function",
    "function": {
        "name": "read_page",
        "parameters": {
            "type": "object",
            "properties": {"url": {"type": "string"}, "question": {"type": "string"}},
            "required": ["url", "question"],
        },
    },
}
ASKED_FOR_FILES = "Which files are in this folder?"


def offered(*tools, said=ASKED_FOR_FILES, turns=None, choice=None):
    """A step of an agent."""
    return replace(call(said), tools=list(tools), turns=turns, tool_choice=choice)


class TestTools:
    """So that a round of an agent can be seen without any model."""

    @pytest.mark.parametrize(
        ("tools", "said", "name", "arguments"),
        [
            ([LIST], ASKED_FOR_FILES, "list_directory", {"path": "."}),
            (
                [LIST, PAGE],
                "Read https://example.org/a, please.",
                "read_page",
                {"url": "https://example.org/a", "question": "Read https://example.org/a, please."},
            ),
        ],
    )
    def test_it_calls_what_it_is_asked_for(self, handler, tools, said, name, arguments):
        """Streamed and whole the same."""
        chunks = list(handler.handle_streaming(offered(*tools, said=said)))
        (made,) = [one for chunk in chunks for one in chunk.get("tool_calls", ())]
        assert made["function"]["name"] == name
        assert json.loads(made["function"]["arguments"]) == arguments
        assert chunks[-1]["finish_reason"] == "tool_calls"
        whole = handler.handle_non_streaming(offered(*tools, said=said))
        assert whole["tool_calls"][0]["function"] == made["function"]
        assert whole["content"] == "".join(chunk["token"] for chunk in chunks)
        assert (whole["finish_reason"], whole["usage"]) == ("tool_calls", chunks[-1]["usage"])

    @pytest.mark.parametrize(
        "asked",
        [
            offered(LIST, said="Hello"),
            offered(PAGE),
            offered(said=ASKED_FOR_FILES),
            offered(LIST, choice="none"),
        ],
        ids=["no-wish", "no-such-tool", "no-tools", "none-allowed"],
    )
    def test_otherwise_it_calls_none(self, handler, asked):
        chunks = list(handler.handle_streaming(asked))
        assert not any("tool_calls" in chunk for chunk in chunks)
        assert chunks[-1]["finish_reason"] == "stop"

    def test_it_quotes_the_result(self, handler):
        """And calls nothing more. A tag in it ends no thought."""
        made = {"id": "c1", "type": "function", "function": {"name": "list_directory", "arguments": "{}"}}
        turns = [
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": "plan.txt </think>"},
        ]
        chunks = list(handler.handle_streaming(offered(LIST, turns=turns)))
        text = "".join(chunk["token"] for chunk in chunks)
        assert "The tool list_directory gave this:\n\nplan.txt (/think)\n" in text
        assert chunks[-1]["finish_reason"] == "stop"

    @pytest.mark.parametrize(
        ("said", "quoted"),
        [
            ("Which\n files?", "Which files?"),
            ("</think>", "(/think)"),
            ("x" * 300, "x" * QUOTED_CHARACTERS + "..."),
            (" ", "(nothing yet)"),
        ],
        ids=["one-line", "no-tags", "cut", "blank"],
    )
    def test_it_quotes_the_question_behind_the_result(self, handler, said, quoted):
        """As in an answer without a tool."""
        text = self.behind_a_call(handler, said, "plan.txt")
        assert f'You wrote: "{quoted}"\n\nThe tool list_directory gave this:\n\nplan.txt\n' in text

    @pytest.mark.parametrize(
        ("result", "quoted"),
        [(" a\nb ", "a\nb"), ("x" * 700, "x" * QUOTED_OF_A_RESULT + "..."), ("", "(nothing yet)")],
        ids=["lines", "cut", "nothing"],
    )
    def test_the_quote_of_a_result(self, handler, result, quoted):
        """Its lines stay."""
        text = self.behind_a_call(handler, ASKED_FOR_FILES, result)
        assert f"gave this:\n\n{quoted}\n\n" in text

    def behind_a_call(self, handler, said, result):
        """The answer to a tool's result."""
        made = {"id": "c1", "type": "function", "function": {"name": "list_directory", "arguments": "{}"}}
        turns = [
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ]
        return "".join(
            chunk["token"] for chunk in handler.handle_streaming(offered(LIST, said=said, turns=turns))
        )

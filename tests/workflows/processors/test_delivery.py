"""A result on its way out: pieces of a static text, whole chunks, results of any type."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from Middleware.llmapis.llm_text import LlmText
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.processors.delivery import (
    SentAnswer,
    close_batches,
    finish_chunks,
    merge_chunks,
    static_batches,
)


def texts(batches: Any) -> list[str]:
    return [chunk["token"] for batch in batches for chunk in batch]


class TestStaticText:
    def test_at_once(self):
        """One piece, then the end."""
        batches = list(static_batches("a b"))
        assert texts(batches) == ["a b", ""] and batches[-1][0]["finish_reason"] == "stop"

    def test_words_are_delayed_for_five_seconds(self):
        """Each word, no white space; then the rest comes at once."""
        slept: list[float] = []
        assert "".join(texts(static_batches(" a b c d", 2.0, slept.append))) == " a b c d"
        assert sum(slept) == 6.0

    def test_a_long_delay_is_cut_by_ticks(self):
        """The client gets its heartbeats, and its going is noticed."""
        slept: list[float] = []
        batches = list(static_batches("a", 1.75, slept.append))
        assert slept == [0.5, 0.5, 0.5, 0.25]
        assert batches[:4] == [[], [], [], [{"token": "a", "finish_reason": None}]]


def test_merged():
    """Texts, thoughts and calls in a row; the last of everything else."""
    chunks: list[Any] = [
        {"token": "a", "finish_reason": None, "thinking": "t"},
        {"token": "b", "finish_reason": None, "tool_calls": [1], "model": "m"},
        {"token": "", "finish_reason": "stop", "tool_calls": [2], "thinking": "u"},
    ]
    assert merge_chunks(chunks) == {
        "token": "ab",
        "finish_reason": "stop",
        "tool_calls": [1, 2],
        "thinking": "tu",
        "model": "m",
    }


def test_a_list_needs_no_closing():
    """Only iterators that can be closed are."""
    close_batches(iter([]))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestEveryType:
    @pytest.fixture
    def script(self, house, tmp_path):
        """A node whose script gives `value`."""

        def node(value: str, **fields: Any) -> dict[str, Any]:
            path = tmp_path / "script.py"
            path.write_text(f"def Invoke(*args, **kwargs):\n    return {value}\n")
            return {"type": "PythonModule", "module_path": str(path), "args": [], "kwargs": {}, **fields}

        return node

    @pytest.mark.parametrize(
        ("value", "text"),
        [("5", "5"), ("None", ""), ("['a']", "['a']"), ("'t'", "t"), ("{'a': 1}", "{'a': 1}")],
    )
    def test_a_value_is_an_answer(self, house, script, stream, value, text):
        """Sent as one text."""
        assert house.ask(script(value), stream=stream).text == text

    def test_a_tool_call_is_an_answer(self, house, script, stream):
        """Also without an endpoint; names lowered if the node says so."""
        call = "{'id': 'c', 'type': 'function', 'function': {'name': 'Go', 'arguments': '{}'}}"
        value = (
            "{'content': 'x', 'tool_calls': ["
            + call
            + ", {'function': None}], 'finish_reason': 'tool_calls'}"
        )
        answer = house.ask(script(value, lowercaseToolCallFunctionNames=True), stream=stream)
        assert (answer.text, answer.finish_reason) == ("x", "tool_calls")
        assert answer.tool_calls[0]["function"]["name"] == "go"

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_a_reason_that_cuts_stays_beside_calls(self, house, script, stream, reason):
        """Clients ask again when they read it, and run what they are given when they read `tool_calls`."""
        call = "{'id': 'c', 'type': 'function', 'function': {'name': 'go', 'arguments': '{}'}}"
        value = "{'content': 'x', 'tool_calls': [" + call + "], 'finish_reason': '" + reason + "'}"
        answer = house.ask(script(value), stream=stream)
        assert (answer.finish_reason, len(answer.tool_calls)) == (reason, 1)

    def test_an_internal_call_is_lowered_too(self, house, script, stream):
        """The responder of a child that does not answer."""
        call = "{'id': 'c', 'type': 'function', 'function': {'name': 'Go', 'arguments': '{}'}}"
        value = "{'content': ' x', 'tool_calls': [" + call + "], 'finish_reason': 'tool_calls'}"
        house.workflow("Child", script(value, lowercaseToolCallFunctionNames=True, endpointName="chat"))
        show = {
            "type": "StaticResponse",
            "content": "{agent1Output[tool_calls][0][function][name]}{agent1Output[content]}",
        }
        nodes = [{"type": "CustomWorkflow", "workflowName": "Child"}, show]
        assert house.ask(*nodes, stream=stream).text == "gox"


class TestReasoning:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize(("suppressed", "thinking"), [(False, "hm"), (True, "")])
    def test_thoughts_go_beside_the_text(self, house, stream, suppressed, thinking):
        """Unless the client wants none."""
        house.endpoint(
            "chat", removeThinking=True, startThinkTag="<t>", endThinkTag="</t>", reasoningOutput="field"
        )
        house.request["suppress_reasoning"] = suppressed
        house.model.replies = ["<t>hm</t>yes"]
        answer = house.ask({"endpointName": "chat"}, stream=stream)
        assert (answer.text, answer.thinking) == ("yes", thinking)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_thoughts_count_as_output(house, stream):
    """Where the backend gives no numbers, the estimate is of the text and the thoughts that are sent."""
    house.endpoint("chat", reasoningOutput="field")
    house.model.replies = [LlmText("yes", thinking="one two three four five")]
    answer = house.ask({"type": "Standard", "endpointName": "chat"}, stream=stream)
    assert answer.usage["completion_tokens"] == estimate_tokens("one two three four fiveyes")


class TestWhatHasGoneBy:
    """An answer's end is held back: it leaves when everything else has."""

    END: ClassVar[dict[str, Any]] = {
        "token": "b",
        "finish_reason": "length",
        "usage": {"completion_tokens": 2},
        "cost": 3,
        "model": "m",
        "native_finish_reason": "max",
        "truncated": True,
    }

    def test_a_piece_of_text_leaves_as_it_is(self):
        sent, batch = SentAnswer("x"), [{"token": "a", "finish_reason": None}]
        assert sent.without_end(batch) is batch
        assert (sent.text(), sent.pieces(), sent.written_text()) == ("xa", 2, "xa")

    def test_the_end_is_kept(self):
        """Its text leaves; chunks that follow take nothing back."""
        sent, nothing = SentAnswer(), {"token": "", "finish_reason": None, "thinking": ""}
        assert sent.without_end([dict(self.END), nothing]) == [{"token": "b", "finish_reason": None}]
        assert (sent.reason, sent.usage, sent.cost) == ("length", self.END["usage"], 3)
        assert sent.facts == {"model": "m", "native_finish_reason": "max", "truncated": True}

    def test_an_end_alone_leaves_nothing(self):
        assert SentAnswer().without_end([{"token": "", "finish_reason": "stop"}]) == []

    def test_what_is_beside_the_text_leaves_with_it(self):
        """Thoughts count as written, not as the answer."""
        sent, call = SentAnswer(), {"index": 0, "function": {"name": "F"}}
        chunks = [
            {"token": "", "finish_reason": None, "thinking": "hm"},
            {"token": "no", "finish_reason": None, "refusal": True},
            {"token": "", "finish_reason": None, "tool_calls": [call]},
        ]
        assert sent.without_end([dict(chunk) for chunk in chunks]) == chunks
        assert (sent.text(), sent.written_text(), sent.with_calls) == ("no", "hmno", True)

    @pytest.mark.parametrize("cut", [True, False])
    def test_a_call_that_was_cut_is_one(self, cut):
        sent = SentAnswer()
        sent.without_end([{"token": "", "finish_reason": "length", "cut_call": cut}])
        assert sent.with_calls is cut

    def test_an_error_ends_it(self):
        """What stood before it leaves."""
        sent, piece = SentAnswer(), {"token": "a", "finish_reason": None}
        error = {"token": "", "finish_reason": "error", "error": {"kind": "timeout"}}
        assert sent.without_end([piece, error, piece]) == [piece]
        assert (sent.error, sent.text()) == ({"kind": "timeout"}, "a")

    def test_the_end_that_leaves(self):
        """With all that was kept of it."""
        sent = SentAnswer(prompt_tokens=lambda: 5)
        sent.with_calls = True
        sent.without_end([dict(self.END)])
        [end] = finish_chunks(None, None, sent)
        assert end.keys() == {"token", "finish_reason", "usage", "model", "native_finish_reason", "truncated"}
        assert (end["token"], end["finish_reason"], end["model"]) == ("", "length", "m")
        assert end["usage"]["completion_tokens"] == 2

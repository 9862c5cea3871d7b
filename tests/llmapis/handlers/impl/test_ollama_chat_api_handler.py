"""Ollama chat: options, lifted fields, tool turns, images, lines."""

from __future__ import annotations

import json
import re

import pytest

TYPE = "ollamaApiChat"
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


@pytest.fixture
def payload(make_handler):
    def build(conversation=(), samplers=None, stream=True, **arguments):
        handler = make_handler(TYPE, samplers=samplers or {}, stream=stream)
        return handler._prepare_payload(list(conversation), None, None, **arguments)

    return build


def test_url(handler):
    """Its own path."""
    assert handler._get_api_endpoint_url() == "http://h:1/api/chat"


class TestPayload:
    @pytest.mark.parametrize("stream", [True, False])
    def test_samplers_are_options_and_the_flag_is_not(self, payload, stream):
        """The flag stands at the top, always."""
        body = payload(samplers={"top_k": 1}, stream=stream)
        assert body == {
            "model": "",
            "messages": [],
            "options": {"top_k": 1, "num_predict": 100},
            "stream": stream,
        }

    def test_some_fields_are_lifted_to_the_top(self, payload):
        """Ollama reads them there."""
        lifted = {"think": "low", "keep_alive": "5m", "format": "json", "logprobs": True, "top_logprobs": 2}
        body = payload(samplers={**lifted, "top_k": 1})
        assert lifted.items() <= body.items()
        assert body["options"] == {"top_k": 1, "num_predict": 100}

    def test_a_null_think_is_not_sent(self, payload):
        """It says nothing."""
        assert "think" not in str(payload(samplers={"think": None}))
        assert "think" not in str(payload(samplers={"think": "__wilmer_null__"}))

    @pytest.mark.parametrize(("choice", "sent"), [("auto", True), (None, True), ("none", False)])
    def test_tools_without_a_choice(self, payload, choice, sent):
        """Ollama knows no choice; `none` sends no tools."""
        body = payload(tools=[TOOL], tool_choice=choice)
        assert ("tools" in body) is sent
        assert "tool_choice" not in body

    def test_images(self, payload):
        """Base64 alone, of user messages alone."""
        messages = [
            {"role": "user", "content": "a", "images": ["data:image/png;base64,QUJD", "https://h/x", "QQ=="]},
            {"role": "user", "content": "b", "images": ["file://x"]},
            {"role": "assistant", "content": "c", "images": ["QUJD"]},
        ]
        assert payload(messages)["messages"] == [
            {"role": "user", "content": "a", "images": ["QUJD", "QQ=="]},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"},
        ]

    def test_tool_turns(self, payload, caplog):
        """Arguments as objects, without type and index; a result names the tool of its call."""
        calls = [
            {"id": "a", "index": 0, "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"function": {"name": "g", "arguments": "oops"}},
            {"id": "c", "function": None},
            "junk",
        ]
        messages = [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "z", "name": "h", "content": "2"},
            {"role": "assistant", "content": "d", "tool_calls": None},
        ]
        assert payload(messages)["messages"] == [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                    {"id": "toolcall_0_1", "function": {"name": "g", "arguments": {"value": "oops"}}},
                    {"id": "c", "function": {"name": "unknown", "arguments": {}}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "tool_name": "f", "content": "1"},
            {"role": "tool", "tool_call_id": "toolcall_0_1", "tool_name": "g", "content": "no result"},
            {"role": "tool", "tool_call_id": "c", "tool_name": "unknown", "content": "no result"},
            {"role": "user", "content": "Tool result (h): 2"},
            {"role": "assistant", "content": "d"},
        ]
        assert "not a JSON object" in caplog.text


class TestStream:
    @pytest.fixture
    def said(self, handler, read_stream):
        def say(*lines):
            return read_stream(handler, [json.dumps(line).encode() + b"\n" for line in lines])

        return say

    @pytest.mark.parametrize(
        ("ending", "reason", "native"),
        [
            ({"done_reason": "stop"}, "stop", None),
            ({"done_reason": "length"}, "length", None),
            ({"done_reason": "load"}, "stop", "load"),
            ({"done_reason": "unload"}, "stop", "unload"),
            ({}, "stop", None),
        ],
    )
    def test_how_it_ends(self, said, ending, reason, native):
        """In OpenAI's words."""
        last = said({"message": {"content": "a"}, "done": False}, {"done": True, **ending})[-1]
        assert (last["finish_reason"], last.get("native_finish_reason")) == (reason, native)

    def test_thinking_beside_content(self, said):
        """Never in the token."""
        chunks = said({"message": {"role": "assistant", "thinking": "t"}}, {"message": {}, "done": True})
        assert chunks[0] == {"token": "", "finish_reason": None, "thinking": "t"}

    def test_calls_without_ids_get_some(self, said):
        """And the index runs over the whole stream."""
        call = {"function": {"name": "f", "arguments": {"x": 1}}}
        line = {"message": {"role": "assistant", "content": "", "tool_calls": [call, "junk"]}, "done": False}
        *chunks, last = said(line, line, {"message": {"content": ""}, "done": True, "done_reason": "stop"})
        deltas = [delta for chunk in chunks for delta in chunk["tool_calls"]]
        assert [delta["index"] for delta in deltas] == [0, 1]
        assert all(re.fullmatch("call_[0-9a-f]{24}", delta["id"]) for delta in deltas)
        assert deltas[0]["function"] == {"name": "f", "arguments": '{"x": 1}'}
        assert last["finish_reason"] == "tool_calls"

    def test_a_line_without_a_message(self, handler):
        """Gives an empty token."""
        assert handler._process_stream_data('{"done": false}') == {"token": "", "finish_reason": None}

    def test_calls_in_the_last_line(self, said):
        """Older servers."""
        call = {"id": "a", "function": {"name": "f", "arguments": {}}}
        (last,) = said(
            {"message": {"content": "", "tool_calls": [call]}, "done": True, "done_reason": "stop"}
        )
        assert (last["finish_reason"], last["tool_calls"][0]["id"]) == ("tool_calls", "a")


class TestWhole:
    def test_null_content(self, handler):
        """Is an empty text."""
        answer = handler.read_whole({"message": {"content": None, "thinking": "t"}, "done_reason": "length"})
        assert (answer, answer.thinking, answer.finish_reason) == ("", "t", "length")

    def test_calls(self, handler):
        """Make a dict."""
        call = {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}
        answer = handler.read_whole(
            {"message": {"content": "b", "tool_calls": [call]}, "done_reason": "stop"}
        )
        assert answer == {
            "content": "b",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
            ],
            "finish_reason": "tool_calls",
            "native_finish_reason": "stop",
        }

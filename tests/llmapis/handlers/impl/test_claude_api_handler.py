"""Claude: headers, payload, prefill, tools, thinking blocks, answers."""

from __future__ import annotations

import json

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments, StreamState
from Middleware.llmapis.dialects.claude_messages import CONTINUE_REQUEST, ThinkingReplay
from Middleware.llmapis.handlers.impl import claude_api_handler

TYPE = "claudeMessages"
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CLAUDE_TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
CALL_TURN = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
TEXT = {"type": "text", "text": "So"}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "abc"}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


@pytest.fixture(autouse=True)
def fresh_replay(monkeypatch):
    monkeypatch.setattr(claude_api_handler, "thinking_replay", ThinkingReplay())


@pytest.fixture
def handler(make_handler):
    return make_handler(TYPE)


@pytest.fixture
def payload(make_handler):
    def build(*conversation, endpoint=None, samplers=None, api_type=None, **arguments):
        handler = make_handler(TYPE, endpoint=endpoint, samplers=samplers or {}, api_type=api_type)
        return handler._prepare_payload(list(conversation), None, None, **arguments)

    return build


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


class TestRequest:
    def test_headers(self, make_handler):
        """Its own key header, and the version; no `Authorization`."""
        headers = make_handler(TYPE, endpoint={"apiKey": "k"}).request_headers()
        assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")
        assert "Authorization" not in headers

    def test_no_key(self, handler):
        """No header."""
        assert "x-api-key" not in handler.request_headers()

    @pytest.mark.parametrize("base", ["http://h", "http://h/v1", "http://h/v1/messages"])
    def test_url(self, make_handler, base):
        """Nothing is doubled."""
        assert (
            make_handler(TYPE, endpoint={"endpoint": base})._get_api_endpoint_url() == "http://h/v1/messages"
        )

    def test_other_parameters_are_dropped_with_a_warning(self, payload, caplog):
        """The API refuses what it does not know."""
        body = payload(user("Q"), samplers={"min_p": 1, "top_k": 2, "output_config": {"effort": "low"}})
        assert "min_p" not in body
        assert (body["top_k"], body["output_config"]) == (2, {"effort": "low"})
        assert "min_p" in caplog.text

    def test_system_is_a_text_at_the_top(self, payload):
        """Without one there is no key."""
        assert payload({"role": "system", "content": "S"}, user("Q"))["system"] == "S"
        assert "system" not in payload(user("Q"))

    def test_injected_texts_are_in_it(self, payload):
        """Applied before the conversion."""
        endpoint = {"addTextToStartOfSystem": True, "textToAddToStartOfSystem": "x "}
        assert payload(user("Q"), endpoint=endpoint)["system"] == "x "

    @pytest.mark.parametrize(("limit", "sent"), [(None, 4096), (50, 50)])
    def test_the_api_refuses_a_request_without_a_limit(self, make_handler, limit, sent):
        """What each model takes, where nobody said one."""
        made = make_handler(
            TYPE, api_type={"type": TYPE, "maxNewTokensPropertyName": "max_tokens"}, max_tokens=limit
        )
        assert made._payload(CallArguments([user("Q")]))["max_tokens"] == sent

    def test_schema_only_with_a_block(self, payload, caplog):
        """The shipped API type has none, and nobody is warned."""
        api_type = {
            "type": TYPE,
            "maxNewTokensPropertyName": "max_tokens",
            "structuredOutput": {"field": "output_config.format", "style": "anthropicJsonSchema"},
        }
        schema = {"type": "object"}
        assert "output_config" not in payload(user("Q"), schema=schema)
        assert "not sent" not in caplog.text
        assert payload(user("Q"), schema=schema, api_type=api_type)["output_config"] == {
            "format": {"type": "json_schema", "schema": schema}
        }


class TestTools:
    @pytest.mark.parametrize(
        ("choice", "sent"),
        [("auto", {"type": "auto"}), ("required", {"type": "any"}), (None, None), ("odd", None)],
    )
    def test_tools_and_choice(self, payload, choice, sent):
        """In Claude's form."""
        body = payload(user("Q"), tools=[TOOL], tool_choice=choice)
        assert (body["tools"], body.get("tool_choice")) == ([CLAUDE_TOOL], sent)

    def test_no_tools(self, payload):
        """No choice either."""
        assert not {"tools", "tool_choice"} & set(payload(user("Q"), tools=[], tool_choice="auto"))

    @pytest.mark.parametrize(
        ("allowed", "choice", "sent"),
        [
            (False, None, {"type": "auto", "disable_parallel_tool_use": True}),
            (False, "required", {"type": "any", "disable_parallel_tool_use": True}),
            (True, "required", {"type": "any"}),
            (True, None, None),
        ],
    )
    def test_parallel_calls(self, make_handler, allowed, choice, sent):
        """Said beside the choice, when they are not wanted."""
        call = CallArguments([user("Q")], tools=[TOOL], tool_choice=choice, parallel_tool_calls=allowed)
        body = make_handler(TYPE)._payload(call)
        assert body.get("tool_choice") == sent

    def test_choice_none(self, payload):
        """No tools, unless the conversation holds tool blocks: then the API wants the definitions."""
        assert "tools" not in payload(user("Q"), tools=[TOOL], tool_choice="none")
        body = payload(user("Q"), CALL_TURN, tools=[TOOL], tool_choice="none")
        assert (body["tools"], body["tool_choice"]) == ([CLAUDE_TOOL], {"type": "none"})


class TestCutAnswer:
    """`max_tokens` may end an answer in the middle of a call, whose input is an object all the same."""

    @pytest.mark.parametrize(
        ("blocks", "reason", "ids"),
        [
            ([USE, TEXT], "max_tokens", ["t1"]),
            ([TEXT, USE], "max_tokens", None),
            ([TEXT, USE], "tool_use", ["t1"]),
            ([USE, {**USE, "id": "t2"}], "max_tokens", ["t1"]),
        ],
        ids=["text-behind-the-call", "call-at-the-end", "not-cut", "second-call-at-the-end"],
    )
    def test_only_a_call_at_its_very_end_is_left_out(self, make_handler, blocks, reason, ids):
        """The text stays in every case."""
        body = {"content": blocks, "stop_reason": reason}
        answer = make_handler(TYPE)._parse_non_stream_response(body)
        whole = answer if isinstance(answer, dict) else {"content": str(answer)}
        calls = whole.get("tool_calls")
        assert (calls and [call["id"] for call in calls]) == ids
        assert (whole["content"] == "So") == (TEXT in blocks)


class TestPrefill:
    def test_it_stays(self, payload):
        """Without its trailing white space."""
        assert payload(user("Q"), assistant("A \n"))["messages"][-1] == assistant("A")

    def test_it_moves_where_the_endpoint_says_so(self, payload):
        """`claudePrefill: false`."""
        body = payload(user("Q"), assistant("A"), endpoint={"claudePrefill": False})
        assert body["messages"] == [user(f"Q\n\n{CONTINUE_REQUEST}A")]

    def test_a_refusal_is_answered_with_another_payload(self, handler):
        """Newer models take none."""
        body = handler._prepare_payload([user("Q"), assistant("A")], None, None)
        amended = handler._amend_payload(body, "This model does not support assistant message prefill.")
        assert amended["messages"] == [user(f"Q\n\n{CONTINUE_REQUEST}A")]
        assert body["messages"][-1] == assistant("A")

    @pytest.mark.parametrize(
        ("messages", "refused"), [([user("Q"), assistant("A")], "bad key"), ([user("Q")], "prefill")]
    )
    def test_other_refusals_stand(self, handler, messages, refused):
        """One request is enough."""
        body = handler._prepare_payload(messages, None, None)
        assert handler._amend_payload(body, refused) is None


class TestThinkingBlocks:
    def streamed(self, make_handler, read_stream):
        events = [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "hm"},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": "abc"},
            },
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "t1", "name": "f"},
            },
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ]
        read_stream(make_handler(TYPE), [f"data: {json.dumps(event)}\n\n".encode() for event in events])

    def test_a_streamed_turn_comes_back_with_its_thoughts(self, make_handler, read_stream, payload):
        """Keyed by the call's id."""
        self.streamed(make_handler, read_stream)
        turn = payload(user("Q"), CALL_TURN, samplers=THINKS)["messages"][1]
        assert turn["content"][0] == THOUGHT

    def test_a_whole_turn_too(self, handler, payload):
        """And the result carries them."""
        use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
        answer = handler.read_whole({"content": [THOUGHT, use], "stop_reason": "tool_use"})
        assert answer["thinking_blocks"] == [THOUGHT]
        turn = payload(user("Q"), CALL_TURN, samplers=THINKS)["messages"][1]
        assert turn["content"][0] == THOUGHT

    def test_a_turn_of_another_chat_gets_none(self, make_handler, read_stream, payload):
        """Its server counts its calls, so the id is the same; the arguments are not."""
        self.streamed(make_handler, read_stream)
        [call] = CALL_TURN["tool_calls"]
        other = {**call, "function": {**call["function"], "arguments": '{"a": 1}'}}
        turn = payload(user("Q"), {**CALL_TURN, "tool_calls": [other]}, samplers=THINKS)["messages"][1]
        assert turn["content"][0]["type"] == "tool_use"

    @pytest.mark.parametrize("samplers", [{}, {"thinking": {"type": "disabled"}}])
    def test_a_request_that_does_not_think_sends_none(self, make_handler, read_stream, payload, samplers):
        """They are wanted only then."""
        self.streamed(make_handler, read_stream)
        turn = payload(user("Q"), CALL_TURN, samplers=samplers)["messages"][1]
        assert turn["content"][0]["type"] == "tool_use"


class TestAnswers:
    def test_whole_text(self, handler, whole):
        """Blocks joined without a separator."""
        blocks = [THOUGHT, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "junk"]
        usage = {"input_tokens": 1, "output_tokens": 2}
        answer = handler.read_whole(
            {"content": blocks, "stop_reason": "end_turn", "usage": usage, "model": "c"}
        )
        assert whole(answer) == {
            "text": "ab",
            "thinking": "hm",
            "calls": [],
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
        assert (answer.model, answer.native_finish_reason) == ("c", "end_turn")

    def test_an_empty_list_is_an_empty_text(self, handler):
        """Nothing was said."""
        assert handler.read_whole({"content": [], "stop_reason": "end_turn"}) == ""

    def test_a_call_that_the_end_cut(self, handler):
        """Its input is an object even so: it is left out, and the text knows it."""
        use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
        blocks = [{"type": "text", "text": "Hi"}, use]
        answer = handler.read_whole({"content": blocks, "stop_reason": "max_tokens"})
        assert (answer, answer.cut_call) == ("Hi", True)
        assert handler.read_whole({"content": blocks[:1], "stop_reason": "max_tokens"}).cut_call is False

    def test_calls(self, handler):
        """As OpenAI calls, input as JSON text."""
        use = {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}
        answer = handler.read_whole({"content": [use], "stop_reason": "tool_use"})
        assert answer["tool_calls"] == [
            {"id": "t", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
        ]
        assert (answer["finish_reason"], answer["native_finish_reason"]) == ("tool_calls", "tool_use")

    def test_one_event_is_one_dict(self, handler):
        """The stateless face."""
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
        assert handler._process_stream_data(json.dumps(delta)) == {"token": "a", "finish_reason": None}
        assert handler._process_stream_data('{"type": "ping"}') is None


def test_a_stream_tells_its_prompt_at_the_start(handler):
    """So that one which is left in the middle is counted with it."""
    state = StreamState()
    start = {
        "type": "message_start",
        "message": {"model": "c", "usage": {"input_tokens": 9, "output_tokens": 1}},
    }
    assert handler._map_event("message_start", start, state) is None
    assert state.usage == {"prompt_tokens": 9}

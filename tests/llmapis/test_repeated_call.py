"""A call of a run, made once more: what a body that was kept tells, and what is sent for it.

Source: spec workbench.md 3.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_api import LlmApiService
from Middleware.llmapis.repeated_call import RepeatedCall, call_in

URL = "http://127.0.0.1:9"
TALK = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CHATS = ["Open-AI-API", "OllamaApiChat", "Claude"]
FLAT = ["KoboldCpp", "OpenAI-Compatible-Completions"]


class TestWhatABodyTells:
    @pytest.mark.parametrize(
        "body",
        ["", "{", "3", "[]", "{}", '{"messages": "x"}', '{"messages": [1]}', '{"prompt": ["x"]}'],
    )
    def test_no_request_of_a_model(self, body):
        assert call_in(body.encode(), "E") is None

    def test_messages(self):
        """What stands beside them is kept."""
        body = {"messages": TALK, "tools": TOOLS}
        assert call_in(json.dumps(body).encode(), "E") == RepeatedCall("E", messages=TALK, body=body)

    @pytest.mark.parametrize(("system", "first"), [("Be kind.", TALK[:1]), ("", []), ([{"text": "x"}], [])])
    def test_a_system_text_beside_them(self, system, first):
        """Becomes the first message."""
        call = call_in(json.dumps({"system": system, "messages": TALK[1:]}).encode(), "E")
        assert call.messages == [*first, *TALK[1:]]

    def test_a_flat_prompt(self):
        call = call_in(b'{"prompt": "Hi"}', "E")
        assert (call.prompt, call.messages, call.body) == ("Hi", None, {"prompt": "Hi"})


@pytest.fixture
def house(configs):
    """Endpoint `E` with preset `P`; `sent`: the body of a call, and its repetition with some fields changed."""

    class House:
        def endpoint(self, kind, **fields):
            configs.endpoint("E", URL, kind, **fields)
            for folder in ("OpenAiCompatibleApis", "KoboldCppApis", "OllamaApis", "ClaudeApis"):
                configs.preset(folder, "P", temperature=0.5, seed=7)

        def first(self, call, *, stream=True):
            service = LlmApiService("E", None, 99, stream, **configs.given())
            asked = call.of_endpoint(service, is_backup=False)
            return service.handler.whole_payload(asked), service.handler.settings.samplers

        def again(self, body, samplers=None, **fields):
            call = call_in(json.dumps(body).encode(), "E")
            call = replace(call, samplers=samplers, **{"max_tokens": 99, **fields})
            return json.loads(call.body_of(call.service(**configs.given())))

    return House()


class TestWhatIsSent:
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    @pytest.mark.parametrize("kind", CHATS)
    def test_messages_give_the_very_body(self, house, kind, stream):
        house.endpoint(kind)
        call = CallArguments([dict(each) for each in TALK])
        body, samplers = house.first(call, stream=stream)
        assert house.again(body, samplers, stream=stream) == json.loads(json.dumps(body))

    @pytest.mark.parametrize("kind", FLAT)
    def test_so_does_a_flat_prompt(self, house, kind):
        house.endpoint(kind)
        body, samplers = house.first(CallArguments(prompt="Hi"))
        assert house.again(body, samplers) == json.loads(json.dumps(body))

    @pytest.mark.parametrize("kind", ["Open-AI-API", "OllamaApiChat"])
    def test_with_a_schema(self, house, kind):
        house.endpoint(kind)
        body, samplers = house.first(CallArguments(list(TALK), schema=SCHEMA))
        assert house.again(body, samplers) == json.loads(json.dumps(body))

    def test_with_tools(self, house):
        """Their choice, and whether several may be called at once."""
        house.endpoint("Open-AI-API")
        call = CallArguments(list(TALK), tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        body, samplers = house.first(call)
        assert house.again(body, samplers) == json.loads(json.dumps(body))
        assert (body["tools"], body["tool_choice"], body["parallel_tool_calls"]) == (TOOLS, "required", False)

    def test_tools_that_are_no_list_are_left_out(self, house):
        house.endpoint("Open-AI-API")
        assert "tools" not in house.again({"messages": TALK, "tools": "x"})

    def test_texts_of_the_endpoint_are_in_it_already(self, house):
        """And do not come a second time."""
        house.endpoint("Open-AI-API", addTextToStartOfSystem=True, textToAddToStartOfSystem="Above all: ")
        body, samplers = house.first(CallArguments(list(TALK)))
        assert body["messages"][0]["content"] == "Above all: Be kind."
        assert house.again(body, samplers)["messages"] == body["messages"]

    def test_an_edit(self, house):
        """Laid over the samplers of then: null takes one away, and a limit of the answer replaces that of then."""
        house.endpoint("Open-AI-API")
        changes = {"temperature": 0.9, "seed": None, "max_tokens": 5}
        sent = house.again({"messages": TALK}, {"temperature": 0.5, "seed": 7, "top_p": 0.1}, changes=changes)
        assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (
            0.9,
            0.1,
            5,
        ) and "seed" not in sent

    def test_samplers_of_another_preset(self, house):
        """Its own, where those of then are not given."""
        house.endpoint("Open-AI-API")
        sent = house.again({"messages": TALK}, None, preset="P", changes={"seed": 1})
        assert (sent["temperature"], sent["seed"], sent["max_tokens"]) == (0.5, 1, 99)

    @pytest.mark.parametrize("asked", [True, False])
    def test_usage_is_asked_for_as_then(self, house, asked):
        """Whatever the endpoint says now."""
        house.endpoint("Open-AI-API", requestStreamUsage=not asked)
        body = {"messages": TALK, **({"stream_options": {"include_usage": True}} if asked else {})}
        assert ("stream_options" in house.again(body, {})) is asked

    @pytest.mark.parametrize(
        ("kind", "body", "takes"),
        [("Open-AI-API", {"prompt": "x"}, "messages"), ("KoboldCpp", {"messages": TALK}, "one flat prompt")],
    )
    def test_an_endpoint_of_the_other_kind(self, house, kind, body, takes):
        house.endpoint(kind)
        with pytest.raises(ValueError, match=f"endpoint 'E' takes {takes}$"):
            house.again(body)

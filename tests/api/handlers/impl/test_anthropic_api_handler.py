"""The Anthropic routes, against a scripted engine (more-fronts.md 2, 11.1 to 11.5)."""

from __future__ import annotations

import json
import logging
import re
import threading

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from Middleware.api.requests.access import AccessRules
from Middleware.api.requests.chat_messages import TOOL_SENTENCE
from Middleware.common.errors import BackendError
from tests.api.conftest import chunk
from tests.api.recorded import RECORDED
from tests.api.test_a_third_protocol import Held, in_background
from tests.patience import PATIENCE_S

HELLO = {"model": "mira", "max_tokens": 16, "messages": [{"role": "user", "content": "Hello world"}]}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"port": "Brest"}'}}  # fmt: skip
THOUGHT_AND_CALL = [
    [chunk(thinking="A tool will do.")],
    [chunk("Let me look.")],
    [chunk(tool_calls=[CALL])],
    [chunk("", "tool_calls", usage={"prompt_tokens": 11, "completion_tokens": 7})],
]
SCHEMA = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
VERSION = {"anthropic-version": "2023-06-01"}
EVENT = TypeAdapter(RawMessageStreamEvent)


def ask(client, path="/v1/messages", **fields):
    return client.post(path, json={**HELLO, **fields})


def told(engine, client, **fields):
    """The internal messages of a body with these fields."""
    assert ask(client, **fields).status_code == 200
    return engine.last.messages


def datas(text):
    """The data of each event of a stream."""
    return [json.loads(event.split("\ndata: ")[1]) for event in text.split("\n\n")[:-1]]


def user(*blocks):
    return [{"role": "user", "content": list(blocks)}]


def text(said, **more):
    return {"type": "text", "text": said, **more}


class TestAnswers:
    @pytest.mark.parametrize("path", ["/v1/messages", "/messages", "/v1/messages?beta=true"])
    def test_whole(self, client, engine, path):
        """11.1: the SDK's own types take it, strictly."""
        engine.answer = THOUGHT_AND_CALL
        answer = ask(client, path)
        request_id = answer.headers["X-Request-Id"]
        assert answer.json["id"] == f"msg_{request_id}"
        assert answer.json["content"][0]["signature"] == f"hr-{request_id}"
        Message.model_validate_json(answer.text, strict=True)

    def test_streamed(self, client, engine):
        """11.2: each event fits its type, and the numbers of the question go first."""
        engine.answer = THOUGHT_AND_CALL
        answer = ask(client, stream=True)
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        events = datas(answer.text)
        for event in events:
            EVENT.validate_python(event)
        assert events[0]["message"]["usage"]["input_tokens"] == 11
        assert events[-1] == {"type": "message_stop"}

    def test_it_is_whole_unless_the_client_says_otherwise(self, client):
        """`stream` is false by default."""
        assert ask(client).content_type == "application/json"

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"output_config": {"format": SCHEMA, "effort": "low"}}, "output_config.format"),
            ({"output_format": SCHEMA}, "output_format"),
            (
                {"output_config": {"format": SCHEMA}, "output_format": {"type": "text"}},
                "output_config.format",
            ),
            ({"output_config": {"effort": "low"}}, None),
            ({"output_config": "json"}, None),
        ],
        ids=["now", "older", "both", "effort alone", "odd"],
    )
    def test_structured_output(self, client, engine, fields, field):
        """A wish like the others (more-fronts.md 2.10 and 13)."""
        assert ask(client, **fields).status_code == 200
        wish = engine.last.wishes.get("response_format")
        assert (wish and (wish.value, wish.field)) == (field and (SCHEMA, field))

    def test_the_engine_sees_the_shared_workflow(self, client, engine):
        """As on every route."""
        ask(client, model="mira:novel")
        assert engine.last.request.workflow_folder == "novel"
        assert engine.last.request.api_type == "anthropicmessages"

    def test_a_failure_in_mid_stream(self, client, engine):
        """11.4: an error event is the end."""

        def breaking(call):
            yield [chunk("Part")]
            raise BackendError("Big", "server_error", "out of memory", status=500)

        engine.answer = breaking
        answer = ask(client, stream=True)
        events = datas(answer.text)
        assert [event["type"] for event in events[-2:]] == ["content_block_delta", "error"]
        assert events[-1]["error"]["type"] == "api_error"
        assert events[-1]["request_id"] == answer.headers["X-Request-Id"]

    def test_a_prompt_that_is_too_long(self, client, engine):
        """In words that make an agent compact its history."""

        def failing(call):
            raise BackendError("Big", "context_overflow", "8192 tokens are the limit", status=400)

        engine.answer = failing
        answer = ask(client)
        assert answer.status_code == 400
        assert answer.json["error"]["message"].startswith("prompt is too long: endpoint 'Big'")


class TestHistory:
    def test_the_example(self, client, engine):
        """11.3."""
        messages = [
            {"role": "user", "content": "Tide?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"}, text("I look."),
                {"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Brest"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such port"},
                text("So?")]},
        ]  # fmt: skip
        system = [
            text("x-anthropic-billing-header: cc_version=2.1.77; cch=1;"),
            text("Be brief."),
            text("Be kind."),
        ]
        assert told(engine, client, system=system, messages=messages) == [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "Tide?"},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "t1", "type": "function",
                 "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}]},
            {"role": "tool", "content": "Error: no such port", "tool_call_id": "t1", "name": "tide"},
            {"role": "user", "content": "So?"},
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("system", "said"),
        [
            (None, None),
            ("", None),
            ([], None),
            (" \n", None),
            ([text(" ")], None),
            ("Be brief.", "Be brief."),
            ("x-anthropic-billing-header: a=1;\n\nBe brief.", "Be brief."),
            ("x-anthropic-billing-header: a=1;", None),
            ([text("x-anthropic-billing-header: a=1;\nBe brief.")], "Be brief."),
            ([text("a", cache_control={"type": "ephemeral"}), {"type": "image"}, "b", 5], "a\n\nb"),
            ({"type": "text"}, None),
        ],
        ids=str,
    )
    def test_system(self, client, engine, system, said):
        """A text or text blocks; nothing left: no message."""
        messages = told(engine, client, system=system)
        assert [m["content"] for m in messages if m["role"] == "system"] == ([] if said is None else [said])

    def test_other_roles(self, client, engine):
        """System and developer messages at their place."""
        roles = ["user", "developer", " System ", "assistant", "narrator"]
        messages = told(engine, client, messages=[{"role": role, "content": role} for role in roles])
        assert [m["role"] for m in messages] == ["user", "system", "system", "assistant", "narrator"]

    @pytest.mark.parametrize(("content", "said"), [("x", "x"), (None, ""), (5, "5"), ([], ""), ([text("a"), text("b"), "c"], "a\nb\nc"), ([text(None)], "")])  # fmt: skip
    def test_texts(self, client, engine, content, said):
        """As they are; null is empty; blocks are joined."""
        messages = told(engine, client, messages=[{"role": "user", "content": content}])
        assert messages == [{"role": "user", "content": said}]

    def test_no_messages(self, client, engine):
        """An empty list runs the workflow with none."""
        assert told(engine, client, messages=[]) == []

    def test_images_and_documents(self, client, engine):
        """What has text gives it; pictures become data addresses, or stay addresses."""
        base64 = {"type": "base64", "data": "iVBORw0KGgo="}
        blocks = [
            {"type": "image", "source": {**base64, "media_type": "image/webp"}},
            {"type": "image", "source": base64},
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.jpg"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "one"}},
            {"type": "document", "source": {"type": "content", "content": [text("two"), {"type": "image", "source": base64}]}},
            {"type": "document", "source": {"type": "content", "content": "three"}},
            {"type": "search_result", "title": "t", "content": [text("four"), text("five")]},
        ]  # fmt: skip
        png = "data:image/png;base64,iVBORw0KGgo="
        assert told(engine, client, messages=user(*blocks)) == [
            {
                "role": "user",
                "content": "one\ntwo\nthree\nfour\nfive",
                "images": ["data:image/webp;base64,iVBORw0KGgo=", png, "https://x.example/a.jpg", png],
            }
        ]

    def test_results_go_first_their_images_last(self, client, engine):
        """A turn gives its results in order, then one message with the rest and all pictures."""
        picture = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.jpg"}}
        blocks = [
            text("And?"),
            {"type": "tool_result", "tool_use_id": "a", "content": [text("1"), picture, text("2")]},
            {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": "ERROR 5"},
            {"type": "tool_result", "tool_use_id": "c"},
        ]
        assert told(engine, client, messages=user(*blocks)) == [
            {"role": "tool", "content": "1\n2", "tool_call_id": "a"},
            {"role": "tool", "content": "ERROR 5", "tool_call_id": "b"},
            {"role": "tool", "content": "", "tool_call_id": "c"},
            {"role": "user", "content": "And?", "images": ["https://x.example/a.jpg"]},
        ]

    def test_only_results(self, client, engine):
        """No empty turn stands behind them."""
        messages = told(engine, client, messages=user({"type": "tool_result", "content": "x"}))
        assert messages == [{"role": "tool", "content": "x", "tool_call_id": ""}]

    def test_only_calls(self, client, engine):
        """Their turn has an empty text."""
        turn = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n"}]}
        call = {"id": "t", "type": "function", "function": {"name": "n", "arguments": "{}"}}
        assert told(engine, client, messages=[turn]) == [
            {"role": "assistant", "content": "", "tool_calls": [call]}
        ]

    def test_what_has_no_place(self, client, engine, caplog):
        """Is dropped, with one warning a request that names the types."""
        blocks = [
            {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
            {"type": "container_upload"},
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            {"type": "tool_use"},
            {"type": {"text": "secret"}},
            5,
        ]
        nested = {"type": "tool_result", "content": [{"type": "tool_result", "content": "deep"}]}
        with caplog.at_level(logging.WARNING):
            told(engine, client, messages=user(*blocks, nested))
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warnings == [
            "content blocks of these types were dropped: "
            "['(no name)', 'None', 'container_upload', 'document', 'image', 'tool_result', 'tool_use']"
        ]

    def test_thoughts_are_dropped_in_silence(self, client, engine, caplog):
        """They never go on."""
        thoughts = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking"}]
        with caplog.at_level(logging.WARNING):
            turn = {"role": "assistant", "content": [*thoughts, text("a")]}
            assert told(engine, client, messages=[turn]) == [{"role": "assistant", "content": "a"}]
        assert caplog.text == ""

    def test_speakers(self, client, engine, configs):
        """The prefixes of the user file, never on results."""
        configs("Users/mira.json", {"chatCompleteAddUserAssistant": True})
        turn = user({"type": "tool_result", "tool_use_id": "t", "content": "r"}, text("x"))
        assert [m["content"] for m in told(engine, client, messages=turn)] == ["r", "User: x"]


class TestTools:
    def test_tools(self, client, engine, caplog):
        """In the internal form; those that only Anthropic can run are left out."""
        schema = {"type": "object", "properties": {"port": {"type": "string"}}}
        tools = [
            {"name": "tide", "description": "d", "input_schema": schema, "strict": True, "cache_control": {}},
            {"type": "custom", "name": "bare"},
            {"type": "web_search_20250305", "name": "web_search"},
            "x",
        ]
        with caplog.at_level(logging.WARNING):
            ask(client, tools=tools)
        empty = {"type": "object", "properties": {}}
        assert [tool["function"] for tool in engine.last.tools] == [
            {"name": "tide", "description": "d", "parameters": schema, "strict": True},
            {"name": "bare", "parameters": empty},
        ]
        assert "tools of these types were dropped: ['web_search_20250305']" in caplog.text

    @pytest.mark.parametrize(
        ("schema", "sent"),
        [
            ({"type": "object"}, {"type": "object", "properties": {}}),
            ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
            ({"type": "object", "required": []}, {"type": "object", "required": [], "properties": {}}),
            ({"anyOf": []}, {"anyOf": []}),
            ("odd", {"type": "object", "properties": {}}),
        ],
        ids=["bare", "null", "more-keys", "no-object", "no-schema"],
    )
    def test_an_object_schema_has_properties(self, client, engine, schema, sent):
        """OpenAI refuses one without."""
        ask(client, tools=[{"name": "clock", "input_schema": schema}])
        assert engine.last.tools[0]["function"]["parameters"] == sent

    @pytest.mark.parametrize(
        ("choice", "internal"),
        [
            ({"type": "auto", "disable_parallel_tool_use": True}, "auto"),
            ({"type": "any"}, "required"),
            ({"type": "none"}, "none"),
            ({"type": "tool", "name": "tide"}, {"type": "function", "function": {"name": "tide"}}),
            ({"type": "tool"}, None),
            ({"type": "odd"}, None),
            ({"type": []}, None),
            ("auto", None),
            (None, None),
        ],
        ids=str,
    )
    def test_tool_choice(self, client, engine, choice, internal):
        """What is no choice is none."""
        ask(client, tools=[{"name": "tide"}], tool_choice=choice)
        assert engine.last.tool_choice == internal

    @pytest.mark.parametrize("tools", [[], None, "x", [{"type": "bash_20250124", "name": "bash"}]], ids=str)
    def test_no_tool_left(self, client, engine, tools):
        """Neither tools nor choice."""
        ask(client, tools=tools, tool_choice={"type": "any"})
        assert (engine.last.tools, engine.last.tool_choice) == (None, None)


@pytest.mark.parametrize(
    ("thinking", "suppressed"),
    [
        (None, False),
        ({"type": "enabled", "budget_tokens": 1024}, False),
        ({"type": "adaptive"}, False),
        ({"type": "disabled"}, True),
        ({"type": "adaptive", "display": "omitted"}, True),
        ({"type": "adaptive", "display": "summarized"}, False),
        ("disabled", False),
    ],
    ids=str,
)
def test_thinking(client, engine, thinking, suppressed):
    """Only whether reasoning reaches the client."""
    ask(client, thinking=thinking)
    assert engine.last.request.suppress_reasoning is suppressed


class TestErrors:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"model": "mira"}, "'messages' is required"),
            ({"messages": {}}, "'messages' must be a list"),
            ({"messages": ["x"]}, "messages[0] must be an object"),
            ({"messages": [{"content": "x"}]}, "messages[0] has no 'role'"),
            ({"messages": [{"role": 5, "content": "x"}]}, "messages[0].role must be a string"),
            ({"messages": [{"role": "user", "tool_calls": []}]}, "messages[0] has no 'content'"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
    def test_a_wrong_body(self, client, path, body, message):
        """400 that names the field, on both routes."""
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert answer.json["error"]["message"].startswith(message)

    @pytest.mark.parametrize(
        ("send", "status", "kind"),
        [
            (lambda c: c.post("/v1/messages", data="{"), 400, "invalid_request_error"),
            (lambda c: c.get("/v1/messages"), 405, "invalid_request_error"),
            (lambda c: c.get("/v1/messages/batches"), 404, "not_found_error"),
            (lambda c: c.post("/v1/messages/batches", json={}), 404, "not_found_error"),
            (lambda c: c.get("/v1/messages/batches/b1/results"), 404, "not_found_error"),
            (lambda c: c.post("/v1/complete", json={}), 404, "not_found_error"),
            (lambda c: c.get("/v1/files", headers=VERSION), 404, "not_found_error"),
            (lambda c: c.get("/v1/models/nobody", headers=VERSION), 404, "not_found_error"),
            (lambda c: c.get("/messages", headers={"Host": "evil.example"}), 403, "permission_error"),
            (
                lambda c: c.post("/messages", headers={"Content-Encoding": "gzip"}),
                415,
                "invalid_request_error",
            ),
        ],
        ids=[
            "json",
            "method",
            "batches",
            "batch",
            "results",
            "complete",
            "files",
            "model",
            "host",
            "coding",
        ],
    )
    def test_in_its_own_shape(self, client, send, status, kind):
        """Whichever layer refuses; with the request's id in both headers."""
        answer = send(client)
        assert (answer.status_code, answer.json["type"], answer.json["error"]["type"]) == (
            status,
            "error",
            kind,
        )
        request_id = answer.headers["request-id"]
        assert answer.json["request_id"] == request_id == answer.headers["X-Request-Id"]

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 401),
            ({"x-api-key": "k"}, 200),
            ({"Authorization": "Bearer k"}, 200),
            ({"Authorization": "Bearer wrong", "x-api-key": "k"}, 200),
            ({"Authorization": "Bearer wrong", "x-api-key": "wrong too"}, 401),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
    def test_keys(self, serve, path, headers, status):
        """Either header; of both the first that is valid: Claude Code may send a login's Bearer beside it."""
        answer = (
            serve(access=AccessRules(api_keys=("k",))).test_client().post(path, json=HELLO, headers=headers)
        )
        assert answer.status_code == status
        if status == 401:
            assert answer.json["error"]["type"] == "authentication_error"

    def test_several_users(self, client, facts, configs):
        """The model must name one of them."""
        configs("Users/tom.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
        facts(users=("mira", "tom"))
        assert ask(client, model="tom").status_code == 200
        assert ask(client, model="claude-x").json["error"]["type"] == "not_found_error"
        assert client.post("/v1/messages/count_tokens", json={**HELLO, "model": ""}).status_code == 400


class TestCountTokens:
    @pytest.mark.parametrize(
        ("fields", "tokens"),
        [
            ({}, 11),
            ({"system": "Hello world"}, 22),
            ({"messages": user({"type": "image", "source": {"type": "url", "url": "u"}})}, 1608),
            ({"messages": []}, 0),
        ],
        ids=["text", "system", "image", "nothing"],
    )
    @pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/messages/count_tokens"])
    def test_vectors(self, client, engine, path, fields, tokens):
        """11.5. Nothing runs."""
        assert client.post(path, json={**HELLO, **fields}).json == {"input_tokens": tokens}
        assert engine.calls == []

    def test_tools_count(self, client):
        """Once, as JSON."""
        more = client.post("/v1/messages/count_tokens", json={**HELLO, "tools": [{"name": "tide"}]})
        assert more.json["input_tokens"] > 11


class TestModels:
    def test_list(self, client):
        """11.4: for whoever sends the version header; one page whatever is asked for."""
        answer = client.get("/v1/models?limit=1&after_id=x", headers=VERSION)
        assert answer.text == (
            '{"data":[{"type":"model","id":"mira","display_name":"mira","created_at":"2025-10-09T06:06:40Z"}],'
            '"has_more":false,"first_id":"mira","last_id":"mira"}'
        )
        assert answer.headers["request-id"]
        assert client.get("/v1/models").json["object"] == "list"

    @pytest.mark.parametrize("path", ["/v1/models/mira", "/models/mira:latest"])
    def test_one(self, client, path):
        """An entry of the list."""
        listed = client.get("/v1/models", headers=VERSION).json["data"]
        assert [client.get(path, headers=VERSION).json] == listed


class TestItsPlaceInTheHouse:
    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_hang_up_stops_it(self, serve, engine, stream):
        """The server's own word that the client has gone is asked."""
        app, held, gone = serve(), Held(engine), threading.Event()
        environ = {"waitress.client_disconnected": gone.is_set}
        body = {**HELLO, "stream": stream}
        asked = in_background(
            lambda: app.test_client().post("/messages", json=body, environ_overrides=environ)
        )
        assert held.began.wait(PATIENCE_S)
        gone.set()
        asked.join(PATIENCE_S)
        assert held.cancelled

    @pytest.mark.parametrize("path", ["/v1/messages/msg_{}", "/messages/{}", "/v1/chat/completions/msg_{}"])
    def test_delete_stops_it(self, serve, engine, path):
        """By its id as the protocol writes it, or bare."""
        app, held = serve(), Held(engine)
        asked = in_background(lambda: ask(app.test_client()))
        assert held.began.wait(PATIENCE_S)
        answer = app.test_client().delete(path.format(held.id))
        asked.join(PATIENCE_S)
        assert held.cancelled and answer.json == {"status": "cancelled", "request_id": held.id}

    def test_it_is_gated_and_counting_is_not(self, serve, engine, facts):
        """503 with its own type when no slot comes free; an estimate needs none."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        first = in_background(lambda: ask(app.test_client()))
        assert held.began.wait(PATIENCE_S)
        busy = ask(app.test_client())
        counted = app.test_client().post("/v1/messages/count_tokens", json=HELLO)
        held.free.set()
        first.join(PATIENCE_S)
        assert (busy.status_code, busy.json["error"]["type"]) == (503, "overloaded_error")
        assert busy.headers["Retry-After"] == "5" and counted.json == {"input_tokens": 11}

    def test_background_requests_are_known(self, client, engine, configs):
        """Also by the system prompt, which stands beside the messages here."""
        configs("Users/mira.json", {"interceptOpenWebUIToolRequests": True})
        answer = ask(client, system=TOOL_SENTENCE)
        assert answer.json["content"] == [{"type": "text", "text": '{"tool_calls": []}'}]
        assert engine.calls == []


@pytest.mark.parametrize("recorded", [one for one in RECORDED if one.name == "anthropic-python"], ids=str)
def test_recorded_requests_are_answered(client, recorded):
    """What the official package sent."""
    answer = recorded.send(client)
    assert answer.status_code == 200
    if recorded.body.get("stream"):
        assert [EVENT.validate_python(event).type for event in datas(answer.text)][-1] == "message_stop"
    else:
        Message.model_validate_json(answer.text, strict=True)


odd = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
                   | st.sampled_from(["user", "assistant", "text", "image", "document", "tool_use", "tool_result", "base64", "content", "disabled", "tool"]),
                   lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "source", "data", "input", "id", "name", "input_schema", "tool_use_id"]), inner, max_size=4),
                   max_leaves=8)  # fmt: skip
FIELDS = ["model", "messages", "system", "stream", "tools", "tool_choice", "thinking", "max_tokens", "temperature", "stop_sequences", "metadata", "mcp_servers"]  # fmt: skip


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/v1/messages", "/messages/count_tokens"]),
    body=st.dictionaries(st.sampled_from(FIELDS), odd),
    turn=st.none() | st.tuples(st.sampled_from(["user", "assistant", "system"]), odd),
)
def test_any_field_of_any_type_is_never_a_500(client, path, body, turn):
    """An answer, a stream or a 400, each in this protocol."""
    if turn is not None:
        body = {**body, "messages": [{"role": turn[0], "content": turn[1]}]}
    answer = client.post(path, data=json.dumps(body), buffered=True)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json["type"] == "error" and re.search("request ", answer.json["error"]["message"])
    elif answer.content_type.startswith("text/event-stream"):
        assert datas(answer.text)[-1] == {"type": "message_stop"}
    else:
        assert "input_tokens" in answer.json or answer.json["type"] == "message"

"""The OpenAI routes, against a scripted engine (frontend-api.md 8, 10, 11, 18)."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from Middleware.api.handlers.impl.openai_api_handler import WISHES
from Middleware.api.requests.chat_messages import TOOL_SENTENCE
from Middleware.common.errors import ClientRequestError, EarlyTermination
from Middleware.common.request_context import WISH_NAMES, Wish
from Middleware.services.response_builder_service import FINGERPRINT
from Middleware.utilities.sensitive_logging_utils import REDACTED, loggable_text
from tests.api.conftest import chunk
from tests.api.recorded import RECORDED

CHAT = {"model": "mira:novel", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a river."}]}  # fmt: skip
CALL = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "tide", "arguments": ""}}
REST = {"index": 0, "function": {"arguments": '{"port":"Brest"}'}}
USAGE = {"prompt_tokens": 17, "completion_tokens": 4, "total_tokens": 21}
OB = [[chunk("The Ob.")], [chunk("", "stop", usage=USAGE)]]
TIDE = [[chunk(tool_calls=[CALL])], [chunk(tool_calls=[REST])], [chunk("", "tool_calls", usage={"prompt_tokens": 60, "completion_tokens": 12})]]  # fmt: skip


def stable(text, answer):
    """The text with its id and time as the specification writes them."""
    text = text.replace(answer.headers["X-Request-Id"], "R")
    return re.sub(r'"created":\d+', '"created":1760000000', text)


class TestChat:
    def test_whole(self, client, engine):
        """18.1, byte for byte."""
        engine.answer = OB
        answer = client.post("/v1/chat/completions", json=CHAT)
        assert answer.content_type == "application/json"
        assert stable(answer.text, answer) == (
            '{"id":"chatcmpl-R","object":"chat.completion","created":1760000000,"model":"mira:novel","system_fingerprint":"'
            + FINGERPRINT
            + '","choices":[{"index":0,"message":{"role":"assistant","content":"The Ob."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":17,"completion_tokens":4,"total_tokens":21}}'
        )
        ChatCompletion.model_validate(answer.json, strict=True)

    def test_streamed_with_usage(self, client, engine):
        """18.2, byte for byte (without its heartbeat)."""
        engine.answer = OB
        body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
        answer = client.post("/v1/chat/completions", json=body)
        head = (
            'data: {"id":"chatcmpl-R","object":"chat.completion.chunk","created":1760000000,"model":"mira:novel","system_fingerprint":"'
            + FINGERPRINT
            + '","choices":['
        )
        assert stable(answer.text, answer) == (
            head + '{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}\n\n'
            + head + '{"index":0,"delta":{"content":"The Ob."},"logprobs":null,"finish_reason":null}],"usage":null}\n\n'
            + head + '{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}\n\n'
            + head + '],"usage":{"prompt_tokens":17,"completion_tokens":4,"total_tokens":21}}\n\n'
            "data: [DONE]\n\n"
        )  # fmt: skip
        for unit in answer.text.split("\n\n")[:-2]:
            ChatCompletionChunk.model_validate(json.loads(unit[6:]), strict=True)

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
    def test_a_whole_answer_tells_what_its_workflow_took(self, client, engine, path):
        """In a header, compact; nothing when no model was asked (more-fronts.md 9)."""
        body = {**CHAT, "prompt": "x", "stream": False}
        assert "X-Workflow-Usage" not in client.post(path, json=body).headers

        def two_calls(call):
            call.request.usage.add({"prompt_tokens": 100, "completion_tokens": 20})
            call.request.usage.add({"prompt_tokens": 7, "completion_tokens": 3})
            return OB

        engine.answer = two_calls
        answer = client.post(path, json=body)
        told = '{"prompt_tokens":107,"completion_tokens":23,"calls":2}'
        assert answer.headers["X-Workflow-Usage"] == told
        assert "workflow_usage" not in answer.text

    @pytest.mark.parametrize("how", ["off", "reasoning", "status"])
    def test_the_user_says_whether_nodes_are_shown(self, client, engine, configs, how):
        """`progressOutput` (more-fronts.md 8)."""
        configs("Users/mira.json", {"customWorkflowOverride": True, "progressOutput": how})
        engine.answer = [
            [chunk(progress={"number": 1, "of": 2, "title": "Recall", "depth": 0})] if how != "off" else [],
            *OB,
        ]
        text = client.post("/v1/chat/completions", json={**CHAT, "stream": True}).text
        assert engine.last.request.progress == how
        assert ("[1/2] Recall" in text) is (how != "off")
        assert ('"event"' in text) is (how == "status")

    @pytest.mark.parametrize(
        ("path", "more", "headers"),
        [
            ("/v1/chat/completions", {"stream": False}, {}),
            ("/v1/chat/completions", {"think": False}, {}),
            ("/v1/chat/completions", {"reasoning_effort": "none"}, {}),
            ("/v1/chat/completions", {}, {"X-OpenWebUI-Task": "title_generation"}),
            ("/v1/completions", {"prompt": "x"}, {}),
        ],
        ids=["whole", "think", "reasoning-effort", "background-task", "text-completion"],
    )
    @pytest.mark.parametrize("how", ["reasoning", "status"])
    def test_where_no_node_is_shown(self, client, engine, configs, path, more, headers, how):
        """The engine is not even asked to tell."""
        configs("Users/mira.json", {"customWorkflowOverride": True, "progressOutput": how})
        client.post(path, json={**CHAT, "stream": True, **more}, headers=headers)
        assert engine.last.request.progress == "off"

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
    @pytest.mark.parametrize(
        ("body", "wishes"),
        [
            ({"max_tokens": 50}, {"max_tokens": Wish(50, "max_tokens")}),
            (
                {"max_tokens": 50, "max_completion_tokens": 60},
                {"max_tokens": Wish(60, "max_completion_tokens")},
            ),
            ({"stop": "x", "top_k": None}, {"stop": Wish("x", "stop")}),
            ({"repeat_penalty": 1.1}, {"repetition_penalty": Wish(1.1, "repeat_penalty")}),
            (
                {"response_format": {"type": "json_object"}},
                {"response_format": Wish({"type": "json_object"}, "response_format")},
            ),
            ({"n": 2, "echo": True}, {"n": Wish(2, "n"), "echo": Wish(True, "echo")}),
            ({"n": 1, "echo": False, "response_format": {"type": "text"}}, {}),
        ],
    )
    def test_what_a_client_wishes(self, client, engine, path, body, wishes):
        """Handed on as it is; nodes say what they take (more-fronts.md 13)."""
        client.post(path, json={**CHAT, "prompt": "x", **body})
        assert engine.last.wishes == wishes

    def test_every_wish_has_a_field(self):
        """What a node may take, a client of this protocol can say."""
        assert set(WISH_NAMES) <= set(WISHES)

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_wish_that_cannot_be(self, client, engine, stream):
        """The engine refuses it: a 400 that names the field."""

        def refused(call):
            raise ClientRequestError("max_tokens must be a number", param="max_tokens")
            yield

        engine.answer = refused
        answer = client.post("/v1/chat/completions", json={**CHAT, "stream": stream, "max_tokens": "x"})
        assert answer.status_code == 400
        assert answer.json["error"]["message"].startswith("max_tokens must be a number")
        assert answer.json["error"]["param"] == "max_tokens"

    def test_stream_headers(self, client):
        """No hop-by-hop header, no length."""
        headers = client.post("/v1/chat/completions", json={**CHAT, "stream": True}).headers
        assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-cache", "no")
        assert not {"Connection", "Content-Length", "Transfer-Encoding"} & set(headers.keys())

    def test_tool_call_whole(self, client, engine):
        """18.4."""
        engine.answer = TIDE
        choice = client.post("/v1/chat/completions", json=CHAT).json["choices"][0]
        assert choice == {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_7",
                        "type": "function",
                        "function": {"name": "tide", "arguments": '{"port":"Brest"}'},
                    }
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }

    def test_tool_call_streamed(self, client, engine, read_sse):
        """18.5."""
        engine.answer = TIDE
        units = read_sse(client.post("/v1/chat/completions", json={**CHAT, "stream": True}).text)
        assert [(u["choices"][0]["delta"], u["choices"][0]["finish_reason"]) for u in units[:-1]] == [
            ({"role": "assistant", "content": None}, None),
            ({"tool_calls": [CALL]}, None),
            ({"tool_calls": [REST]}, None),
            ({}, "tool_calls"),
        ]

    def test_the_engine_sees_messages_tools_and_the_shared_workflow(self, client, engine):
        """Tools unchanged; the model field picked the workflow."""
        client.post("/v1/chat/completions", json={**CHAT, "tools": [CALL], "tool_choice": "auto"})
        assert engine.last.messages == CHAT["messages"]
        assert (engine.last.tools, engine.last.tool_choice) == ([CALL], "auto")
        assert engine.last.request.workflow_folder == "novel"
        assert engine.last.request.api_type == "openaichatcompletion"

    def test_example_18_5_tool_result(self, client, engine):
        """A tool's result comes back with its id."""
        messages = [
            {"role": "user", "content": "Tide?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_7", "content": "5.1 m"},
        ]
        client.post("/v1/chat/completions", json={"model": "mira", "messages": messages})
        assert engine.last.messages[1:] == [
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            messages[2],
        ]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [({}, "keep"), ({"think": False}, "drop"), ({"reasoning_effort": "none"}, "drop")],
    )
    def test_reasoning_can_be_suppressed(self, client, engine, body, expected):
        """The engine is told."""
        client.post("/v1/chat/completions", json={**CHAT, **body})
        assert engine.last.request.suppress_reasoning is (expected == "drop")

    def test_a_held_lock_is_an_empty_answer(self, client, engine):
        """200, streamed or not."""

        def locked(call):
            raise EarlyTermination

        engine.answer = locked
        whole = client.post("/v1/chat/completions", json=CHAT)
        assert whole.status_code == 200 and whole.json["choices"][0]["message"]["content"] == ""
        streamed = client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        assert streamed.status_code == 200 and streamed.text.endswith("data: [DONE]\n\n")

    def test_the_content_type_is_not_asked_for(self, client):
        """The body is JSON whatever it says."""
        answer = client.post("/chat/completions", data=json.dumps(CHAT), content_type="text/plain")
        assert answer.status_code == 200


class TestPrivacy:
    @pytest.mark.parametrize(
        ("user", "key", "expected"),
        [({}, "k", False), ({"encryptUsingApiKey": True}, None, False), ({"encryptUsingApiKey": True}, "k", True), ({"redactLogOutput": True}, None, True)],
    )  # fmt: skip
    def test_the_flag(self, client, engine, configs, user, key, expected):
        """A key with encryption, or redaction; the key goes down and nowhere else."""
        configs("Users/mira.json", {"customWorkflow": "Main", **user})
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        client.post("/v1/chat/completions", json=CHAT, headers=headers)
        assert engine.last.request.privacy is expected and engine.last.request.api_key == key

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("user", "line"), [({}, "answers to my words"), ({"redactLogOutput": True}, f"answers to {REDACTED}")]
    )
    def test_it_holds_while_the_answer_is_made(self, client, engine, configs, caplog, user, line, stream):
        """Also in the worker of a stream."""
        configs("Users/mira.json", {"customWorkflow": "Main", **user})
        caplog.set_level(logging.INFO)

        def slow(call):
            yield [{"token": "a", "finish_reason": None}]
            logging.getLogger("Middleware").info("answers to %s", loggable_text("my words"))
            yield [{"token": "", "finish_reason": "stop"}]

        engine.answer = slow
        assert client.post("/v1/chat/completions", json={**CHAT, "stream": stream}, buffered=True).text
        assert line in caplog.text


class TestErrors:
    def test_a_missing_role(self, client):
        """18.14."""
        answer = client.post("/v1/chat/completions", json={"model": "mira", "messages": [{"content": "x"}]})
        assert answer.status_code == 400
        assert stable(answer.text, answer) == (
            '{"error":{"message":"messages[0] has no \'role\' (request R)","type":"invalid_request_error","param":"messages[0].role","code":null}}'
        )

    def test_an_unknown_model_with_several_users(self, client, configs, facts, engine):
        """18.18; the user is checked before the messages."""
        configs("Users/jo.json", {"port": 5000})
        facts(users=("mira", "jo"))
        answer = client.post("/v1/chat/completions", json={"model": "gpt-4"})
        assert answer.status_code == 404
        assert stable(answer.text, answer) == (
            '{"error":{"message":"model must name a configured user, as \'user\' or \'user:workflow\'; users: mira, jo (request R)","type":"invalid_request_error","param":"model","code":"model_not_found"}}'
        )
        assert engine.calls == []

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
    @pytest.mark.parametrize("data", ["", "{", "[]", '"x"'])
    def test_bodies_that_are_no_object(self, client, path, data):
        """400 in JSON."""
        answer = client.post(path, data=data)
        assert answer.status_code == 400 and answer.json["error"]["type"] == "invalid_request_error"

    def test_a_broken_user_file(self, client, configs):
        """500 that names the file."""
        configs("Users/mira.json", "{")
        answer = client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 500 and "Users/mira.json" in answer.json["error"]["message"]


class TestCompletions:
    def test_whole(self, client, engine):
        """18.6."""
        engine.answer = [[chunk("Roland: Always.")], [chunk("", "stop", usage={"prompt_tokens": 24, "completion_tokens": 5})]]  # fmt: skip
        prompt = "[Beg_Sys]You are a pilot. [Beg_User]Ann: Ready?[Beg_Sys]It is dark.[Beg_Assistant]Roland:"
        answer = client.post("/v1/completions", json={"model": "mira", "stream": False, "prompt": prompt})
        assert stable(answer.text, answer) == (
            '{"id":"cmpl-R","object":"text_completion","created":1760000000,"model":"mira","system_fingerprint":"'
            + FINGERPRINT
            + '","choices":[{"text":"Roland: Always.","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":24,"completion_tokens":5,"total_tokens":29}}'
        )
        assert [m["role"] for m in engine.last.messages] == ["system", "user", "systemMes", "assistant"]

    def test_streamed(self, client, engine):
        """18.7."""
        engine.answer = [[chunk("Hello.")], [chunk("", "stop")]]
        answer = client.post(
            "/v1/completions", json={"model": "mira", "prompt": "[Beg_User]Hi", "stream": True}
        )
        head = 'data: {"id":"cmpl-R","object":"text_completion","created":1760000000,"choices":'
        tail = ',"model":"mira","system_fingerprint":"' + FINGERPRINT + '"}\n\n'
        assert stable(answer.text, answer) == (
            head + '[{"text":"Hello.","index":0,"logprobs":null,"finish_reason":null}]' + tail
            + head + '[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]' + tail
            + "data: [DONE]\n\n"
        )  # fmt: skip

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"User-Agent": "OpenAI/Python 3.57.0"},
            {"X-Stainless-Lang": "js"},
            {"User-Agent": "node-fetch"},
        ],
    )
    @pytest.mark.parametrize("body", [{}, {"stream": None}], ids=["absent", "null"])
    def test_whole_by_default(self, client, headers, body):
        """Whoever asks, and leaves `stream` out."""
        answer = client.post(
            "/v1/completions", json={"model": "mira", "prompt": "Hi", **body}, headers=headers
        )
        Completion.model_validate(answer.json)

    def test_no_prefixes_on_prompts(self, client, engine, configs):
        """They belong to the chat routes."""
        configs("Users/mira.json", {"chatCompleteAddUserAssistant": True, "chatCompletionAddMissingAssistantGenerator": True})  # fmt: skip
        client.post("/v1/completions", json={"model": "mira", "prompt": "Hi", "stream": False})
        assert engine.last.messages == [{"role": "user", "content": "Hi"}]


class TestModels:
    @pytest.mark.parametrize("path", ["/v1/models", "/models"])
    def test_list(self, client, configs, path):
        """18.13."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        assert client.get(path).text == (
            '{"object":"list","data":['
            '{"id":"mira","object":"model","created":1759990000,"owned_by":"headrace","name":"mira"},'
            '{"id":"mira:novel","object":"model","created":1759990000,"owned_by":"headrace","name":"mira:novel"}]}'
        )

    def test_what_is_listed_can_be_asked_for(self, client, configs, facts):
        """By every route that takes an id."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        configs("Users/jo.json", {"allowSharedWorkflows": True})
        facts(users=("mira", "jo"))
        ids = [entry["id"] for entry in client.get("/v1/models").json["data"]]
        assert ids == ["mira", "mira:novel", "jo", "jo:novel"]
        for name in ids:
            assert client.get(f"/v1/models/{name}").json["id"] == name
            shown = client.post("/api/show", json={"model": name})
            assert shown.json["model_info"]["general.basename"] == name
            whole = client.post("/v1/chat/completions", json={"model": name, "messages": []})
            assert whole.json["model"] == name

    @pytest.mark.parametrize("name", ["mira", "mira:latest"])
    def test_one(self, client, name):
        """`:latest` is tolerated."""
        Model.model_validate(client.get(f"/v1/models/{name}").json, strict=True)

    @pytest.mark.parametrize("name", ["nobody", "a/b", "mira:novel"])
    def test_none(self, client, name):
        """404 that names it."""
        answer = client.get(f"/models/{name}")
        assert answer.status_code == 404 and name in answer.json["error"]["message"]
        assert answer.json["error"]["code"] == "model_not_found"

    def test_head(self, client):
        """Headers only."""
        answer = client.head("/v1/models")
        assert answer.status_code == 200 and answer.data == b""


class TestCancel:
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/chat/completions/chatcmpl-x", None),
            ("/completions/cmpl-x", None),
            ("/chat/completions?request_id=x", None),
            ("/v1/completions", {"request_id": "x"}),
        ],
    )
    def test_an_id_that_does_not_run(self, client, path, body):
        """The same answer, and that it is not active."""
        answer = client.delete(path, json=body)
        assert answer.json == {"status": "cancelled", "request_id": "x", "active": False}

    @pytest.mark.parametrize("data", ["", "{", "{}", '{"request_id": 5}', '{"request_id": " "}'])
    def test_no_id(self, client, data):
        """400."""
        assert client.delete("/v1/chat/completions", data=data).status_code == 400


PICKER = {"model": "mira", "messages": [{"role": "system", "content": TOOL_SENTENCE}, {"role": "user", "content": "x"}]}  # fmt: skip


class TestOpenWebUI:
    def test_tool_selection_runs_nothing(self, client, engine, configs):
        """Whole and streamed."""
        configs("Users/mira.json", {"interceptOpenWebUIToolRequests": True})
        whole = client.post("/v1/chat/completions", json=PICKER)
        assert whole.json["choices"][0]["message"]["content"] == '{"tool_calls": []}'
        assert whole.json["choices"][0]["finish_reason"] == "stop"
        assert whole.json["id"].startswith("chatcmpl-opnwui-tool-")
        streamed = client.post("/v1/chat/completions", json={**PICKER, "stream": True})
        assert streamed.text.endswith("data: [DONE]\n\n")
        assert engine.calls == []

    def test_without_the_setting_it_is_an_ordinary_request(self, client, engine):
        """The default."""
        client.post("/v1/chat/completions", json=PICKER)
        assert len(engine.calls) == 1

    def test_a_background_task_is_known(self, client, engine, caplog):
        """And named in the log."""
        with caplog.at_level("INFO"):
            client.post("/v1/chat/completions", json=CHAT, headers={"X-OpenWebUI-Task": "tags_generation"})
        assert engine.last.request.task == "tags_generation" and "task=tags_generation" in caplog.text


NOT_OURS = ("anthropic", "sillytavern-text-llamacpp")
OURS = [
    one
    for one in RECORDED
    if re.search(r"completions$|/models", one.path) and not one.name.startswith(NOT_OURS)
]


@pytest.mark.parametrize("recorded", OURS, ids=str)
def test_recorded_requests_are_answered(client, recorded):
    """What real clients sent gets 200 and a body that the official types accept."""
    answer = recorded.send(client)
    if not isinstance((recorded.body or {}).get("messages", []), list):
        assert answer.status_code == 400  # the client was made to send nonsense
        return
    assert answer.status_code == 200, answer.text
    if "models" in recorded.path:
        return
    is_chat = "chat" in recorded.path
    if answer.content_type.startswith("text/event-stream"):
        for unit in answer.text.split("\n\n")[:-2]:
            chunk_kind, made = (ChatCompletionChunk if is_chat else Completion), json.loads(unit[6:])
            if not is_chat:  # the type says "never null", the SDK and every server know better
                made["choices"][0]["finish_reason"] = made["choices"][0]["finish_reason"] or "stop"
            chunk_kind.model_validate(made)
    else:
        (ChatCompletion if is_chat else Completion).model_validate(answer.json)


odd = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
                   lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["role", "content", "type", "text"]), inner, max_size=3),
                   max_leaves=6)  # fmt: skip
FIELDS = ["model", "messages", "stream", "tools", "tool_choice", "functions", "function_call", "stream_options", "prompt", "think", "n", "stop"]  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/v1/chat/completions", "/v1/completions"]),
    body=st.dictionaries(st.sampled_from(FIELDS), odd),
)
def test_any_field_of_any_type_is_never_a_500(client, path, body):
    """An answer or a 400, in JSON or as a stream."""
    answer = client.post(path, data=json.dumps(body), buffered=True)
    assert answer.status_code in (200, 400)
    assert not answer.content_type.startswith("text/html")

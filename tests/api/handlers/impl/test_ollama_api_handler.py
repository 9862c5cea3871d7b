"""The Ollama routes, against a scripted engine (frontend-api.md 8, 10, 11, 18)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ollama import ChatResponse, GenerateResponse, ListResponse, ProcessResponse, ShowResponse

from Middleware.api.requests.chat_messages import TOOL_SENTENCE
from Middleware.common.request_context import Wish
from Middleware.services.answers import METRICS
from Middleware.services.cancellation_service import cancellation_service
from tests.api.conftest import chunk
from tests.api.recorded import RECORDED

CHAT = {"model": "mira:novel:latest", "messages": [{"role": "user", "content": "Hi"}]}
CALL = {
    "index": 0,
    "id": "call_7",
    "type": "function",
    "function": {"name": "tide", "arguments": '{"port":"Brest"}'},
}
EMPTY = {"role": "assistant", "content": ""}


def stable(text, answer):
    """The text with id, times and durations as the specification writes them."""
    text = text.replace(answer.headers["X-Request-Id"], "R")
    text = re.sub(r'"created_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"', '"created_at":"T"', text)
    text = re.sub(r'"created":\d+', '"created":1', text)
    return re.sub(r'_duration":[1-9]\d*', '_duration":1', text)


METRICS_TEXT = '"total_duration":1,"load_duration":1,"prompt_eval_count":{},"prompt_eval_duration":1,"eval_count":{},"eval_duration":1'


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion}


class TestChat:
    def test_streamed(self, client, engine):
        """18.8, byte for byte apart from times (without its heartbeat)."""
        engine.answer = [[chunk("Hello.")], [chunk("", "stop", usage=usage(11, 3))]]
        answer = client.post("/api/chat", json=CHAT)
        assert answer.content_type == "application/x-ndjson"
        assert stable(answer.text, answer) == (
            '{"model":"mira:novel","created_at":"T","message":{"role":"assistant","content":"Hello."},"done":false,"request_id":"R"}\n'
            '{"model":"mira:novel","created_at":"T","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
            + METRICS_TEXT.format(11, 3)
            + ',"request_id":"R"}\n'
        )
        for line in answer.text.splitlines():
            ChatResponse.model_validate_json(line)

    def test_tool_call_whole(self, client, engine):
        """18.9."""
        engine.answer = [[chunk(tool_calls=[CALL])], [chunk("", "tool_calls", usage=usage(60, 12))]]
        answer = client.post("/api/chat", json={**CHAT, "model": "mira", "stream": False})
        assert stable(answer.text, answer) == (
            '{"model":"mira","created_at":"T","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_7","function":{"index":0,"name":"tide","arguments":{"port":"Brest"}}}]},"done":true,"done_reason":"stop",'
            + METRICS_TEXT.format(60, 12)
            + ',"request_id":"R"}'
        )
        assert ChatResponse.model_validate(answer.json).message.tool_calls[0].function.arguments == {
            "port": "Brest"
        }

    def test_tool_results_come_back(self, client, engine):
        """18.9: `tool_name` is the name; there is no tool choice in this protocol."""
        messages = [*CHAT["messages"], {"role": "tool", "tool_name": "tide", "content": "5.1 m"}]
        client.post(
            "/api/chat", json={**CHAT, "messages": messages, "tools": [CALL], "tool_choice": "required"}
        )
        assert engine.last.messages[-1] == {"role": "tool", "content": "5.1 m", "name": "tide"}
        assert (engine.last.tools, engine.last.tool_choice) == ([CALL], None)

    def test_images_stay_with_their_message(self, client, engine):
        """As bare base64; list content is flattened here too."""
        content = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "http://u"}},
        ]
        messages = [{"role": "user", "content": content, "images": ["iVBORw0KGgo="]}]
        client.post("/api/chat", json={**CHAT, "messages": messages})
        assert engine.last.messages == [
            {"role": "user", "content": "What is this?", "images": ["http://u", "iVBORw0KGgo="]}
        ]

    def test_a_missing_role(self, client):
        """18.14: a text, not an object."""
        answer = client.post("/api/chat", json={"model": "mira", "messages": [{"content": "x"}]})
        assert answer.status_code == 400
        assert stable(answer.text, answer) == '{"error":"messages[0] has no \'role\' (request R)"}'

    @pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
    @pytest.mark.parametrize(
        ("body", "wishes"),
        [
            ({"options": {"num_predict": 50}}, {"max_tokens": Wish(50, "options.num_predict")}),
            (
                {"options": {"repeat_penalty": 1.1}},
                {"repetition_penalty": Wish(1.1, "options.repeat_penalty")},
            ),
            (
                {"options": {"stop": ["x"], "seed": 0, "num_ctx": 4096}},
                {"stop": Wish(["x"], "options.stop"), "seed": Wish(0, "options.seed")},
            ),
            ({"format": "json"}, {"response_format": Wish({"type": "json_object"}, "format")}),
            (
                {"format": {"type": "object"}},
                {"response_format": Wish({"type": "json_schema", "schema": {"type": "object"}}, "format")},
            ),
            ({"format": 5}, {"response_format": Wish(5, "format")}),
            ({"format": "", "options": None}, {}),
            ({"max_tokens": 5, "temperature": 1}, {}),
        ],
    )
    def test_what_a_client_wishes(self, client, engine, path, body, wishes):
        """By the names that OpenAI's clients have for it (more-fronts.md 13)."""
        messages = [{"role": "user", "content": "x"}]
        client.post(path, json={"model": "mira", "messages": messages, "prompt": "x", **body})
        assert engine.last.wishes == wishes

    def test_the_model_key_is_required(self, client, engine):
        """It may be empty."""
        assert client.post("/api/chat", json={"messages": CHAT["messages"]}).status_code == 400
        assert client.post("/api/chat", json={"model": "", "messages": CHAT["messages"]}).status_code == 200

    def test_tool_selection_echoes_the_model(self, client, engine, configs):
        """16.1: no workflow, all numbers 0."""
        configs("Users/mira.json", {"interceptOpenWebUIToolRequests": True})
        body = {
            "model": "mira:latest",
            "stream": False,
            "messages": [{"role": "system", "content": TOOL_SENTENCE}],
        }
        answer = client.post("/api/chat", json=body).json
        assert answer["model"] == "mira:latest" and answer["message"]["content"] == '{"tool_calls": []}'
        assert {answer[name] for name in METRICS} == {0}
        assert engine.calls == []


class TestGenerate:
    def test_image_without_text(self, client, engine):
        """18.10."""
        engine.answer = [[chunk("A grey square.")], [chunk("", "stop", usage=usage(300, 5))]]
        answer = client.post(
            "/api/generate", json={"model": "mira", "prompt": "", "images": ["iVBORw0KGgo="], "stream": False}
        )
        assert engine.last.messages == [{"role": "user", "content": "", "images": ["iVBORw0KGgo="]}]
        assert stable(answer.text, answer) == (
            '{"model":"mira","created_at":"T","response":"A grey square.","done":true,"done_reason":"stop",'
            + METRICS_TEXT.format(300, 5)
            + ',"request_id":"R","id":"gen-R","object":"text_completion","created":1,"choices":[{"text":"A grey square.","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":300,"completion_tokens":5,"total_tokens":305}}'
        )
        GenerateResponse.model_validate(answer.json)

    def test_streamed_to_the_token_limit(self, client, engine):
        """18.11."""
        engine.answer = [[chunk("Once")], [chunk("", "length", usage=usage(9, 1))]]
        answer = client.post("/api/generate", json={"model": "mira", "prompt": "Tell."})
        assert stable(answer.text, answer) == (
            '{"model":"mira","created_at":"T","response":"Once","done":false,"request_id":"R"}\n'
            '{"model":"mira","created_at":"T","response":"","done":true,"done_reason":"length",'
            + METRICS_TEXT.format(9, 1)
            + ',"request_id":"R"}\n'
        )

    def test_system_and_prompt(self, client, engine):
        """One text; no prefixes."""
        client.post("/api/generate", json={"model": "mira", "system": "S.", "prompt": "P.", "raw": True})
        assert engine.last.messages == [{"role": "user", "content": "S.P."}]

    @pytest.mark.parametrize("body", [{"prompt": "x"}, {"model": "", "prompt": "x"}])
    def test_a_model_is_required(self, client, body):
        """And not empty."""
        assert client.post("/api/generate", json=body).json["error"].startswith("'model' is required")


class TestLoad:
    @pytest.mark.parametrize(
        ("keep", "reason"),
        [(0, "unload"), ("0", "unload"), ("0s", "unload"), (-1, "load"), ("5m", "load"), (None, "load"), (False, "load"), ([], "load")],
    )  # fmt: skip
    @pytest.mark.parametrize(
        ("path", "body", "content"),
        [
            ("/api/generate", {"prompt": ""}, {"response": ""}),
            ("/api/chat", {"messages": []}, {"message": EMPTY}),
        ],
    )
    def test_empty_requests_run_nothing(self, client, engine, path, body, content, keep, reason):
        """18.12: one object, not a stream."""
        answer = client.post(path, json={"model": "mira", "keep_alive": keep, **body})
        made = {**answer.json, "created_at": "T"}
        assert made == {"model": "mira", "created_at": "T", **content, "done": True, "done_reason": reason}
        assert engine.calls == []


class TestLists:
    def test_tags(self, client, configs):
        """18.13; the SDK reads it."""
        configs("Users/mira.json", {"allowSharedWorkflows": True})
        answer = client.get("/api/tags")
        models = ListResponse.model_validate(answer.json).models
        assert [one.model for one in models] == ["mira:latest", "mira:novel:latest"]

    @pytest.mark.parametrize("body", [{"model": "mira:novel:latest"}, {"name": "x:novel"}])
    def test_show(self, client, configs, body):
        """18.13; the context length is the user's."""
        configs("Users/mira.json", {"advertisedContextLength": 4096})
        answer = client.post("/api/show", json=body)
        assert answer.json["model_info"]["wilmer.context_length"] == 4096
        assert answer.json["model_info"]["general.basename"] == "mira:novel"
        assert ShowResponse.model_validate(answer.json).capabilities == ["completion"]
        assert answer.json["details"] == {
            "parent_model": "",
            "format": "gguf",
            "family": "wilmer",
            "families": ["wilmer"],
            "parameter_size": "N/A",
            "quantization_level": "Q8",
        }
        assert [answer.json[name] for name in ("license", "modelfile", "parameters", "template")] == [""] * 4

    @pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": 5}])
    def test_show_needs_a_model(self, client, body):
        """400."""
        assert client.post("/api/show", json=body).status_code == 400

    def test_show_of_a_model_that_could_not_chat(self, client, configs, facts):
        """404: with several users it must name one."""
        configs("Users/jo.json", {"port": 5000})
        facts(users=("mira", "jo"))
        answer = client.post("/api/show", json={"model": "gpt-4"})
        assert answer.status_code == 404 and answer.json["error"].startswith("model 'gpt-4' not found")

    def test_the_small_ones(self, client):
        """What clients ask before they chat."""
        assert client.get("/api/version").json == {"version": "0.9.0"}
        assert ProcessResponse.model_validate(client.get("/api/ps").json).models == []
        assert client.get("/").text == "Ollama is running"
        assert client.head("/").status_code == 200
        assert client.get("/health").json["status"] == "ok"


class TestCancel:
    @pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
    def test_a_running_request(self, client, path):
        """18.16."""
        cancellation_service.begin("R")
        try:
            assert client.delete(path, json={"request_id": "R"}).json == {
                "status": "cancelled",
                "request_id": "R",
            }
            assert cancellation_service.is_cancelled("R")
        finally:
            cancellation_service.acknowledge_cancellation("R")

    def test_an_id_that_does_not_run_leaves_no_trace(self, client):
        """A client may send any string."""
        assert client.delete("/api/chat?request_id=x").json["active"] is False

    @pytest.mark.parametrize("given", ["", " ", "chatcmpl-", None, 5], ids=repr)
    def test_no_id_at_all(self, client, given):
        """Wherever it is missing."""
        assert client.delete("/api/generate", json={"request_id": given}).status_code == 400
        if isinstance(given, str):
            assert client.delete("/api/chat", query_string={"request_id": given}, json={}).status_code == 400
        assert not cancellation_service.is_cancelled("x")


OURS = [one for one in RECORDED if re.fullmatch(r"/api/(chat|generate|tags|show|ps|version)", one.path)]


@pytest.mark.parametrize("recorded", OURS, ids=str)
def test_recorded_requests_are_answered(client, recorded):
    """What real clients sent gets 200 and a body that the official types accept."""
    answer = recorded.send(client)
    assert answer.status_code == 200, answer.text
    kind = {"/api/chat": ChatResponse, "/api/generate": GenerateResponse}.get(recorded.path)
    for line in answer.text.splitlines() if kind else ():
        kind.model_validate_json(line)


odd = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4),
                   lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["role", "content", "type", "images"]), inner, max_size=3),
                   max_leaves=6)  # fmt: skip
FIELDS = ["model", "messages", "stream", "tools", "prompt", "system", "images", "keep_alive", "think", "options", "format", "context", "name"]  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/api/chat", "/api/generate", "/api/show"]),
    body=st.dictionaries(st.sampled_from(FIELDS), odd),
)
def test_any_field_of_any_type_is_never_a_500(client, path, body):
    """An answer or a 400, in JSON or as lines."""
    answer = client.post(path, data=json.dumps(body), buffered=True)
    assert answer.status_code in (200, 400)
    assert not answer.content_type.startswith("text/html")

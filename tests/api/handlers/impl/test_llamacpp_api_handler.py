"""llama.cpp's routes, against a scripted engine (more-fronts.md 5)."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.requests.access import AccessRules
from tests.api.conftest import chunk
from tests.api.handlers.impl.test_ollama_api_handler import odd
from tests.api.test_a_third_protocol import Held, in_background
from tests.patience import PATIENCE_S

USAGE = {"prompt_tokens": 33, "completion_tokens": 4}


class TestCompletion:
    def test_whole_is_the_default(self, client, engine):
        """With the numbers of the backend; samplers are not looked at."""
        engine.answer = [[chunk("Well then.")], [chunk("", "stop", usage=USAGE)]]
        answer = client.post("/completion", json={"prompt": "Hi", "n_predict": 40, "samplers": ["x"]}).json
        assert (answer["content"], answer["stop"], answer["stop_type"]) == ("Well then.", True, "eos")
        assert (answer["model"], answer["tokens_evaluated"], answer["tokens_predicted"]) == ("mira", 33, 4)
        assert engine.last.messages == [{"role": "user", "content": "Hi"}]

    def test_streamed(self, client, engine):
        """No names of events, no end mark."""
        engine.answer = [[chunk("Well")], [chunk("", "length", usage=USAGE)]]
        answer = client.post("/completion", json={"prompt": ["Hi"], "stream": True})
        assert answer.content_type == "text/event-stream; charset=utf-8"
        first, last = answer.text.removesuffix("\n\n").split("\n\n")
        assert first == 'data: {"index":0,"content":"Well","tokens":[],"stop":false}'
        end = json.loads(last.removeprefix("data: "))
        assert (end["content"], end["stop"], end["stop_type"]) == ("", True, "limit")

    def test_tags(self, client, engine):
        """Cut the prompt into messages, as on `/v1/completions`."""
        client.post("/completion", json={"prompt": "[Beg_Sys]S.[Beg_User]Hi"})
        assert [message["role"] for message in engine.last.messages] == ["system", "user"]

    def test_wishes(self, client, engine):
        """Under the names of this protocol; nodes say which they take."""
        client.post(
            "/completion",
            json={"prompt": "Hi", "n_predict": 40, "repeat_penalty": 1.1, "seed": 7, "tfs_z": 1},
        )
        wished = {name: (wish.value, wish.field) for name, wish in engine.last.wishes.items()}
        assert wished == {
            "max_tokens": (40, "n_predict"),
            "repetition_penalty": (1.1, "repeat_penalty"),
            "seed": (7, "seed"),
        }

    @pytest.mark.parametrize(
        ("sent", "wished"),
        [
            ({"json_schema": {"type": "object"}}, {"type": "json_schema", "schema": {"type": "object"}}),
            ({"json_schema": {}}, None),
            ({"json_schema": 5}, 5),
            ({"response_format": {"type": "json_object"}}, {"type": "json_object"}),
        ],
        ids=["schema", "empty", "left to the node", "OpenAI's form"],
    )
    def test_structured_output(self, client, engine, sent, wished):
        """As an OpenAI client would say it."""
        client.post("/completion", json={"prompt": "Hi", **sent})
        asked = engine.last.wishes.get("response_format")
        assert (asked.value if asked else None) == wished

    @pytest.mark.parametrize(
        ("sent", "wished"),
        [
            ([[15043, 1.5], [8, False]], {"15043": 1.5, "8": -100}),
            ({"8": 2}, {"8": 2}),
            ([["word", 1]], [["word", 1]]),
            ([[1, 2, 3]], [[1, 2, 3]]),
            ([[True, 1]], [[True, 1]]),
        ],
    )
    def test_biases_are_pairs(self, client, engine, sent, wished):
        """Of token ids and numbers, `false` for never; other things are left to the node that takes them."""
        client.post("/completion", json={"prompt": "Hi", "logit_bias": sent})
        assert engine.last.wishes["logit_bias"].value == wished

    def test_several_prompts(self, client, engine):
        """Are refused in its own shape."""
        answer = client.post("/completion", json={"prompt": ["a", "b"]})
        assert answer.status_code == 400 and engine.calls == []
        error = answer.json["error"]
        assert (error["code"], error["type"]) == (400, "invalid_request_error")
        assert error["message"].startswith("'prompt' must be one string")

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_hang_up_stops_it(self, serve, engine, stream):
        """As on every route."""
        app, held, gone = serve(), Held(engine), threading.Event()
        request = in_background(
            lambda: app.test_client().post(
                "/completion",
                json={"prompt": "Hi", "stream": stream},
                environ_overrides={"waitress.client_disconnected": gone.is_set},
            )
        )
        assert held.began.wait(PATIENCE_S)
        gone.set()
        request.join(PATIENCE_S)
        assert held.cancelled

    def test_it_waits_at_the_gate(self, facts, serve, engine):
        """And is told that the server is busy in its own shape; the probes never wait."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        first = in_background(lambda: app.test_client().post("/completion", json={"prompt": "Hi"}))
        assert held.began.wait(PATIENCE_S)
        busy = app.test_client().post("/completion", json={"prompt": "Hi"})
        assert busy.status_code == 503 and busy.json["error"]["code"] == 503
        assert app.test_client().post("/tokenize", json={"content": "x"}).status_code == 200
        assert app.test_client().delete(f"/api/chat?request_id={held.id}").json["status"] == "cancelled"
        first.join(PATIENCE_S)
        assert held.cancelled


class TestProbes:
    def test_health(self, serve):
        """Open without a key."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        assert client.get("/v1/health").json == client.get("/health").json == {"status": "ok"}
        refused = client.get("/props")
        assert refused.status_code == 401 and refused.json["error"]["type"] == "authentication_error"

    def test_props(self, client, configs, facts):
        """Byte for byte."""
        configs("Users/mira.json", {"advertisedContextLength": 8192})
        assert client.get("/props").text == (
            '{"default_generation_settings":{"params":{},"n_ctx":8192},"total_slots":1,"model_alias":"mira","model_path":"mira",'
            '"modalities":{"vision":true,"audio":false},"chat_template":"","bos_token":"","eos_token":"","build_info":"headrace"}'
        )
        facts(concurrency=3)
        assert client.get("/props").json["total_slots"] == 3

    @pytest.mark.parametrize(
        ("body", "count"),
        [({"content": "Hello world"}, 3), ({"prompt": "Hello world"}, 3), ({}, 0), ({"content": None}, 0)],
    )
    def test_tokenize(self, client, body, count):
        """As many zeros as the estimate."""
        assert client.post("/tokenize", json=body).json == {"tokens": [0] * count}

    @pytest.mark.parametrize("path", ["/slots", "/infill", "/detokenize", "/apply-template", "/slots/0"])
    def test_what_is_not_served(self, client, path):
        """Says so, in its own shape."""
        answer = client.post(path, json={})
        assert answer.status_code == 404
        assert answer.json["error"]["message"].startswith("not supported by this server")
        assert (answer.json["error"]["code"], answer.json["error"]["type"]) == (404, "not_found_error")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/completion", "/tokenize"]),
    body=st.dictionaries(st.sampled_from(["prompt", "content", "stream", "model", "n_predict"]), odd) | odd,
)
def test_any_field_of_any_type_is_never_a_500(client, path, body):
    """An answer, or a 400 in its own shape."""
    answer = client.post(path, data=json.dumps(body), buffered=True)
    assert answer.status_code in (200, 400)
    assert not answer.content_type.startswith("text/html")
    if answer.status_code == 400:
        assert answer.json["error"]["code"] == 400

"""The embeddings routes, over a scripted backend (more-fronts.md 7, 11.10)."""

from __future__ import annotations

import base64
import json
import struct
import threading
from types import SimpleNamespace

import pytest
import requests
import responses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse

from Middleware.api.requests.access import AccessRules
from Middleware.services.cancellation_service import cancellation_service
from tests.api.test_a_third_protocol import in_background
from tests.patience import PATIENCE_S

BACKEND = "http://embed.test"
USER = {"customWorkflowOverride": True, "customWorkflow": "Main"}
ROUTES = ["/v1/embeddings", "/embeddings", "/api/embed", "/api/embeddings"]
VECTORS = {"a": [1, 0.25], "b": [0.5, -2]}
ASKED = {"/api/embeddings": {"prompt": "a"}}


def ask(client, path="/v1/embeddings", **fields):
    return client.post(path, json=fields or ASKED.get(path, {"input": "a"}))


def message_of(answer):
    error = answer.json["error"]
    return error if isinstance(error, str) else error["message"]


class Network:
    """The backend: `asked` are the texts of each call; `answer` may be put in the place of `vectors`."""

    def __init__(self, mock):
        self.asked, self.answer = [], self.vectors
        mock.add_callback("POST", f"{BACKEND}/v1/embeddings", self._called)

    def _called(self, request):
        self.asked.append(json.loads(request.body)["input"])
        return self.answer(self.asked[-1])

    @staticmethod
    def vectors(texts):
        data = [{"index": i, "embedding": VECTORS.get(t, [len(t), 0])} for i, t in enumerate(texts)]
        return 200, {}, json.dumps({"data": data[::-1]})


@pytest.fixture
def network():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield Network(mock)


@pytest.fixture
def embedding(configs):
    """`embedding("mira", "tom")` gives these users an embeddings endpoint."""
    configs("ApiTypes/Emb.json", {"type": "openAIEmbeddings"})
    configs("Endpoints/Vectors.json", {"endpoint": BACKEND, "apiTypeConfigFileName": "Emb"})

    def give(*names):
        for name in names:
            configs(f"Users/{name}.json", {**USER, "embeddingsEndpoint": "Vectors"})

    give("mira")
    return give


class TestOpenAI:
    @pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
    def test_texts(self, client, embedding, network, path):
        """Vectors in order, the model as it was sent, tokens as estimated."""
        answer = ask(client, path, model="text-embedding-3-small", input=["a", "b"], user="u")
        assert answer.json == {
            "object": "list",
            "data": [
                {"object": "embedding", "index": 0, "embedding": [1, 0.25]},
                {"object": "embedding", "index": 1, "embedding": [0.5, -2]},
            ],
            "model": "text-embedding-3-small",
            "usage": {"prompt_tokens": 2, "total_tokens": 2},
        }
        CreateEmbeddingResponse.model_validate(answer.json)
        assert network.asked == [["a", "b"]]

    def test_one_text(self, client, embedding, network):
        """A list of one; without a model the user is told."""
        assert (answer := ask(client)).json["model"] == "mira" and len(answer.json["data"]) == 1

    def test_base64(self, client, embedding, network):
        """11.10: little-endian float32, which the SDK asks for."""
        answer = ask(client, input=["a", "b"], encoding_format="base64")
        coded = [entry["embedding"] for entry in answer.json["data"]]
        assert coded == ["AACAPwAAgD4=", "AAAAPwAAAMA="]
        assert struct.unpack("<2f", base64.b64decode(coded[1])) == (0.5, -2)

    def test_a_number_that_no_float32_holds(self, client, embedding, network):
        """502, not a wrong number."""
        network.answer = lambda texts: (200, {}, '{"data": [{"embedding": [1e300]}]}')
        assert ask(client, input="a", encoding_format="base64").status_code == 502
        assert ask(client).json["data"][0]["embedding"] == [1e300]

    def test_many_texts(self, client, embedding, network):
        """2,048 at most; the backend gets them in parts."""
        assert len(ask(client, input=["a"] * 2048).json["data"]) == 2048
        assert {len(texts) for texts in network.asked} == {64}

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"model": "x"}, "input"),
            ({"input": []}, "input"),
            ({"input": ["a"] * 2049}, "input"),
            ({"input": 5}, "input"),
            ({"input": [1, 2]}, "input"),
            ({"input": [[1, 2]]}, "input"),
            ({"input": ["a", 1]}, "input"),
            ({"input": {"a": 1}}, "input"),
            ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
            ({"input": "a", "encoding_format": []}, "encoding_format"),
            ({"input": "a", "dimensions": 256}, "dimensions"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_what_is_refused(self, client, embedding, network, fields, param):
        """400 that names the field; nothing is called."""
        error = ask(client, **fields).json["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert error["code"] == ("unsupported_parameter" if param == "dimensions" else None)
        assert network.asked == []


class TestOllama:
    def test_embed(self, client, embedding, network):
        """A text or a list."""
        answer = ask(client, "/api/embed", model="nomic", input=["a", "b"], truncate=True, keep_alive=0).json
        assert answer.pop("total_duration") >= 1
        assert answer == {
            "model": "nomic",
            "embeddings": [[1, 0.25], [0.5, -2]],
            "load_duration": 1,
            "prompt_eval_count": 2,
        }
        assert ask(client, "/api/embed", input="b").json["embeddings"] == [[0.5, -2]]

    @pytest.mark.parametrize(
        ("path", "fields", "key"),
        [
            ("/api/embed", {"input": []}, "embeddings"),
            ("/api/embed", {"input": ""}, "embeddings"),
            ("/api/embed", {"model": "x"}, "embeddings"),
            ("/api/embeddings", {"prompt": ""}, "embedding"),
            ("/api/embeddings", {"model": "x"}, "embedding"),
        ],
        ids=str,
    )
    def test_nothing_asked(self, client, embedding, network, path, fields, key):
        """No call, no vector: so clients load a model."""
        assert ask(client, path, **fields).json[key] == [] and network.asked == []

    def test_the_older_route(self, client, embedding, network):
        """One prompt, one vector."""
        assert ask(client, "/api/embeddings", prompt="b").json == {"embedding": [0.5, -2]}

    @pytest.mark.parametrize(
        ("path", "fields"),
        [
            ("/api/embed", {"input": [1]}),
            ("/api/embed", {"input": {}}),
            ("/api/embed", {"input": "a", "dimensions": 5}),
            ("/api/embeddings", {"prompt": ["a"]}),
        ],
        ids=str,
    )
    def test_what_is_refused(self, client, embedding, network, path, fields):
        """400, in Ollama's shape."""
        answer = ask(client, path, **fields)
        assert answer.status_code == 400 and isinstance(answer.json["error"], str)


@pytest.mark.parametrize("path", ROUTES)
class TestEveryRoute:
    @pytest.mark.parametrize("data", ['{"input": "a"}', "{", ""], ids=["good", "no-json", "empty"])
    def test_nobody_has_it(self, client, path, data):
        """404, whatever the body says."""
        answer = client.post(path, data=data)
        assert answer.status_code == 404 and message_of(answer).startswith("not supported by this server")

    def test_no_json(self, client, embedding, path):
        """400, in the shape of the path."""
        answer = client.post(path, data="{")
        assert answer.status_code == 400 and "not JSON" in message_of(answer)
        assert isinstance(answer.json["error"], str) is path.startswith("/api")

    @pytest.mark.parametrize(
        ("answer", "status"),
        [
            ((500, {}, "{}"), 502),
            ((429, {}, "{}"), 429),
            ((200, {}, '{"data": []}'), 502),
            ((200, {}, "<html>"), 502),
        ],
        ids=["fails", "limits", "too-few", "no-json"],
    )
    def test_a_failing_backend(self, client, embedding, network, caplog, path, answer, status):
        """Its own status, one line in the log; the SDK must not repeat it."""
        network.answer = lambda texts: answer
        told = ask(client, path)
        assert told.status_code == status and message_of(told).startswith("endpoint 'Vectors' (Endpoints/")
        assert told.headers["x-should-retry"] == "false" and "Traceback" not in caplog.text

    def test_an_endpoint_that_cannot_embed(self, client, configs, embedding, path):
        """500 that says so."""
        configs("ApiTypes/Emb.json", {"type": "openAIChatCompletion"})
        answer = ask(client, path)
        assert answer.status_code == 500 and "is not for embeddings" in message_of(answer)

    def test_keys(self, serve, embedding, network, path):
        """As on every route."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        assert ask(client, path).status_code == 401
        assert client.post(path, json=ASKED.get(path, {"input": "a"}), headers={"x-api-key": "k"}).status_code == 200  # fmt: skip

    def test_no_workflow_runs_and_no_slot_is_needed(self, serve, facts, embedding, network, engine, path):
        """While the only slot is taken."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, seen = serve(), []

        def embedding_meanwhile(call):
            seen.append(ask(app.test_client(), path).status_code)
            yield [{"token": "x", "finish_reason": "stop"}]

        engine.answer = embedding_meanwhile
        app.test_client().post("/v1/chat/completions", json={"messages": []})
        assert seen == [200] and len(engine.calls) == 1

    def test_it_is_no_run(self, serve, embedding, network, path):
        """Those who observe runs are not told of it (console.md 3.3): it generates nothing."""
        app, told = serve(), []
        app.door.observers.observe(
            SimpleNamespace(keeps_text=True, note_change=lambda run, what, node: told.append(what))
        )
        ask(app.test_client(), path).close()
        assert (told, len(network.asked)) == ([], 1)

    def test_it_is_counted_neither_as_waiting_nor_as_running(self, serve, facts, embedding, network, path):
        """It needs no slot, and has none."""
        facts(concurrency=1, concurrency_level="request")
        client, shown = serve().test_client(), []

        def answer(texts):
            shown.append(client.get("/metrics").text)
            return network.vectors(texts)

        network.answer = answer
        assert ask(client, path).status_code == 200
        assert "headrace_queue_length 0.0" in shown[0] and "headrace_requests_running 0.0" in shown[0]

    def test_a_hang_up_ends_the_call(self, serve, embedding, network, path):
        """499, and nothing of the request is left."""
        app, gone, begun, cancelled, told = (
            serve(),
            threading.Event(),
            threading.Event(),
            threading.Event(),
            [],
        )

        def silent(texts):
            (life,) = app.door.lives
            cancellation_service.register_abort_callback(life.request_id, cancelled.set)
            begun.set()
            assert cancelled.wait(PATIENCE_S)
            return requests.ConnectionError("closed by the abort")

        network.answer = silent
        environ = {"waitress.client_disconnected": gone.is_set}
        body = ASKED.get(path, {"input": "a"})
        asked = in_background(
            lambda: told.append(
                app.test_client().post(path, json=body, buffered=True, environ_overrides=environ)
            )
        )
        assert begun.wait(PATIENCE_S)
        gone.set()
        asked.join(PATIENCE_S)
        assert [answer.status_code for answer in told] == [499] and not app.door.lives


class TestWhoseEndpoint:
    @pytest.fixture
    def users(self, configs, embedding, facts):
        """mira, tom and una; `users("mira")`: only she has the setting."""

        def have(*holders):
            for name in ("mira", "tom", "una"):
                configs(f"Users/{name}.json", USER)
            embedding(*holders)
            facts(users=("mira", "tom", "una"))

        return have

    @pytest.mark.parametrize(
        ("holders", "model", "status"),
        [
            (("mira", "tom"), "tom", 200),
            (("mira", "tom"), "tom:latest", 200),
            (("mira", "tom"), "mira:novel", 200),
            (("tom",), "text-embedding-3-small", 200),
            (("tom",), None, 200),
            (("mira", "tom"), "text-embedding-3-small", 400),
            (("mira", "tom"), None, 400),
            (("mira", "tom"), "una", 404),
            ((), "una", 404),
        ],
        ids=str,
    )
    def test_several_users(self, client, users, network, holders, model, status):
        """The one that is named, else the only one that has the setting."""
        users(*holders)
        assert ask(client, input="a", model=model).status_code == status

    def test_the_users_that_have_it_are_named(self, client, users):
        """Those alone."""
        users("mira", "una")
        assert "mira, una" in message_of(ask(client))

    def test_a_broken_user_file_counts_as_none(self, client, configs, users, network, caplog):
        """It must not close the door for the others."""
        users("tom")
        configs("Users/mira.json", "{")
        assert ask(client).status_code == 200
        assert "mira" in caplog.text


odd = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
                   lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
                   max_leaves=5)  # fmt: skip
FIELDS = ["model", "input", "prompt", "encoding_format", "dimensions", "user", "truncate", "options", "keep_alive"]  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(ROUTES), body=st.dictionaries(st.sampled_from(FIELDS), odd))
def test_any_field_of_any_type_is_never_a_500(client, embedding, network, path, body):
    """Vectors or a 400, in the shape of the path."""
    answer = client.post(path, data=json.dumps(body))
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert isinstance(answer.json["error"], str) is path.startswith("/api")

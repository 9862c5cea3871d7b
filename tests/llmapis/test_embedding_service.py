"""Texts to vectors, over real sockets."""

from __future__ import annotations

import base64
import json
import struct
import threading
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError, ConfigError
from Middleware.llmapis.embedding_service import EmbeddingService
from Middleware.llmapis.failover import take_spare_slots
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("transport")


@pytest.fixture
def service(configs):
    return lambda: EmbeddingService("E", **configs.given())


def counting(rig, size=2):
    """Vectors whose first number is the text itself."""

    def script(peer):
        while request := peer.request():
            texts = json.loads(request["body"])["input"]
            data = [{"index": i, "embedding": [float(text)] * size} for i, text in enumerate(texts)]
            peer.send(rig.json_answer({"data": data[::-1]}))

    return script


def test_the_vectors_of_the_spec(serve, rig, configs, service):
    """In the order of the texts, whatever the order of the answer."""
    server = serve(counting(rig, size=1))
    configs.endpoint("E", server.url, "OpenAI-Embeddings", modelNameToSendToAPI="nomic", apiKey="k")
    assert service().get_embeddings(["2", "1"]) == [[2.0], [1.0]]
    request = server.requests[0]
    assert request["line"].startswith("POST /v1/embeddings ")
    assert json.loads(request["body"]) == {"input": ["2", "1"], "model": "nomic"}
    assert request["headers"]["authorization"] == "Bearer k"


def test_no_texts_no_call(configs, service):
    """Nothing to ask."""
    configs.endpoint("E", "http://127.0.0.1:9", "OpenAI-Embeddings")
    assert service().get_embeddings([]) == []


def test_many_texts_go_in_batches(serve, rig, configs, service):
    """Of at most 64."""
    server = serve(counting(rig))
    configs.endpoint("E", server.url, "OpenAI-Embeddings")
    vectors = service().get_embeddings([str(n) for n in range(130)])
    assert [vector[0] for vector in vectors] == list(range(130))
    assert [len(json.loads(r["body"])["input"]) for r in server.requests] == [64, 64, 2]


@pytest.mark.parametrize("status", ["200 OK", "503 X"])
def test_the_slot_is_given_back(serve, rig, configs, service, status):
    """After an answer, and after a failure."""
    server = serve(lambda peer: (peer.request(), peer.send(rig.json_answer({"data": []}, status))))
    configs.endpoint("E", server.url, "OpenAI-Embeddings", maxConcurrentRequests=1)
    with pytest.raises((BackendError, ValueError)):
        service().get_embeddings(["1"])
    spare = take_spare_slots(service().endpoint, whole_process=False)
    assert spare is not None
    spare.close()


def test_one_attempt(serve, rig, configs, service):
    """No retries."""
    server = serve(lambda peer: (peer.request(), peer.send(rig.json_answer({}, "503 X"))))
    configs.endpoint("E", server.url, "OpenAI-Embeddings")
    with pytest.raises(BackendError):
        service().get_embeddings(["1"])
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"nope", b"[1]"])
def test_a_body_that_is_no_object(serve, rig, configs, service, body):
    """A ValueError, as for every unusable answer."""
    server = serve(lambda peer: (peer.request(), peer.send(rig.head(content_length=str(len(body))) + body)))
    configs.endpoint("E", server.url, "OpenAI-Embeddings")
    with pytest.raises(ValueError, match="not a JSON object"):
        service().get_embeddings(["1"])


def test_batches_must_agree_on_the_length(serve, rig, configs, service):
    """A server that changes its model in between."""
    sizes = iter([2, 3])

    def script(peer):
        while request := peer.request():
            vector = [1.0] * next(sizes)
            peer.send(
                rig.json_answer(
                    {"data": [{"embedding": vector} for _ in json.loads(request["body"])["input"]]}
                )
            )

    configs.endpoint("E", serve(script).url, "OpenAI-Embeddings")
    with pytest.raises(ValueError, match="different lengths"):
        service().get_embeddings(["1"] * 65)


def test_cancelled(serve, rig, configs, service):
    """None, in the call and in the queue before it."""
    asked = threading.Event()
    server = serve(lambda peer: (peer.request(), asked.set(), peer.closed()))
    configs.endpoint("E", server.url, "OpenAI-Embeddings", maxConcurrentRequests=1)
    made, results = service(), []
    threads = [
        threading.Thread(target=lambda: results.append(made.get_embeddings(["1"], "emb"))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert asked.wait(PATIENCE_S)
    cancellation_service.request_cancellation("emb")
    for thread in threads:
        thread.join(PATIENCE_S)
    cancellation_service.acknowledge_cancellation("emb")
    assert results == [None, None]


def test_an_endpoint_that_generates(configs, service):
    """Is not for embeddings."""
    configs.endpoint("E", "http://h")
    with pytest.raises(ConfigError, match="not for embeddings"):
        service()


def test_base64_vectors(serve, rig, configs, service):
    """As some servers send them."""
    packed = base64.b64encode(struct.pack("<2f", 0.5, -1)).decode()
    server = serve(
        lambda peer: (peer.request(), peer.send(rig.json_answer({"data": [{"embedding": packed}]})))
    )
    configs.endpoint("E", server.url, "OpenAI-Embeddings")
    assert service().get_embeddings(["1"]) == [[0.5, -1.0]]


def test_whoever_observes_sees_the_call(serve, rig, configs):
    """As one of its own kind."""
    server = serve(counting(rig))
    configs.endpoint("E", server.url, "OpenAI-Embeddings")
    observers = Observers()
    observers.observe(SimpleNamespace(keeps_text=False, note_change=lambda run, what, node: None))
    run = observers.begin("r1", "/api/chat")
    node = run.node(NodeTrace("Workflows/mira/Main.json", 1, "VectorMemorySearch"))
    EmbeddingService("E", **configs.given(), trace=node).get_embeddings(["1"])
    [call] = run.nodes[0].calls
    assert (call.kind, call.endpoint, call.outcome, call.status) == ("embedding", "E", "1 texts", 200)


@pytest.mark.parametrize(
    ("api_type", "answer", "usage"),
    [
        ("OpenAI-Embeddings", {"usage": {"prompt_tokens": 7}}, {"prompt_tokens": 7}),
        ("OpenAI-Embeddings", {"usage": {"prompt_tokens": True}}, None),
        ("OpenAI-Embeddings", {"usage": 7}, None),
        ("OpenAI-Embeddings", {}, None),
        ("Ollama-Embeddings", {"prompt_eval_count": 7}, {"prompt_tokens": 7}),
        ("Ollama-Embeddings", {"prompt_eval_count": "7"}, None),
    ],
    ids=["openai", "no-number", "no-object", "not-said", "ollama", "a-text"],
)
def test_what_the_call_took(serve, rig, configs, api_type, answer, usage):
    """As the backend reports it, in either form."""
    body = {"data": [{"embedding": [1.0]}], "embeddings": [[1.0]], **answer}
    server = serve(lambda peer: (peer.request(), peer.send(rig.json_answer(body))))
    configs.endpoint("E", server.url, api_type)
    observers = Observers()
    observers.observe(SimpleNamespace(keeps_text=False, note_change=lambda run, what, node: None))
    run = observers.begin("r1", "/api/chat")
    node = run.node(NodeTrace("Workflows/mira/Main.json", 1, "VectorMemorySearch"))
    EmbeddingService("E", **configs.given(), trace=node).get_embeddings(["1"])
    assert run.nodes[0].calls[0].usage == usage

"""What is asked of an embeddings backend and what its answer may look like."""

from __future__ import annotations

import pytest

from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings
from Middleware.llmapis.handlers.impl.embedding_api_handler import EmbeddingBackend


def handler(kind="openAIEmbeddings", **endpoint):
    config = EndpointConfig(
        "E", {"endpoint": "http://h/", "modelNameToSendToAPI": "m", **endpoint}, "t", {"type": kind}
    )
    return EmbeddingBackend(HandlerSettings(config))


@pytest.mark.parametrize(
    ("kind", "url"),
    [("openAIEmbeddings", "http://h/v1/embeddings"), ("ollamaEmbeddings", "http://h/api/embed")],
)
def test_urls(kind, url):
    """Each API has its own."""
    assert handler(kind)._get_api_endpoint_url() == url


@pytest.mark.parametrize("left_out", [False, True])
def test_payload(left_out):
    """The model may be left out."""
    payload = handler(dontIncludeModel=left_out)._prepare_payload(None, None, "a")
    assert payload == ({"input": ["a"]} if left_out else {"input": ["a"], "model": "m"})


def test_ollama_vectors():
    """A plain list."""
    assert handler("ollamaEmbeddings").vectors({"embeddings": [[1], [2]]}, 2) == [[1.0], [2.0]]


UNUSABLE = [
    ("no-list", {"data": 3}, "no list 'data'"),
    ("too-big", {"data": [{"embedding": [10**400]}]}, "not a number"),
    ("infinite", {"data": [{"embedding": [1e999]}]}, "not finite"),
    ("nan", {"data": [{"embedding": "AADAfw=="}]}, "not finite"),
    ("entry-no-object", {"data": [1]}, "not an object"),
    ("empty-vector", {"data": [{"embedding": []}]}, "empty"),
    ("no-vector", {"data": [{}]}, "empty"),
    ("count", {"data": []}, "1 texts were sent, but 0 vectors"),
    ("bad-base64", {"data": [{"embedding": "!!"}]}, "base64"),
    ("bad-length", {"data": [{"embedding": "AAAAAAA="}]}, "base64"),
    ("not-a-number", {"data": [{"embedding": [None]}]}, "not a number"),
    ("not-a-number-text", {"data": [{"embedding": ["x"]}]}, "could not convert"),
]


@pytest.mark.parametrize(
    ("body", "message"), [case[1:] for case in UNUSABLE], ids=[case[0] for case in UNUSABLE]
)
def test_unusable_answers(body, message):
    """Each is a ValueError that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        handler().vectors(body, 1)


def test_lengths_must_agree():
    """Within one answer."""
    with pytest.raises(ValueError, match="different lengths"):
        handler("ollamaEmbeddings").vectors({"embeddings": [[1], [1, 2]]}, 2)


def test_an_odd_index_counts_as_0():
    """Order stays as it came."""
    data = [{"index": None, "embedding": [1]}, {"embedding": [2]}]
    assert handler().vectors({"data": data}, 2) == [[1.0], [2.0]]


def test_a_call_without_a_prompt():
    """Is one of an empty text."""
    made = handler("openAIEmbeddings")
    assert made._payload(CallArguments()) == made.payload([""])
    assert made._payload(CallArguments(prompt="a")) == made.payload(["a"])


def test_it_cannot_generate():
    """Neither stream nor text."""
    with pytest.raises(TypeError):
        handler()._map_event("message", {}, None)
    with pytest.raises(TypeError):
        handler()._parse_non_stream_response({})

"""The packages `openai` and `ollama` ask for vectors (more-fronts.md 7)."""

from __future__ import annotations

import ollama
import openai
import pytest

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(launch):
    endpoints = {"Vectors": {"apiTypeConfigFileName": "OpenAI-Embeddings"}}
    return launch({"ann": {"user": {"embeddingsEndpoint": "Vectors"}, "endpoints": endpoints}})


def test_openai(server):
    """The package asks for base64 unless it is told otherwise."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        for more in ({}, {"encoding_format": "float"}):
            answer = client.embeddings.create(model="any", input=["a", "bcd"], **more)
            assert [entry.embedding for entry in answer.data] == [[1.0, 0.5], [3.0, 0.5]]
        with pytest.raises(openai.BadRequestError, match="dimensions"):
            client.embeddings.create(model="any", input="a", dimensions=2)


def test_ollama(server):
    """Both of its routes."""
    client = ollama.Client(host=server.url)
    assert client.embed(model="any", input=["a", "bcd"]).embeddings == [[1.0, 0.5], [3.0, 0.5]]
    assert client.embeddings(model="any", prompt="bcd").embedding == [3.0, 0.5]
    client._client.close()

"""The clients that people really use: the packages `openai` and `ollama`."""

from __future__ import annotations

import ollama
import openai
import pytest

from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

HELLO = [{"role": "user", "content": "hello clients"}]


@pytest.fixture(scope="module")
def server(launch):
    return launch({"ann": {}})


@pytest.fixture
def openai_client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def ollama_client(server):
    client = ollama.Client(host=server.url)
    yield client
    client._client.close()


class TestOpenAi:
    def test_models(self, openai_client):
        """The user is the model."""
        assert "ann" in [model.id for model in openai_client.models.list()]

    def test_chat(self, openai_client):
        """A whole answer."""
        answer = openai_client.chat.completions.create(model="ann", messages=HELLO)
        assert answer.choices[0].message.content == "hello clients"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.model == "ann"

    def test_chat_stream(self, openai_client):
        """The same in pieces; usage on demand."""
        stream = openai_client.chat.completions.create(
            model="ann", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "hello clients"
        assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
            "stop"
        ]
        assert chunks[-1].usage is not None

    def test_completions(self, openai_client):
        """The older route."""
        assert (
            openai_client.completions.create(model="ann", prompt="hello clients").choices[0].text
            == "hello clients"
        )
        stream = openai_client.completions.create(model="ann", prompt="hello clients", stream=True)
        assert "".join(c.choices[0].text for c in stream if c.choices) == "hello clients"

    def test_an_error_is_an_error(self, openai_client, backend):
        """The client raises its own exception, with the server's sentence."""
        backend.on("openai-refused", Reply(status=500))
        with pytest.raises(openai.APIStatusError) as caught:
            openai_client.chat.completions.create(
                model="ann", messages=[{"role": "user", "content": "openai-refused"}]
            )
        assert caught.value.status_code == 502

    def test_an_error_in_a_stream_is_an_error(self, openai_client, backend):
        """After the first text."""
        backend.on("openai-dies", Reply(["a ", "b "], dies_after=1))
        with pytest.raises(openai.APIError):
            list(
                openai_client.chat.completions.create(
                    model="ann", messages=[{"role": "user", "content": "openai-dies"}], stream=True
                )
            )


class TestOllama:
    def test_models(self, ollama_client):
        """The user is the model."""
        assert any(model.model and model.model.startswith("ann") for model in ollama_client.list().models)

    def test_chat(self, ollama_client):
        """A whole answer."""
        answer = ollama_client.chat(model="ann", messages=HELLO)
        assert answer.message.content == "hello clients"
        assert (answer.done, answer.done_reason) == (True, "stop")

    def test_chat_stream(self, ollama_client):
        """The same in pieces."""
        parts = list(ollama_client.chat(model="ann", messages=HELLO, stream=True))
        assert "".join(part.message.content or "" for part in parts) == "hello clients"
        assert [part.done for part in parts].count(True) == 1

    def test_generate(self, ollama_client):
        """Whole and in pieces."""
        assert ollama_client.generate(model="ann", prompt="hello clients").response == "hello clients"
        parts = list(ollama_client.generate(model="ann", prompt="hello clients", stream=True))
        assert "".join(part.response for part in parts) == "hello clients"

    def test_an_error_is_an_error(self, ollama_client, backend):
        """The client raises its own exception."""
        backend.on("ollama-refused", Reply(status=500))
        with pytest.raises(ollama.ResponseError) as caught:
            ollama_client.chat(model="ann", messages=[{"role": "user", "content": "ollama-refused"}])
        assert caught.value.status_code == 502

    def test_an_error_in_a_stream_is_an_error(self, ollama_client, backend):
        """After the first text."""
        backend.on("ollama-dies", Reply(["a ", "b "], dies_after=1))
        with pytest.raises(ollama.ResponseError):
            list(
                ollama_client.chat(
                    model="ann", messages=[{"role": "user", "content": "ollama-dies"}], stream=True
                )
            )

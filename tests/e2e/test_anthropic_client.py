"""The package `anthropic` against a real server (more-fronts.md 12.1)."""

from __future__ import annotations

import anthropic
import pytest

from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

THINKER = {"reasoningOutput": "field", "removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}  # fmt: skip
TOOLS = [{"name": "tide", "description": "Height of the tide.", "input_schema": {"type": "object", "properties": {"about": {"type": "string"}}}}]  # fmt: skip


@pytest.fixture(scope="module")
def server(launch):
    node = {**NODE, "allowTools": True}
    return launch({"ann": {"endpoints": {"Model": THINKER}, "workflows": {"Chat": [node]}}})


@pytest.fixture
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none") as made:
        yield made


def hello(text, **more):
    return {"model": "ann", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}


def test_models(client):
    """The user is the model; one can be asked for by its name."""
    assert [model.id for model in client.models.list()] == ["ann"]
    assert client.models.retrieve("ann").display_name == "ann"


def test_a_whole_message(client):
    """With the numbers of the backend and the id of the request."""
    message = client.messages.create(**hello("hello whole message"))
    assert message.content[0].text == "hello whole message"
    assert (message.stop_reason, message.model, message.usage.input_tokens) == ("end_turn", "ann", 11)
    assert message.id == f"msg_{message._request_id}"


def test_a_streamed_message(client):
    """The raw events."""
    events = list(client.messages.create(**hello("hello streamed message"), stream=True))
    assert (
        "".join(e.delta.text for e in events if e.type == "content_block_delta") == "hello streamed message"
    )
    assert [event.type for event in events][-2:] == ["message_delta", "message_stop"]


def test_the_stream_helper(client, backend):
    """Thoughts, text and a call; then the history goes back with the call's result."""
    backend.on("helper tide", Reply(["<think>", "A tool.", "</think>", "I ", "look."], tool="tide"))
    with client.messages.stream(**hello("helper tide", tools=TOOLS)) as stream:
        assert "".join(stream.text_stream) == "I look."
        message = stream.get_final_message()
    thinking, text, call = message.content
    assert (thinking.thinking, text.text, call.name) == ("A tool.", "I look.", "tide")
    assert (call.input, message.stop_reason) == ({"about": "helper tide"}, "tool_use")
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "5.1 m"}],
    }
    asked = [
        {"role": "user", "content": "and the"},
        {"role": "assistant", "content": message.content},
        result,
    ]
    again = client.messages.create(model="ann", max_tokens=64, messages=asked, tools=TOOLS)
    sent = backend.calls("5.1 m")[-1].body["messages"]
    assert [turn["role"] for turn in sent] == ["user", "assistant", "tool"]
    assert again.content[0].type == "text"


def test_the_whole_says_the_same(client, backend):
    """As the stream of these thoughts, this text and this call."""
    backend.on("whole tide", Reply(["<think>A tool.</think>", "I look."], tool="tide"))
    thinking, text, call = client.messages.create(**hello("whole tide", tools=TOOLS)).content
    assert (thinking.thinking, text.text, call.input) == ("A tool.", "I look.", {"about": "whole tide"})


def test_thinking_that_is_not_wanted(client, backend):
    """No block of it."""
    backend.on("quiet tide", Reply(["<think>A tool.</think>", "So."]))
    message = client.messages.create(**hello("quiet tide", thinking={"type": "disabled"}))
    assert [block.type for block in message.content] == ["text"]


def test_counting(client, backend):
    """An estimate; no model is asked."""
    counted = client.messages.count_tokens(model="ann", messages=[{"role": "user", "content": "Hello world"}])
    assert counted.input_tokens == 11 and backend.calls("Hello world") == []


def test_a_slow_model(client, backend):
    """Silence before the first token and between two is bridged."""
    backend.on("slow model", Reply(["", "one", " two"], gap_s=3.0))
    with client.messages.stream(**hello("slow model")) as stream:
        assert "".join(stream.text_stream) == "one two"


def test_leaving_stops_the_model(client, backend):
    """The backend's connection closes."""
    backend.on("left alone", Reply(["one ", "two "], hangs=True))
    with client.messages.stream(**hello("left alone")) as stream:
        assert next(iter(stream.text_stream)).startswith("one")
    assert backend.wait_for_call("left alone").hung_up.wait(PATIENCE_S)


class TestErrors:
    def test_a_wrong_request(self, client):
        """The package's own type, with the server's sentence."""
        with pytest.raises(anthropic.BadRequestError, match="messages"):
            client.messages.create(model="ann", max_tokens=5, messages=[{"content": "x"}])

    def test_a_failing_backend_is_not_asked_again(self, client, backend):
        """The package would repeat a 5xx twice; the server says that it should not."""
        backend.on("refused message", Reply(status=401))
        with pytest.raises(anthropic.InternalServerError) as caught:
            client.messages.create(**hello("refused message"))
        assert caught.value.status_code == 502 and len(backend.calls("refused message")) == 1

    def test_in_mid_stream(self, client, backend):
        """After the first text."""
        backend.on("dying message", Reply(["a ", "b "], dies_after=1))
        with pytest.raises(anthropic.APIStatusError), client.messages.stream(**hello("dying message")) as s:
            list(s.text_stream)

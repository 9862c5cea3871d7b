"""The Responses route as people use it: the package `openai` in front of a real server."""

from __future__ import annotations

import json

import openai
import pytest
from pydantic import BaseModel

from tests.e2e.conftest import TOOLS_AND_THOUGHTS
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

TIDE = {
    "type": "function",
    "name": "tide",
    "description": "Height of the tide",
    "parameters": {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]},
    "strict": False,
}


@pytest.fixture(scope="module")
def server(launch):
    return launch(TOOLS_AND_THOUGHTS, "--concurrency", "0")


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="mine", max_retries=0) as made:
        yield made


def said_to_the_model(backend, mark):
    """(role, content) of each message of the last call with this mark."""
    return [(message["role"], message["content"]) for message in backend.calls(mark)[-1].body["messages"]]


class TestCreate:
    def test_whole(self, client):
        """Text, model, numbers."""
        answer = client.responses.create(model="ann", input="hello whole response")
        assert (answer.output_text, answer.model, answer.status) == (
            "hello whole response",
            "ann",
            "completed",
        )
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens == 18
        assert answer._request_id == answer.id.removeprefix("resp_")

    def test_events(self, client):
        """Numbered without a gap; the last one holds the whole."""
        events = list(client.responses.create(model="ann", input="hello event stream", stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == events[-1].response.output_text == "hello event stream"

    def test_the_stream_helper(self, client):
        """Puts the same together."""
        with client.responses.stream(model="ann", input="hello helper") as stream:
            assert stream.get_final_response().output_text == "hello helper"

    @pytest.mark.parametrize("model", ["ann", "eve"])
    def test_a_first_word_that_is_late(self, client, backend, model):
        """And a gap: the stream lives on."""
        mark = f"late-{model}"
        backend.on(mark, Reply(["", "at ", "last"], gap_s=2.2))
        with client.responses.stream(model=model, input=mark) as stream:
            assert stream.get_final_response().output_text == "at last"

    def test_thoughts(self, client, backend):
        """A summary before the message, streamed as it comes."""
        backend.on("ponder", Reply(["<think>A riv", "er.</think>", "The Ob."]))
        with client.responses.stream(model="eve", input="ponder") as stream:
            events = list(stream)
            final = stream.get_final_response()
        thought = "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta")
        assert thought == final.output[0].summary[0].text == "A river."
        assert final.output_text == "The Ob."
        whole = client.responses.create(model="eve", input="ponder", reasoning={"effort": "none"})
        assert [item.type for item in whole.output] == ["message"]

    def test_parse(self, client, backend):
        """What the workflow answers as JSON becomes an object of the caller's class."""

        class Tide(BaseModel):
            port: str
            metres: float

        backend.on("as json", Reply(['{"port": "Brest",', ' "metres": 5.1}']))
        answer = client.responses.parse(model="ann", input="as json", text_format=Tide)
        assert answer.output_parsed == Tide(port="Brest", metres=5.1)

    def test_count(self, client):
        """Without a model."""
        assert client.responses.input_tokens.count(model="ann", input="Hello world").input_tokens == 11

    def test_leaving(self, client, backend):
        """Closing the stream stops the model."""
        backend.on("leave me", Reply([f"word{n} " for n in range(400)], gap_s=0.05))
        with client.responses.create(model="ann", input="leave me", stream=True) as stream:
            assert next(iter(stream)).type == "response.created"
        assert backend.wait_for_call("leave me").hung_up.wait(PATIENCE_S)


class TestConversations:
    def test_a_chain(self, client, backend):
        """The server keeps the history."""
        first = client.responses.create(model="ann", input="I am chain-ann", instructions="Be brief.")
        with client.responses.stream(model="ann", input="Who?", previous_response_id=first.id) as stream:
            second = stream.get_final_response()
        assert said_to_the_model(backend, "chain-ann") == [
            ("user", "I am chain-ann"),
            ("assistant", "I am chain-ann"),
            ("user", "Who?"),
        ]
        assert client.responses.retrieve(second.id).previous_response_id == first.id

    def test_the_history_in_the_input(self, client, backend):
        """As Codex does it: output items go back as they came."""
        first = client.responses.create(model="ann", input="by hand", store=False)
        items = [{"role": "user", "content": "by hand"}, *(item.to_dict() for item in first.output)]
        items.append({"role": "user", "content": "and on"})
        client.responses.create(model="ann", input=items, store=False)
        assert [role for role, _ in said_to_the_model(backend, "by hand")] == ["user", "assistant", "user"]

    def test_what_is_kept(self, client):
        """Fetched, listed, deleted; then unknown."""
        made = client.responses.create(model="ann", input="keep this", metadata={"k": "v"})
        found = client.responses.retrieve(made.id)
        assert (found.output_text, found.metadata) == ("keep this", {"k": "v"})
        items = list(client.responses.input_items.list(made.id))
        assert [(item.role, item.content[0].text) for item in items] == [("user", "keep this")]
        assert client.responses.cancel(made.id).status == "completed"
        client.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)

    def test_another_key(self, client, server):
        """Sees nothing of it."""
        made = client.responses.create(model="ann", input="mine alone")
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="other", max_retries=0) as other,
            pytest.raises(openai.NotFoundError),
        ):
            other.responses.retrieve(made.id)

    def test_cancel(self, client, backend):
        """From another connection: the model stops, the stream ends with what it had."""
        backend.on("stop this", Reply([f"word{n} " for n in range(400)], gap_s=0.05))
        stream = iter(client.responses.create(model="ann", input="stop this", stream=True))
        created = next(stream)
        assert client.responses.cancel(created.response.id).status == "cancelled"
        rest = list(stream)
        assert backend.wait_for_call("stop this").hung_up.wait(PATIENCE_S)
        assert (rest[-1].type, rest[-1].response.status) == ("response.completed", "completed")


class TestCalls:
    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_round_trip(self, client, backend, stream):
        """The call reaches the client, its result the model."""
        mark = f"look it up {stream}"
        backend.on(mark, Reply(["I look."], tool="tide"))
        if stream:
            with client.responses.stream(model="ann", input=mark, tools=[TIDE]) as events:
                answer = events.get_final_response()
        else:
            answer = client.responses.create(model="ann", input=mark, tools=[TIDE])
        text, call = answer.output
        assert (text.content[0].text, call.name, json.loads(call.arguments)) == (
            "I look.",
            "tide",
            {"about": mark},
        )
        sent = backend.calls(mark)[-1].body
        assert sent["tools"][0]["function"]["parameters"] == TIDE["parameters"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "5.1 m"}
        client.responses.create(model="ann", input=[result], tools=[TIDE], previous_response_id=answer.id)
        messages = backend.calls(mark)[-1].body["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
        assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == call.call_id


class TestErrors:
    def test_a_wrong_request(self, client):
        """With the field and the code."""
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="ann", input="x", background=True)
        assert (caught.value.param, caught.value.code) == ("background", "unsupported_parameter")

    def test_an_unknown_response(self, client):
        """By its own code."""
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="ann", input="x", previous_response_id="resp_none")
        assert caught.value.code == "previous_response_not_found"

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
    def test_a_backend_that_refuses(self, client, backend, stream):
        """A status of HTTP, also where a stream was asked for."""
        backend.on("refused response", Reply(status=401))
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model="ann", input="refused response", stream=stream)
        assert (caught.value.status_code, caught.value.code) == (502, "backend_error")

    def test_a_failure_in_a_stream(self, client, backend):
        """The last event tells it; what came before stays."""
        backend.on("dying response", Reply(["a ", "b "], dies_after=1))
        events = list(client.responses.create(model="ann", input="dying response", stream=True))
        assert (events[-1].type, events[-1].response.status) == ("response.failed", "failed")
        assert events[-1].response.error.code == "server_error" and events[-1].response.error.message

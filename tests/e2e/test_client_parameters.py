"""What nodes take of the client's parameters, from the official packages to the wire (more-fronts.md 13)."""

from __future__ import annotations

import anthropic
import ollama
import openai
import pydantic
import pytest

from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

TAKES = ["max_tokens", "stop", "temperature", "repetition_penalty", "response_format"]
BACKENDS = {
    "openai": "Open-AI-API",
    "llamacpp": "LlamaCppServer",
    "ollama": "OllamaApiChat",
    "kobold": "KoboldCpp",
}


class Tide(pydantic.BaseModel):
    port: str
    metres: float


@pytest.fixture(scope="module")
def server(launch):
    node = {**NODE, "maxResponseSizeInTokens": 400}
    users = {
        name: {
            "endpoints": {"Model": {"apiTypeConfigFileName": api_type}},
            "workflows": {"Chat": [{**node, "clientParameters": TAKES}]},
        }
        for name, api_type in BACKENDS.items()
    }
    return launch({**users, "deaf": {"workflows": {"Chat": [node]}}}, "--concurrency", "0")


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def ask(client, user, text, **more):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model=user, messages=messages, **more)


SPELLING = [
    ("openai", {"max_tokens": 50, "stop": ["END"], "temperature": 0.25}),
    ("llamacpp", {"n_predict": 50, "stop": ["END"], "temperature": 0.25, "repeat_penalty": 1.1}),
    ("kobold", {"max_length": 50, "stop_sequence": ["END"], "temperature": 0.25, "rep_pen": 1.1}),
]


@pytest.mark.parametrize(("user", "expected"), SPELLING, ids=[s[0] for s in SPELLING])
def test_each_backend_gets_its_own_spelling(client, backend, user, expected):
    """What it has no word for is left out."""
    wishes = {"max_tokens": 50, "stop": "END", "temperature": 0.25}
    answer = ask(client, user, f"spelling {user}", **wishes, extra_body={"repetition_penalty": 1.1})
    assert answer.choices[0].message.content is not None
    [call] = backend.calls(f"spelling {user}")
    assert {key: call.body.get(key) for key in expected} == expected
    assert "repetition_penalty" not in call.body


@pytest.mark.parametrize(("given", "sent"), [(50, 50), (4000, 400)])
def test_the_limit_is_never_above_the_nodes(client, backend, given, sent):
    ask(client, "openai", f"limit {given}", max_tokens=given)
    assert backend.calls(f"limit {given}")[0].body["max_tokens"] == sent


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestAWrongValue:
    def test_of_what_a_node_takes(self, client, backend, stream):
        """400 in the caller's protocol, and no model is asked."""
        mark = f"wrong-{stream}"
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, "openai", mark, max_tokens="x", stream=stream)
        assert caught.value.body["message"].startswith("max_tokens must be a number")
        assert caught.value.param == "max_tokens"
        assert backend.calls(mark) == []

    def test_of_what_no_node_takes(self, client, server, stream):
        """Answered, and one line in the log."""
        answer = ask(client, "deaf", f"deaf-{stream}", max_tokens="x", stream=stream)
        assert list(answer)
        assert "the client's max_tokens are not used (clientParameters)" in server.log


def test_parse_of_the_sdk(client, backend):
    """A model of pydantic reaches the backend as a schema, and the answer is parsed."""
    backend.on("parse the tide", Reply(['{"port": "Brest", ', '"metres": 5.1}']))
    messages = [{"role": "user", "content": "parse the tide"}]
    answer = client.chat.completions.parse(model="openai", messages=messages, response_format=Tide)
    assert answer.choices[0].message.parsed == Tide(port="Brest", metres=5.1)
    form = backend.calls("parse the tide")[0].body["response_format"]
    assert form["json_schema"]["schema"]["properties"].keys() == {"port", "metres"}


@pytest.mark.parametrize(
    ("form", "sent"),
    [("json", {"type": "object"}), (Tide.model_json_schema(), Tide.model_json_schema())],
    ids=["json", "schema"],
)
def test_ollamas_own_client(server, backend, form, sent):
    """Its options and its format, to a backend that speaks the same."""
    mark = f"ollama {len(str(form))}"
    client = ollama.Client(host=server.url)
    options = {"num_predict": 50, "stop": ["END"], "repeat_penalty": 1.1}
    client.chat(model="ollama", messages=[{"role": "user", "content": mark}], options=options, format=form)
    client._client.close()
    body = backend.calls(mark)[0].body
    assert body["format"] == sent
    assert {key: body["options"].get(key) for key in options} == options


def test_anthropic_names_its_own_fields(server, backend):
    """`max_tokens` and `stop_sequences`."""
    messages = [{"role": "user", "content": "anthropic wishes"}]
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as made:
        made.messages.create(
            model="openai",
            max_tokens=50,
            stop_sequences=["END"],
            messages=messages,
            extra_body={"temperature": 0.25},
        )
    [call] = backend.calls("anthropic wishes")
    wanted = {"max_tokens": 50, "stop": ["END"], "temperature": 0.25}
    assert {key: call.body.get(key) for key in wanted} == wanted


def test_responses_name_their_own_fields(client, backend):
    """`max_output_tokens`, and the schema in `text.format`."""
    backend.on("responses wishes", Reply(['{"port":"Brest",', '"metres":1.5}']))
    answer = client.responses.parse(
        model="openai", input="responses wishes", max_output_tokens=50, text_format=Tide
    )
    assert answer.output_parsed == Tide(port="Brest", metres=1.5)
    [call] = backend.calls("responses wishes")
    assert call.body["max_tokens"] == 50 and call.body["response_format"]["type"] == "json_schema"

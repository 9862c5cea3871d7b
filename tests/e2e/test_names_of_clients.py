"""Names that clients send, from the official packages to the wire, with one user and several (operate.md 4)."""

from __future__ import annotations

import http.client
import json

import anthropic
import ollama
import openai
import pytest

from tests.e2e.conftest import NODE, Gunicorn, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

ALIASES = {
    "claude-*haiku*": "bob",
    "claude-*": "ann",
    "gpt-4o": "ann",
    "text-embedding-*": "bob",
    "plain": "ann:raw/Model",
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "tide",
            "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
        },
    }
]
BACKENDS = {
    "Open-AI-API": {"temperature": 0.25, "max_tokens": 50, "stop": ["END"]},
    "LlamaCppServer": {"temperature": 0.25, "n_predict": 50, "stop": ["END"]},
    "KoboldCpp": {"temperature": 0.25, "max_length": 50, "stop_sequence": ["END"]},
}  # fmt: skip


def user(name, **settings):
    node = {**NODE, "systemPrompt": f"I am {name}."}
    return {"user": settings, "workflows": {"Chat": [node]}}


ANN = {
    **user("ann", exposeEndpoints=True, chatCompleteAddUserAssistant=True),
    "endpoints": {name: {"apiTypeConfigFileName": name} for name in BACKENDS}
    | {"Ollama": {"apiTypeConfigFileName": "OllamaApiChat"}, "Thinker": {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}},
}  # fmt: skip
BOB = {
    **user("bob", embeddingsEndpoint="Vectors"),
    "endpoints": {"Vectors": {"apiTypeConfigFileName": "OpenAI-Embeddings"}},
}


def started(launch, users):
    """A server whose tree has the aliases."""
    server = launch(users, "--concurrency", "0")
    write(server.public / "Configs" / "ModelAliases.json", ALIASES)
    return server


@pytest.fixture(scope="module")
def several(launch):
    return started(launch, {"ann": ANN, "bob": BOB})


@pytest.fixture(scope="module")
def one(launch):
    return started(launch, {"ann": ANN})


@pytest.fixture(params=["several", "one"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def openai_client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def say(text):
    return [{"role": "user", "content": text}]


def who_answered(backend, text):
    """The system prompt of the call that holds this text."""
    [call] = backend.calls(text)
    return call.body["messages"][0]["content"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestAliases:
    def test_openai(self, openai_client, server, backend, stream):
        mark = f"alias of openai {stream} {server.port}"
        answer = openai_client.chat.completions.create(model="gpt-4o", messages=say(mark), stream=stream)
        assert {chunk.model for chunk in answer} == {"gpt-4o"} if stream else answer.model == "gpt-4o"
        assert who_answered(backend, mark) == "I am ann."

    def test_responses(self, openai_client, server, backend, stream):
        mark = f"alias of responses {stream} {server.port}"
        answer = openai_client.responses.create(model="gpt-4o", input=mark, stream=stream)
        last = list(answer)[-1].response if stream else answer
        assert (last.model, mark in last.output_text) == ("gpt-4o", True)
        assert who_answered(backend, mark) == "I am ann."

    @pytest.mark.parametrize("model", ["claude-sonnet-9", "claude-haiku-9"])
    def test_anthropic(self, server, backend, request, stream, model):
        """Two names for two users: the small tasks of an agent go to the smaller one, where it is served."""
        mark = f"alias of {model} {stream} {server.port}"
        with anthropic.Anthropic(base_url=server.url, api_key="none") as client:
            answer = client.messages.create(model=model, max_tokens=9, messages=say(mark), stream=stream)
            said = next(iter(answer)).message.model if stream else answer.model
            assert client.messages.count_tokens(model=model, messages=say(mark)).input_tokens > 0
            assert client.models.retrieve(model).id == model
        assert said == model
        is_small = "haiku" in model and "several" in request.node.callspec.id
        assert who_answered(backend, mark) == ("I am bob." if is_small else "I am ann.")

    def test_ollama(self, server, backend, stream):
        """With the tag that its clients add."""
        mark = f"alias of ollama {stream} {server.port}"
        client = ollama.Client(host=server.url)
        answer = client.chat(model="gpt-4o:latest", messages=say(mark), stream=stream)
        said = [part.model for part in answer] if stream else [answer.model]
        client._client.close()
        assert set(said) == {"gpt-4o:latest"} and who_answered(backend, mark) == "I am ann."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestAddresses:
    """The packages have addresses of their own to put in front."""

    def test_openai(self, several, backend, stream):
        mark = f"address of openai {stream}"
        with openai.OpenAI(base_url=f"{several.url}/as/bob/v1", api_key="none", max_retries=0) as client:
            answer = client.chat.completions.create(model="gpt-4o", messages=say(mark), stream=stream)
            assert {chunk.model for chunk in answer} == {"bob"} if stream else answer.model == "bob"
            assert [model.id for model in client.models.list()] == ["bob"]
        assert who_answered(backend, mark) == "I am bob."

    def test_anthropic(self, several, backend, stream):
        mark = f"address of anthropic {stream}"
        with anthropic.Anthropic(base_url=f"{several.url}/as/bob", api_key="none") as client:
            answer = client.messages.create(model="x", max_tokens=9, messages=say(mark), stream=stream)
            assert (next(iter(answer)).message.model if stream else answer.model) == "bob"
        assert who_answered(backend, mark) == "I am bob."

    def test_ollama(self, several, backend, stream):
        mark = f"address of ollama {stream}"
        client = ollama.Client(host=f"{several.url}/as/bob")
        answer = client.chat(model="llama3.1:8b", messages=say(mark), stream=stream)
        assert {part.model for part in (answer if stream else [answer])} == {"bob"}
        assert [model.model for model in client.list().models] == ["bob:latest"]
        client._client.close()
        assert who_answered(backend, mark) == "I am bob."

    def test_clients_without_a_model_field(self, several, backend, stream):
        """As SillyTavern's types KoboldAI Classic, KoboldCpp and llama.cpp ask, for two users on one server."""
        kobold = "/api/extra/generate/stream" if stream else "/api/v1/generate"
        for name in ("ann", "bob"):
            address = f"/as/{name}"
            assert json.loads(several.request("GET", f"{address}/api/v1/model")[1]) == {"result": name}
            assert json.loads(several.request("GET", f"{address}/props")[1])["model_alias"] == name
            for path in (kobold, "/completion", "/v1/completions"):
                mark = f"no model {stream} {name} {path}"
                status, body = several.post(address + path, {"prompt": mark, "stream": stream})
                assert status == 200 and b"model" in body
                assert who_answered(backend, mark) == f"I am {name}."
        assert several.post(kobold, {"prompt": "nobody named"})[0] == 400
        assert several.post("/as/zoe/api/v1/generate", {"prompt": "x"})[0] == 404

    def test_one_user(self, one, backend, stream):
        mark = f"address of one {stream}"
        assert one.post("/as/ann/v1/completions", {"prompt": mark, "stream": stream})[0] == 200
        assert who_answered(backend, mark) == "I am ann."
        assert one.post("/as/bob/v1/completions", {"prompt": mark, "stream": stream})[0] == 404


class TestPlainModels:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("model", ["ann:raw/Model", "plain"])
    def test_what_the_client_sent_is_what_is_asked(self, openai_client, server, backend, model, stream):
        """System prompt, messages, tools, samplers: byte for byte. No workflow's words, no speaker's name, no limit."""
        mark = f"plain {model} {stream} {server.port}"
        talk = [
            {"role": "system", "content": "Mine."},
            *say("first"),
            {"role": "assistant", "content": "yes"},
            *say(mark),
        ]
        answer = openai_client.chat.completions.create(
            model=model,
            messages=talk,
            stream=stream,
            temperature=0.25,
            seed=7,
            tools=TOOLS,
            tool_choice="auto",
        )
        assert {chunk.model for chunk in answer} == {model} if stream else answer.model == model
        [call] = backend.calls(mark)
        body = call.body
        assert (body["messages"], body["tools"], body["tool_choice"]) == (talk, TOOLS, "auto")
        assert (body["temperature"], body["seed"]) == (0.25, 7)
        assert body.keys() <= {
            "model",
            "messages",
            "stream",
            "tools",
            "tool_choice",
            "temperature",
            "seed",
            "truncation_length",
            "stream_options",
        }

    @pytest.mark.parametrize(("endpoint", "expected"), BACKENDS.items(), ids=BACKENDS)
    def test_each_backend_gets_its_own_spelling(self, openai_client, server, backend, endpoint, expected):
        mark = f"spelling of {endpoint} {server.port}"
        talk = [{"role": "system", "content": "Mine."}, *say(mark)]
        openai_client.chat.completions.create(
            model=f"ann:raw/{endpoint}", messages=talk, temperature=0.25, max_tokens=50, stop="END"
        )
        [call] = backend.calls(mark)
        assert {key: call.body.get(key) for key in expected} == expected and "Mine." in call.text

    @pytest.mark.parametrize("endpoint", BACKENDS)
    def test_without_a_limit_the_backends_own_counts(self, openai_client, server, backend, endpoint):
        mark = f"no limit of {endpoint} {server.port}"
        openai_client.chat.completions.create(model=f"ann:raw/{endpoint}", messages=say(mark))
        body = backend.calls(mark)[0].body
        assert not body.keys() & {"max_tokens", "max_length", "n_predict"}

    def test_ollamas_options(self, server, backend):
        mark = f"options of ollama {server.port}"
        client = ollama.Client(host=server.url)
        options = {"num_predict": 50, "temperature": 0.25, "top_k": 7}
        client.chat(model="ann:raw/Ollama", messages=say(mark), options=options, format="json")
        client._client.close()
        body = backend.calls(mark)[0].body
        assert {key: body["options"].get(key) for key in options} == options and body["format"] == {
            "type": "object"
        }

    def test_thoughts_are_the_endpoints_business(self, openai_client, server, backend):
        mark = f"thinker {server.port}"
        backend.on(mark, Reply(["<think>", "Hm.", "</think>", "Well."]))
        answer = openai_client.chat.completions.create(model="ann:raw/Thinker", messages=say(mark))
        assert answer.choices[0].message.content == "Well."

    def test_one_that_is_not_exposed(self, several, one):
        """Another user's name is none at all on a server with one user, where any name runs that user."""
        for server, model in ((several, "ann:raw/None"), (several, "bob:raw/Vectors"), (one, "ann:raw/None")):
            body = {"model": model, "messages": say("x")}
            status, said = server.post("/v1/chat/completions", body)
            assert (status, json.loads(said)["error"]["code"]) == (404, "model_not_found")
        assert one.post("/v1/chat/completions", {"model": "bob:raw/x", "messages": say("x")})[0] == 200

    def test_a_wish_that_cannot_be(self, openai_client):
        with pytest.raises(openai.BadRequestError, match="temperature must be"):
            openai_client.chat.completions.create(model="plain", messages=say("x"), temperature=-1)

    def test_the_log_has_both_names(self, openai_client, server):
        openai_client.chat.completions.create(model="plain", messages=say("logged"))
        assert server.wait_for_log("model plain -> ann:raw/Model")


def test_embeddings(several):
    """The names of OpenAI's models, and an address."""
    with openai.OpenAI(base_url=f"{several.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.embeddings.create(model="text-embedding-3-small", input="Hi")
        assert (answer.model, len(answer.data)) == ("text-embedding-3-small", 1)
    with openai.OpenAI(base_url=f"{several.url}/as/bob/v1", api_key="none", max_retries=0) as client:
        assert client.embeddings.create(model="x", input="Hi").model == "bob"


def test_an_edit_of_the_aliases_counts_at_once(several, backend):
    """A broken one does not."""
    file = several.public / "Configs" / "ModelAliases.json"
    try:
        for number, (text, owner) in enumerate(
            [({**ALIASES, "new": "bob"}, "bob"), ({**ALIASES, "new": "ann"}, "ann"), ("{", "ann")]
        ):
            file.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
            mark = f"edit {number} of the aliases"
            assert several.post("/v1/chat/completions", {"model": "new", "messages": say(mark)})[0] == 200
            assert who_answered(backend, mark) == f"I am {owner}."
        assert several.wait_for_log("the last good version stays in use")
    finally:
        write(file, ALIASES)


def test_behind_gunicorn_a_slash_in_a_name_is_seen_too(backend, tmp_path):
    """The other server tells the address as it was sent under another name."""
    users = {"ann": ANN, "bob": BOB}
    write_tree(tmp_path / "public", users, backend.url)
    server = Gunicorn(tmp_path / "public", users, ())
    try:
        status, body = server.post("/as/ann:raw%2FModel/v1/completions", {"prompt": "slash and gunicorn"})
        assert status == 200 and b'"ann:raw/Model"' in body
        assert server.request("GET", "/as/zoe/v1/models", timeout_s=PATIENCE_S)[0] == 404
    finally:
        server.stop()
    assert backend.calls("slash and gunicorn")[0].body["messages"] == say("slash and gunicorn")


@pytest.fixture(scope="module")
def watched(launch):
    """Several users, and a console."""
    server = launch({"ann": ANN, "bob": BOB}, "--console", "view", "--console-key", "a-key-of-the-console")
    write(server.public / "Configs" / "ModelAliases.json", ALIASES)
    return server


class TestConsole:
    """A request without a workflow, and one to an address, as the console shows them."""

    HEADERS = {"Authorization": "Bearer a-key-of-the-console", "X-Headrace-Console": "1"}  # noqa: RUF012

    def get(self, server, path):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", f"/console/api/{path}", headers=self.HEADERS)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def ended_run(self, server, mark):
        """The facts of the run that asked this, once it has ended."""

        def found():
            runs = [self.get(server, f"runs/{one['id']}")[1] for one in self.get(server, "runs")[1]["runs"]]
            return [run for run in runs if run["state"] == "done" and mark in json.dumps(run)]

        return wait_until(found, said=lambda: server.log)[0]

    def test_a_plain_model(self, watched):
        """One node called `raw`; there is no file that it could lead to, and no command that explains it."""
        body = {"model": "plain", "messages": say("x")}
        assert watched.post("/as/ann:raw%2FModel/v1/chat/completions", body)[0] == 200
        run = self.ended_run(watched, "/as/ann:raw%2FModel/v1/chat/completions")
        assert (run["workflow"], run["model"]) == ("raw", "ann:raw/Model")
        [node] = run["nodes"]
        assert (node["title"], node["workflow"], node["endpoint"]) == ("raw", "ann:raw/Model", "Model")
        status, curl = self.get(watched, f"runs/{run['id']}/curl?shell=sh&address={watched.url}")
        assert status == 200 and f"{watched.url}/as/ann:raw%2FModel/v1/chat/completions" in curl["text"]
        status, explained = self.get(watched, f"runs/{run['id']}/nodes/0/explain?shell=sh")
        assert (status, explained["error"]) == (404, "this request ran no workflow")

    def test_an_alias(self, watched):
        """Both names."""
        assert (
            watched.post("/v1/chat/completions", {"model": "claude-console", "messages": say("y")})[0] == 200
        )
        run = self.ended_run(watched, "claude-console")
        assert (run["model"], run["workflow"], run["user"]) == ("claude-console -> ann", "Chat", "ann")

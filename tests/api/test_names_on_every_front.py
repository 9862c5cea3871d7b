"""Names that clients send, on every front end: aliases, addresses, endpoints as plain models (operate.md 4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.requests.access import AccessRules, ConsoleWish
from tests.api.conftest import chunk

HELLO = [{"role": "user", "content": "Hi"}]
ANTHROPIC = {"anthropic-version": "2023-06-01"}


@dataclass(frozen=True)
class Front:
    """`names`: its answers say a model."""

    path: str
    body: dict[str, Any]
    streamed_path: str = ""
    names: bool = True

    def ask(self, client, model=None, *, stream=False, address="", **more):
        path = self.streamed_path if stream and self.streamed_path else self.path
        body = {**self.body, **({} if model is None else {"model": model}), "stream": stream}
        return client.post(f"{address}{path}", json=body, buffered=True, **more)


FRONTS = {
    "chat": Front("/v1/chat/completions", {"messages": HELLO}),
    "chat, unversioned": Front("/chat/completions", {"messages": HELLO}),
    "completions": Front("/v1/completions", {"prompt": "Hi"}),
    "responses": Front("/v1/responses", {"input": "Hi"}),
    "anthropic": Front("/v1/messages", {"messages": HELLO, "max_tokens": 9}),
    "ollama chat": Front("/api/chat", {"messages": HELLO}),
    "ollama generate": Front("/api/generate", {"prompt": "Hi"}),
    "koboldcpp": Front("/api/v1/generate", {"prompt": "Hi"}, "/api/extra/generate/stream", names=False),
    "llama.cpp": Front("/completion", {"prompt": "Hi"}),
}
front = pytest.mark.parametrize("name", FRONTS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
users = pytest.mark.parametrize("served", [("mira",), ("mira", "jo")], ids=["one user", "several"])


@pytest.fixture(autouse=True)
def tree(configs):
    """Mira has the workflow `novel` and exposes the endpoint `main`; jo is there for several users."""
    configs(
        "Users/mira.json",
        {"exposeEndpoints": True, "chatCompleteAddUserAssistant": True, "allowSharedWorkflows": True},
    )
    configs("Users/jo.json", {"advertisedContextLength": 1000})
    configs("ApiTypes/Api.json", {"type": "openAIChatCompletion"})
    configs(
        "Endpoints/main.json",
        {"endpoint": "http://h", "apiTypeConfigFileName": "Api", "maxContextTokenSize": 4096},
    )
    configs("ModelAliases.json", {"claude-*": "mira:novel", "gpt-4o": "mira:raw/main"})


@pytest.fixture
def two(facts):
    facts(users=("mira", "jo"))


def sentence(answer):
    """The body without what differs from request to request."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", answer.text)


@front
@streamed
@users
class TestGeneration:
    def test_an_alias(self, serve, facts, engine, name, stream, served):
        """Its target answers; the answer says the name that was asked."""
        facts(users=served)
        answer = FRONTS[name].ask(serve().test_client(), "Claude-Sonnet-4-5", stream=stream)
        assert answer.status_code == 200
        assert (engine.last.request.user, engine.last.request.workflow_folder) == ("mira", "novel")
        assert ('"Claude-Sonnet-4-5"' in answer.text) is FRONTS[name].names

    def test_an_endpoint_as_a_plain_model(self, serve, facts, engine, name, stream, served):
        """No workflow runs, and no setting touches what the client sent."""
        facts(users=served)
        answer = FRONTS[name].ask(serve().test_client(), "mira:raw/main", stream=stream)
        assert answer.status_code == 200
        assert (engine.last.endpoint, engine.last.messages) == ("main", HELLO)
        assert ('"mira:raw/main"' in answer.text) is FRONTS[name].names

    @pytest.mark.parametrize("model", [None, "jo", "gpt-4o", 5], ids=str)
    def test_an_address_names_the_model(self, serve, facts, engine, name, stream, served, model):
        """Whatever the client sends, also nothing, or what is no name."""
        facts(users=served)
        answer = FRONTS[name].ask(serve().test_client(), model, stream=stream, address="/as/mira:novel")
        assert answer.status_code == 200
        assert (engine.last.request.user, engine.last.request.workflow_folder) == ("mira", "novel")
        assert ('"mira:novel"' in answer.text) is FRONTS[name].names

    @pytest.mark.parametrize("address", ["/as/gpt-4o", "/as/mira:raw%2Fmain"])
    def test_an_address_may_be_an_alias_or_a_plain_model(
        self, serve, facts, engine, name, stream, served, address
    ):
        """Percent-encoded where the name has a slash."""
        facts(users=served)
        assert FRONTS[name].ask(serve().test_client(), stream=stream, address=address).status_code == 200
        assert engine.last.endpoint == "main"

    @pytest.mark.parametrize("address", ["/as/nobody", "/as/Mira", "/as/mira:raw%2Fnone"])
    def test_an_address_that_nobody_has(self, serve, facts, engine, name, stream, served, address):
        """As a plain model that is not exposed, and, with several users, an unknown name: 404, not another word."""
        facts(users=served)
        client = serve().test_client()
        answer = FRONTS[name].ask(client, "mira", stream=stream, address=address)
        hidden = FRONTS[name].ask(client, "mira:raw/none", stream=stream)
        unknown = FRONTS[name].ask(client, "nobody", stream=stream) if len(served) > 1 else hidden
        assert [one.status_code for one in (answer, hidden, unknown)] == [404] * 3
        assert sentence(answer) == sentence(hidden) == sentence(unknown)
        assert engine.calls == []


class TestLogAndTrace:
    def test_both_names_are_said(self, client, engine, caplog):
        """The client's and ours; on one line, whatever it holds."""
        caplog.set_level("INFO")
        FRONTS["chat"].ask(client, "claude-\n3" + "x" * 500)
        assert re.search(r"model claude-\?3x+ -> mira:novel, 1 messages", caplog.text)
        assert len(engine.last.request.resolved_name) < 250

    def test_without_an_alias_there_is_one(self, client, engine):
        FRONTS["chat"].ask(client, "mira:raw/main")
        assert engine.last.request.resolved_name == "mira:raw/main"


class TestListsAndFacts:
    def test_all_that_can_be_asked(self, two, client):
        """Aliases behind the names of their target's user."""
        ids = ["mira", "mira:novel", "mira:raw/main", "gpt-4o", "jo"]
        assert [model["id"] for model in client.get("/v1/models").json["data"]] == ids
        assert [model["id"] for model in client.get("/v1/models", headers=ANTHROPIC).json["data"]] == ids
        assert [model["name"] for model in client.get("/api/tags").json["models"]] == ids

    @pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt-4o", "mira:raw/main", "gpt-4o:latest"])
    def test_one_model(self, two, client, model):
        """An alias with a star is there, too, for whoever asks for a name that fits."""
        wanted = model.removesuffix(":latest")
        assert client.get(f"/v1/models/{model}").json["id"] == wanted
        assert client.get(f"/models/{model}", headers=ANTHROPIC).json["id"] == wanted

    @pytest.mark.parametrize("model", ["llama", "mira:raw/none"])
    def test_a_model_that_is_not_there(self, two, client, model):
        answer = client.get(f"/v1/models/{model}")
        assert (answer.status_code, answer.json["error"]["code"]) == (404, "model_not_found")

    def test_what_ollamas_clients_ask_of_a_model(self, two, client):
        """An alias is told as it was asked; a plain model takes what its endpoint takes, and can do all."""
        shown = client.post("/api/show", json={"model": "claude-x"}).json["model_info"]
        assert (shown["general.basename"], shown["wilmer.context_length"]) == ("claude-x", 131072)
        plain = client.post("/api/show", json={"name": "mira:raw/main"}).json
        assert plain["model_info"]["wilmer.context_length"] == 4096
        assert plain["capabilities"] == ["completion", "tools", "vision"]
        assert (
            client.post("/api/show", json={"model": "mira:raw/none"})
            .json["error"]
            .startswith("model 'mira:raw/none' not found")
        )

    @pytest.mark.parametrize(
        ("address", "name", "length"),
        [
            ("jo", "jo", 1000),
            ("gpt-4o", "gpt-4o", 4096),
            ("mira:raw%2Fmain", "mira:raw/main", 4096),
            ("mira:novel", "mira:novel", 131072),
        ],
    )
    @users
    def test_an_address_shows_its_name_alone(self, serve, facts, served, address, name, length):
        """To every client that looks."""
        facts(users=(*served, "jo") if address == "jo" and len(served) == 1 else served)
        client = serve().test_client()

        def get(path, **more):
            return client.get(f"/as/{address}{path}", **more).json

        assert [model["id"] for model in get("/v1/models")["data"]] == [name]
        assert [model["id"] for model in get("/models", headers=ANTHROPIC)["data"]] == [name]
        assert [model["name"] for model in get("/api/tags")["models"]] == [name]
        assert get("/api/v1/model") == get("/api/latest/model") == {"result": name}
        assert get("/api/extra/true_max_context_length") == {"value": length}
        props = get("/props")
        assert (props["model_alias"], props["default_generation_settings"]["n_ctx"]) == (name, length)
        shown = client.post(f"/as/{address}/api/show", json={"model": "whatever"}).json
        assert shown["model_info"]["general.basename"] == name
        assert client.get(f"/as/{address}/v1/models/{name}").json["id"] == name
        assert client.get(f"/as/{address}/v1/models/other").status_code == 404

    def test_tokens_are_counted_for_every_name(self, two, client):
        """`count_tokens` needs a model; the rest does not look at it."""
        body = {"messages": HELLO}
        for path, model in (
            ("", "claude-x"),
            ("/as/claude-x", None),
            ("/as/gpt-4o", "nobody"),
            ("", "mira:raw/main"),
        ):
            answer = client.post(
                f"{path}/v1/messages/count_tokens", json={**body, **({"model": model} if model else {})}
            )
            assert answer.json["input_tokens"] > 0
        assert client.post("/as/jo/v1/responses/input_tokens", json={"input": "Hi"}).json["input_tokens"] > 0
        assert client.post("/as/jo/tokenize", json={"content": "Hi"}).status_code == 200


class TestMcp:
    @pytest.fixture(autouse=True)
    def tools(self, configs):
        for folder in ("tide", "moon"):
            configs(f"Workflows/_shared/{folder}/_DefaultWorkflow.json", [])
            configs(f"Workflows/_shared/{folder}/_mcpTool.json", {"description": f"The {folder}."})

    def rpc(self, client, address, method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return client.post(
            f"{address}/mcp", json=message, headers={"Accept": "application/json"}, buffered=True
        ).json

    def names(self, client, address):
        return [tool["name"] for tool in self.rpc(client, address, "tools/list")["result"]["tools"]]

    def test_an_address_shows_its_users_tools(self, two, client):
        """Of a workflow that one; of a plain model none. The names stay those of the server."""
        assert self.names(client, "") == ["mira.moon", "mira.tide", "jo.moon", "jo.tide"]
        assert self.names(client, "/as/jo") == ["jo.moon", "jo.tide"]
        assert self.names(client, "/as/jo:tide") == ["jo.tide"]
        assert self.names(client, "/as/claude-x") == self.names(client, "/as/gpt-4o") == []

    def test_with_one_user(self, client):
        assert self.names(client, "/as/mira") == ["moon", "tide"] and self.names(client, "/as/tide") == [
            "tide"
        ]

    def test_a_call_runs_the_tools_own_workflow(self, two, client, engine):
        """At its user's address, but not at another's."""
        engine.answer = [[chunk("Low."), chunk("", "stop")]]
        call = {"name": "jo.tide", "arguments": {"message": "Brest"}}
        for address in ("", "/as/jo", "/as/jo:tide"):
            assert self.rpc(client, address, "tools/call", **call)["result"]["isError"] is False
            assert (engine.last.request.user, engine.last.request.workflow_folder) == ("jo", "tide")
        for address in ("/as/mira", "/as/jo:moon"):
            assert (
                self.rpc(client, address, "tools/call", **call)["error"]["message"] == "no such tool: jo.tide"
            )


class TestAddresses:
    @pytest.mark.parametrize("path", ["/v1/nothing", "/slots", "/v1/audio/speech", "/api/pull"])
    def test_what_is_no_route_behind_it(self, two, client, path):
        """404 in the words and the shape of the path behind the name."""
        assert sentence(client.get(f"/as/jo{path}")) == sentence(client.get(path))

    def test_a_method_that_is_not_allowed(self, two, client):
        behind, there = client.get("/as/jo/mcp"), client.get("/mcp")
        assert (behind.status_code, behind.headers["Allow"]) == (there.status_code, there.headers["Allow"])

    def test_trailing_slashes_and_head(self, two, client):
        assert (
            client.get("/as/jo/v1/models/").status_code == client.head("/as/jo/v1/models").status_code == 200
        )

    def test_a_browser_may_ask_first(self, two, client):
        """OPTIONS asks for nobody."""
        headers = {"Origin": "http://localhost:8000"}
        assert client.options("/as/nobody/v1/chat/completions", headers=headers).status_code == 204

    @pytest.mark.parametrize(
        "path", ["/console", "/console/api/state", "/metrics", "/v1/usage", "/as/jo/v1/models"]
    )
    def test_what_is_not_below_one(self, serve, facts, path):
        """The server's own pages are not a model's."""
        facts(users=("mira", "jo"))
        client = serve(console=ConsoleWish("view", "k")).test_client()
        assert client.get(f"/as/jo{path}").status_code == 404

    @pytest.mark.parametrize("path", ["/as/jo", "/as/jo/"])
    def test_its_root_is_no_way_to_the_console(self, serve, facts, path):
        """A browser gets the text that tells clients that a server is there."""
        facts(users=("mira", "jo"))
        client = serve(console=ConsoleWish("view", "k")).test_client()
        browser = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
        assert client.get("/", headers=browser).status_code == 303
        answer = client.get(path, headers=browser)
        assert (answer.status_code, answer.text) == (200, "Ollama is running")

    def test_responses_are_stored_for_the_key_at_any_address(self, two, client):
        """And can be gone on with, asked for, deleted."""
        first = client.post("/as/jo/v1/responses", json={"input": "Hi"}).json["id"]
        again = {"input": "More", "previous_response_id": first}
        assert client.post("/as/mira/v1/responses", json=again).status_code == 200
        assert client.get(f"/v1/responses/{first}").json["id"] == first
        assert client.delete(f"/as/mira/v1/responses/{first}").json["deleted"] is True

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/messages"])
    def test_cancelling_needs_no_address(self, two, client, path):
        """The id alone counts."""
        answer = client.delete(f"/as/jo{path}", json={"request_id": "nothing-runs"})
        assert answer.json == {"status": "cancelled", "request_id": "nothing-runs", "active": False}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "mira",
        "jo",
        "gpt-4o",
        "claude-x",
        "mira:novel",
        "mira:raw/main",
        "mira:raw/",
        ":",
        "..",
        "as",
        "mira:latest",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=NAMES,
    path=st.sampled_from(["/v1/models", "/props", "/api/tags", "/v1/chat/completions", "/mcp", "", "/"]),
)
def test_any_name_in_an_address_is_served_or_is_none(client, name, path):
    """Whatever a browser may be told to open: an answer, or a 404 in the shape of the path; never a 500."""
    address = f"/as/{quote(name, safe='')}"
    body = {"messages": HELLO, "jsonrpc": "2.0", "id": 1, "method": "ping"}
    posts = path in ("/v1/chat/completions", "/mcp")
    answer = client.post(address + path, json=body, buffered=True) if posts else client.get(address + path)
    assert answer.status_code in (200, 404)
    assert answer.is_json or answer.text == "Ollama is running"


class TestKeys:
    @pytest.fixture
    def closed(self, serve, facts):
        facts(users=("mira", "jo"))
        return serve(access=AccessRules(api_keys=("k",))).test_client()

    def test_an_unknown_name_is_behind_the_key(self, closed):
        """Without one nobody learns which names are there."""
        paths = [
            f"/as/{name}{path}" for name in ("jo", "nobody") for path in ("/v1/models", "/api/tags", "/props")
        ]
        assert {closed.get(path).status_code for path in paths} == {401}
        asked = [closed.get(path, headers={"X-Api-Key": "k"}).status_code for path in paths]
        assert asked == [200] * 3 + [404] * 3

    @pytest.mark.parametrize("path", ["/", "/health", "/v1/health"])
    def test_an_open_path_tells_nothing_of_names(self, closed, path):
        """It is open at every address, until a key comes."""
        assert [closed.get(f"/as/{name}{path}").status_code for name in ("jo", "nobody")] == [200, 200]
        known = {"Authorization": "Bearer k"}
        assert [closed.get(f"/as/{name}{path}", headers=known).status_code for name in ("jo", "nobody")] == [
            200,
            404,
        ]


class TestEmbeddings:
    @pytest.fixture(autouse=True)
    def embedder(self, configs, monkeypatch):
        """Jo has an endpoint; its vectors are made up."""
        configs("Users/jo.json", {"embeddingsEndpoint": "vectors"})
        configs("ModelAliases.json", {"text-embedding-*": "jo", "lonely": "mira"})
        made = "Middleware.api.handlers.impl.embeddings_api_handler.embeddings_of"
        monkeypatch.setattr(made, lambda request, user, texts: [[1.0]] * len(texts))

    @pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
    def test_names(self, two, client, path):
        """An alias, an address; the answer says the name that was asked."""
        body = {"input": "Hi"}
        assert (
            client.post(path, json={**body, "model": "text-embedding-3-small"}).json["model"]
            == "text-embedding-3-small"
        )
        assert client.post(f"/as/jo{path}", json={**body, "model": "x"}).json["model"] == "jo"
        assert client.post(f"/as/text-embedding-3{path}", json=body).json["model"] == "text-embedding-3"
        for name, address in (("lonely", ""), (None, "/as/mira"), (None, "/as/nobody")):
            assert client.post(f"{address}{path}", json={**body, "model": name}).status_code == 404

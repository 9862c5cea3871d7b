"""What a key opens, on every route of every front end (keys.md 2, 3; acceptance row 1)."""

from __future__ import annotations

import base64
import json
import random
import re
from uuid import uuid4

import pytest
from werkzeug.exceptions import MethodNotAllowed, NotFound

from Middleware.api.requests.access import AccessRules, ConsoleWish
from Middleware.api.requests.key_check import EXPIRED, IN_ADDRESS, MISSING, WRONG
from Middleware.api.wsgi.model_addresses import take_model_off
from Middleware.common.asker import current_asker
from Middleware.config.key_file import digest_of
from Middleware.services.cancellation_service import cancellation_service
from tests.api.test_names_on_every_front import ANTHROPIC, FRONTS, HELLO
from tests.patience import wait_until

KEYS = {
    "ann": "k-ann",
    "zoe": "k-zoe",
    "old": "k-old",
    "none": "k-none",
    "all": "k-all",
    "scrape": "k-scrape",
    "shared": "k-shared",
}
ENTRIES = [
    {"name": "ann", "users": ["ann"]},
    {"name": "zoe", "users": ["zoe"]},
    {"name": "old", "users": ["*"], "expires": "2020-01-01"},
    {"name": "none", "users": []},
    {"name": "all", "users": ["*"]},
    {"name": "scrape", "users": [], "metrics": True},
]
ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/models/ann"),
    ("GET", "/api/tags"),
    ("GET", "/api/version"),
    ("GET", "/api/ps"),
    ("POST", "/api/show"),
    ("DELETE", "/api/chat"),
    ("DELETE", "/v1/chat/completions/some-id"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("GET", "/api/v1/model"),
    ("GET", "/api/v1/info/version"),
    ("GET", "/api/v1/config/max_context_length"),
    ("GET", "/api/v1/config/max_length"),
    ("GET", "/api/extra/version"),
    ("GET", "/api/extra/perf"),
    ("POST", "/api/extra/generate/check"),
    ("POST", "/api/extra/abort"),
    ("POST", "/api/extra/tokencount"),
    ("GET", "/props"),
    ("POST", "/tokenize"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("POST", "/v1/embeddings"),
    ("POST", "/api/embed"),
    ("POST", "/api/embeddings"),
    ("GET", "/metrics"),
    ("GET", "/v1/usage"),
    ("GET", "/as/ann/v1/models"),
    ("POST", "/as/ann/api/v1/generate"),
]


def bearer(name):
    return {"Authorization": f"Bearer {KEYS[name]}"}


def sentence(answer):
    """The body without what differs from request to request."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", answer.text)


def write_keys(configs, entries=ENTRIES):
    keys = [{**one, "sha256": digest_of(KEYS.get(one["name"], one["name"]))} for one in entries]
    configs("Keys.json", {"keys": keys})
    (configs.root / "Keys.json").chmod(0o600)


@pytest.fixture(autouse=True)
def tree(configs, facts):
    """Ann and zoe have a tool, an alias and a context length each; zoe has embeddings."""
    for name, length in (("ann", 1000), ("zoe", 2000)):
        own = {"advertisedContextLength": length, "sharedWorkflowsSubDirectoryOverride": f"of-{name}"}
        more = {"embeddingsEndpoint": "vectors"} if name == "zoe" else {}
        configs(f"Users/{name}.json", {**own, **more, "allowSharedWorkflows": True, "exposeEndpoints": True})
        configs(f"Workflows/of-{name}/tool/_DefaultWorkflow.json", [])
        configs(f"Workflows/of-{name}/tool/_mcpTool.json", {"description": f"asks {name}", "chat": True})
    configs("ApiTypes/Api.json", {"type": "openAIChatCompletion"})
    configs("Endpoints/main.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Api"})
    configs("ModelAliases.json", {"for-ann": "ann", "for-zoe": "zoe"})
    write_keys(configs)
    facts(users=("ann", "zoe"))


@pytest.fixture
def client(serve):
    return serve().test_client()


class TestRefusals:
    @pytest.mark.parametrize(
        ("method", "path"), [*ROUTES, *(("POST", front.path) for front in FRONTS.values())]
    )
    @pytest.mark.parametrize(
        ("headers", "said", "challenge"),
        [
            ({}, MISSING, 'Bearer realm="headrace"'),
            ({"Authorization": "Bearer "}, MISSING, 'Bearer realm="headrace"'),
            ({"x-api-key": "k-wrong"}, WRONG, 'Bearer realm="headrace", error="invalid_token"'),
            (bearer("old"), EXPIRED, 'Bearer realm="headrace", error="invalid_token"'),
        ],
        ids=["none", "empty", "wrong", "expired"],
    )
    def test_no_route_is_open(self, client, engine, method, path, headers, said, challenge):
        answer = client.open(path, method=method, json={"model": "ann"}, headers=headers)
        assert answer.status_code == 401 and said in answer.text
        assert answer.headers["WWW-Authenticate"] == challenge
        assert engine.calls == []

    @pytest.mark.parametrize(
        "path", ["/.well-known/oauth-protected-resource", "/register", "/v1/audio/speech", "/as/ann/v1/usage"]
    )
    @pytest.mark.parametrize(
        "headers", [{}, {"x-api-key": "k-wrong"}, bearer("ann")], ids=["none", "wrong", "right"]
    )
    def test_what_is_no_route_is_none_for_everybody(self, client, path, headers):
        """MCP clients that get a 401 there look for OAuth and end with a misleading sentence."""
        assert client.post(path, json={}, headers=headers).status_code == 404

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            *(
                ("GET", path)
                for path in ("/v1/models", "/metrics", "/api/tags", "/v1/usage", "/v1/responses/r")
            ),
            *(("POST", path) for path in ("/v1/chat/completions", "/api/chat", "/mcp", "/v1/embeddings")),
            ("DELETE", "/v1/chat/completions/some-id"),
        ],
    )
    @pytest.mark.parametrize("odd", ["/{}", "//{}", "/as/ann/{}", "/as/ann//{}", "//as/ann/{}"])
    @pytest.mark.parametrize("by_file", [True, False], ids=["keys file", "required keys"])
    def test_slashes_open_nothing(self, serve, configs, engine, method, path, odd, by_file):
        """Nor does a name in front of them."""
        rules = AccessRules()
        if not by_file:
            (configs.root / "Keys.json").unlink()
            rules = AccessRules(api_keys=("open",))
        body = {"model": "ann", "messages": HELLO, "input": "x"}
        environ = {"PATH_INFO": odd.format(path), "REQUEST_METHOD": method}
        answer = (
            serve(access=rules).test_client().open("/", json=body, method=method, environ_overrides=environ)
        )
        is_none = path in ("/metrics", "/v1/usage") and "as" in odd
        assert answer.status_code == (404 if is_none else 401), answer.text
        assert engine.calls == []

    def test_slashes_pass_by_no_limit(self, serve, engine):
        """What a key asks in an odd way waits and counts as ever."""
        app = serve()
        environ = {"PATH_INFO": "//v1/chat/completions", "REQUEST_METHOD": "post"}
        body = {"model": "ann", "messages": HELLO}
        answer = app.test_client().post(
            "/", json=body, headers=bearer("ann"), environ_overrides=environ, buffered=True
        )
        assert answer.status_code == 200
        wait_until(lambda: app.door.traffic.finished == 1)

    def test_the_front_door_sees_every_route_that_the_router_sees(self, serve):
        """Whatever stands in the path."""
        app, chance = serve(), random.Random(5)
        doors, router = app.door._doors, app.url_map.bind("localhost")
        odd = ["\n", "\r", "\0", "/", ".", "..", "\u2028", "\x85", "\xe9", "%2f", ";", " ", "id", "resp_1"]
        rules = [rule.rule for rule in app.url_map.iter_rules() if not rule.rule.startswith("/console")]
        for _ in range(5000):
            path = re.sub(
                "<[^>]+>",
                lambda _: "".join(chance.choices(odd, k=chance.randint(1, 3))),
                chance.choice(rules),
            )
            place = chance.randint(1, len(path))
            path = path[:place] + "".join(chance.choices(odd, k=chance.randint(0, 2))) + path[place:]
            environ = {"PATH_INFO": path}
            take_model_off(environ)
            path = environ["PATH_INFO"].rstrip("/") or "/"
            assert doors.is_route(path) or not is_matched(router, path), repr(path)

    def test_what_only_the_router_takes_for_a_route_is_closed(self, serve, monkeypatch):
        """Should there be such a path after all."""
        app = serve()
        monkeypatch.setattr(app.door._doors, "is_route", lambda path: False)
        client = app.test_client()
        for path in ("/v1/models", "/metrics", "/api/extra/perf"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers=bearer("all")).status_code in (200, 403)
        assert client.get("/no/route").status_code == 404
        assert client.get("/health").status_code == 200

    @pytest.mark.parametrize("path", ["/", "/health", "/v1/health"])
    def test_what_is_open_stays_open(self, client, path):
        """It names the version to those alone who have a key."""
        assert client.get(path).status_code == 200
        assert "version" not in client.get(path).text

    @pytest.mark.parametrize(
        "query", ["key=k-ann", "a=1&access_token=k-ann", "API_KEY=k-ann", "token", "apikey=x"]
    )
    def test_a_key_in_the_address_is_not_read(self, client, query):
        answer = client.get(f"/v1/models?{query}")
        assert answer.status_code == 401 and IN_ADDRESS in answer.text

    def test_wrong_keys_are_one_line_a_minute_and_counted(self, serve, caplog):
        app = serve()
        for _ in range(5):
            app.test_client().get("/v1/models", headers={"x-api-key": "k-wrong"})
        assert caplog.text.count("wrong API key") == 1 and "k-wrong" not in caplog.text
        numbers = app.test_client().get("/metrics", headers=bearer("scrape")).text
        assert "headrace_wrong_keys_total 5.0" in numbers

    def test_a_server_with_required_keys_alone_says_the_same(self, serve, configs):
        """Sources, sentences and the header of the challenge hold there, too."""
        (configs.root / "Keys.json").unlink()
        client = serve(access=AccessRules(api_keys=("open",))).test_client()
        assert client.get("/v1/models", headers={"x-api-key": "no"}).headers["WWW-Authenticate"]
        answer = client.get("/v1/models", headers={"api-key": "open"})
        assert answer.status_code == 200 and "Cache-Control" not in answer.headers
        assert client.post("/register").status_code == 404


def is_matched(router, path):
    """Whether Flask finds a route there, of whatever method."""
    try:
        router.match(path, method="GET")
    except MethodNotAllowed:
        return True
    except NotFound:
        return False
    return True


def basic(text):
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


SOURCES = {
    "bearer": bearer("ann"),
    "bearer in small letters": {"Authorization": "bearer k-ann"},
    "x-api-key": {"x-api-key": " k-ann "},
    "api-key": {"api-key": "k-ann"},
    "basic": basic("me:k-ann"),
    "basic without a name": basic(":k-ann"),
    "an empty bearer beside it": {"Authorization": "Bearer ", "x-api-key": "k-ann"},
    "a login's bearer beside it": {"Authorization": "Bearer x", "x-api-key": "k-ann"},
    "a proxy's password beside it": {**basic("proxy:secret"), "x-api-key": "k-ann"},
    "an expired one before it": {**bearer("old"), "api-key": "k-ann"},
    "two valid ones": {**bearer("ann"), "x-api-key": "k-all"},
}


@pytest.mark.parametrize("headers", SOURCES.values(), ids=SOURCES)
def test_where_a_key_comes_from(client, engine, headers):
    """The first that is valid counts, for the run as well."""
    answer = client.post("/v1/chat/completions", json={"model": "ann", "messages": HELLO}, headers=headers)
    assert answer.status_code == 200
    assert (engine.last.request.api_key, engine.last.request.asker.name) == ("k-ann", "ann")


def test_without_keys_a_proxys_password_chooses_no_folder(serve, configs, engine):
    (configs.root / "Keys.json").unlink()
    client = serve().test_client()
    for headers in (basic("me:k-ann"), {"api-key": "k-ann"}):
        client.post("/v1/chat/completions", json={"model": "ann", "messages": HELLO}, headers=headers)
        assert engine.last.request.api_key is None


front = pytest.mark.parametrize("name", FRONTS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@front
@streamed
class TestUsers:
    def test_its_own_user(self, client, engine, name, stream):
        for model in ("ann", "ann:tool", "ann:raw/main", "for-ann"):
            assert FRONTS[name].ask(client, model, stream=stream, headers=bearer("ann")).status_code == 200
            assert engine.last.request.user == "ann"

    @pytest.mark.parametrize("model", ["zoe", "zoe:tool", "zoe:raw/main", "for-zoe"])
    @pytest.mark.parametrize("address", [False, True], ids=["model", "address"])
    def test_another_user_is_as_an_unknown_one(self, client, engine, configs, name, stream, model, address):
        """In words and status; no file of that user is read: here it is not even JSON."""
        configs("Users/zoe.json", "{ broken")

        def ask(wanted):
            if not address:
                return FRONTS[name].ask(client, wanted, stream=stream, headers=bearer("ann"))
            place = "/as/" + wanted.replace("/", "%2F")
            return FRONTS[name].ask(client, stream=stream, address=place, headers=bearer("ann"))

        hidden, unknown = ask(model), ask("nobody")
        assert (hidden.status_code, unknown.status_code) == (404, 404)
        assert sentence(hidden) == sentence(unknown) and "zoe" not in hidden.text
        assert engine.calls == []

    def test_without_a_model_the_only_one(self, client, engine, name, stream):
        """Ollama's routes want a model all the same."""
        answer = FRONTS[name].ask(client, stream=stream, headers=bearer("ann"))
        if name.startswith("ollama"):
            assert answer.status_code == 400
        else:
            assert answer.status_code == 200 and engine.last.request.user == "ann"
        both = FRONTS[name].ask(client, stream=stream, headers=bearer("all"))
        assert both.status_code == 400
        none = FRONTS[name].ask(client, "ann", stream=stream, headers=bearer("none"))
        assert none.status_code == 404 and "this key may ask none of the users here" in none.text

    def test_one_user_or_the_pointers_is_closed_all_the_same(
        self, serve, facts, configs, engine, name, stream
    ):
        configs("Users/_current-user.json", {"currentUser": "ann"})
        for served in (("ann",), ()):
            facts(users=served)
            client = serve().test_client()
            assert FRONTS[name].ask(client, "any", stream=stream, headers=bearer("ann")).status_code == 200
            for model in ("any", "ann"):
                answer = FRONTS[name].ask(client, model, stream=stream, headers=bearer("zoe"))
                assert answer.status_code == 404 and "may ask none" in answer.text


class TestLists:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1/models",
            "/models",
            "/api/tags",
            "/api/v1/model",
            "/props",
            "/api/v1/config/max_context_length",
        ],
    )
    def test_lists_and_facts_are_of_its_own_users(self, client, path):
        for key, own, other in (("ann", "1000", "2000"), ("zoe", "2000", "1000")):
            answer = client.get(path, headers=bearer(key))
            assert answer.headers["Cache-Control"] == "no-store"
            names = {"ann", "zoe"} - {key}
            assert not any(name in answer.text for name in names) and other not in answer.text
            assert key in answer.text or own in answer.text

    def test_claudes_list(self, client):
        ids = client.get("/v1/models", headers={**bearer("ann"), **ANTHROPIC}).text
        assert '"for-ann"' in ids and "zoe" not in ids

    @pytest.mark.parametrize("model", ["zoe", "zoe:tool", "for-zoe", "nobody"])
    def test_one_model_of_another_is_not_there(self, client, model):
        hidden = client.get(f"/v1/models/{model}", headers=bearer("ann"))
        shown = client.post("/api/show", json={"model": model}, headers=bearer("ann"))
        assert (hidden.status_code, shown.status_code) == (404, 404)
        counted = client.post(
            "/v1/messages/count_tokens",
            json={"model": model, "messages": HELLO, "max_tokens": 1},
            headers=bearer("ann"),
        )
        unknown = client.post(
            "/v1/messages/count_tokens",
            json={"model": "nobody", "messages": HELLO, "max_tokens": 1},
            headers=bearer("ann"),
        )
        assert (counted.status_code, sentence(counted)) == (unknown.status_code, sentence(unknown))

    def test_a_key_for_nobody_sees_empty_lists(self, client):
        headers = bearer("none")
        assert client.get("/v1/models", headers=headers).json["data"] == []
        assert client.get("/api/tags", headers=headers).json["models"] == []
        assert client.get("/api/v1/model", headers=headers).json == {"result": ""}
        assert client.get("/props", headers=headers).json["model_alias"] == ""
        assert client.get("/api/v1/config/max_context_length", headers=headers).status_code == 200

    def test_tools_keep_their_names(self, client):
        """Those of other users are not there."""

        def rpc(method, key, **params):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post("/mcp", json=body, headers=bearer(key))

        for key, names in (("ann", ["ann.tool"]), ("all", ["ann.tool", "zoe.tool"]), ("none", [])):
            listed = rpc("tools/list", key).json["result"]["tools"]
            assert [tool["name"] for tool in listed] == names
        hidden = rpc("tools/call", "ann", name="zoe.tool", arguments={"message": "x"})
        unknown = rpc("tools/call", "ann", name="zoe.nope", arguments={"message": "x"})
        assert hidden.text.replace("zoe.tool", "zoe.nope") == unknown.text
        assert rpc("tools/call", "ann", name="ann.tool", arguments={"message": "x"}).json["result"]

    def test_embeddings_are_of_its_own_users(self, client):
        """Ann has none: as if nobody had."""
        for path, field in (
            ("/v1/embeddings", "input"),
            ("/api/embed", "input"),
            ("/api/embeddings", "prompt"),
        ):
            answer = client.post(path, json={"model": "zoe", field: "x"}, headers=bearer("ann"))
            assert answer.status_code == 404 and "zoe" not in answer.text
            assert "may ask none" in client.post(path, json={field: "x"}, headers=bearer("none")).text

    def test_kobold_says_that_it_is_protected(self, client):
        assert client.get("/api/extra/version", headers=bearer("ann")).json["protected"] is True


class TestNumbers:
    def test_perf_tells_the_keys_own_numbers(self, client, engine):
        """Work may last a moment longer than its answer."""
        for _ in range(2):
            FRONTS["chat"].ask(client, "ann", headers=bearer("ann"))

        def finished(name):
            return client.get("/api/extra/perf", headers=bearer(name)).json["total_gens"]

        wait_until(lambda: finished("ann") == 2)
        assert finished("zoe") == 0

    def test_metrics_are_a_right(self, serve):
        client = serve(access=AccessRules(api_keys=("open",))).test_client()
        assert client.get("/metrics", headers=bearer("ann")).status_code == 403
        assert client.get("/metrics", headers=bearer("scrape")).status_code == 200
        assert client.get("/metrics", headers={"x-api-key": "open"}).status_code == 200


class TestSeen:
    """By name, and never by key or digest (keys.md 6)."""

    def test_the_log(self, client, engine, caplog):
        caplog.set_level("INFO")
        FRONTS["chat"].ask(client, "ann", headers=bearer("ann"))
        FRONTS["chat"].ask(client, "zoe", headers=bearer("ann"))
        assert re.search(r"POST /v1/chat/completions: 200 .*, key ann$", caplog.text, re.M)
        assert re.search(r"404 for 127.0.0.1 with key ann: POST", caplog.text)
        assert "k-ann" not in caplog.text and digest_of("k-ann") not in caplog.text

    def test_without_a_file_no_line_says_a_key(self, serve, configs, caplog):
        (configs.root / "Keys.json").unlink()
        caplog.set_level("INFO")
        FRONTS["chat"].ask(serve().test_client(), "ann", headers=bearer("ann"))
        FRONTS["chat"].ask(serve().test_client(), "nobody", headers=bearer("ann"))
        assert "key" not in caplog.text

    @pytest.fixture
    def page(self, serve, configs):
        write_keys(configs, [*ENTRIES, {"name": "shared", "users": ["*"], "turnsBy": "X-User"}])
        app = serve(access=AccessRules(api_keys=("open",)), console=ConsoleWish("edit", "console-key"))
        headers = {"Authorization": "Bearer console-key", "X-Headrace-Console": "1"}
        client = app.test_client()
        client.look = lambda place: client.get(f"/console/api/{place}", headers=headers).json
        return client

    def test_rows_and_filters_of_the_console(self, page, engine):
        for headers in (bearer("ann"), {"x-api-key": "open"}, {"x-api-key": "k-shared", "X-User": "kim"}):
            FRONTS["chat"].ask(page, "ann", headers=headers)
        shown = [run["key"] for run in page.look("runs")["runs"]]
        assert shown == [f"shared/{digest_of('kim')[:8]}", None, "ann"]
        assert [run["key"] for run in page.look("runs?key=ann")["runs"]] == ["ann"]
        assert [run["key"] for run in page.look("runs?key=-")["runs"]] == [None]
        assert [run["key"] for run in page.look("runs?text=shared")["runs"]] == [shown[0]]

    def test_the_table_of_the_overview(self, page, engine):
        assert page.look("numbers")["keys"] is True
        before = {row["name"]: row["requests"] for row in page.look("keys")["keys"]}
        FRONTS["chat"].ask(page, "ann", headers=bearer("ann"))
        told = page.look("keys")
        assert told["count"] == 7
        first, *others = told["keys"]
        assert (first["name"], first["requests"], first["expired"]) == (
            "ann",
            before["ann"] + 1,
            False,
        ) and first["seen"]
        assert {row["name"]: row["expired"] for row in others}["old"] is True
        assert all(row["seen"] is None for row in others)
        assert "k-ann" not in json.dumps(told) and digest_of("k-ann") not in json.dumps(told)

    def test_without_a_file_there_is_no_table(self, serve, configs):
        (configs.root / "Keys.json").unlink()
        client = serve(console=ConsoleWish("edit", "console-key")).test_client()
        headers = {"Authorization": "Bearer console-key", "X-Headrace-Console": "1"}
        assert client.get("/console/api/keys", headers=headers).json == {"keys": None, "count": None}
        assert client.get("/console/api/numbers", headers=headers).json["keys"] is False

    def test_usage_is_the_keys_own(self, serve, configs, engine):
        limits = {"requestsPerMinute": 30, "tokensPerDay": 1000}
        name, other = uuid4().hex, uuid4().hex  # days last as long as the process
        write_keys(
            configs, [{"name": name, "users": ["ann"], "limits": limits}, {"name": other, "users": []}]
        )
        client = serve(access=AccessRules(api_keys=("open",))).test_client()
        FRONTS["chat"].ask(client, "ann", headers={"x-api-key": name})
        answer = client.get("/v1/usage", headers={"x-api-key": name})
        told = answer.json
        assert list(told) == [
            *("object", "name", "day", "requests", "prompt_tokens", "completion_tokens"),
            *("running", "waiting", "limits", "remaining"),
        ]
        assert (told["object"], told["name"], told["requests"]) == ("usage", name, 1)
        assert told["limits"] == {"queued": 50, **limits}
        assert told["remaining"] == {"requestsPerMinute": 29, "tokensPerDay": 1000}
        assert answer.headers["Cache-Control"] == "no-store"
        told = client.get("/v1/usage", headers={"x-api-key": other}).json
        assert (told["name"], told["requests"]) == (other, 0)
        assert client.get("/v1/usage", headers={"x-api-key": "open"}).status_code == 404

    def test_without_a_file_there_is_no_usage(self, serve, configs):
        (configs.root / "Keys.json").unlink()
        client = serve().test_client()
        for headers in ({}, bearer("ann")):
            assert client.get("/v1/usage", headers=headers).status_code == 404


class TestKeysOfTheCommandLine:
    def test_they_stay_valid_and_may_ask_everybody(self, serve, engine):
        client = serve(access=AccessRules(api_keys=("open", "k-ann"))).test_client()
        for model in ("ann", "zoe"):
            assert FRONTS["chat"].ask(client, model, headers={"x-api-key": "open"}).status_code == 200
        assert engine.last.request.asker.name == "-" and engine.last.request.api_key == "open"

    def test_a_key_that_is_in_both_is_the_files(self, serve):
        client = serve(access=AccessRules(api_keys=("k-ann",))).test_client()
        assert FRONTS["chat"].ask(client, "zoe", headers=bearer("ann")).status_code == 404


class TestConsole:
    def test_it_is_off_without_a_key_of_its_own(self, serve):
        client = serve().test_client()
        assert client.get("/console/").status_code == client.get("/console/api/state").status_code == 404
        assert (
            client.get("/", headers={"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}).status_code == 200
        )

    def test_it_is_on_with_one(self, serve):
        client = serve(console=ConsoleWish("view", "console-key")).test_client()
        assert client.get("/console/").status_code == 200

    @pytest.mark.parametrize(
        ("wish", "status"), [(ConsoleWish(), 404), (ConsoleWish("view", "console-key"), 200)]
    )
    def test_a_file_that_appears_turns_it_off(self, serve, configs, wish, status):
        (configs.root / "Keys.json").unlink()
        app = serve(console=wish)
        assert app.test_client().get("/console/").status_code == 200
        write_keys(configs)
        look_now(app)
        assert app.test_client().get("/console/").status_code == status

    def test_a_question_from_the_page_needs_a_key_for_the_user(self, serve, engine):
        client = serve(console=ConsoleWish("edit", "console-key")).test_client()

        def ask(user, key):
            body = {"user": user, "path": None, "messages": HELLO, "api_key": key}
            headers = {"Authorization": "Bearer console-key", "X-Headrace-Console": "1"}
            return client.post("/console/api/try", json=body, headers=headers, buffered=True)

        assert [ask("ann", None).status_code, ask("ann", "k-wrong").status_code] == [401, 401]
        assert "WWW-Authenticate" not in ask("ann", None).headers
        assert [ask("zoe", "k-ann").status_code, ask("nobody", "k-ann").status_code] == [404, 404]
        assert ask("ann", "k-ann").status_code == 200 and engine.last.request.asker.name == "ann"


def look_now(app):
    """The keys file is looked at by the next request."""
    app.door.keys._file._looked = float("-inf")


class TestEdits:
    def test_revoked_narrowed_and_added(self, serve, configs):
        app = serve()
        client = app.test_client()
        write_keys(configs, [{"name": "all", "users": ["ann"]}, {"name": "new", "users": ["zoe"]}])
        look_now(app)
        assert client.get("/v1/models", headers=bearer("ann")).status_code == 401
        assert "zoe" not in client.get("/v1/models", headers=bearer("all")).text
        assert "zoe" in client.get("/v1/models", headers={"x-api-key": "new"}).text

    def test_a_broken_start_is_none(self, serve, configs):
        configs("Keys.json", '{"keys": [')
        with pytest.raises(RuntimeError, match=r"Keys\.json"):
            serve()

    def test_nobody_is_left_behind_for_the_next_request(self, serve, configs, engine):
        """A keys file may appear while a request waits: its thread forgets who that was."""
        (configs.root / "Keys.json").unlink()
        app, seen = serve(), []

        def answer(call):
            write_keys(configs)
            look_now(app)
            app.door.keys.check_again({"HTTP_X_API_KEY": "k-ann"})
            seen.append(current_asker().name)
            return iter([])

        engine.answer = answer
        FRONTS["chat"].ask(app.test_client(), "ann", headers=bearer("ann"))
        assert seen == ["ann"] and current_asker() is None

    def test_revoked_while_it_waits(self, serve, facts, configs, engine):
        """In place of its turn."""
        facts(users=("ann", "zoe"), concurrency=1)
        app = serve()
        answers = []

        def answer(call):
            write_keys(configs, [{"name": "all", "users": ["*"]}])
            look_now(app)
            answers.append(app.door.keys.check_again)
            return iter(engine_answer)

        engine_answer, engine.answer = engine.answer, answer
        environ = {"HTTP_AUTHORIZATION": "Bearer k-ann"}
        assert FRONTS["chat"].ask(app.test_client(), "ann", headers=bearer("ann")).status_code == 200
        (check_again,) = answers
        with pytest.raises(Exception, match="doesn't know"):
            check_again(environ)


class TestFolders:
    @pytest.fixture
    def asked(self, configs, engine, serve):
        entries = [
            {"name": "ann", "users": ["*"], "folder": "family"},
            {"name": "all", "users": ["*"], "folder": ""},
            {"name": "zoe", "users": ["*"]},
        ]
        write_keys(configs, entries)
        client = serve().test_client()
        return lambda model, key: FRONTS["chat"].ask(client, model, headers=bearer(key))

    def test_the_entry_names_it(self, asked, engine):
        folders = []
        for key in ("ann", "all", "zoe"):
            asked("ann", key)
            folders.append(engine.last.request.asker.folder)
        assert folders == ["family", "", None]

    def test_not_for_a_user_whose_cipher_is_the_key(self, asked, engine, configs):
        configs("Users/ann.json", {"encryptUsingApiKey": True})
        for key, status in (("ann", 500), ("all", 500), ("zoe", 200)):
            assert asked("ann", key).status_code == status
        refused = asked("ann", "ann")
        assert "folder" in refused.text and "encryptUsingApiKey" in refused.text
        assert len(engine.calls) == 1


class TestOwners:
    def test_a_stored_response_is_its_entrys(self, client, engine):
        """Of the name: a key that is exchanged finds it again, and no other."""
        asked = FRONTS["responses"].ask(client, "ann", headers=bearer("all"))
        place = f"/v1/responses/{asked.json['id']}"
        assert client.get(place, headers=bearer("ann")).status_code == 404
        assert client.get(f"{place}/input_items", headers=bearer("ann")).status_code == 404
        assert client.delete(place, headers=bearer("ann")).status_code == 404
        more = {"model": "ann", "input": "x", "previous_response_id": asked.json["id"]}
        assert client.post("/v1/responses", json=more, headers=bearer("ann")).status_code == 400
        assert client.get(place, headers=bearer("all")).status_code == 200

    def test_a_running_request_is_cancelled_by_its_own_key_alone(self, serve, engine):
        """To others it does not run, whichever way they ask."""
        app = serve()
        client, heard = app.test_client(), []

        def answer(call):
            def ask(path, key, **more):
                return json.loads(app.test_client().delete(path, headers=bearer(key), **more).text)

            given = call.request.request_id
            heard.append(ask(f"/v1/chat/completions/chatcmpl-{given}", "zoe").get("active"))
            heard.append(ask("/api/chat", "zoe", json={"request_id": given}).get("active"))
            heard.append(ask(f"/v1/chat/completions/{given}", "ann").get("active", True))
            return iter([])

        engine.answer = answer
        FRONTS["chat"].ask(client, "ann", stream=True, headers=bearer("ann"))
        assert heard == [False, False, True]

    @pytest.mark.parametrize(("key", "cancelled"), [("zoe", False), ("ann", True)])
    def test_the_same_idempotency_key_of_another_key_replaces_nothing(self, serve, engine, key, cancelled):
        app = serve()
        seen = []
        simple = engine.answer

        def answer(call):
            if len(engine.calls) > 1:
                return iter(simple)
            again = {**bearer(key), "X-Idempotency-Key": "same"}
            FRONTS["chat"].ask(app.test_client(), key, headers=again)
            seen.append(cancellation_service.is_cancelled(call.request.request_id))
            return iter(simple)

        engine.answer = answer
        FRONTS["chat"].ask(app.test_client(), "ann", headers={**bearer("ann"), "X-Idempotency-Key": "same"})
        assert seen == [cancelled]

    @pytest.mark.parametrize(("key", "text"), [("zoe", ""), ("ann", "Hel")])
    def test_kobolds_check_and_abort_find_its_own(self, serve, engine, key, text):
        app = serve()
        heard = {}

        def answer(call):
            yield [{"token": "Hel", "finish_reason": None}]
            other = app.test_client()
            body = {"genkey": "same"}
            checked = other.post("/api/extra/generate/check", json=body, headers=bearer(key)).json
            heard["text"] = checked["results"][0]["text"]
            heard["abort"] = other.post("/api/extra/abort", json=body, headers=bearer(key)).json["success"]
            yield [{"token": "", "finish_reason": "stop"}]

        engine.answer = answer
        body = {"model": "ann", "prompt": "Hi", "genkey": "same"}
        app.test_client().post("/api/extra/generate/stream", json=body, headers=bearer("ann"), buffered=True)
        assert heard["abort"] == ("true" if text else "false") and heard["text"] in (text, "")

"""What a client is told of the limits of its key, on every front end (keys.md 4)."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from Middleware.api.requests.access import ConsoleWish
from Middleware.common.errors import BackendError
from Middleware.config.key_file import digest_of
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.key_limits import day_of
from tests.api.conftest import chunk
from tests.api.test_names_on_every_front import FRONTS, HELLO
from tests.patience import PATIENCE_S, wait_until

OPENAI = ("chat", "chat, unversioned", "completions", "responses")


@pytest.fixture
def tree(configs, facts):
    """Two users with a tool each."""
    for name in ("ann", "zoe"):
        configs(f"Users/{name}.json", {"sharedWorkflowsSubDirectoryOverride": f"of-{name}"})
        configs(f"Workflows/of-{name}/tool/_DefaultWorkflow.json", [])
        configs(f"Workflows/of-{name}/tool/_mcpTool.json", {"description": f"asks {name}", "chat": True})
    configs("ApiTypes/Api.json", {"type": "openAIChatCompletion"})
    facts(users=("ann", "zoe"))


@pytest.fixture
def key(tree, configs):
    """`key(limits)` writes a keys file of one key, and gives its name: another one each time, as buckets and
    sums of days belong to the process.
    """

    def write(users=("ann",), priority="people", **limits):
        name = f"key-{uuid.uuid4().hex[:8]}"
        entry = {"name": name, "sha256": digest_of(name), "users": list(users), "priority": priority}
        configs("Keys.json", {"keys": [{**entry, "limits": limits}]})
        (configs.root / "Keys.json").chmod(0o600)
        return name

    return write


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


def ask(client, name, front="chat", model="ann", stream=False, **headers):
    return FRONTS[front].ask(client, model, stream=stream, headers={**bearer(name), **headers})


def use_up(name, tokens):
    cancellation_service.member().count(name, day_of(time.time()), {"prompt": tokens})


def limit_headers(answer):
    return {name for name, _ in answer.headers if name.lower().startswith("x-ratelimit")}


REQUESTS = {f"x-ratelimit-{what}-requests" for what in ("limit", "remaining", "reset")}
TOKENS = {f"x-ratelimit-{what}-tokens" for what in ("limit", "remaining", "reset")}


class TestRefusals:
    @pytest.mark.parametrize("front", FRONTS)
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_too_many_a_minute(self, serve, key, engine, front, stream):
        """The sentence in the protocol's form, when to come again, and that coming again helps."""
        name, client = key(requestsPerMinute=1), serve().test_client()
        assert ask(client, name, front, stream=stream).status_code == 200
        answer = ask(client, name, front, stream=stream)
        assert answer.status_code == 429
        assert f"the key {name} may make 1 request a minute; try again in " in answer.text
        assert 0 < int(answer.headers["Retry-After"]) <= 60
        assert "x-should-retry" not in answer.headers
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        assert len(engine.calls) == 1

    @pytest.mark.parametrize(
        ("front", "kind"),
        [
            *((front, "rate_limit_error") for front in (*OPENAI, "anthropic", "llama.cpp")),
            ("koboldcpp", "too_many_requests"),
        ],
    )
    def test_the_type_of_the_error(self, serve, key, engine, front, kind):
        name, client = key(requestsPerMinute=1), serve().test_client()
        ask(client, name, front)
        body = ask(client, name, front).json
        error = body.get("error") or body["detail"]
        assert error["type"] == kind
        if front in OPENAI:
            assert error["code"] == "rate_limit_exceeded"

    @pytest.mark.parametrize("front", FRONTS)
    def test_nothing_left_of_the_day(self, serve, key, engine, front):
        """No SDK tries again."""
        name, client = key(tokensPerDay=20), serve().test_client()
        use_up(name, 20)
        answer = ask(client, name, front)
        assert answer.status_code == 429
        assert f"the key {name} may use 20 tokens a day" in answer.text
        assert answer.headers["x-should-retry"] == "false"
        assert 0 < int(answer.headers["Retry-After"]) <= 86_400
        assert answer.headers["x-ratelimit-remaining-tokens"] == "0"
        assert engine.calls == []
        if front in OPENAI:
            assert answer.json["error"]["code"] == "insufficient_quota"

    def test_a_tool_of_mcp(self, serve, key, engine):
        """As its 503: the client has made no mistake. Lists are free."""
        name, client = key(requestsPerMinute=1), serve().test_client()

        def rpc(method, **params):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post("/mcp", json=body, headers=bearer(name))

        call = {"name": "tool", "arguments": {"message": "x"}}
        tool = rpc("tools/list").json["result"]["tools"][0]["name"]
        first, second = (rpc("tools/call", **{**call, "name": tool}) for _ in range(2))
        assert first.status_code == 200 and limit_headers(first) == REQUESTS
        assert second.status_code == 429 and limit_headers(second) == REQUESTS
        assert second.json["id"] is None and second.json["error"]["code"] == -32603
        assert second.headers["Retry-After"] and not limit_headers(rpc("tools/list"))


class TestHeaders:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_for_the_limits_that_the_key_has(self, serve, key, engine, stream):
        name, client = key(requestsPerMinute=30, tokensPerDay=1000), serve().test_client()
        answer = ask(client, name, stream=stream)
        assert limit_headers(answer) == REQUESTS | TOKENS
        assert answer.headers["x-ratelimit-limit-requests"] == "30"
        assert answer.headers["x-ratelimit-remaining-requests"] == "29"

    def test_for_none(self, serve, key, engine):
        assert limit_headers(ask(serve().test_client(), key())) == set()

    def test_on_every_answer_to_a_counted_request(self, serve, key, engine):
        """Each has taken one of the minute's: an unknown user, bad JSON, a body that is too large, a failure."""
        name, app = key(requestsPerMinute=9), serve()
        client = app.test_client()
        app.door.most_body_bytes = 200
        unknown = ask(client, name, model="zoe")
        no_json = client.post("/v1/chat/completions", data="{", headers=bearer(name))
        large = ask(client, name, model="x" * 300)
        addressed = client.post("/as/zoe/v1/chat/completions", json={"messages": HELLO}, headers=bearer(name))

        def fail(_):
            raise BackendError("main", "timeout", "too late")

        engine.answer = fail
        failed = ask(client, name)
        answers = [unknown, no_json, large, addressed, failed]
        assert [one.status_code for one in answers] == [404, 400, 413, 404, 504]
        assert [one.headers.get("x-ratelimit-remaining-requests") for one in answers] == list("87654")

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/v1/models"),
            ("POST", "/api/show"),
            ("POST", "/v1/messages/count_tokens"),
            ("POST", "/tokenize"),
            ("DELETE", "/api/chat"),
            ("GET", "/v1/responses/resp_1"),
        ],
    )
    def test_what_is_not_counted(self, serve, key, method, path):
        name, client = key(requestsPerMinute=1), serve().test_client()
        answers = [client.open(path, method=method, json={}, headers=bearer(name)) for _ in range(3)]
        assert not any(one.status_code == 429 or limit_headers(one) for one in answers)

    def test_pages_of_other_sites_may_read_them(self, serve, key, engine):
        name, client = key(requestsPerMinute=2), serve().test_client()
        answer = ask(client, name, Origin="http://localhost:3000")
        exposed = answer.headers["Access-Control-Expose-Headers"]
        assert {"Retry-After", *REQUESTS, *TOKENS} <= set(exposed.split(", "))

    def test_without_a_keys_file_no_header_is_new(self, serve, tree, engine):
        answer = ask(serve().test_client(), "any", Origin="http://localhost:3000")
        exposed = "X-Request-Id, X-Workflow-Usage, request-id, Mcp-Session-Id"
        assert answer.headers["Access-Control-Expose-Headers"] == exposed
        assert limit_headers(answer) == set()


class TestTurns:
    @pytest.fixture
    def busy(self, engine):
        """Answers wait until they are let go; `busy.begun`: how many have begun."""
        busy = Busy(engine)
        yield busy
        busy.go.set()

    @pytest.mark.parametrize("concurrency", [0, 4])
    def test_concurrent_and_queued(self, serve, facts, key, busy, concurrency):
        """One at a time, one more may wait; with a gate and without."""
        facts(users=("ann", "zoe"), concurrency=concurrency)
        name, app = key(concurrent=1, queued=1), serve()
        threads = [busy.ask(app, name) for _ in range(2)]
        limiter = app.server.limiter
        entry = app.door.keys.ring.entries[0]
        wait_until(lambda: limiter.numbers(entry)[4:6] == (1, 1))
        answer = ask(app.test_client(), name)
        assert answer.status_code == 429
        assert f"the key {name} may have 1 request waiting; try again in 5 s" in answer.text
        assert answer.headers["Retry-After"] == "5"
        busy.go.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert busy.statuses == [200, 200] and busy.together == 1
        wait_until(lambda: limiter.numbers(entry)[4:6] == (0, 0))

    @pytest.mark.parametrize("concurrency", [0, 4])
    def test_the_console_counts_who_waits_for_its_key(self, serve, facts, key, busy, concurrency):
        """In front of the server's gate, where there is one."""
        facts(users=("ann", "zoe"), concurrency=concurrency)
        name, app = key(concurrent=1), serve(console=ConsoleWish("view", "console-key"))
        headers = {"Authorization": "Bearer console-key", "X-Headrace-Console": "1"}

        def gate():
            told = app.test_client().get("/console/api/state", headers=headers).json["gate"]
            return told["running"], told["waiting"]

        threads = [busy.ask(app, name) for _ in range(3)]
        wait_until(lambda: gate() == (1, 2), said=lambda: str(gate()))
        busy.go.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        wait_until(lambda: gate() == (0, 0), said=lambda: str(gate()))

    def test_a_retry_is_not_refused_for_the_request_that_it_replaces(self, serve, key, busy):
        """Of a key that may not wait at all."""
        name, app = key(concurrent=1, queued=0), serve()
        first = busy.ask(app, name, **{"X-Idempotency-Key": "k"})
        wait_until(lambda: busy.begun == 1)
        second = busy.ask(app, name, **{"X-Idempotency-Key": "k"})
        busy.go.set()
        first.join(PATIENCE_S)
        second.join(PATIENCE_S)
        assert 200 in busy.statuses and 429 not in busy.statuses

    def test_a_refused_request_replaces_none(self, serve, key, busy):
        """Limits come before."""
        name, app = key(requestsPerMinute=1), serve()
        first = busy.ask(app, name, **{"X-Idempotency-Key": "k"})
        wait_until(lambda: busy.begun == 1)
        assert ask(app.test_client(), name, **{"X-Idempotency-Key": "k"}).status_code == 429
        busy.go.set()
        first.join(PATIENCE_S)
        assert busy.statuses == [200]

    def test_a_refused_request_holds_nothing(self, serve, key, engine):
        """No thread of the server, no turn."""
        name, app = key(requestsPerMinute=1), serve()
        app.door.most_posts = 1
        client = app.test_client()
        assert [ask(client, name).status_code for _ in range(3)] == [200, 429, 429]
        wait_until(lambda: app.door._posts == set() and app.door.lives == set())

    def test_metrics_of_a_key(self, serve, key, engine):
        name, client = key(requestsPerMinute=1), serve().test_client()
        for _ in range(2):
            ask(client, name)
        metrics = client.application.extensions["headrace.metrics"]
        done = f'headrace_key_requests_total{{key="{name}",outcome="done"}} 1.0'
        wait_until(lambda: done in metrics.exposition()[1].decode())
        shown = metrics.exposition()[1].decode()
        assert f'headrace_key_requests_total{{key="{name}",outcome="refused"}} 1.0' in shown
        assert f'headrace_key_refused_total{{key="{name}",limit="requestsPerMinute"}} 1.0' in shown


class Busy:
    def __init__(self, engine):
        self.go, self.statuses = threading.Event(), []
        self.begun = self.inside = self.together = 0
        self._lock = threading.Lock()
        engine.answer = self._answer

    def _answer(self, call):
        with self._lock:
            self.begun += 1
            self.inside += 1
            self.together = max(self.together, self.inside)
        yield [chunk("a")]
        while not self.go.wait(0.05) and not cancellation_service.is_cancelled(call.request.request_id):
            yield []
        with self._lock:
            self.inside -= 1
        yield [chunk("", "stop")]

    def ask(self, app, name, **headers):
        def run():
            self.statuses.append(ask(app.test_client(), name, **headers).status_code)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

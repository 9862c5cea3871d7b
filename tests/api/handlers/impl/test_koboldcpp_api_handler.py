"""The KoboldCpp routes, against a scripted engine (more-fronts.md 4)."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.requests.access import AccessRules
from Middleware.common.errors import BackendError
from tests.api.conftest import chunk
from tests.api.handlers.impl.test_ollama_api_handler import odd
from tests.api.test_a_third_protocol import Held, in_background
from tests.patience import PATIENCE_S

WHOLE, STREAM = "/api/v1/generate", "/api/extra/generate/stream"
ABORT, CHECK = "/api/extra/abort", "/api/extra/generate/check"
DONE, NOT_DONE = {"success": "true", "done": "true"}, {"success": "false", "done": "false"}


@pytest.fixture
def waiting(serve, engine):
    """`waiting(path, body)` has a request running that waits; `.text` is its answer once it has ended."""
    app, threads = serve(), []

    class Waiting:
        def __init__(self, path=STREAM, body=None, **more):
            self.held, self.answer = Held(engine), None
            self.client = app.test_client()
            threads.append(in_background(lambda: self._ask(path, {"prompt": "Hi", **(body or {})}, more)))
            assert self.held.began.wait(PATIENCE_S)

        def _ask(self, path, body, more):
            self.answer = app.test_client().post(path, json=body, buffered=True, **more)

        def over(self):
            threads[-1].join(PATIENCE_S)
            return self.answer

    yield Waiting
    for thread in threads:
        thread.join(PATIENCE_S)


class TestGenerate:
    @pytest.mark.parametrize("path", [WHOLE, "/api/latest/generate"])
    def test_whole(self, client, engine, path):
        """One result with its numbers; the path alone says that it is whole."""
        usage = {"prompt_tokens": 33, "completion_tokens": 4}
        engine.answer = [[chunk("Well then.")], [chunk("", "length", usage=usage)]]
        answer = client.post(path, json={"prompt": "Hi", "stream": True})
        assert answer.text == (
            '{"results":[{"text":"Well then.","finish_reason":"length","prompt_tokens":33,"completion_tokens":4}]}'
        )

    def test_streamed(self, client):
        """11.8; the path alone says that it streams."""
        answer = client.post(STREAM, json={"prompt": "Hi", "stream": False})
        assert answer.content_type == "text/event-stream; charset=utf-8"
        assert answer.text == (
            'event: message\ndata: {"token":"Hel","finish_reason":null}\n\n'
            'event: message\ndata: {"token":"lo.","finish_reason":null}\n\n'
            'event: message\ndata: {"token":"","finish_reason":"stop"}\n\n'
        )

    def test_memory_stands_before_the_prompt(self, client, engine):
        """As one text; images go to the last user message; samplers and lengths are not looked at."""
        body = {"memory": "M. ", "prompt": "P.", "images": ["iVBORw0KGgo=", 1], "rep_pen": "x", "quiet": 1}
        client.post(WHOLE, json=body)
        assert engine.last.messages == [{"role": "user", "content": "M. P.", "images": ["iVBORw0KGgo="]}]
        assert (engine.last.tools, engine.last.stream) == (None, False)

    def test_wishes(self, client, engine):
        """Under the names of this protocol; nodes say which they take."""
        body = {
            "prompt": "Hi",
            "max_length": 40,
            "stop_sequence": ["x"],
            "rep_pen": 1.1,
            "sampler_seed": 7,
            "top_k": 5,
        }
        client.post(WHOLE, json={**body, "max_context_length": 8192, "sampler_order": [6]})
        wished = {name: (wish.value, wish.field) for name, wish in engine.last.wishes.items()}
        assert wished == {
            "max_tokens": (40, "max_length"),
            "stop": (["x"], "stop_sequence"),
            "seed": (7, "sampler_seed"),
            "repetition_penalty": (1.1, "rep_pen"),
            "top_k": (5, "top_k"),
        }

    def test_tags(self, client, engine):
        """They cut the prompt into messages; a memory without tags leads them."""
        client.post(STREAM, json={"memory": "M.", "prompt": "[Beg_User]Hi[Beg_Assistant]Ann:"}, buffered=True)
        assert engine.last.messages == [
            {"role": "system", "content": "M."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Ann:"},
        ]

    @pytest.mark.parametrize("path", [WHOLE, STREAM])
    def test_nothing_is_refused(self, client, engine, path):
        """In its own shape."""
        answer = client.post(path, json={"prompt": "", "memory": "", "images": []})
        assert answer.status_code == 400 and engine.calls == []
        assert answer.json["detail"]["type"] == "bad_input" and "'prompt'" in answer.json["detail"]["msg"]

    def test_a_failure_in_mid_stream(self, client, engine):
        """An event that SillyTavern shows; what was sent stays sent."""

        def breaking(call):
            yield [chunk("Well")]
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = breaking
        answer = client.post(STREAM, json={"prompt": "Hi"}, buffered=True)
        first, last, _ = answer.text.split("\n\n")
        assert '"Well"' in first and last.startswith("event: error\ndata: ")
        assert json.loads(last.split("data: ")[1])["error"]["message"].startswith("endpoint 'Big'")


class TestAbort:
    def test_by_its_key(self, waiting):
        """That request and no other; the stream ends properly."""
        one = waiting(body={"genkey": "KCPP1"})
        assert one.client.post(ABORT, json={"genkey": "KCPP9"}).json == NOT_DONE
        assert one.client.post(ABORT).json == NOT_DONE
        assert one.client.post(ABORT, json={"genkey": "KCPP1"}).json == DONE
        assert one.over().text.endswith('data: {"token":"","finish_reason":"stop"}\n\n')
        assert one.held.cancelled

    def test_a_whole_answer(self, waiting):
        """Is no answer any more."""
        one = waiting(WHOLE, {"genkey": "K"})
        assert one.client.post(ABORT, json={"genkey": "K"}).json == DONE
        assert one.over().status_code == 499 and one.answer.json["detail"]["type"] == "server_error"

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"genkey": ""}'])
    def test_without_a_key_by_the_address(self, waiting, data):
        """What SillyTavern sends: its own request ends, one with a key and one from elsewhere do not."""
        one = waiting()
        there = {"REMOTE_ADDR": "10.0.0.9"}
        assert one.client.post(ABORT, data=data, environ_overrides=there).json == NOT_DONE
        other = one.client.post(ABORT, data=data, headers={"Authorization": "Bearer other"})
        assert other.json == NOT_DONE
        assert one.client.post(ABORT, data=data).json == DONE
        assert one.over().status_code == 200

    def test_the_key_of_another_client(self, waiting):
        """Names another request."""
        one = waiting(body={"genkey": "K"}, headers={"Authorization": "Bearer a"})
        other = {"Authorization": "Bearer b"}
        assert one.client.post(ABORT, json={"genkey": "K"}, headers=other).json == NOT_DONE
        assert one.client.get(CHECK, headers=other).json == {"results": [{"text": ""}]}
        own = {"Authorization": "Bearer a"}
        assert one.client.post(ABORT, json={"genkey": "K"}, headers=own).json == DONE

    def test_other_routes_are_left_alone(self, waiting):
        """SillyTavern's chats on `/v1/completions` end by its hang-up."""
        one = waiting("/v1/completions")
        assert one.client.post(ABORT).json == NOT_DONE
        one.held.free.set()
        assert "late" in one.over().text and not one.held.cancelled

    def test_a_hang_up_stops_it(self, waiting):
        """As on every route."""
        gone = threading.Event()
        one = waiting(WHOLE, environ_overrides={"waitress.client_disconnected": gone.is_set})
        gone.set()
        one.over()
        assert one.held.cancelled


class TestCheck:
    def test_a_stream(self, serve, engine):
        """What was sent so far, by key; nothing once it has ended."""
        client, told = serve().test_client(), []

        def answer(call):
            for word in ("one ", "two"):
                yield [chunk(word)]
                told.append(client.post(CHECK, json={"genkey": "K"}).json["results"][0]["text"])
                told.append(client.get(CHECK).json["results"][0]["text"])
            yield [chunk("", "stop")]

        engine.answer = answer
        client.post(STREAM, json={"prompt": "Hi", "genkey": "K"}, buffered=True)
        assert told == ["one ", "", "one two", ""]
        assert client.post(CHECK, json={"genkey": "K"}).json == {"results": [{"text": ""}]}

    def test_a_whole_answer_in_the_making(self, waiting):
        """Has sent nothing yet."""
        one = waiting(WHOLE)
        assert one.client.get(CHECK).json == {"results": [{"text": ""}]}
        one.held.free.set()


class TestTheServer:
    @pytest.mark.parametrize("root", ["/api/v1", "/api/latest"])
    def test_facts(self, client, configs, root):
        """What clients ask first."""
        configs("Users/mira.json", {"advertisedContextLength": 8192})
        assert client.get(f"{root}/model").json == {"result": "mira"}
        assert client.get(f"{root}/info/version").json == {"result": "1.2.5"}
        assert client.get(f"{root}/config/max_context_length").json == {"value": 8192}
        assert client.get(f"{root}/config/max_length").json == {"value": 512}
        assert client.get("/api/extra/true_max_context_length").json == {"value": 8192}

    def test_the_first_of_several_users(self, client, facts, configs):
        """Stands for the server."""
        configs("Users/ann.json", {"advertisedContextLength": 4096})
        facts(users=("ann", "mira"))
        assert client.get("/api/v1/model").json == {"result": "ann"}
        assert client.get("/api/extra/true_max_context_length").json == {"value": 4096}

    def test_version(self, client):
        """Byte for byte."""
        assert client.get("/api/extra/version").text == (
            '{"result":"KoboldCpp","version":"1.76","protected":false,"txt2img":false,"vision":true,"transcribe":false,'
            '"llm":true,"audio":false,"multiplayer":false,"websearch":false,"tts":false,"embeddings":false,"savedata":false,'
            '"admin":0,"guidance":false,"jinja":false,"mcp":false}'
        )

    def test_version_with_keys(self, serve):
        """Clients ask for one then."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        answer = client.get("/api/extra/version", headers={"Authorization": "Bearer k"})
        assert answer.json["protected"] is True
        refused = client.get("/api/extra/version")
        assert refused.status_code == 401 and refused.json["detail"]["type"] == "unauthorized"

    def test_perf(self, serve, engine):
        """Counts the generations of every route."""
        client, seen = serve().test_client(), []

        def answer(call):
            seen.append(client.get("/api/extra/perf").json)
            return [[chunk("x", "stop", last=True)]]

        engine.answer = answer
        client.post(WHOLE, json={"prompt": "Hi"}, buffered=True)
        assert (seen[0]["idle"], seen[0]["total_gens"]) == (0, 0)
        after = client.get("/api/extra/perf").json
        assert (after["idle"], after["total_gens"], after["queue"]) == (1, 1, 0)
        assert {type(after[name]) for name in ("uptime", "idletime")} == {int}

    def test_perf_counts_those_that_wait(self, facts, serve, engine):
        """At the gate."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=PATIENCE_S)
        app, held = serve(), Held(engine)
        client = app.test_client()
        answers = []

        def ask():
            answers.append(app.test_client().post(WHOLE, json={"prompt": "Hi"}, buffered=True).status_code)

        posts = [in_background(ask) for _ in range(2)]
        assert held.began.wait(PATIENCE_S)
        while client.get("/api/extra/perf").json["queue"] != 1:
            threading.Event().wait(0.005)
        held.free.set()
        for post in posts:
            post.join(PATIENCE_S)
        assert answers == [200, 200]

    @pytest.mark.parametrize(
        ("data", "value"),
        [(b'{"prompt": "Hello world"}', 3), (b'{"prompt": ""}', 0), (b"{", 0), (b'{"prompt": {"a": 1}}', 2)],
    )
    def test_tokens(self, client, data, value):
        """An estimate; what is broken counts as empty."""
        assert client.post("/api/extra/tokencount", data=data).json == {"value": value, "ids": []}

    @pytest.mark.parametrize(
        ("method", "path", "status", "kind"),
        [
            ("POST", "/api/extra/transcribe", 404, "not_found"),
            ("GET", "/api/v1/nothing", 404, "not_found"),
            ("GET", WHOLE, 405, "server_error"),
        ],
    )
    def test_what_is_not_there(self, client, method, path, status, kind):
        """In its own shape; the routes of Ollama keep theirs."""
        answer = client.open(path, method=method)
        assert answer.status_code == status and answer.json["detail"]["type"] == kind
        assert isinstance(client.get("/api/nothing").json["error"], str)

    def test_it_waits_at_the_gate(self, facts, serve, engine):
        """And is told that the server is busy in its own shape; an abort never waits."""
        facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=0.05)
        app, held = serve(), Held(engine)
        first = in_background(lambda: app.test_client().post(STREAM, json={"prompt": "x", "genkey": "K"}))
        assert held.began.wait(PATIENCE_S)
        busy = app.test_client().post(WHOLE, json={"prompt": "Hi"})
        assert busy.status_code == 503 and busy.json["detail"]["type"] == "service_unavailable"
        assert app.test_client().post(ABORT, json={"genkey": "K"}).json == DONE
        first.join(PATIENCE_S)


@pytest.mark.parametrize("at", ["", "/as/mira", "/as/novel"])
def test_a_request_is_its_keys_at_any_address(waiting, at):
    """Asked for, and aborted, by its `genkey` there or elsewhere (operate.md 4)."""
    running = waiting(f"/as/mira{STREAM}", {"genkey": "K"})
    assert running.client.post(f"{at}{CHECK}", json={"genkey": "K"}).json == {"results": [{"text": ""}]}
    assert running.client.post(f"{at}{ABORT}", json={"genkey": "other"}).json == NOT_DONE
    assert running.client.post(f"{at}{ABORT}", json={"genkey": "K"}).json == DONE
    assert running.over().status_code == 200


FIELDS = ["prompt", "memory", "images", "genkey", "model", "stream", "max_length", "stop_sequence", "quiet"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([WHOLE, STREAM, ABORT, CHECK, "/api/extra/tokencount"]),
    body=st.dictionaries(st.sampled_from(FIELDS), odd) | odd,
)
def test_any_field_of_any_type_is_never_a_500(client, path, body):
    """An answer, or a 400 in its own shape; no request is left under its name."""
    answer = client.post(path, data=json.dumps(body), buffered=True)
    assert answer.status_code in (200, 400)
    assert not answer.content_type.startswith("text/html")
    if answer.status_code == 400:
        assert answer.json["detail"]["type"] == "bad_input"
    assert client.post(ABORT, json=body).json == NOT_DONE

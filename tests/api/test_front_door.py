"""What is settled before the gate: ids, sources, keys, retries (frontend-api.md 4, 12.5, 13, 14)."""

from __future__ import annotations

import re
import threading
from io import BytesIO
from unittest.mock import Mock

import pytest

from Middleware.api.handlers.base import base_api_handler as generation_view
from Middleware.api.requests.access import AccessRules
from Middleware.common.errors import RequestCancelled
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.idempotency_service import idempotency_service
from tests.patience import PATIENCE_S, wait_until

BODY = {"model": "mira", "messages": [{"role": "user", "content": "Hi"}]}


class TestIds:
    def test_every_answer_names_its_request(self, client):
        """In a header, also for lists and refusals."""
        ids = {client.get(path).headers["X-Request-Id"] for path in ("/v1/models", "/nothing", "/")}
        assert len(ids) == 3

    def test_the_id_of_an_answer_is_that_of_its_header(self, client, engine):
        """And the engine knows it by the same."""
        answer = client.post("/v1/chat/completions", json=BODY)
        given = answer.headers["X-Request-Id"]
        assert answer.json["id"] == f"chatcmpl-{given}" and engine.last.request.request_id == given

    @pytest.mark.parametrize("path", ["/v1/models/", "/api/tags/", "/health/"])
    def test_a_slash_at_the_end_is_forgiven(self, client, path):
        """On every path."""
        assert client.get(path).status_code == 200


class TestOrigins:
    def test_a_foreign_page_is_refused_before_anything_runs(self, client, engine):
        """A form-encoded POST needs no preflight."""
        answer = client.post("/v1/chat/completions", json=BODY, headers={"Origin": "https://evil.example"})
        assert answer.status_code == 403
        assert answer.json["error"]["type"] == "permission_error"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert engine.calls == []

    def test_a_near_page_gets_its_headers(self, client):
        """On every answer."""
        headers = client.get("/v1/models", headers={"Origin": "http://localhost:3000"}).headers
        assert headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert headers["Vary"] == "Origin"
        assert headers["Access-Control-Expose-Headers"].startswith("X-Request-Id, ")

    def test_a_foreign_host_is_refused(self, client):
        """DNS rebinding."""
        answer = client.get("/api/tags", headers={"Host": "evil.example"})
        assert answer.status_code == 403 and "evil.example" in answer.json["error"]
        assert answer.headers["X-Request-Id"] in answer.json["error"]

    @pytest.mark.parametrize(
        ("name", "value", "way"),
        [
            ("Host", "llm.example.com", "start with --cors-origin https://llm.example.com to allow it"),
            (
                "Origin",
                "https://ui.example.com",
                "start with --cors-origin https://ui.example.com to allow it",
            ),
        ],
    )
    def test_the_sentence_names_the_way_out(self, client, caplog, name, value, way):
        """The first thing that people behind a reverse proxy meet; in the log as well."""
        answer = client.get("/v1/models", headers={name: value})
        assert answer.status_code == 403 and way in answer.json["error"]["message"]
        assert way in caplog.text

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/nothing"])
    def test_preflights(self, client, path):
        """204 on every route; the asked headers are echoed."""
        headers = {"Origin": "http://localhost", "Access-Control-Request-Headers": "x-a, x-b"}
        answer = client.options(path, headers=headers)
        assert answer.status_code == 204 and answer.data == b""
        assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
        assert answer.headers["Access-Control-Allow-Headers"] == "x-a, x-b"
        assert answer.headers["Access-Control-Max-Age"] == "600"

    def test_options_without_an_origin(self, client):
        """It is no preflight, and no error either."""
        answer = client.options("/v1/models")
        assert answer.status_code == 204 and "Access-Control-Allow-Headers" not in answer.headers


class TestKeys:
    @pytest.fixture
    def guarded(self, serve):
        return serve(access=AccessRules(api_keys=("right",))).test_client()

    @pytest.mark.parametrize(("path", "status"), [("/v1/models", 401), ("/api/tags", 401), ("/nothing", 404)])
    def test_a_wrong_key_is_refused(self, guarded, path, status):
        """On every route; what is none is none for everybody (keys.md 2)."""
        assert guarded.get(path, headers={"Authorization": "Bearer wrong"}).status_code == status

    def test_the_refusal_is_in_the_protocol_of_the_path(self, guarded):
        """With its type."""
        assert guarded.get("/v1/models").json["error"]["type"] == "authentication_error"

    @pytest.mark.parametrize(
        ("path", "headers"), [("/v1/models", {"X-API-Key": "right"}), ("/", {}), ("/health", {})]
    )
    def test_who_may_pass(self, guarded, path, headers):
        """With the key, and on the two open paths."""
        assert guarded.get(path, headers=headers).status_code == 200

    def test_a_refused_head_has_no_body(self, guarded):
        """On a connection that is kept, it would be read as the next answer."""
        answer = guarded.head("/v1/models")
        assert (answer.status_code, b"".join(answer.response)) == (401, b"")
        assert int(answer.headers["Content-Length"]) > 0

    def test_preflights_carry_no_key(self, guarded):
        """Browsers send none."""
        assert guarded.options("/v1/models").status_code == 204


class TestLives:
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_stop_waits_until_the_end_is_told(self, serve, engine, stream):
        """Whoever writes down a request that has ended is done with it before the request counts as gone: a stop
        just then lost the row of the history."""
        app, told = serve(), []

        class Writer:
            keeps_text = False
            changes = ("ended", "settled")

            def note_change(self, run, what, node):
                told.append((what, [life.trace is run for life in app.door.lives]))

        app.door.observers.observe(Writer())
        body = {**BODY, "stream": stream}
        app.test_client().post("/v1/chat/completions", json=body, buffered=True).close()
        wait_until(lambda: not app.door.lives)
        assert told == [("ended", [True]), ("settled", [True])]

    def test_nothing_is_left_behind(self, serve, engine):
        """After an answer, and after each kind of failure."""
        app = serve()
        client = app.test_client()
        headers = {"X-Idempotency-Key": "k"}
        answers = [
            client.post("/v1/chat/completions", json=BODY, headers=headers, buffered=True),
            client.post("/v1/chat/completions", data="{", headers=headers, buffered=True),
        ]

        def broken(call):
            raise ValueError("no")

        engine.answer = broken
        for stream in (True, False):
            body = {**BODY, "stream": stream}
            answers.append(client.post("/v1/chat/completions", json=body, headers=headers, buffered=True))
        for _ in range(500):
            if not app.door.lives:
                break
            threading.Event().wait(0.01)
        assert app.door.lives == set() and app.door.unanswered_requests() == []
        assert not any(cancellation_service.is_running(one.headers["X-Request-Id"]) for one in answers)
        assert "anon:k" not in idempotency_service.bindings()

    def test_a_retry_cancels_what_it_repeats(self, serve, engine):
        """Before the gate: at a limit of one it does not wait for the orphan."""
        app = serve()
        started, outcomes = threading.Event(), []

        def answer(call):
            if len(engine.calls) > 1:
                return [[{"token": "second", "finish_reason": "stop"}]]
            started.set()
            aborted = threading.Event()
            cancellation_service.register_abort_callback(call.request.request_id, aborted.set)
            assert aborted.wait(PATIENCE_S)
            return []

        def post():
            outcomes.append(
                app.test_client().post(
                    "/api/chat", json={**BODY, "stream": False}, headers={"Idempotency-Key": "k"}
                )
            )

        engine.answer = answer
        first = threading.Thread(target=post)
        first.start()
        assert started.wait(PATIENCE_S)
        post()
        first.join(PATIENCE_S)
        assert sorted(outcome.status_code for outcome in outcomes) == [200, 499]
        cancelled = max(outcomes, key=lambda outcome: outcome.status_code)
        assert cancelled.json["error"].startswith("request was cancelled")

    def test_a_client_that_hangs_up_cancels_its_request(self, serve, engine):
        """Also one that waits for a whole answer."""
        gone = threading.Event()

        def answer(call):
            aborted = threading.Event()
            cancellation_service.register_abort_callback(call.request.request_id, aborted.set)
            gone.set()
            assert aborted.wait(PATIENCE_S)
            return []

        engine.answer = answer
        outcome = (
            serve()
            .test_client()
            .post(
                "/v1/chat/completions",
                json=BODY,
                environ_overrides={"waitress.client_disconnected": gone.is_set},
            )
        )
        assert outcome.status_code == 499
        assert outcome.json["error"]["type"] == "request_cancelled"
        assert outcome.headers["x-should-retry"] == "false"


class TestLastLine:
    """One line at the end of each generation request, in the log of its user ; refusals too."""

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
    def test_of_an_answer(self, client, engine, caplog, path, stream):
        """Status, time, first token, and the tokens that the client was told."""
        caplog.set_level("INFO")
        answer = client.post(path, json={**BODY, "stream": stream})
        answer.get_data()
        answer.close()
        given = answer.headers["X-Request-Id"]
        (line,) = [
            r.getMessage() for r in caplog.records if f"request {given}: POST {path}: 200" in r.getMessage()
        ]
        assert re.fullmatch(r".* in \d+\.\d\d s, first token \d+\.\d\d s, [1-9]\d* tokens", line)

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_of_a_workflow_that_called_models(self, client, engine, caplog, stream):
        """What all its calls took, as the client is told it."""
        caplog.set_level("INFO")

        def answer(call):
            call.request.usage.add({"prompt_tokens": 100, "completion_tokens": 20})
            call.request.usage.add({"prompt_tokens": 7, "completion_tokens": 3})
            yield [{"token": "Hello", "finish_reason": "stop"}]

        engine.answer = answer
        client.post("/v1/chat/completions", json={**BODY, "stream": stream}).close()
        assert re.search(
            r"POST /v1/chat/completions: 200 .* tokens, workflow 107 \+ 23 in 2 calls", caplog.text
        )

    def test_of_a_cancelled_one(self, client, monkeypatch, caplog):
        """In the log of its user, with the status that it got."""
        caplog.set_level("INFO")

        def cancelled(*given, **more):
            raise RequestCancelled

        monkeypatch.setattr(generation_view, "open_answer", cancelled)
        client.post("/v1/chat/completions", json=BODY).close()
        assert re.search(r"POST /v1/chat/completions: 499 in .*, 0 tokens, cancelled", caplog.text)
        assert "was cancelled" not in caplog.text

    def test_of_a_refusal(self, client, caplog):
        """Nothing was said to it, and no model asked."""
        caplog.set_level("INFO")
        client.post("/v1/chat/completions", json={"messages": 5}).close()
        assert re.search(r"POST /v1/chat/completions: 400 in .*, first token -, 0 tokens", caplog.text)

    def test_a_key_that_is_missing(self, serve, caplog):
        """Refused before anything else: a warning with address, path and reason."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        client.post("/v1/chat/completions", json=BODY)
        assert (
            "401 for 127.0.0.1: POST /v1/chat/completions: this server requires a valid API key"
            in caplog.text
        )


class TestBodies:
    """One limit for every route (12.1)."""

    @pytest.fixture
    def small(self, serve):
        """A server that takes bodies of 1,000 bytes."""
        app = serve()
        app.door.most_body_bytes = 1000
        return app.test_client()

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/responses"),
            ("POST", "/v1/embeddings"), ("DELETE", "/v1/chat/completions"), ("GET", "/v1/models"),
            ("POST", "/v1/nothing"), ("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens"),
            ("POST", "/api/chat"), ("POST", "/api/show"), ("POST", "/api/v1/generate"),
            ("POST", "/api/extra/abort"), ("POST", "/completion"), ("POST", "/tokenize"), ("POST", "/mcp"),
            ("GET", "/health"), ("GET", "/metrics"),
        ],
    )  # fmt: skip
    def test_a_declared_length_is_refused_before_it_is_read(self, small, engine, method, path):
        """413 in the protocol's own form: the same as of any other error there."""
        answer = small.open(path, method=method, data=b" " * 1001)
        assert answer.status_code == 413 and answer.content_type == "application/json"
        assert "the body is larger than" in answer.text and answer.headers["X-Request-Id"] in answer.text
        assert engine.calls == []

    @pytest.mark.parametrize(
        "path",
        [
            "/v1/chat/completions",
            "/v1/messages",
            "/api/chat",
            "/api/show",
            "/completion",
            "/mcp",
            "/v1/responses",
        ],
    )
    def test_a_body_in_chunks_is_refused_when_it_is_read(self, small, engine, path):
        """Its length is known then."""
        environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
        answer = small.post(path, input_stream=BytesIO(b" " * 1001), environ_overrides=environ)
        assert answer.status_code == 413 and "the body is larger than" in answer.text
        assert engine.calls == []

    def test_the_types_of_the_protocols(self, small):
        """As their SDKs know them."""
        kinds = [
            small.post(path, data=b" " * 1001).json["error"]["type"]
            for path in ("/v1/chat/completions", "/v1/messages")
        ]
        assert kinds == ["invalid_request_error", "request_too_large"]

    def test_who_may_not_ask_hears_of_that_first(self, serve):
        """A key is asked for before a length."""
        app = serve(access=AccessRules(api_keys=("k",)))
        app.door.most_body_bytes = 1000
        assert app.test_client().post("/v1/chat/completions", data=b" " * 1001).status_code == 401

    def test_the_rest_of_a_refused_body_is_dropped(self, serve):
        """Where the server has not read it: when the answer has been sent."""
        stream, connection = BytesIO(b" " * 900), Mock(gettimeout=lambda: None)
        environ = {
            "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "gunicorn.socket": connection,
        }  # fmt: skip
        answer = serve().test_client().post("/v1/nothing", input_stream=stream, environ_overrides=environ)
        assert answer.status_code == 404
        answer.close()
        assert stream.read() == b"" and not connection.shutdown.called

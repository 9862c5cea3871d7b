"""The application: routes of all front ends, errors in the caller's protocol, doors (frontend-api.md 1, 3, 12)."""

from __future__ import annotations

import logging
import sys

import pytest

from Middleware.api import api_server
from Middleware.api.api_server import ApiServer, load_front_ends
from Middleware.api.app import _App, app
from Middleware.api.concurrency_middleware import ConcurrencyLimitMiddleware
from Middleware.common.errors import BackendError
from Middleware.common.registry import Registry
from Middleware.services.cancellation_service import cancellation_service

BODY = {"model": "mira", "messages": [{"role": "user", "content": "Hi"}]}


def test_the_modules_application_is_the_default(configs):
    """Made twice, it is wrapped once."""
    assert ApiServer().app is app
    second = ApiServer()
    assert second.app is app and app.wsgi_app is second.door
    assert app.test_client().get("/health").json["status"] == "ok"


@pytest.mark.parametrize(
    ("level", "limit", "gated"), [("request", 2, True), ("request", 0, False), ("endpoint", 2, False)]
)
def test_the_gate_stands_when_one_is_configured(configs, facts, level, limit, gated):
    """At level `request` with a limit."""
    facts(concurrency=limit, concurrency_level=level)
    server = ApiServer(_App("t", static_folder=None))
    assert isinstance(server.door.app, ConcurrencyLimitMiddleware)
    assert (server.limiter.gate is not None) is gated


def test_json_keeps_order_and_letters(configs):
    """Tool arguments are not reordered, nothing is escaped."""
    with _App("t", static_folder=None).app_context():
        assert app.json.dumps({"b": "é", "a": 1}) == '{"b": "é", "a": 1}'


def test_there_is_no_static_route():
    """Nothing of the disk is served."""
    assert not any(rule.endpoint == "static" for rule in app.url_map.iter_rules())


class TestFrontEnds:
    def test_a_module_that_cannot_be_imported_stops_the_start(self, monkeypatch):
        """With one line that says which."""
        monkeypatch.setitem(sys.modules, "Middleware.api.handlers.impl", None)
        with pytest.raises(RuntimeError, match="cannot be loaded"):
            load_front_ends()

    def test_an_empty_table_stops_the_start(self, monkeypatch):
        """A server without routes helps nobody."""
        monkeypatch.setattr(api_server, "FRONT_ENDS", Registry("front end"))
        with pytest.raises(RuntimeError, match="no front end is registered"):
            load_front_ends()


class TestErrors:
    def test_no_such_route(self, client):
        """18.14, without a request id."""
        answer = client.get("/api/nothing")
        assert (answer.status_code, answer.json) == (404, {"error": "no such route: GET /api/nothing"})
        assert client.get("/v1/nothing").json["error"]["type"] == "not_found_error"

    @pytest.mark.parametrize(
        "path", ["/api/pull", "/api/blobs/sha256:1", "/v1/embeddings", "/v1/responses/compact"]
    )
    def test_what_is_not_served(self, client, path):
        """Says so."""
        answer = client.post(path, json={})
        message = answer.json["error"]["message"] if path.startswith("/v1") else answer.json["error"]
        assert answer.status_code == 404 and message.startswith("not supported by this server")

    def test_what_is_not_served_has_no_wrong_method(self, client):
        """Also where the path fits a route that only cancels."""
        answer = client.get("/v1/messages/batches")
        assert answer.status_code == 404 and "not supported by this server" in answer.text

    def test_a_wrong_method(self, client):
        """405 names those that are allowed."""
        answer = client.get("/v1/chat/completions")
        assert answer.status_code == 405
        assert "POST" in answer.headers["Allow"] and answer.json["error"]["type"] == "invalid_request_error"

    @pytest.mark.parametrize("stream", [True, False])
    def test_a_failing_backend(self, client, engine, stream):
        """Its status, in JSON, with the request's id; the SDK must not repeat it."""

        def failing(call):
            raise BackendError("Big", "timeout", "no answer within 5 s")

        engine.answer = failing
        answer = client.post("/v1/chat/completions", json={**BODY, "stream": stream})
        assert answer.status_code == 504 and answer.headers["x-should-retry"] == "false"
        assert answer.json["error"]["message"] == (
            f"endpoint 'Big': no answer within 5 s (request {answer.headers['X-Request-Id']})"
        )

    def test_a_bug_is_logged_with_its_traceback(self, client, engine, caplog):
        """And told without it."""

        def failing(call):
            raise KeyError("secret")

        engine.answer = failing
        with caplog.at_level(logging.ERROR):
            answer = client.post("/api/chat", json={**BODY, "stream": False})
        assert answer.status_code == 500 and "secret" not in answer.text
        assert any(record.exc_info for record in caplog.records)

    def test_a_cancelled_request_is_no_error_in_the_log(self, client, engine, caplog):
        """It is what somebody wanted."""

        def cancelled(call):
            cancellation_service.request_cancellation(call.request.request_id)
            return []

        engine.answer = cancelled
        with caplog.at_level(logging.INFO):
            assert client.post("/v1/chat/completions", json=BODY).status == "499 Client Closed Request"
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]

    @pytest.mark.parametrize(
        ("request_of", "told"),
        [
            ({"path": "/nothing"}, "404 for 127.0.0.1: GET /nothing: no such route: GET /nothing"),
            ({"path": "/a%0Ab"}, "404 for 127.0.0.1: GET /a?b: no such route: GET /a?b"),
            (
                {"path": "/v1/chat/completions"},
                "405 for 127.0.0.1: GET /v1/chat/completions: method not allowed",
            ),
            ({"path": "/v1/chat/completions", "method": "POST", "json": []}, "400 for 127.0.0.1: POST"),
            (
                {"path": "/v1/models", "headers": {"Host": "evil.example"}},
                "403 for 127.0.0.1: GET /v1/models: host",
            ),
            ({"path": "/v1/models/nobody"}, "404 for 127.0.0.1: GET /v1/models/nobody: "),
        ],
        ids=["route", "a-line-end-in-the-path", "method", "body", "host", "model"],
    )
    def test_a_refusal_leaves_one_warning(self, client, caplog, request_of, told):
        """With address, path and reason."""
        caplog.clear()

        client.open(**request_of)

        assert [
            told in record.getMessage() for record in caplog.records if record.levelname == "WARNING"
        ] == [True]

    def test_what_flask_itself_refuses_is_json_too(self, serve):
        """Such as a body that is too large."""
        app = serve()
        app.config["MAX_CONTENT_LENGTH"] = 10
        answer = app.test_client().post("/v1/chat/completions", json=BODY)
        assert answer.status_code == 413 and answer.json["error"]["message"].startswith(
            "Request Entity Too Large"
        )

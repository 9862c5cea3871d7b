"""gunicorn's own refusals, told in our form (frontend-api.md 12.1). With real servers: tests/e2e/test_odd_requests.py."""

from __future__ import annotations

import json
import socket
import sys
from types import ModuleType, SimpleNamespace

import pytest

from Middleware.api.serving.foreign_servers import refuse_in_our_form


@pytest.fixture
def util(monkeypatch):
    """The one module of gunicorn that writes its error pages."""
    module = ModuleType("gunicorn.util")
    module.write_error = lambda *given: None
    module.write_nonblock = lambda connection, data: connection.sendall(data)
    monkeypatch.setitem(sys.modules, "gunicorn.util", module)
    return module


class Reading:
    """gunicorn's request while it is read, as far as it got."""

    def __init__(self, path=None):
        self.uri = self.path = path
        self.method = "POST" if path else None
        self.headers = [("ANTHROPIC-VERSION", "x")] if path else []
        self.peer_addr = ("10.0.0.7", 4711)

    def parse(self):
        raise ValueError("not readable")


def refused(util, request, status=400, reason="Bad Request", message="Invalid HTTP Header: 'X'"):
    """Head and JSON of what the client is sent when reading this request failed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            request.parse()
        except ValueError:
            theirs.shutdown(socket.SHUT_WR)
            util.write_error(ours, status, reason, message)
        said = b""
        while part := theirs.recv(65536):
            said += part
    head, _, body = said.partition(b"\r\n\r\n")
    return head.decode(), json.loads(body)


def test_in_the_form_of_its_path(serve, util, caplog):
    """The request line had been read; the connection closes; the log has its line."""
    assert refuse_in_our_form(serve().door)
    head, body = refused(util, Reading("/v1/messages"))
    assert head.startswith("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n")
    assert "Content-Type: application/json" in head and "request-id: " in head
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"].startswith(
        "the request cannot be read: Invalid HTTP Header: 'X' (request "
    )
    assert "400 for 10.0.0.7: POST /v1/messages: the request cannot be read" in caplog.text


@pytest.mark.parametrize(
    "request_", [Reading(), SimpleNamespace(parse=Reading().parse)], ids=["line", "other"]
)
def test_a_path_that_is_not_known(serve, util, request_):
    """A sensible JSON error all the same."""
    refuse_in_our_form(serve().door)
    head, body = refused(util, request_, 431, "Request Header Fields Too Large", "limit")
    assert head.startswith("HTTP/1.1 431 ")
    assert body["error"].startswith("the headers of the request are too large (request ")


def test_where_there_is_no_gunicorn(serve, monkeypatch):
    """Nothing is done."""
    monkeypatch.delitem(sys.modules, "gunicorn.util", raising=False)
    assert not refuse_in_our_form(serve().door)

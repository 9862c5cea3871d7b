"""Bytes that no client should send, at every server's input edge: never a 500, never a traceback (frontend-api.md 12)."""

from __future__ import annotations

import json
import re
import socket

import pytest

from tests.e2e.conftest import Gunicorn, Server, write_tree
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

ROUTES = [
    *("/v1/chat/completions", "/v1/completions", "/api/chat", "/api/generate", "/api/show"),
    *("/api/extra/generate/stream", "/api/extra/abort", "/completion", "/tokenize", "/mcp"),
    *("/v1/responses", "/v1/responses/input_tokens", "/v1/messages", "/v1/messages/count_tokens"),
]
MIB = 1024 * 1024
HEAD = "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
DEEP = (
    b'{"model":"ann","prompt":' + b"[" * 300 + b"]" * 300 + b',"messages":[{"role":"user","content":"hi"}]}'
)
BODIES = {
    "chunk-size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunk-without-end": b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}{}{}{}\r\n0\r\n\r\n",
    "negative-chunk": b"Transfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
    "length-word": b"Content-Length: many\r\n\r\n{}",
    "negative-length": b"Content-Length: -1\r\n\r\n{}",
    "two-lengths": b"Content-Length: 2\r\nContent-Length: 7\r\n\r\n{}",
    "length-and-chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "coding": b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
    "transfer-coding": b"Transfer-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00",
    "deep": b"Content-Length: %d\r\n\r\n%s" % (len(DEEP), DEEP),
    "no-utf-8": b"Content-Length: 4\r\n\r\n\xff\xfe\xfd\xfc",
    "half-a-surrogate": b'Content-Length: 22\r\n\r\n{"model": "\\udc00\\ud8"}',
    "nul": b'Content-Length: 19\r\n\r\n{"model": "a\\u0000"}',
    "no-body": b"\r\n",
    "header-without-name": b": x\r\nContent-Length: 2\r\n\r\n{}",
    "folded-header": b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
    "nul-in-header": b"X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path_factory):
    """Of each kind one."""
    public = tmp_path_factory.mktemp("public")
    write_tree(public, {"ann": {}}, backend.url)
    started = request.param(public, {"ann": {}}, ("--concurrency", "0"))
    yield started
    started.stop()


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def small(request, backend, tmp_path_factory):
    """Of each kind one that takes bodies of 2 MiB."""
    public = tmp_path_factory.mktemp("public")
    write_tree(public, {"ann": {}}, backend.url)
    started = request.param(public, {"ann": {}}, ("--max-body-mb", "2"))
    yield started
    started.stop()


def answered(port, data):
    """All that the server says to these bytes; the client says no more after them."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("route", ROUTES)
def test_an_odd_request_is_the_clients_fault(server, route, name):
    """A status below 500 (501 for a transfer coding that the server does not know), or none for one that cannot
    be understood at all; the log has no traceback."""
    said = answered(server.port, HEAD.format(route=route).encode() + BODIES[name])
    assert not said or re.match(rb"HTTP/1.[01] (2|4|501)", said), said
    assert "Traceback" not in server.log


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 500\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", b"Content-Length: 9", b"Transfer-Encoding: chunked\r\n\r\n"],
    ids=["length", "chunk", "head", "no-chunk"],
)  # fmt: skip
def test_a_client_that_leaves_in_mid_body(server, route, body):
    """Nobody is there to be told; the next request is served."""
    answered(server.port, HEAD.format(route=route).encode() + body)
    assert server.request("GET", "/health")[0] == 200
    assert [line for line in server.log.splitlines() if "ERROR" in line or "Traceback" in line] == []


def whole_answer(port, *parts):
    """(what could not be sent, status, JSON) of one request that is sent to its end before the answer is read."""
    lost = None
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except OSError as error:
            lost = error
        said = b""
        while part := connection.recv(65536):
            said += part
    head, _, body = said.partition(b"\r\n\r\n")
    return lost, int(head.split(b" ")[1]), json.loads(body)


def refused(path, size, form, *more):
    """A request that says more than the server wants to hear, in 64 KiB pieces."""
    length = f"Content-Length: {size}" if form == "declared" else "Transfer-Encoding: chunked"
    head = "\r\n".join(
        (f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", length, *more, "", "")
    )
    if form == "declared":
        return (head.encode(), *[bytes(65536)] * (size // 65536))
    return (head.encode(), *[b"10000\r\n" + bytes(65536) + b"\r\n"] * (size // 65536), b"0\r\n\r\n")


@pytest.mark.parametrize("form", ["declared", "chunked"])
class TestLargeBodies:
    """One limit under every server, and a refusal that its client can read (12.1)."""

    @pytest.mark.parametrize(
        ("path", "status", "more"),
        [
            ("/v1/chat/completions", 403, ["Origin: https://evil.example"]),
            ("/v1/nothing", 404, []),
            ("/v1/models", 405, []),
        ],
    )
    def test_a_refusal_before_the_body_was_read(self, server, form, path, status, more):
        """The client sends all of it, then reads why it was in vain."""
        lost, got, body = whole_answer(server.port, *refused(path, 10 * MIB, form, *more))
        assert (lost, got) == (None, status) and body["error"]["message"]

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/messages", "/mcp"])
    def test_more_than_is_allowed(self, small, form, path):
        """413, and no more than the limit is held."""
        lost, got, body = whole_answer(small.port, *refused(path, 12 * MIB, form))
        assert (lost, got) == (None, 413)
        assert "the body is larger than 2 MiB; allow more with --max-body-mb" in json.dumps(body)

    def test_the_next_request_is_served(self, small, form):
        """The server is as before."""
        whole_answer(small.port, *refused("/v1/chat/completions", 30 * MIB, form))
        assert small.request("GET", "/health")[0] == 200
        assert "Traceback" not in small.log


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        ("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-A: b\x00c\r\n\r\n", (400,)),
        ("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", (400,)),
        ("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX: " + "a" * 300_000 + "\r\n\r\n", (431,)),
        ("POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", (400, 501)),
    ],
    ids=["header", "length", "large", "coding"],
)
def test_what_the_server_itself_refuses(server, head, statuses):
    """JSON in the form of its path."""
    _, status, body = whole_answer(server.port, head.encode("latin-1"))
    assert status in statuses and body["type"] == "error"
    assert body["error"]["message"].endswith(f"(request {body['request_id']})")


def test_a_first_line_that_is_none(server):
    """JSON all the same."""
    _, status, body = whole_answer(server.port, b"nonsense\r\n\r\n")
    assert status == 400 and body["error"].startswith("the request cannot be read: ")


def test_a_client_that_leaves_before_it_is_refused(server):
    """Of a head that is wrong nothing is known, not even a path; that is no error either."""
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(HEAD.format(route="/api/chat").encode() + BODIES["nul-in-header"])
    assert server.request("GET", "/health")[0] == 200
    assert "Traceback" not in server.log

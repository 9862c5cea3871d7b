"""What waitress refuses by itself, how its connections end, and what may follow a stream (frontend-api.md 2.4, 12.1)."""

from __future__ import annotations

import hashlib
import json
import random
import re
import socket
import threading

import pytest
from waitress.channel import HTTPChannel

from Middleware.api.requests.access import AccessRules
from Middleware.api.serving import waitress_server
from Middleware.api.serving.waitress_channel import MOST_AT_ONCE, Channel
from tests.patience import PATIENCE_S

MIB = 1024 * 1024


@pytest.fixture
def listen():
    """`listen(app, door)` gives the port of a real waitress."""
    open_ones = []

    def start(app, door=None):
        listening = socket.create_server(("127.0.0.1", 0))
        server, listeners = waitress_server.waitress_for(app, listening, 4, door=door)
        threading.Thread(target=server.run, daemon=True).start()
        open_ones.append((listening, listeners[0]))
        return listeners[0].effective_port

    yield start
    for listening, listener in open_ones:
        listener.trigger.pull_trigger(waitress_server._closing(listener))
        listening.close()


@pytest.fixture
def port(serve, listen):
    """Of the whole application, with bodies of at most 1 MiB."""
    app = serve(access=AccessRules(loopback=True))
    app.door.most_body_bytes = MIB
    return listen(app, app.door)


def said(port, *parts, answers=0):
    """All that the server says to these bytes, sent one after the other, until it closes; with `answers`: until
    it has sent so many streams.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        for part in parts:
            connection.sendall(part)
        got = b""
        while (not answers or got.count(b"0\r\n\r\n") < answers) and (part := connection.recv(65536)):
            got += part
        return got


def told(port, *parts):
    """(status, headers in lower case, JSON)"""
    head, _, body = said(port, *parts).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    return int(lines[0].split(" ")[1]), headers, json.loads(body)


def head(path="/v1/chat/completions", *more, method="POST"):
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", "")).encode()


def chunks(size, count):
    piece = b"%x\r\n" % size + b" " * size + b"\r\n"
    return piece * count + b"0\r\n\r\n"


class TestHeads:
    """The head of an answer is sent with what is written first."""

    @pytest.fixture
    def sends(self, monkeypatch):
        """What the server has handed to the socket, one entry a send."""
        made, send = [], HTTPChannel.send

        def note_send(channel, data, *more, **named):
            made.append(bytes(data))
            return send(channel, data, *more, **named)

        monkeypatch.setattr(Channel, "send", note_send)
        return made

    def test_a_whole_answer_is_one_send(self, listen, sends):
        """Also the second one of a connection."""

        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", "5")])
            return [b"hello"]

        ask = head("/", method="GET")
        got = said(listen(app), ask, ask.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert got.count(b"\r\n\r\nhello") == len(sends) == 2 and b"".join(sends) == got

    def test_a_stream_begins_with_its_first_chunk(self, listen, sends):
        """What is written later is sent as it comes."""

        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return iter((b"first", b"second"))

        got = said(listen(app), head("/", "Connection: close", method="GET"))
        assert sends[0].startswith(b"HTTP/1.1 200 OK") and sends[0].endswith(b"\r\n\r\n5\r\nfirst\r\n")
        assert sends[1:] == [b"6\r\nsecond\r\n", b"0\r\n\r\n"] and b"".join(sends) == got

    def test_without_a_body_the_head_is_sent_alone(self, listen, sends):
        """And the next request of the connection is answered."""

        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", "5")])
            return []

        ask = head("/", method="HEAD")
        got = said(listen(app), ask, ask.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert got.count(b"HTTP/1.1 200 OK\r\n") == len(sends) == 2 and b"".join(sends) == got

    def test_an_answer_that_has_no_body_is_sent(self, listen):
        """It has a head alone."""

        def app(environ, start_response):
            start_response("204 No Content", [])
            return []

        got = said(listen(app), head("/", method="GET"))
        assert got.startswith(b"HTTP/1.1 204 No Content\r\n") and got.endswith(b"\r\n\r\n")

    def test_a_file_comes_behind_its_head(self, listen, tmp_path):
        """waitress sends it by itself."""
        (tmp_path / "page.html").write_text("a page")

        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/html")])
            return environ["wsgi.file_wrapper"]((tmp_path / "page.html").open("rb"))

        status, _, body = said(listen(app), head("/", "Connection: close", method="GET")).partition(
            b"\r\n\r\n"
        )
        assert status.startswith(b"HTTP/1.1 200 OK") and body == b"a page"


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/v1/chat/completions", lambda body: body["error"]["message"]),
            ("/v1/models", lambda body: body["error"]["message"]),
            ("/v1/messages", lambda body: body["error"]["message"]),
            ("/api/chat", lambda body: body["error"]),
            ("/api/v1/generate", lambda body: body["detail"]["msg"]),
            ("/health", lambda body: body["error"]),
            ("/console/api/state", lambda body: body["error"]),
            ("/as/mira/api/chat", lambda body: body["error"]),
            ("/as/mira:raw%2Fmain/api/v1/generate", lambda body: body["detail"]["msg"]),
        ],
    )
    @pytest.mark.parametrize("form", ["declared", "chunked"])
    def test_a_body_that_is_too_large(self, port, path, message, form):
        """413 in the form of the protocol, on every route; the client may send all that it has."""
        if form == "declared":
            parts = (head(path, f"Content-Length: {2 * MIB}"), bytes(2 * MIB))
        else:
            parts = (head(path, "Transfer-Encoding: chunked"), chunks(65536, 32))
        status, headers, body = told(port, *parts)
        assert (status, headers["content-type"], headers["connection"]) == (413, "application/json", "close")
        assert message(body).startswith(
            "the body is larger than 1 MiB; allow more with --max-body-mb (request "
        )
        assert headers["x-request-id"] in message(body)

    @pytest.mark.parametrize("form", ["declared", "chunked", "small chunks"])
    def test_the_limit_itself_is_allowed(self, port, form):
        """Of a body in chunks what they hold is counted, not what stands around them."""
        size = {"declared": MIB, "chunked": 65536, "small chunks": 16}[form]
        if form == "declared":
            parts = (head("/api/show", f"Content-Length: {MIB}", "Connection: close"), b" " * MIB)
        else:
            parts = (
                head("/api/show", "Transfer-Encoding: chunked", "Connection: close"),
                chunks(size, MIB // size),
            )
        status, _, body = told(port, *parts)
        assert status == 400 and "the body is empty" in body["error"]

    def test_one_byte_more_in_chunks(self, port):
        """The application counts what the server did not."""
        parts = (
            head("/api/show", "Transfer-Encoding: chunked", "Connection: close"),
            chunks(65536, 16)[:-5],
            b"1\r\n \r\n0\r\n\r\n",
        )
        assert told(port, *parts)[0] == 413

    def test_a_client_that_asks_first_need_not_send(self, port):
        """`Expect: 100-continue`: the answer is the refusal."""
        status, _, _ = told(port, head("/api/chat", f"Content-Length: {2 * MIB}", "Expect: 100-continue"))
        assert status == 413

    @pytest.mark.parametrize(
        "between", [b"5;" + b"x" * 40_000, b"0\r\n" + b"X: y\r\n" * 8000], ids=["size", "trailer"]
    )
    def test_lines_between_chunks_are_short(self, port, between):
        """Nobody fills the memory with them."""
        status, _, body = told(port, head("/api/chat", "Transfer-Encoding: chunked"), between)
        assert status == 400 and "a line between chunks is too long" in body["error"]

    @pytest.mark.parametrize(
        ("data", "status", "sentence"),
        [
            (head("/v1/messages", "X-A: b\x00c"), 400, "the request cannot be read: Invalid header"),
            (head("/v1/messages", "Content-Length: many"), 400, "the request cannot be read: Content-Length is invalid"),
            (head("/v1/messages", "Transfer-Encoding: gzip"), 501, "the request cannot be read: Transfer-Encoding requested is not supported"),
            (head("/v1/messages", "X: " + "a" * 300_000), 431, "the headers of the request are too large"),
            (head("/v1/messages?beta=true", method="post"), 400, 'the request cannot be read: Malformed HTTP method "post"'),
        ],
        ids=["header", "length", "coding", "large", "method"],
    )  # fmt: skip
    def test_a_head_that_cannot_be_read(self, port, data, status, sentence):
        """JSON in the form of its path, with the headers of the protocol."""
        got, headers, body = told(port, data)
        assert (got, body["type"]) == (status, "error")
        assert body["error"]["message"] == f"{sentence} (request {headers['request-id']})"

    def test_a_first_line_that_is_none(self, port, caplog):
        """No path, no protocol: plain JSON."""
        status, _, body = told(port, b"nonsense\r\n\r\n")
        assert status == 400 and body["error"].startswith("the request cannot be read: Start line is invalid")
        assert "400 for 127.0.0.1:  : the request cannot be read" in caplog.text

    def test_a_near_page_may_read_it(self, port):
        """A foreign one may not."""
        near, far = (
            told(port, head("/api/chat", "Content-Length: many", f"Origin: {origin}"))[1]
            for origin in ("http://localhost:3000", "https://evil.example")
        )
        assert near["access-control-allow-origin"] == "http://localhost:3000"
        assert "access-control-allow-origin" not in far

    def test_an_application_that_fails(self, serve, listen):
        """Whatever its fault is, the answer is JSON."""

        def app(environ, start_response):
            raise ValueError("secret")

        status, _, body = told(listen(app, serve().door), head("/health", method="GET"))
        assert status == 500 and re.fullmatch(
            r"internal error; see the server's log for details \(request .*\)", body["error"]
        )


class TestStreams:
    """The last chunk ends a stream, not the connection."""

    @pytest.fixture
    def streams(self, listen):
        def app(environ, start_response):
            environ["wsgi.input"].read()
            start_response("200 OK", [("Content-Type", "text/plain")])
            return iter([environ["PATH_INFO"].encode(), b" end"])

        return listen(app)

    def test_a_request_behind_a_stream_is_served(self, streams):
        """A client that pipelines gets both."""
        both = head("/one", "Content-Length: 2") + b"{}" + head("/two", "Content-Length: 2") + b"{}"
        got = said(streams, both, answers=2)
        assert got.count(b"HTTP/1.1 200 OK") == 2 and got.count(b"0\r\n\r\n") == 2
        assert got.index(b"/one") < got.index(b"/two") and b"Connection: close" not in got

    @pytest.mark.parametrize(
        "data",
        [
            head("/x", "Connection: close", method="GET"),
            b"GET /x HTTP/1.0\r\n\r\n",
            head("/x", method="HEAD"),
        ],
        ids=["asked for", "HTTP/1.0", "HEAD"],
    )
    def test_where_the_connection_closes_all_the_same(self, streams, data):
        """The client wants it, or would not see the end."""
        assert b"Connection: close" in said(streams, data)


class TestLargeBodies:
    """What is known to come is read in large pieces, and not a byte of the next request with it."""

    @pytest.fixture
    def sizes(self, monkeypatch):
        """How much each read asked for."""
        asked, recv = [], HTTPChannel.recv

        def counted(channel, size):
            asked.append(size)
            return recv(channel, size)

        monkeypatch.setattr(HTTPChannel, "recv", counted)
        return asked

    def test_two_requests_of_one_connection(self, listen, sizes):
        """Each has its own body."""

        def app(environ, start_response):
            body = environ["wsgi.input"].read()
            said = f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode()
            start_response("200 OK", [("Content-Length", str(len(said)))])
            return [said]

        bodies = [random.Random(size).randbytes(size) for size in (3 * MIB + 17, 900_001)]
        requests = [head("/", f"Content-Length: {len(body)}") + body for body in bodies]
        answers = said(listen(app), requests[0], requests[1], head("/", "Connection: close", method="GET"))
        for body in bodies:
            assert f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode() in answers
        assert max(sizes) == MOST_AT_ONCE
        assert set(sizes) - {MOST_AT_ONCE} and min(sizes) >= 8192

    def test_a_body_in_chunks(self, listen, sizes):
        """Its length is not known: it is read in waitress's own pieces."""

        def app(environ, start_response):
            body = environ["wsgi.input"].read()
            start_response("200 OK", [("Content-Length", "6")])
            return [b"%06d" % len(body)]

        whole = head("/", "Transfer-Encoding: chunked", "Connection: close") + chunks(40_000, 5)
        assert said(listen(app), whole).endswith(b"200000")
        assert set(sizes) == {8192}

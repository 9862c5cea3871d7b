"""Connections over TLS, several addresses, and under gevent."""

from __future__ import annotations

import http.client
import io
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from urllib3.exceptions import NewConnectionError

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.llmapis.wire.connections import (
    AbortHandle,
    RecordedHTTPConnection,
    _check_peer,
    current_handle,
    opening,
)
from Middleware.llmapis.wire.http import Post, Transport
from tests.patience import PATIENCE_S


@pytest.fixture
def transport():
    made = Transport(pause=lambda handle, seconds: None)
    yield made
    made.close()


def post(url, **more):
    return Post(url=url + "/x", body=b"{}", headers={}, endpoint="E", **more)


@pytest.mark.parametrize("address", ["10.0.0.1", "::1"])
def test_a_connection_that_leads_elsewhere(address):
    """Than to one of the addresses that were checked."""
    peer = SimpleNamespace(getpeername=lambda: (address, 80))
    _check_peer(peer, AbortHandle(pinned=("127.0.0.1", address)))
    with pytest.raises(ConnectionError, match="different address"):
        _check_peer(peer, AbortHandle(pinned=("127.0.0.1",)))


class TestTls:
    @pytest.fixture(autouse=True)
    def trusted(self, certificate, monkeypatch):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))

    def test_streams_with_ticks_and_the_pool(self, tls, rig, transport, monkeypatch):
        """Time-outs between reads do not harm the connection."""
        monkeypatch.setattr("Middleware.llmapis.wire.http.TICK_S", 0.02)
        ticked = threading.Semaphore(0)

        def script(peer):
            while peer.request():
                peer.send(rig.SSE_HEAD, rig.chunked("a", end=False))
                ticked.acquire()
                peer.send(rig.chunked("b" * 40000))

        server, url = tls(script)
        for _ in range(2):
            answer, reads = transport.post(post(url), AbortHandle()), []
            for read in answer.read_pieces():
                if read == b"" and b"" not in reads:
                    ticked.release()
                reads.append(read)
            answer.close()
            assert b"".join(reads) == b"a" + b"b" * 40000
        assert server.accepted == 1

    @pytest.mark.parametrize("phase", ["headers", "stream"])
    def test_cancelling(self, tls, rig, transport, phase):
        """Wakes a thread that waits inside TLS."""
        script = rig.Holding(rig.SSE_HEAD if phase == "stream" else b"")
        _, url = tls(script)
        handle, ended = AbortHandle(), []

        def run():
            try:
                answer = transport.post(post(url), handle)
                try:
                    answer.read_all()
                finally:
                    answer.close()
            except RequestCancelled:
                ended.append(True)

        rig.interrupt(run, script.asked, handle.abort)
        assert ended == [True]


def test_a_certificate_that_nobody_trusts(tls, transport):
    """Is a connect error, not a lost connection."""
    _, url = tls(lambda peer: peer.request())
    with pytest.raises(BackendError) as caught:
        transport.post(post(url), AbortHandle())
    assert caught.value.kind == "connect_error"


class TestAddresses:
    def test_the_next_address_is_tried(self, serve, rig, transport, monkeypatch):
        """As for a name with IPv6 and IPv4 on a server that has only one."""
        server = serve(lambda peer: (peer.request(), peer.send(rig.head(content_length="2") + b"ok")))
        infos = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", server.port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *a: infos)
        answer = transport.post(post(f"http://llm.lan:{server.port}"), AbortHandle())
        assert answer.read_all() == b"ok"
        answer.close()

    def test_a_name_without_an_address(self, transport, monkeypatch):
        """Cannot be connected to."""
        monkeypatch.setattr(socket, "getaddrinfo", lambda *a: [])
        with pytest.raises(BackendError, match=r"cannot connect to llm\.lan:1"):
            transport.post(post("http://llm.lan:1"), AbortHandle())

    def test_no_connection_in_time(self, transport, monkeypatch):
        """A time-out of its own kind, which is tried again."""

        def connect(sock, address):
            raise TimeoutError("timed out")

        monkeypatch.setattr(socket.socket, "connect", connect)
        with pytest.raises(BackendError, match=r"no connection to 127\.0\.0\.1:1 within 3 s") as caught:
            transport.post(post("http://127.0.0.1:1", connect_timeout_s=3), AbortHandle())
        assert (caught.value.kind, caught.value.retryable) == ("timeout", True)

    def test_a_connection_that_nobody_cancels(self, serve):
        """Works without a handle."""
        connection = RecordedHTTPConnection("127.0.0.1", serve(lambda peer: None).port)
        connection.connect()
        connection.close()
        with pytest.raises(NewConnectionError):
            RecordedHTTPConnection("127.0.0.1", 1).connect()


class TestHandle:
    def test_a_socket_that_comes_too_late_is_shut(self):
        """Cancelled between two steps of connecting."""
        ours, theirs = socket.socketpair()
        handle = AbortHandle()
        handle.abort()
        handle.abort()
        handle.attach(ours)
        assert ours.recv(1) == b""
        handle.detach()
        ours.close()
        theirs.close()

    def test_a_socket_that_is_gone_is_no_error(self):
        """Closed by its own thread a moment before."""
        sock = socket.socket()
        handle = AbortHandle()
        handle.attach(sock)
        sock.close()
        handle.abort()
        assert handle.cancelled

    def test_the_callback_runs_once(self):
        """In the aborting thread."""
        calls = []
        handle = AbortHandle(on_abort=lambda _: calls.append(threading.current_thread()))
        handle.abort()
        handle.abort()
        assert calls == [threading.current_thread()]

    def test_a_pause_that_nobody_ends(self):
        """Ends by itself."""
        AbortHandle().pause(0.001)

    def test_openings_nest(self):
        """A call made while another is being opened has its own handle."""
        first, second = AbortHandle(), AbortHandle()
        with opening(first):
            with opening(second):
                assert current_handle() is second
            assert current_handle() is first
        assert current_handle() is None


GEVENT = """
from gevent import monkey
monkey.patch_all()
import sys
import gevent, gevent.event
from gevent.server import StreamServer
from Middleware.common.errors import RequestCancelled
from Middleware.llmapis.wire import http
from Middleware.llmapis.wire.connections import AbortHandle
http.TICK_S = 0.05

open_calls, all_are_open, hangs = [], gevent.event.Event(), gevent.event.Event()
ticks, all_have_ticked = [], gevent.event.Event()

def handle(sock, address):
    data = b""
    while b"{}" not in data:
        data += sock.recv(4096)
    if b"/hang" in data:
        hangs.set()
        sock.recv(1)
        return
    open_calls.append(sock)
    if len(open_calls) == 20:
        all_are_open.set()
    all_are_open.wait()
    sock.sendall(b"HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n")
    all_have_ticked.wait()
    sock.sendall(b"1\\r\\nb\\r\\n0\\r\\n\\r\\n")

server = StreamServer(("127.0.0.1", 0), handle)
server.start()
url = "http://127.0.0.1:%d" % server.server_port
transport = http.Transport()

def read():
    answer = transport.post(http.Post(url + "/x", b"{}", {}, "E"), AbortHandle())
    reads = []
    for piece in answer.read_pieces():
        reads.append(piece)
        if piece == b"" and reads.count(b"") == 1:
            ticks.append(piece)
        if len(ticks) == 20:
            all_have_ticked.set()
    answer.close()
    return reads

jobs = [gevent.spawn(read) for _ in range(20)]
gevent.joinall(jobs)
assert all(b"".join(job.value) == b"ab" and b"" in job.value for job in jobs), [job.value for job in jobs]

abort = AbortHandle()
def hang():
    try:
        transport.post(http.Post(url + "/hang", b"{}", {}, "E"), abort)
    except RequestCancelled:
        return "cancelled"
job = gevent.spawn(hang)
hangs.wait()
abort.abort()
job.join()
assert job.value == "cancelled"
print("good")
"""


def test_under_gevent():
    """The same code on greenlets: ticks, many streams at once, cancellation in prefill."""
    command = [sys.executable, "-W", "ignore", "-c", GEVENT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "good\n", done.stderr


def test_head_and_body_of_a_request_leave_in_one_write():
    """A write is a system call: it costs more than all else about sending a request."""
    ours, theirs = socket.socketpair()
    writes = []

    class Counting:
        def sendall(self, data):
            writes.append(bytes(data))
            ours.sendall(data)

        def __getattr__(self, name):
            return getattr(ours, name)

    connection = RecordedHTTPConnection("127.0.0.1", 80)
    connection.sock = Counting()
    with ours, theirs:
        connection.request("POST", "/x", body=b'{"a": 1}', headers={"Content-Type": "application/json"})
        assert len(writes) == 1
        assert writes[0].startswith(b"POST /x HTTP/1.1\r\n") and writes[0].endswith(b'\r\n\r\n{"a": 1}')


class TestHeadersOfAnswers:
    """Plain headers are not read by http.client's parser of e-mails, and mean the same."""

    class Peer(io.RawIOBase):
        """A connection on which these bytes come, at most `size` with each read."""

        def __init__(self, raw, size):
            self._rest, self._size = raw, size

        def makefile(self, mode):
            return io.BufferedReader(self)

        def readable(self):
            return True

        def readinto(self, buffer):
            piece, self._rest = self._rest[: self._size], self._rest[self._size :]
            buffer[: len(piece)] = piece
            return len(piece)

    @staticmethod
    def facts_of(response_class, raw, size):
        response = response_class(TestHeadersOfAnswers.Peer(raw, size))
        response.begin()
        told = response.version, response.status, response.reason, response.length, response.chunked
        return told, response.will_close, response.headers.items(), response.read()

    @pytest.mark.parametrize("size", [7, 60, 8192])
    @pytest.mark.parametrize(
        "headers",
        [
            b"Content-Type: application/json\r\nContent-Length: 2\r\nX-Empty:\r\n",
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n",
            b"content-length:  2 \r\nX-Twice: a\r\nX-Twice:\tb:c\r\nX-Latin: \xe4\r\n",
            b"Content-Length: 2\r\nX-Folded: one\r\n two\r\n",
            b"Content-Length: 2\nX-Bare: line\n",
            b"Content-Length: 2\r\nX-Return: a\rb\r\n",
            b"Content-Length: 2\r\nno colon at all\r\nX-After: it\r\n",
            b"X-Blank : before the colon\r\nContent-Length: 2\r\n",
            b"From the post office\r\nContent-Length: 2\r\n",
            b"",
        ],
    )
    def test_what_they_say(self, headers, size):
        """However odd they are, and however they come."""
        body = b"2\r\nhi\r\n0\r\n\r\n" if b"chunked" in headers else b"hi"
        raw = b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n" + body
        ours = self.facts_of(RecordedHTTPConnection.response_class, raw, size)
        assert ours == self.facts_of(http.client.HTTPResponse, raw, size)

    @pytest.mark.parametrize("size", [100, 8192])
    @pytest.mark.parametrize("count", [100, 101])
    def test_too_many(self, size, count):
        """Refused as http.client does, which counts the blank line, too."""
        raw = b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * count + b"\r\n"
        with pytest.raises(http.client.HTTPException, match="got more than 100 headers"):
            self.facts_of(RecordedHTTPConnection.response_class, raw, size)

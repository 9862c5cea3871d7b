"""One POST over a real socket: what a read brings, every way to break, retries, pool, cancellation."""

from __future__ import annotations

import gzip
import socket
import threading
import traceback
import zlib
from functools import partial
from typing import ClassVar

import pytest
import responses
from urllib3.exceptions import HTTPError

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.llmapis.wire.connections import AbortHandle
from Middleware.llmapis.wire.http import ERROR_BODY_BYTES, Post, Transport, is_loopback
from tests.llmapis.scripts import saying
from tests.patience import PATIENCE_S, growing_limits


@pytest.fixture
def transport():
    """A transport of its own, which does not really wait between tries."""
    made = Transport(pause=lambda handle, seconds: made.pauses.append(seconds), jitter=lambda: 0.5)
    made.pauses = []
    yield made
    made.close()


def post(url, **more):
    return Post(
        url=url + "/x", body=b"{}", headers={"Content-Type": "application/json"}, endpoint="E", **more
    )


def body_of(transport, url, handle=None, **more):
    answer = transport.post(post(url, **more), handle or AbortHandle())
    try:
        return answer.read_all()
    finally:
        answer.close()


answering = partial(saying, keep=False)

TEXT = b"data: one\n\ndata: two\n\n"
RAW_DEFLATE = zlib.compressobj(wbits=-15)
DEFLATED = RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush()


class TestBodies:
    def cases(self, rig):
        return {
            "chunked": rig.SSE_HEAD + rig.chunked(TEXT[:7], TEXT[7:]),
            "chunk-extension-and-trailer": rig.SSE_HEAD + b"16;a=b\r\n" + TEXT + b"\r\n0;x\r\nX-T: 1\r\n\r\n",
            "bare-newlines": rig.SSE_HEAD + b"16\n" + TEXT + b"\n0\n\n",
            "http-1.0": rig.head(version="1.0") + TEXT,
            "connection-close": rig.head(connection="close") + TEXT,
            "content-length": rig.head(content_length="22") + TEXT,
            "chunked-and-a-blank": rig.head(transfer_encoding="chunked ") + rig.chunked(TEXT),
            "chunked-in-a-list": rig.head(transfer_encoding="identity, Chunked") + rig.chunked(TEXT),
            "chunked-in-a-second-line": rig.head(transfer_encoding="identity\r\nTransfer-Encoding: chunked") + rig.chunked(TEXT),
            "length-said-twice": rig.head(content_length="22, 22") + TEXT,
            "last-chunk-without-its-line": rig.SSE_HEAD + rig.chunked(TEXT)[:-2],
            "gzip-chunked": rig.head(transfer_encoding="chunked", content_encoding="gzip") + rig.chunked(gzip.compress(TEXT)),
            "gzip-of-two-members": rig.head(connection="close", content_encoding="gzip") + gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]),
            "x-gzip": rig.head(connection="close", content_encoding="X-GZip") + gzip.compress(TEXT),
            "identity": rig.head(connection="close", content_encoding="identity") + TEXT,
            "deflate": rig.head(connection="close", content_encoding="deflate") + zlib.compress(TEXT),
            "raw-deflate": rig.head(connection="close", content_encoding="deflate") + DEFLATED,
        }  # fmt: skip

    @pytest.mark.parametrize("size", [1, 3, 9999])
    @pytest.mark.parametrize("name", ["chunked", "chunk-extension-and-trailer", "bare-newlines", "http-1.0", "connection-close", "content-length", "chunked-and-a-blank", "chunked-in-a-list", "chunked-in-a-second-line", "length-said-twice", "last-chunk-without-its-line", "gzip-chunked", "gzip-of-two-members", "x-gzip", "identity", "deflate", "raw-deflate"])  # fmt: skip
    def test_every_framing_and_coding(self, serve, rig, transport, name, size):
        """The same bytes come out, however they are framed, coded and cut."""
        data = self.cases(rig)[name]
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        server = serve(answering(*pieces))
        assert body_of(transport, server.url) == TEXT

    @pytest.mark.parametrize("name", ["chunked", "http-1.0"])
    def test_what_came_is_given_before_more_comes(self, serve, rig, transport, name):
        """A piece is delivered before the server sends the next: nothing waits to fill a block."""
        go_on = threading.Event()

        def script(peer):
            peer.request()
            pack = (
                (lambda piece: rig.chunked(piece, end=False)) if name == "chunked" else (lambda piece: piece)
            )
            peer.send(rig.SSE_HEAD if name == "chunked" else rig.head(version="1.0"))
            for piece in (b"a", b"b", b"c"):
                peer.send(pack(piece))
                assert go_on.wait(PATIENCE_S)
                go_on.clear()
            peer.send(b"0\r\n\r\n" if name == "chunked" else b"")

        server = serve(script)
        answer = transport.post(post(server.url), AbortHandle())
        seen = []
        for data in answer.read_pieces():
            seen.append(data)
            go_on.set()
        answer.close()
        assert seen == [b"a", b"b", b"c"]

    def test_all_that_one_read_brought_comes_together(self, serve, rig, transport):
        """Transfer chunks that arrived together are one piece."""
        server = serve(answering(rig.SSE_HEAD + rig.chunked("a", "b", "c")))
        answer = transport.post(post(server.url), AbortHandle())
        assert list(answer.read_pieces()) == [b"abc"]
        answer.close()

    def test_silence_is_told(self, serve, rig, transport, monkeypatch):
        """While nothing comes there are ticks; the read time-out counts them up."""
        monkeypatch.setattr("Middleware.llmapis.wire.http.TICK_S", 0.05)
        server = serve(rig.Holding(rig.SSE_HEAD))
        for limit_s in growing_limits():
            answer = transport.post(post(server.url, read_timeout_s=limit_s), AbortHandle())
            ticks = []
            with pytest.raises(BackendError, match=f"nothing came for {limit_s:g} s") as caught:
                ticks.extend(answer.read_pieces())
            answer.close()
            assert set(ticks) <= {b""}
            assert caught.value.kind == "timeout"
            if len(ticks) >= 2:
                break
        assert len(ticks) >= 2

    BROKEN: ClassVar = {
        "chunked-without-last-chunk": lambda rig: rig.SSE_HEAD + rig.chunked(TEXT, end=False),
        "chunk-cut": lambda rig: rig.SSE_HEAD + b"16\r\ndata",
        "short-content-length": lambda rig: rig.head(content_length="99") + TEXT,
    }

    @pytest.mark.parametrize("name", BROKEN)
    def test_a_cut_body_is_a_lost_connection(self, serve, rig, transport, name):
        """A body that ends too early never passes for a whole one."""
        server = serve(answering(self.BROKEN[name](rig)))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "connection_lost"

    def test_a_reset_is_a_lost_connection(self, serve, rig, transport):
        """Also where the body has no length."""
        go_on = threading.Event()

        def script(peer):
            peer.request()
            peer.send(rig.head(version="1.0") + TEXT)
            go_on.wait(PATIENCE_S)
            peer.reset()

        server = serve(script)
        answer = transport.post(post(server.url), AbortHandle())
        with pytest.raises(BackendError) as caught:
            for _ in answer.read_pieces():
                go_on.set()
        answer.close()
        assert caught.value.kind == "connection_lost"

    @pytest.mark.parametrize(
        "tail",
        [b"zz\r\n", b"-5\r\n", b"2\r\nabcd\r\n", b"x" * 20000],
        ids=["no-number", "negative", "too-long", "endless"],
    )
    def test_nonsense_is_a_protocol_error(self, serve, rig, transport, tail):
        """Chunk sizes that are none."""
        server = serve(answering(rig.SSE_HEAD + tail))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "protocol_error"

    def test_what_the_library_calls_by_no_other_name_is_a_protocol_error(self, serve, rig, transport):
        """A failure of the wire for which there is no word of its own."""
        server = serve(answering(rig.SSE_HEAD + b"2\r\nhi\r\n"))
        answer = transport.post(post(server.url), AbortHandle())

        class Broken:
            def reads(self, tick_s, limit_s):
                raise HTTPError("odd")

            def drain(self, within_s):
                return False

        answer._body = Broken()
        with pytest.raises(BackendError, match="the answer cannot be read: odd") as caught:
            list(answer.read_pieces())
        answer.close()
        assert caught.value.kind == "protocol_error"

    def test_gzip_that_is_none_is_a_protocol_error(self, serve, rig, transport):
        """The header lies."""
        server = serve(answering(rig.head(connection="close", content_encoding="gzip") + TEXT))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "protocol_error"

    @responses.activate
    def test_stand_ins_without_a_socket_work(self, transport):
        """The `responses` library has no socket; its body is read through its own reader."""
        responses.post("http://backend.test/x", body=TEXT)
        assert body_of(transport, "http://backend.test") == TEXT


class TestPool:
    def test_ten_calls_one_connection(self, serve, rig, transport):
        """A connection whose body was read to its end is used again, chunked or counted."""
        sent = iter([rig.SSE_HEAD + rig.chunked(TEXT), rig.head(content_length="22") + TEXT] * 5)

        def script(peer):
            while peer.request():
                peer.send(next(sent))

        server = serve(script)
        assert [body_of(transport, server.url) for _ in range(10)] == [TEXT] * 10
        assert server.accepted == 1

    @pytest.mark.parametrize(
        "surplus", [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", b"}"], ids=["an-answer", "a-rest"]
    )
    @pytest.mark.parametrize("framing", ["counted", "chunked"])
    def test_a_connection_with_bytes_behind_its_answer_is_left(self, serve, rig, transport, framing, surplus):
        """Whatever comes next on it may be the rest of them, and never passes for an answer."""
        counted = rig.head(content_length="22") + TEXT
        answer = counted if framing == "counted" else rig.SSE_HEAD + rig.chunked(TEXT)
        server = serve(saying(answer + surplus))
        assert [body_of(transport, server.url) for _ in range(3)] == [TEXT] * 3
        assert server.accepted == 3

    @pytest.mark.parametrize("framing", ["counted", "chunked"])
    def test_a_length_that_was_said_oddly_ends_the_answer(self, serve, rig, transport, framing):
        """It is not waited for until the server closes: this one does not."""
        counted = rig.head(content_length="22, 22") + TEXT
        chunked = rig.head(transfer_encoding="identity, chunked ") + rig.chunked(TEXT)
        server = serve(saying(counted if framing == "counted" else chunked))
        assert body_of(transport, server.url) == TEXT

    def test_a_connection_that_changed_its_protocol_is_left(self, serve, rig, transport):
        """Nobody had asked for another one."""
        server = serve(saying(rig.head("101 Switching Protocols", upgrade="h2c")))
        for _ in range(2):
            with pytest.raises(BackendError, match="status 101"):
                body_of(transport, server.url)
        assert server.accepted == 2

    def test_an_unread_answer_does_not_poison_the_pool(self, serve, rig, transport):
        """Closing in the middle closes the connection; the next call gets its own."""
        server = serve(answering(rig.SSE_HEAD + rig.chunked(TEXT, end=False), keep=True))
        for _ in range(2):
            answer = transport.post(post(server.url), AbortHandle())
            assert next(answer.read_pieces()) == TEXT
            answer.close()
            answer.close()
        assert server.accepted == 2

    def test_a_refusal_that_goes_on_without_end_is_left(self, serve, rig, transport, monkeypatch):
        """Its beginning says enough. The response is held here, so that no garbage collector closes it."""
        script = rig.Holding(rig.head("500 Oh", content_length=str(1 << 30)), b"no" * (ERROR_BODY_BYTES // 2))
        held, send = [], transport._adapter.send

        def holding(*args, **settings):
            held.append(send(*args, **settings))
            return held[-1]

        monkeypatch.setattr(transport._adapter, "send", holding)
        with pytest.raises(BackendError, match="no"):
            body_of(transport, serve(script).url, tries=1)
        assert script.closed.wait(PATIENCE_S) and len(held) == 1

    def test_a_connection_that_the_server_dropped_is_replaced_silently(self, serve, rig, transport):
        """Keep-alive time-outs of servers are no failures, also without retries."""
        server = serve(answering(rig.head(content_length="22") + TEXT))
        assert [body_of(transport, server.url, tries=1) for _ in range(3)] == [TEXT] * 3

    def test_a_server_that_drops_the_second_request_is_asked_on_a_new_connection(self, serve, rig, transport):
        """The request was already on its way when the server closed."""

        def script(peer):
            peer.request()
            peer.send(rig.head(content_length="22") + TEXT)
            peer.request()

        server = serve(script)
        assert [body_of(transport, server.url, tries=1) for _ in range(2)] == [TEXT] * 2
        assert transport.pauses == []
        assert server.accepted == 2

    def test_a_dying_server_is_reached_twice_at_most(self, serve, rig, transport):
        """One pooled connection was lost, so the others are not tried: the second try takes a fresh one."""
        both = threading.Barrier(2)
        died = threading.Event()

        def script(peer):
            peer.request()
            if died.is_set():
                return
            both.wait(PATIENCE_S)
            peer.send(rig.head(content_length="22") + TEXT)
            peer.request()

        server = serve(script)
        first = threading.Thread(target=body_of, args=(transport, server.url))
        first.start()
        body_of(transport, server.url)
        first.join()
        died.set()
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "connection_lost"
        assert (len(server.requests), server.accepted) == (4, 3)
        assert transport.pauses == []

    def test_a_transport_that_is_closed_keeps_none(self, serve, rig):
        """The server sees it at once."""
        gone, transport = threading.Event(), Transport()

        def script(peer):
            peer.request()
            peer.send(rig.head(content_length="22") + TEXT)
            if peer.closed():
                gone.set()

        body_of(transport, serve(script).url)
        assert not gone.wait(0.05)
        transport.close()
        assert gone.wait(PATIENCE_S)

    def test_a_pool_that_others_pushed_out_is_replaced(self, serve, rig, monkeypatch):
        """So many hosts were asked meanwhile that its connections were closed; each still answers."""
        monkeypatch.setattr("Middleware.llmapis.wire.http.HOSTS", 2)
        transport = Transport()
        servers = [serve(answering(rig.head(content_length="22") + TEXT, keep=True)) for _ in range(4)]
        texts = [body_of(transport, server.url) for server in (*servers, *servers, servers[-1])]
        transport.close()
        assert len(set(texts)) == 1
        assert [server.accepted for server in servers] == [2, 2, 2, 2]

    def test_only_so_many_pools_are_remembered(self, serve, rig, monkeypatch, transport):
        """A server may have as many addresses as it likes."""
        monkeypatch.setattr("Middleware.llmapis.wire.http.MOST_POOLS_KNOWN", 1)
        servers = [serve(answering(rig.head(content_length="22") + TEXT, keep=True)) for _ in range(2)]
        for server in (*servers, *servers):
            body_of(transport, server.url)
        assert [server.accepted for server in servers] == [1, 1]
        assert len(transport._adapter._pools) == 1

    def test_an_idle_connection_is_not_used_after_a_minute(self, serve, rig, transport, monkeypatch):
        """Also when nothing swept it."""
        server = serve(answering(rig.head(content_length="22") + TEXT, keep=True))
        body_of(transport, server.url)
        monkeypatch.setattr("Middleware.llmapis.wire.connections.IDLE_S", 0.0)
        body_of(transport, server.url)
        assert server.accepted == 2

    def test_no_cookie_and_no_netrc(self, serve, rig, transport, monkeypatch, tmp_path):
        """What a server sets is not sent back, and the user's `.netrc` does not replace the key."""
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login a password b\n")
        monkeypatch.setenv("NETRC", str(netrc))
        server = serve(answering(rig.head(content_length="22", set_cookie="a=b") + TEXT, keep=True))
        body_of(transport, server.url)
        body_of(transport, server.url)
        assert all(
            "cookie" not in r["headers"] and "authorization" not in r["headers"] for r in server.requests
        )

    def test_a_proxy_is_never_asked_for_loopback(self, serve, rig, transport, monkeypatch):
        """Whatever the environment says."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        server = serve(answering(rig.head(content_length="22") + TEXT))
        assert body_of(transport, server.url) == TEXT

    def test_a_proxy_is_asked_for_other_hosts(self, serve, rig, transport, monkeypatch):
        """The environment's proxy gets the whole URL."""
        server = serve(answering(rig.head(content_length="22") + TEXT))
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, server.url)
        assert body_of(transport, "http://llm.invalid:81") == TEXT
        assert server.requests[0]["line"].startswith("POST http://llm.invalid:81/x ")

    def test_a_call_by_a_proxy_is_cancelled_like_any_other(self, serve, transport, monkeypatch):
        """It knows its connection to the proxy."""
        asked, gone, handle = threading.Event(), threading.Event(), AbortHandle()

        def script(peer):
            peer.request()
            asked.set()
            if peer.closed():
                gone.set()

        server = serve(script)
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, server.url)

        def abort():
            asked.wait(PATIENCE_S)
            handle.abort()

        threading.Thread(target=abort, daemon=True).start()
        with pytest.raises(RequestCancelled):
            body_of(transport, "http://llm.invalid:81", handle)
        assert handle.connected and gone.wait(PATIENCE_S)

    def test_pinned_addresses_are_connected_to(self, serve, rig, transport):
        """No DNS answer can lead elsewhere; the Host header keeps the name."""
        server = serve(answering(rig.head(content_length="22") + TEXT))
        url = f"http://llm.invalid:{server.port}"
        assert body_of(transport, url, AbortHandle(pinned=("127.0.0.1",))) == TEXT
        assert server.requests[0]["headers"]["host"] == f"llm.invalid:{server.port}"

    def test_a_pooled_connection_to_another_address_is_not_used(self, serve, rig, transport):
        """A pinned call does not end up where an earlier DNS answer led."""
        server = serve(answering(rig.head(content_length="22") + TEXT, keep=True))
        url = f"http://localhost:{server.port}"
        assert body_of(transport, url) == TEXT
        assert body_of(transport, url, AbortHandle(pinned=("127.0.0.1",))) == TEXT
        with pytest.raises(BackendError):
            body_of(transport, url, AbortHandle(pinned=("127.0.0.2",)), tries=1)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("llm.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("notlocalhost", False),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("box", False),
        ("", False),
    ],
)
def test_what_is_this_machine(host, expected):
    """By its name or address; no name is looked up."""
    assert is_loopback(host) is expected


class TestFailures:
    STATUSES: ClassVar = [
        (301, "bad_url", 1),
        (400, "bad_request", 1),
        (401, "auth", 1),
        (403, "auth", 1),
        (404, "not_found", 1),
        (408, "timeout", 3),
        (413, "bad_request", 1),
        (422, "bad_request", 1),
        (429, "rate_limited", 3),
        (500, "server_error", 3),
        (502, "server_error", 3),
        (503, "overloaded", 3),
        (504, "server_error", 3),
        (529, "overloaded", 3),
    ]

    @pytest.mark.parametrize(("status", "kind", "tries"), STATUSES, ids=[str(s[0]) for s in STATUSES])
    def test_status_kind_and_tries(self, serve, rig, transport, status, kind, tries):
        """What each status means and how often it is tried."""
        reply = rig.json_answer(
            {"error": {"message": "no"}}, f"{status} X", location="http://elsewhere.invalid/"
        )
        server = serve(answering(reply, keep=True))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert (caught.value.kind, caught.value.status, len(server.requests)) == (kind, status, tries)
        assert server.accepted == 1
        assert transport.pauses == [0.5, 1.0][: tries - 1]

    def test_no_retries_with_a_backup(self, serve, rig, transport):
        """One attempt; the backup is quicker than a pause."""
        server = serve(answering(rig.json_answer({}, "503 X"), keep=True))
        with pytest.raises(BackendError):
            body_of(transport, server.url, tries=1)
        assert len(server.requests) == 1

    @pytest.mark.parametrize(("value", "pause"), [("7", 7.0), ("900", 30.0), ("nonsense", 0.5)])
    def test_retry_after_is_honoured_up_to_a_bound(self, serve, rig, transport, value, pause):
        """The server's own wish, at most 30 s."""
        replies = iter(
            [rig.json_answer({}, "429 X", retry_after=value), rig.head(content_length="22") + TEXT]
        )

        def script(peer):
            while peer.request():
                peer.send(next(replies))

        server = serve(script)
        assert body_of(transport, server.url) == TEXT
        assert transport.pauses == [pause]

    def test_a_refused_connection_is_tried_three_times(self, transport):
        """Quickly given up; the message names the place, not the URL."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(
            BackendError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"
        ) as caught:
            body_of(transport, f"http://127.0.0.1:{port}")
        assert caught.value.kind == "connect_error"
        assert transport.pauses == [0.2, 0.4]

    def test_the_request_is_told_whether_its_backend_is_there(self, serve, rig, transport):
        """Missing after a refused connection, until any is made, a pooled one too."""
        server = serve(answering(rig.json_answer({}, "503 X"), keep=True))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seen = []
        for url in (nobody, server.url, nobody):
            handle = AbortHandle()
            with pytest.raises(BackendError):
                body_of(transport, url, handle, tries=1)
            seen.append(handle.reach.missing)
        pooled = AbortHandle()
        pooled.reach.note_failure()
        with pytest.raises(BackendError):
            body_of(transport, server.url, pooled, tries=1)
        assert (seen, pooled.reach.missing) == ([True, False, True], False)

    def test_a_connection_that_does_not_come(self, transport, monkeypatch):
        """Said with its limit, and tried again."""

        def connect(sock, address):
            raise TimeoutError("timed out")

        monkeypatch.setattr(socket.socket, "connect", connect)
        with pytest.raises(BackendError, match=r"no connection to 127.0.0.1:9 within 3 s") as caught:
            body_of(transport, "http://127.0.0.1:9", tries=2, connect_timeout_s=3.0)
        assert caught.value.kind == "timeout" and len(transport.pauses) == 1

    def test_a_tls_handshake_that_nobody_answers(self, transport):
        """It is no connection: said with its own limit, and tried again."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            with pytest.raises(BackendError, match=r"no connection to 127.0.0.1:.* within 0.2 s") as caught:
                body_of(transport, url, tries=2, connect_timeout_s=0.2)
        assert caught.value.kind == "timeout" and len(transport.pauses) == 1

    def test_an_unknown_host_is_a_connect_error(self, transport, monkeypatch):
        """DNS has no answer."""

        def no_answer(*args, **kwargs):
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", no_answer)
        with pytest.raises(BackendError) as caught:
            body_of(transport, "http://llm.invalid")
        assert caught.value.kind == "connect_error"

    @pytest.mark.parametrize("url", ["ftp://h", "h:8080", "http://", "http://[::1", ""], ids=str)
    def test_an_unusable_url(self, transport, url):
        """Said before anything is sent."""
        with pytest.raises(BackendError) as caught:
            body_of(transport, url)
        assert caught.value.kind == "bad_url"

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("localhost:11434/v1", "it does not begin with http:// or https://"),
            ("http://h:99999/v1", "its port is no number from 1 to 65535"),
            ("http://my box:80/v1", "it holds a blank"),
            ("http://[::1/v1", "the brackets around its host do not fit"),
        ],
        ids=str,
    )
    def test_an_unusable_url_is_told_as_the_config_check_tells_it(self, transport, url, why):
        """The reader of a chat's error learns what is wrong and what an address looks like."""
        with pytest.raises(BackendError) as caught:
            body_of(transport, url)
        assert caught.value.message == (
            f"`endpoint` is not the address of a server: {why}; "
            "allowed: an address such as http://127.0.0.1:11434"
        )

    @pytest.mark.parametrize(
        "url",
        [
            "http://user:sk-secret@127.0.0.1:notaport",
            "http://user:sk-secret@h:99999",
            "http://h:99999?key=sk-secret&x=",
            "http://user:sk-secret@[::1",
        ],
        ids=str,
    )
    def test_a_key_in_an_unusable_url_is_hidden(self, transport, url):
        """Gateways take keys there."""
        with pytest.raises(BackendError) as caught:
            body_of(transport, url)
        assert caught.value.kind == "bad_url"
        assert "sk-secret" not in str(caught.value)

    def test_a_backslash_is_no_way_around_the_guard(self, transport):
        """Some programs take what stands before it for the host, some what stands behind."""
        with pytest.raises(BackendError, match="backslash"):
            body_of(transport, "http://127.0.0.1\\@10.0.0.1")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Authorization", "Bearer sk-secret\nX: y"),
            ("Authorization", "Bearer sk-secret\r"),
            ("Authorization", "Bearer sk–secret"),
            ("Authorization", " Bearer sk-secret"),
            ("X", "sk-secret\u2028"),
            ("x y", "sk-secret"),
            ("x\ny", "sk-secret"),
            ("", "sk-secret"),
        ],
    )
    def test_a_header_that_cannot_be_sent(self, transport, name, value):
        """Said before anything is sent, once, without its value."""
        sent = Post(url="http://127.0.0.1:9/x", body=b"{}", headers={name: value}, endpoint="E")
        with pytest.raises(BackendError) as caught:
            transport.post(sent, AbortHandle())
        assert (caught.value.kind, caught.value.retryable) == ("config_error", False)
        assert repr(name) in str(caught.value)
        assert "secret" not in str(caught.value)
        assert transport.pauses == []

    def test_an_address_in_brackets_is_named_in_brackets(self, transport):
        """IPv6."""
        with pytest.raises(BackendError, match=r"\[::1\]:9"):
            body_of(transport, "http://[::1]:9")

    def test_a_server_that_hangs_up_without_an_answer(self, serve, rig, transport):
        """Tried once more, then a lost connection."""
        server = serve(lambda peer: peer.request())
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "connection_lost"
        assert server.accepted == 2

    @pytest.mark.parametrize(
        "interim",
        ["100 Continue", "102 Processing", "103 Early Hints", "104 Upload Resumption Supported", "199 Odd"],
    )
    def test_interim_answers_are_read_over(self, serve, rig, transport, interim):
        """Any number of them, before the real one."""
        heads = rig.head(interim, link="</x>") * 3
        server = serve(answering(heads, rig.head(content_length="2"), b"hi"))
        assert body_of(transport, server.url) == b"hi"

    def test_a_server_that_does_not_speak_http(self, serve, rig, transport):
        """Not retried."""
        server = serve(answering(b"SSH-2.0-x\r\n\r\n"))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "protocol_error"

    def test_lengths_that_contradict_each_other(self, serve, rig, transport):
        """Nobody knows where the answer ends; not retried."""
        server = serve(saying(rig.head(content_length="2\r\nContent-Length: 9") + b"hi"))
        with pytest.raises(BackendError, match=r"multiple unmatching values \(2, 9\)") as caught:
            body_of(transport, server.url)
        assert (caught.value.kind, len(server.requests)) == ("protocol_error", 1)

    def test_no_headers_in_time(self, serve, rig, transport):
        """The read time-out also counts for the headers; not retried."""
        server = serve(rig.Holding())
        with pytest.raises(BackendError, match=r"no answer within 0.1 s") as caught:
            body_of(transport, server.url, read_timeout_s=0.1)
        assert caught.value.kind == "timeout"
        assert len(server.requests) == 1

    def test_a_key_in_the_servers_words_is_hidden(self, serve, rig, transport):
        """Some servers say which key was wrong."""
        server = serve(answering(rig.json_answer({"error": {"message": "bad key sk-secret"}}, "401 X")))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url, secrets=("sk-secret",))
        assert caught.value.message == "bad key ***"
        assert "sk-secret" not in str(caught.value.native)

    def test_an_error_body_that_breaks_is_still_an_error(self, serve, rig, transport):
        """The status says enough."""
        server = serve(answering(rig.head("401 X", content_length="99") + b'{"err'))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert caught.value.kind == "auth"


class TestWhatAnErrorHolds:
    """The lines that it came through, but none of their variables: they lead to the request and its body."""

    @staticmethod
    def variables_of(error):
        """Those of the call in which it was raised."""
        *_, (innermost, _) = traceback.walk_tb(error.__cause__.__traceback__)
        return innermost.f_locals

    def test_of_a_body_that_breaks(self, serve, rig, transport):
        server = serve(answering(rig.head(content_length="99") + TEXT))
        with pytest.raises(BackendError) as caught:
            body_of(transport, server.url)
        assert self.variables_of(caught.value) == {}

    def test_of_a_connection_that_is_refused(self, transport):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with pytest.raises(BackendError) as caught:
            body_of(transport, f"http://127.0.0.1:{port}")
        assert self.variables_of(caught.value) == {}


class TestCancellation:
    def is_cancelled(self, rig, transport, url, ready, **more):
        """Cancel as soon as `ready` is set; whether the call then ends, though its server holds on."""
        handle, ended = AbortHandle(), []

        def run():
            try:
                body_of(transport, url, handle, **more)
            except RequestCancelled:
                ended.append(True)

        rig.interrupt(run, ready, handle.abort)
        return ended == [True]

    def test_while_the_headers_are_awaited(self, serve, rig, transport):
        """Prefill: the call ends at once, and the server sees it."""
        server = serve(script := rig.Holding())
        assert self.is_cancelled(rig, transport, server.url, script.asked)
        assert script.closed.wait(PATIENCE_S)

    def test_in_the_stream(self, serve, rig, transport):
        """The same when it is already answering."""
        server = serve(script := rig.Holding(rig.SSE_HEAD, rig.chunked("a", end=False)))
        assert self.is_cancelled(rig, transport, server.url, script.asked)
        assert script.closed.wait(PATIENCE_S)

    def test_while_connecting(self, rig, transport, monkeypatch):
        """A connect that hangs is woken: the socket is known before it connects."""
        started = threading.Event()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        real = socket.socket.connect

        def connect(sock, address):
            started.set()
            return real(sock, address)

        monkeypatch.setattr(socket.socket, "connect", connect)
        try:
            port = listener.getsockname()[1]
            assert self.is_cancelled(rig, transport, f"http://127.0.0.1:{port}", started)
        finally:
            for sock in (*fillers, listener):
                sock.close()

    def test_in_the_tls_handshake(self, serve, rig, transport):
        """A server that never answers the hello."""
        arrived = threading.Event()

        def script(peer):
            peer.sock.recv(1)
            arrived.set()
            peer.closed()

        server = serve(script)
        assert self.is_cancelled(rig, transport, server.url.replace("http:", "https:"), arrived)

    def test_in_the_pause_between_tries(self, serve, rig):
        """Waiting does not outlive the request."""
        transport = Transport()
        asked = threading.Event()

        def script(peer):
            peer.request()
            peer.send(rig.json_answer({}, "429 X", retry_after="20"))
            asked.set()

        server = serve(script)
        assert self.is_cancelled(rig, transport, server.url, asked)
        transport.close()

    def test_before_it_begins(self, transport):
        """Nothing is sent."""
        handle = AbortHandle()
        handle.abort()
        with pytest.raises(RequestCancelled):
            transport.post(post("http://127.0.0.1:9"), handle)

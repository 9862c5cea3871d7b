"""Servers that want to keep a call for ever, or to fill the memory: each call ends with a sentence."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from Middleware.workflows.tools import web
from Middleware.workflows.tools.web import WebError, WebRequest, exchange
from tests.patience import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = b"a" * 65536
MOVED = b"HTTP/1.1 302 x\r\nContent-Length: 0\r\nLocation: "

SERVERS = {  # what is sent first, what is sent again and again, what the call says
    "status-line": (b"HTTP/1.1 ", b"2" * 65536, "no answer"),
    "header-line": (OK + b"X: ", LONG, "no answer"),
    "headers": (OK, b"X: a\r\n" * 1000, "no answer"),
    "interim-answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "'totalTimeout'"),
    "chunk-size": (CHUNKED, b"0" * 65536, "broke off"),
    "chunk-extension": (CHUNKED + b"1;", LONG, "broke off"),
    "negative-chunk": (CHUNKED + b"-5\r\n", LONG, "broke off"),
    "chunk-larger-than-memory": (CHUNKED + b"ffffffffffffffff\r\n", LONG, "'maxResponseBytes'"),
    "trailers": (CHUNKED + b"0\r\n", b"X: a\r\n" * 1000, "'totalTimeout'"),
    "negative-length": (OK + b"Content-Length: -1\r\n\r\n", LONG, "'maxResponseBytes'"),
    "length-larger-than-memory": (OK + b"Content-Length: 9" + b"9" * 30 + b"\r\n\r\n", LONG, "'maxResponseBytes'"),
    "two-lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", b"ab", "no answer"),
    "body": (OK + b"\r\n", LONG, "'maxResponseBytes'"),
    "packed-nothing": (OK + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\0\0\0\xff\xff" * 9000, "'totalTimeout'"),
    "no-http": (b"<html>", b"hi", "no answer"),
    "redirect-to-itself": (MOVED + b"/\r\n\r\n", b"", "more than 30 redirects"),
    "redirect-to-odd-bytes": (MOVED + b"\xff\xfe\0/\r\n\r\n", b"", "more than 30 redirects"),
    "redirect-to-no-port": (MOVED + b"http://127.0.0.1:99999/\r\n\r\n", b"", "the URL cannot be used"),
    "redirect-to-no-host": (MOVED + b"http://" + b"\xc3\xbc" * 300 + b"/\r\n\r\n", b"", "the URL cannot be used"),
    "redirect-to-data": (MOVED + b"data:,x\r\n\r\n", b"", "the scheme of the URL"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh_pools():
    yield
    web._adapter(False).close()


@pytest.mark.parametrize(("first", "again", "said"), SERVERS.values(), ids=SERVERS)
def test_the_call_ends(site, first, again, said):
    """By a limit of lines or bytes, or by `totalTimeout`."""

    def answer(handler):
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.sendall(first)
            for _ in itertools.takewhile(lambda _: again and not site.leaving.is_set(), itertools.count()):
                handler.connection.sendall(again)

    class Pages(dict):
        def get(self, path, default=None):
            return answer

    site.pages = Pages()
    total_s = 1.0 if said == "'totalTimeout'" else PATIENCE_S
    with pytest.raises(WebError, match=said):
        exchange(WebRequest(site.url(), timeout_s=PATIENCE_S, total_s=total_s, max_bytes=1_000_000))

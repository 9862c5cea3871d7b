"""HTTP of the nodes that fetch: guarded addresses, redirects hop by hop, caps on decompressed bytes, time
limits, cancellation.

The only file of this floor that knows `requests`. Logs the host, the status, bytes and time; never a path, a
query, a header or a body. Under a guard it connects to the judged addresses and nothing else: no proxy of the
environment, no `.netrc`, no connection that was opened without the guard. Source: spec tools.md 3 and 11.1 to
11.3.
"""

from __future__ import annotations

import functools
import http.client
import logging
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar
from urllib3.exceptions import HTTPError, InsecureRequestWarning, ReadTimeoutError
from urllib3.poolmanager import PoolManager

from Middleware.common.secrets import SECRET_NAME
from Middleware.llmapis.wire.connections import POOL_CLASSES, AbortHandle, opening
from Middleware.llmapis.wire.http import is_loopback
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import TracedNode, outside_call
from Middleware.utilities.network_security_utils import AddressPolicy, AddressRefused

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# One log line for each call that leaves the process: node, host, how it ended, bytes, milliseconds.


@dataclass(slots=True)
class Outcome:
    """Filled in while the call runs. `status`: of HTTP, of a process, or a word; None: there is no answer."""

    status: int | str | None = None
    length: int = 0


@contextmanager
def log_outside_call(what: str, host: str, caller: str = "") -> Iterator[Outcome]:
    """`what`: `GET`, `curl`, `MCP`. `host`: or the server's name. `caller`: the node; empty: a script."""
    outcome, began = Outcome(), time.monotonic()
    try:
        yield outcome
    finally:
        logger.info(
            "%s%s %s: status %s, %d bytes, %d ms",
            f"{caller}: " if caller else "",
            what,
            host,
            outcome.status,
            outcome.length,
            (time.monotonic() - began) * 1000,
        )


# --------------------------------------------------------------------------

# `"verify": false` is the author's wish and warned of by the node; urllib3 would warn at every request.
urllib3.disable_warnings(InsecureRequestWarning)

REDIRECTS = 10
REDIRECTS_UNGUARDED = 30
MAX_RATIO = 200
"""More decompressed bytes for each that came is taken for a bomb."""
PIECE = 8192

_REDIRECTING = (301, 302, 303, 307, 308)
_BODY_HEADERS = ("content-length", "content-type", "transfer-encoding")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SHOWN_HOST = re.compile(r"[\w.:-]{1,253}")
_HEADER_VALUE = re.compile(r"(?![\x85\xa0])[\t\x20-\x7e\x80-\xff]*")
"""`requests` takes no white space at the beginning, and counts these two among it."""
_FAILURES = (requests.RequestException, HTTPError, OSError, http.client.HTTPException, zlib.error, ValueError)


class WebError(RuntimeError):
    """A call failed. The text never holds a path, a query, a header or what an inner server said."""

    is_timeout = False


class WebTimeout(WebError):
    """No answer in time."""

    is_timeout = True


class PageTooLarge(WebError):
    """The answer passed the cap, or is a compression bomb."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    """One call. `private`: lower-case names of headers that stay with the first origin, beside those that
    look like keys. `max_bytes`: of the decompressed body, None = no cap. `total_s`: redirects included.
    `caller`: the node that a log line names.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float | tuple[float, float] = 30.0
    total_s: float | None = None
    proxy: str | None = field(default=None, repr=False)
    follow: bool = True
    verify: bool | str = True
    max_bytes: int | None = None
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    private: frozenset[str] = frozenset()
    caller: str = ""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """A final answer. `body`: decompressed; of a status of 400 and above at most `max_bytes` of it."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def exchange(request: WebRequest, request_id: str = "", trace: TracedNode | None = None) -> WebAnswer:
    """The answer, whatever its status. Cancelling `request_id` ends the call at once. `trace`: the node that
    asks, None: nobody observes.

    Raises AddressRefused, WebError, TooLarge, RequestCancelled.
    """
    request = replace(request, headers=_sendable(request.headers))
    host = host_of(request.url)
    with (
        outside_call(trace, "http", host, place=request.url, body=request.body or b"") as told,
        _ending(request_id, request.total_s) as call,
        log_outside_call(request.method, host, request.caller) as outcome,
    ):
        answer = _follow_redirects(request, call)
        outcome.status, outcome.length = answer.status, len(answer.body)
        told.note_answer(answer.body, answer.status)
        return answer


def host_of(url: str) -> str:
    """What a log line or a message may show of a URL: a host that is none may be anybody's text."""
    try:
        host = urlsplit(url).hostname or "no host"
    except ValueError:
        return "no host"
    return host if host == "no host" or _SHOWN_HOST.fullmatch(host) else "an invalid host"


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers without the blanks around a value, which mean nothing (RFC 9110, 5.5). Raises WebError."""
    stripped = {name: value.strip(" \t") for name, value in headers.items()}
    for name, value in stripped.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise WebError(f"the header {name!r} contains characters that HTTP does not allow")
    return stripped


class _PageCall:
    """The handle of one call, and whether its time was up."""

    def __init__(self) -> None:
        self.handle = AbortHandle()
        self.late = False

    def expire(self) -> None:
        self.late = True
        self.handle.abort()

    def check(self) -> None:
        """Raises WebError when the time is up, RequestCancelled after a cancellation."""
        if self.late:
            raise WebTimeout("the whole exchange took longer than 'totalTimeout'")
        self.handle.check()


@contextmanager
def _ending(request_id: str, total_s: float | None) -> Iterator[_PageCall]:
    """A call that ends when the request is cancelled or the time is up."""
    call = _PageCall()
    timer = threading.Timer(total_s, call.expire) if total_s is not None else None
    cancellation_service.register_abort_callback(request_id, call.handle.abort)
    try:
        if timer is not None:
            timer.daemon = True
            timer.start()
        yield call
    finally:
        cancellation_service.unregister_abort_callback(request_id, call.handle.abort)
        call.handle.detach()
        if timer is not None:
            timer.cancel()


def _follow_redirects(request: WebRequest, call: _PageCall) -> WebAnswer:
    session = _session(request)
    limit = REDIRECTS if request.policy.guards else REDIRECTS_UNGUARDED
    for _ in range(limit + 1):
        call.check()
        response, url = _send_request(session, request, call)
        location = response.headers.get("Location")
        if not request.follow or response.status_code not in _REDIRECTING or location is None:
            return _read_answer(response, request, call)
        response.close()
        request = _next(request, url, location, response.status_code)
    raise WebError(f"more than {limit} redirects")


def _session(request: WebRequest) -> requests.Session:
    """Cookies live as long as one exchange; the connections are the process's."""
    session = requests.Session()
    session.headers["Accept-Encoding"] = "gzip, deflate"
    adapter = _adapter(request.policy.guards)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session


def _send_request(
    session: requests.Session, request: WebRequest, call: _PageCall
) -> tuple[requests.Response, str]:
    """The open response of one hop, and the URL that was asked."""
    call.handle.pinned = ()
    if request.policy.guards:
        checked = request.policy.check(request.url)
        request = replace(request, url=checked.target.url)
        call.handle.pinned = () if request.proxy else checked.pins
    elif _origin(request.url)[0] not in ("http", "https", ""):
        raise WebError("the scheme of the URL must be http or https")
    # Under a guard a proxy of the environment would resolve the name itself; for loopback it makes no sense.
    session.trust_env = not request.policy.guards and not is_loopback(host_of(request.url))
    adapter = cast(_PinnedAdapter, session.get_adapter("http://"))
    try:
        prepared = session.prepare_request(
            requests.Request(request.method, request.url, headers=dict(request.headers), data=request.body)
        )
        url = str(prepared.url)
        if request.policy.guards and host_of(url) != host_of(request.url):
            raise AddressRefused("address not allowed (not a host name)")
        proxies = {"http": request.proxy, "https": request.proxy} if request.proxy else {}
        settings = session.merge_environment_settings(url, proxies, True, request.verify, None)
        with opening(call.handle):
            # Not `session.send`: that one reads a redirect's target before it was looked at here.
            response = adapter.send(prepared, timeout=request.timeout_s, **cast(dict[str, Any], settings))
        cast(Any, extract_cookies_to_jar)(session.cookies, prepared, response.raw)
    except AddressRefused:
        raise
    except _FAILURES as error:
        call.check()
        raise _failure(error, request) from error
    return response, url


def _failure(error: BaseException, request: WebRequest) -> WebError:
    host = host_of(request.url)
    if isinstance(error, requests.Timeout | TimeoutError):
        return WebTimeout(f"no answer from {host} in time")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
        return WebError("the URL cannot be used")
    if isinstance(error, requests.exceptions.InvalidSchema) and "SOCKS" in str(error):
        return WebError("a SOCKS proxy needs the package 'pysocks' (install with the extra 'socks')")
    if isinstance(error, requests.exceptions.SSLError):
        return WebError(f"no trusted TLS connection to {host}")
    return WebError(f"no answer from {host} ({type(error).__name__})")


def _next(request: WebRequest, url: str, location: str, status: int) -> WebRequest:
    """The request of the next hop. Source: RFC 9110 15.4, and tools.md 3.2 and 11.2."""
    # http.client reads header bytes as Latin-1; a path in UTF-8 must come out as it was.
    location = location.encode("latin-1", "replace").decode("utf-8", "replace").strip()
    try:
        following = urljoin(url, location)
    except ValueError:
        raise WebError("a redirect does not lead to a URL") from None
    headers = dict(request.headers)
    if _origin(following) != _origin(url):
        headers = {name: value for name, value in headers.items() if not _is_private(name, request)}
    method, body = request.method, request.body
    if status in (301, 302, 303) and method not in ("GET", "HEAD"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
    headers = {name: value for name, value in headers.items() if name.lower() != "host"}
    return replace(request, url=following, method=method, body=body, headers=headers)


def _is_private(name: str, request: WebRequest) -> bool:
    return name.lower() in request.private or bool(SECRET_NAME.search(name))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
        return parts.scheme.lower(), parts.hostname, port
    except ValueError:
        return "", None, None


def _read_answer(response: requests.Response, request: WebRequest, call: _PageCall) -> WebAnswer:
    """The whole body within the caps. A failure's body is cut at them instead."""
    body = bytearray()
    try:
        for piece in _decoded_pieces(response):
            body += piece
            if request.max_bytes is not None and len(body) > request.max_bytes:
                raise PageTooLarge(
                    f"the answer is larger than {request.max_bytes} bytes ('maxResponseBytes')"
                )
            call.check()
        call.check()
    except PageTooLarge:
        if response.status_code < 400:
            raise
        if request.max_bytes is not None:
            del body[request.max_bytes :]
    except WebError:
        raise
    except _FAILURES as error:
        call.check()
        if isinstance(error, TimeoutError | requests.Timeout | ReadTimeoutError):
            raise WebTimeout(f"the answer of {host_of(request.url)} stopped") from error
        raise WebError(f"the answer of {host_of(request.url)} broke off ({type(error).__name__})") from error
    finally:
        # A body that was read to its end has given its connection back; any other is closed.
        call.handle.detach()
        response.close()
    return WebAnswer(response.status_code, dict(response.headers), bytes(body))


def _decoded_pieces(response: requests.Response) -> Iterator[bytes]:
    """Decompressed pieces, none larger than its share. Raises TooLarge for a bomb, WebError, zlib.error."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        yield from _raw(response)
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise WebError("the answer is compressed in a way that was not requested")
    unpacker: Any = None
    came = given = 0
    for data in _raw(response):
        came += len(data)
        while data:
            if unpacker is None:
                if given and not _is_next_member(coding, data):
                    return  # what stands behind the end is not the answer
                unpacker = zlib.decompressobj(_window(coding, data))
            piece = unpacker.decompress(data, PIECE * 8)
            given += len(piece)
            if given > MAX_RATIO * came:
                raise PageTooLarge("the answer is a compression bomb")
            if piece:
                yield piece
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data, unpacker = unpacker.unused_data, None
    if unpacker is not None:
        raise zlib.error("the compressed answer is incomplete")


def _is_next_member(coding: str, data: bytes) -> bool:
    """gzip may be several pieces, one behind the other. Source: RFC 1952, 2.2."""
    return coding != "deflate" and data[0] == 0x1F


def _window(coding: str, data: bytes) -> int:
    """What zlib expects. Many servers send bare deflate data without zlib's two bytes in front."""
    if coding != "deflate":
        return 16 + zlib.MAX_WBITS
    wrapped = len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


def _raw(response: requests.Response) -> Iterator[bytes]:
    while data := response.raw.read(PIECE, decode_content=False):
        yield data


class _PinnedAdapter(HTTPAdapter):
    """Connections that an AbortHandle knows, and that connect to its pinned addresses only."""

    def __init__(self) -> None:
        super().__init__(pool_connections=64, pool_maxsize=64, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        cast(PoolManager, self.poolmanager).pool_classes_by_scheme = POOL_CLASSES

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # these bring connection classes of their own
            manager.pool_classes_by_scheme = POOL_CLASSES
        return manager


@functools.cache
def _adapter(guarded: bool) -> _PinnedAdapter:
    """Two pools for the whole process: a guarded call never uses a connection of an unguarded one."""
    return _PinnedAdapter()

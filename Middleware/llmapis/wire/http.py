"""HTTP to the backends: one request with pool, time-outs, retries and a socket to shut; foreign errors become
BackendError.

The only file of this floor that knows `requests`. Never follows a redirect, keeps no cookie, reads no
`.netrc`, asks no proxy for loopback, logs no key and no body. Source: spec backends.md 15."""

from __future__ import annotations

import functools
import http.client
import ipaddress
import logging
import os
import random
import re
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_environ_proxies
from urllib3.exceptions import DecodeError, HTTPError, MaxRetryError, NewConnectionError, ReadTimeoutError
from urllib3.exceptions import ProtocolError as BrokenProtocol
from urllib3.poolmanager import PoolManager

from Middleware.common.constants import TICK_S
from Middleware.common.errors import BackendError, let_go
from Middleware.config.endpoints import EXAMPLE, READ_TIMEOUT_S, why_no_address
from Middleware.config.users import CONNECT_TIMEOUT_S
from Middleware.llmapis.backend_errors import BackendRefusal, status_error
from Middleware.llmapis.wire.connections import POOL_CLASSES, AbortHandle, opening
from Middleware.llmapis.wire.reader import BodyCut, BodyFault, body_of
from Middleware.utilities.library_internals import response_below

logger = logging.getLogger(__name__)

TRIES = 3
PAUSE_S = 0.5
"""Before the second try; twice that before the third."""
REFUSED_PAUSE_S = 0.2
TRIES_LOST = 2
MAX_RETRY_AFTER_S = 30.0
POOL_SIZE = 1024
HOSTS = 256
ERROR_BODY_BYTES = 64 * 1024
ERROR_BODY_WAIT_S = 10.0
DRAIN_S = 0.2

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_HIDDEN_IN_URLS = re.compile(r"(?<=//)[^/?#]+@|(?<=\?)[^#]+")

_NOT_HTTP = (http.client.HTTPException, BodyFault, requests.exceptions.InvalidHeader)
_BODY_FAULTS = (OSError, ValueError, AttributeError, HTTPError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Post:
    """One request; its method is POST but for a list of models. `endpoint`: its name, for messages. `tries`:
    1 = no retries. `secrets`: kept out of messages."""

    url: str
    body: bytes = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    endpoint: str
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S
    tries: int = TRIES
    secrets: tuple[str, ...] = field(default=(), repr=False)
    method: str = "POST"


class Answer:
    """An open answer with a good status. Read it with `reads`, then `close` it; both from the thread that
    opened it."""

    def __init__(self, post: Post, response: requests.Response, handle: AbortHandle, tries: int) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.tries = tries
        self._post, self._response, self._handle = post, response, handle
        self._body = body_of(response)
        self._closed = False

    @property
    def content_type(self) -> str:
        """Lower case, without parameters."""
        return str(self.headers.get("Content-Type") or "").split(";", 1)[0].strip().lower()

    def read_pieces(self, limit_s: float | None = None) -> Iterator[bytes]:
        """What each read brought, `b""` at least every TICK_S. Raises BackendError, or RequestCancelled after
        an abort."""
        limit = self._post.read_timeout_s if limit_s is None else limit_s
        try:
            yield from self._body.reads(tick_s=TICK_S, limit_s=limit)
        except _BODY_FAULTS as error:
            let_go(error)
            self._handle.check()
            raise _body_error(self._post.endpoint, error) from error
        self._handle.check()

    def read_all(self) -> bytes:
        """The whole body. Raises as `reads`."""
        return b"".join(self.read_pieces())

    def close(self, *, drain_s: float = 0.0) -> None:
        """Give the connection back when the body was read to its end (or ends within `drain_s`), else close
        it."""
        if self._closed:
            return
        self._closed = True
        self._handle.detach()
        raw = self._response.raw
        is_http = self.status >= 200  # 101: what comes next is in another protocol
        if is_http and not self._handle.cancelled and self._body.drain(drain_s):
            http_response = response_below(raw)
            if http_response is not None:
                http_response.close()
        else:
            raw.close()
        raw.release_conn()


class Transport:
    """The process's pool of connections. `pause(handle, seconds)` and `jitter()` (0 to 1) are for tests."""

    def __init__(
        self,
        *,
        pause: Callable[[AbortHandle, float], None] = AbortHandle.pause,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._pause, self._jitter = pause, jitter
        self._adapter = _Adapter(pool_connections=HOSTS, pool_maxsize=POOL_SIZE, max_retries=0)

    def post(self, post: Post, handle: AbortHandle) -> Answer:
        """Send it and wait for a good status, with the retries of spec 15.3.

        Raises BackendError; RequestCancelled as soon as `handle` is aborted, in every phase.
        """
        prepared = _prepare_request(post)
        attempt, lost = 1, 0
        while True:
            handle.check()
            handle.tries = attempt
            try:
                return self._try(post, prepared, handle, attempt, fresh=lost > 0)
            except BackendError as error:
                lost += error.kind == "connection_lost"
                if error.kind == "connect_error":
                    handle.reach.note_failure()
                # A pooled connection that the server had closed while it was idle says nothing of the server.
                stale = error.kind == "connection_lost" and handle.reused
                if stale and lost < TRIES_LOST:
                    continue
                if lost >= TRIES_LOST or not self._worth_another(error, handle, attempt, post.tries):
                    raise
                self._wait(error, handle, attempt)
            attempt += 1

    def close(self) -> None:
        """Close every pooled connection."""
        self._adapter.close()

    def _try(self, post: Post, prepared: Any, handle: AbortHandle, attempt: int, *, fresh: bool) -> Answer:
        """`fresh`: not on a pooled connection; where one was lost, the others are likely to be lost too."""
        response = self._send(post, prepared, handle, fresh)
        answer = Answer(post, response, handle, attempt)
        if 200 <= answer.status < 300:
            return answer
        raise _failed_status(post, answer)

    def _send(self, post: Post, prepared: Any, handle: AbortHandle, fresh: bool) -> requests.Response:
        timeout = (post.connect_timeout_s, post.read_timeout_s)
        verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        try:
            with opening(handle, fresh=fresh):
                response = self._adapter.send(
                    prepared, stream=True, timeout=timeout, verify=verify, proxies=_proxies(post, handle)
                )
        except (requests.RequestException, *_BODY_FAULTS) as error:
            let_go(error)  # urllib3's own variables lead back to the request and its body
            handle.detach()
            handle.check()
            raise _open_error(post, handle, error) from error
        return response

    def _worth_another(self, error: BackendError, handle: AbortHandle, attempt: int, tries: int) -> bool:
        handle.check()
        return error.retryable and attempt < min(tries, TRIES)

    def _wait(self, error: BackendError, handle: AbortHandle, attempt: int) -> None:
        if error.retry_after_s is not None:
            seconds = min(error.retry_after_s, MAX_RETRY_AFTER_S)
        else:
            first = REFUSED_PAUSE_S if _was_refused(error) else PAUSE_S
            seconds = first * attempt * (0.75 + 0.5 * self._jitter())
        logger.warning("%s; trying again in %.1f s", error, seconds)
        self._pause(handle, seconds)


MOST_POOLS_KNOWN = 256
"""By URL; a pool more is looked for each time."""


class _Adapter(HTTPAdapter):
    """`requests` with connections that an AbortHandle knows."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        cast(PoolManager, self.poolmanager).pool_classes_by_scheme = POOL_CLASSES
        self._pools: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = POOL_CLASSES
        return manager

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        """Without proxies there is none to look for. The pool of a URL is remembered: to find it, `requests`
        and urllib3 make a key of 30 fields. Whoever else lets go of it, as too many others came, closes it.
        """
        if proxies:
            return super().get_connection_with_tls_context(request, verify, proxies, cert)
        asked = request.url, verify, cert
        pool = self._pools.get(asked)
        if pool is None:
            place, settings = self.build_connection_pool_key_attributes(request, verify, cert)
            pool = cast(Any, self.poolmanager).connection_from_host(**place, pool_kwargs=settings)
            if len(self._pools) < MOST_POOLS_KNOWN:
                self._pools[asked] = pool
        return pool

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """What is read of it. To look for cookies, which nobody keeps, and for an encoding took `requests` 15
        of the 2,000 microseconds of a short request.
        """
        response = requests.Response()
        response.status_code, response.reason, response.raw = resp.status, resp.reason, resp
        response.headers = CaseInsensitiveDict(resp.headers)
        response.url, response.request = req.url, req
        return response

    def request_url(self, request: Any, proxies: Any) -> Any:
        """The path; the whole URL is for proxies only."""
        return super().request_url(request, proxies) if proxies else "/" + request.path_url.lstrip("/")


@functools.cache
def default_transport() -> Transport:
    """The one that the whole process shares."""
    return Transport()


def _prepare_request(post: Post) -> Any:
    """The request, without a session's cookies, redirects and `.netrc`. Raises BackendError `bad_url`, or
    `config_error` for a header that cannot be sent (its value is never shown)."""
    for name, value in post.headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            message = f"the header {name!r} contains characters that HTTP does not allow"
            raise BackendError(post.endpoint, "config_error", message)
    try:
        template = _template(post.method, post.url, tuple(post.headers.items()))
    except (requests.RequestException, ValueError) as error:
        raise BackendError(post.endpoint, "bad_url", _why_bad_url(post.url, error)) from error
    prepared = requests.PreparedRequest()
    headers = dict(template.headers)
    if post.body:
        headers[_LENGTH] = str(len(post.body))
        prepared.body = post.body
    prepared.method, prepared.url, prepared.headers = template.method, template.url, cast(Any, headers)
    return prepared


def _why_bad_url(url: str, error: Exception) -> str:
    """In the words of the config check; in those of `requests`, secrets masked, where the check has none."""
    if why := why_no_address(url):
        return f"`endpoint` is not the address of a server: {why}; allowed: {EXAMPLE}"
    message = str(error)
    for hidden in _HIDDEN_IN_URLS.findall(url):
        message = message.replace(hidden, "***")
    return message


_LENGTH = "Content-Length"


class _Template(NamedTuple):
    """What is the same for every request to one place. `headers` is a plain dict: to copy the one of
    `requests`, as urllib3 does, too, takes 10 of the 2,000 microseconds of a short request.
    """

    method: str
    url: str
    headers: dict[str, str]


@functools.lru_cache(maxsize=256)
def _template(method: str, url: str, headers: tuple[tuple[str, str], ...]) -> _Template:
    """Raises RequestException or ValueError."""
    if urlsplit(url).scheme.lower() not in ("http", "https"):
        raise ValueError("the URL must begin with http:// or https://")
    if "\\" in url:
        raise ValueError("the URL contains a backslash, which programs interpret differently")
    made: Any = requests.Request(method, url, headers=dict(headers)).prepare()
    told = {_LENGTH if name.lower() == _LENGTH.lower() else name: made.headers[name] for name in made.headers}
    return _Template(made.method, made.url, told)


def _proxies(post: Post, handle: AbortHandle) -> dict[str, str]:
    """The environment's proxies; none for loopback, and none for an address that was checked beforehand."""
    if handle.pinned or _leads_to_loopback(post.url):
        return {}
    return dict(get_environ_proxies(post.url, no_proxy=None))


@functools.lru_cache(maxsize=256)
def _leads_to_loopback(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _failed_status(post: Post, answer: Answer) -> BackendError:
    """Reads the error body (a little of it, not for long) and closes the answer."""
    body = bytearray()
    until = time.monotonic() + ERROR_BODY_WAIT_S
    try:
        for data in answer.read_pieces(min(ERROR_BODY_WAIT_S, post.read_timeout_s)):
            body += data
            if len(body) >= ERROR_BODY_BYTES or time.monotonic() > until:
                break
    except BackendError as error:
        logger.debug("the error body of endpoint '%s' was cut: %s", post.endpoint, error.message)
    finally:
        answer.close()
    return status_error(
        post.endpoint,
        BackendRefusal(answer.status, answer.headers, bytes(body)),
        secrets=post.secrets,
        asked=f"{post.method} {post.url}",
    )


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and all that stand behind it, outermost first."""
    seen: set[int] = set()
    pending: list[Any] = [error]
    while pending:
        one = pending.pop(0)
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        reason = one.reason if isinstance(one, MaxRetryError) else None
        pending += [reason, *(one.args if isinstance(one, HTTPError | requests.RequestException) else ())]
        pending += [one.__cause__, one.__context__]


def _open_error(post: Post, handle: AbortHandle, error: BaseException) -> BackendError:
    """A failure before the headers of the answer."""
    causes = list(causes_of(error))
    place = _place(post.url)
    if any(isinstance(cause, requests.Timeout | ReadTimeoutError | TimeoutError) for cause in causes):
        if not (handle.connected or handle.reused):  # nobody answers, or not in the TLS handshake
            message = f"no connection to {place} within {post.connect_timeout_s:g} s"
            return BackendError(post.endpoint, "timeout", message, retryable=True)
        return BackendError(post.endpoint, "timeout", f"no answer within {post.read_timeout_s:g} s")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return BackendError(post.endpoint, "bad_url", f"the URL cannot be used: {place}")
    unreachable = isinstance(error, requests.exceptions.SSLError | requests.exceptions.ProxyError) or any(
        isinstance(cause, NewConnectionError) for cause in causes
    )
    if unreachable:
        message = f"cannot connect to {place}: {_reason(causes)}"
        return BackendError(post.endpoint, "connect_error", message, retryable=True)
    if any(isinstance(cause, _NOT_HTTP) for cause in causes) and not any(
        isinstance(cause, http.client.RemoteDisconnected) for cause in causes
    ):
        return BackendError(
            post.endpoint, "protocol_error", f"{place} does not speak HTTP: {_reason(causes)}"
        )
    message = f"{place} closed the connection without an answer"
    return BackendError(post.endpoint, "connection_lost", message, retryable=True)


def _was_refused(error: BackendError) -> bool:
    """Nobody listens there: that is known at once, and changes as soon as the server has started."""
    return any(isinstance(cause, ConnectionRefusedError) for cause in causes_of(error))


def _body_error(endpoint: str, error: BaseException) -> BackendError:
    """A failure while the body was read."""
    if isinstance(error, TimeoutError | ReadTimeoutError):
        return BackendError(endpoint, "timeout", f"the answer stopped: {error}")
    if isinstance(error, BodyFault | DecodeError):
        return BackendError(endpoint, "protocol_error", str(error))
    if isinstance(error, BodyCut | OSError | BrokenProtocol | http.client.HTTPException):
        return BackendError(endpoint, "connection_lost", f"the connection broke during the answer: {error}")
    return BackendError(endpoint, "protocol_error", f"the answer cannot be read: {error}")


def _place(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{host}:{parts.port}" if parts.port else host


def _reason(causes: list[BaseException]) -> str:
    """The system's own words, which name no URL, and those about headers that contradict each other."""
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return str(cause.strerror)
        if isinstance(cause, requests.exceptions.InvalidHeader):
            return str(cause)
    return type(causes[-1]).__name__

"""All that is at and below `/console`: who may come in, the page and its files, then the JSON routes.

A WSGI callable that the front door hands such requests to. Light at a start: the views and what they need are
loaded by the first look. Never reads a body before the request was let in. Source: spec console.md 2.4, 2.5
and 5.1.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Middleware.api.console.page_files import FOLDER, PageFile, PageFiles, matches_etag
from Middleware.api.console.view_contract import (
    ACT,
    NEEDS,
    Hub,
    Place,
    Reply,
    RightsRefusal,
    Rules,
    check,
    json_bytes,
)
from Middleware.api.requests.repeats import REPEATS, Repeats
from Middleware.api.requests.wrong_keys import MOST_ADDRESSES, WrongKeyLines
from Middleware.api.wsgi.doors import CONSOLE, CONSOLE_ROOT, StartResponse, WsgiApp, log_refusal, status_line
from Middleware.protocols.base import ErrorReply

if TYPE_CHECKING:
    from Middleware.api.console.views import Views


# --------------------------------------------------------------------------
# Who tried too many wrong keys: addresses and times, so few that nobody can fill the memory with them.


MOST_WRONG = 10
WITHIN_S = 60.0
LONG_KEY = 16
"""Nobody guesses a key of so many characters: wrong ones are not counted against their address, which behind
a proxy, and on one machine, is everybody's."""


class WrongKeys:
    """Who sends too many wrong keys. Source: spec workbench.md 16.7."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> bool:
        """It sent one. Whether there were more than `MOST_WRONG` within `WITHIN_S`."""
        with self._lock:
            now = self._clock()
            recent = [one for one in self._times.pop(address, ()) if now - one < WITHIN_S]
            times = self._times[address] = [*recent, now][-MOST_WRONG - 1 :]
            if len(self._times) > MOST_ADDRESSES:
                self._times.popitem(last=False)
            return len(times) > MOST_WRONG


# --------------------------------------------------------------------------

GENERATING = tuple(f"{CONSOLE_ROOT}/api/{name}" for name in ("try", "again", "ask"))
"""The routes that generate: they go on to the front door, as requests that want to pass the gate."""
_PAGE = f"{CONSOLE_ROOT}/"
_API = f"{CONSOLE_ROOT}/api/"
TOO_MANY_KEYS = "too many wrong keys; wait a minute"
_STATIC = f"{CONSOLE_ROOT}/static/"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'"
    " data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_RIGHTS = "headrace.console_rights"
"""The key of the WSGI environment that holds the rights of a request that was let in."""
_NO_STORE = {"Cache-Control": "no-store"}
_READS = ("GET", "HEAD")
_BODILESS = (204, 304)


class ConsoleDoor:
    """The console of one application. `folder`: of the page's files."""

    def __init__(self, rules: Rules, hub: Hub, folder: Path = FOLDER) -> None:
        self.rules, self.hub, self.folder = rules, hub, folder
        self._wrong_keys, self._lines = WrongKeys(), WrongKeyLines()

    @property
    def has_key(self) -> bool:
        """Whether nobody comes in without the console's own key."""
        return bool(self.rules.key)

    @cached_property
    def _views(self) -> Views:
        from Middleware.api.console.views import Views

        return Views(self.hub)

    @cached_property
    def _files(self) -> PageFiles:
        return PageFiles(self.folder)

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse, onward: WsgiApp
    ) -> Iterable[bytes]:
        """`onward`: answers what generates."""
        reply = self._refusal_reply(environ) or self._reply(environ)
        if reply is not None:
            return _send(reply, environ, start_response)
        environ[CONSOLE] = self.rules.access
        environ[REPEATS] = self._repeats(environ)
        return onward(environ, _with_console_headers(start_response))

    def _repeats(self, environ: dict[str, Any]) -> Repeats:
        from Middleware.api.console.again import KeptRuns

        return KeptRuns(self.hub, environ[_RIGHTS], environ)

    @property
    def most_pages(self) -> int:
        """How many pages may be open at once: each holds a thread of the server."""
        most: int = self.hub.recorder.most_readers
        return most

    @most_pages.setter
    def most_pages(self, most: int) -> None:
        self.hub.recorder.most_readers = min(most, self.hub.recorder.most_readers)

    def ready_line(self, address: str) -> str:
        """Where it is; with the key, if nobody else knows it."""
        return f"console: {address}{_PAGE}" + (f"#key={self.rules.key}" if self.rules.made else "")

    def leads_to_page(self, environ: Mapping[str, Any]) -> bool:
        """Whether a browser opens the server's own address: its user wants to look, no client asks.

        `/` has two answers: Ollama's clients see by "Ollama is running" that a server is there, and may be
        web pages too. A page's `fetch` never has the mode `navigate`; browsers without that header get the
        clients' answer. Source: W3C, Fetch Metadata Request Headers, `Sec-Fetch-Mode`.
        """
        return (
            environ.get("PATH_INFO") == "/"
            and environ.get("REQUEST_METHOD") in _READS
            and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
            and "text/html" in environ.get("HTTP_ACCEPT", "")
        )

    def _refusal_reply(self, environ: dict[str, Any]) -> Reply | None:
        """The answer to a request that is not let in; None, and its rights stand in `environ`: it is."""
        if environ.get("REQUEST_METHOD") == "OPTIONS":
            return _error(405, "method not allowed: OPTIONS", {"Allow": "GET, HEAD"})
        checked = check(self.rules, environ, _place(environ))
        if not isinstance(checked, RightsRefusal):
            environ[_RIGHTS] = checked
            return None
        if checked.wrong_key:
            return self._wrong_key_reply(checked, environ)
        if checked.status == 401:
            return _error(401, checked.sentence)
        return _log_refusal(checked.status, checked.sentence, environ)

    def _wrong_key_reply(self, checked: RightsRefusal, environ: dict[str, Any]) -> Reply:
        """At once, whatever came before: a thread that sleeps is a slot taken from everybody."""
        address = str(environ.get("REMOTE_ADDR", ""))
        reply = _error(checked.status, checked.sentence)
        if len(self.rules.key) < LONG_KEY and self._wrong_keys.add(address):
            reply = _error(429, TOO_MANY_KEYS, {"Retry-After": str(int(WITHIN_S))})
        if count := self._lines.add(address):
            more = f" ({count} wrong keys since the last line)" if count > 1 else ""
            log_refusal(ErrorReply(reply.status, f"{checked.sentence}{more}"), environ)
        return reply

    def _reply(self, environ: dict[str, Any]) -> Reply | None:
        """The answer to a request that was let in; None: it generates."""
        path, rights = environ.get("PATH_INFO", ""), environ[_RIGHTS]
        accepted = environ.get("HTTP_ACCEPT_ENCODING", "")
        if path in GENERATING:
            if environ.get("REQUEST_METHOD") != "POST":
                return _error(405, "send this question with POST", {"Allow": "POST"})
            return None if ACT in rights else _error(403, NEEDS[ACT], need=ACT)
        if path.startswith(_API):
            return self._views.answer(environ, rights)
        if environ.get("REQUEST_METHOD") not in _READS:
            said = f"method not allowed: {environ.get('REQUEST_METHOD')}"
            return _error(405, said, {"Allow": ", ".join(_READS)})
        if path == CONSOLE_ROOT:
            return Reply(b"", 308, {"Location": "console/", **_NO_STORE}, "text/plain")
        if path == _PAGE:
            return _page(self._files.page(accepted))
        if path.startswith(_STATIC):
            name = path.removeprefix(_STATIC)
            return _static(self._files.get(name, accepted), environ.get("HTTP_IF_NONE_MATCH", ""))
        return _error(404, "no such page")


def _place(environ: Mapping[str, Any]) -> Place:
    path = environ.get("PATH_INFO", "")
    if path.startswith(_API):
        return "api"
    return "page" if path in (CONSOLE_ROOT, _PAGE) else "file"


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    return Reply({"error": sentence, **fields}, status, headers or {})


def _log_refusal(
    status: int, sentence: str, environ: dict[str, Any], headers: Mapping[str, str] | None = None
) -> Reply:
    log_refusal(ErrorReply(status, sentence), environ)
    return _error(status, sentence, headers)


def _page(file: PageFile | None) -> Reply:
    if file is None:
        return _error(404, "no such page")
    return Reply(file.body, 200, file.headers, file.content_type)


def _static(file: PageFile | None, if_none_match: str) -> Reply:
    if file is None:
        return _error(404, "no such file")
    headers = {"Cache-Control": "no-cache", "ETag": file.etag, **file.headers}
    if matches_etag(file.etag, if_none_match):
        return Reply(b"", 304, {name: value for name, value in headers.items() if name != "Content-Encoding"})
    return Reply(file.body, 200, headers, file.content_type)


def _send(reply: Reply, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    headers = {**_HEADERS, **_NO_STORE, "Content-Type": reply.content_type, **reply.headers}
    is_head = environ.get("REQUEST_METHOD") == "HEAD"
    if reply.stream is not None and not is_head:
        start_response(status_line(reply.status), list(headers.items()))
        return reply.stream
    if reply.stream is not None:
        headers["Content-Length"] = "0"  # else servers send the end of a body in pieces
        start_response(status_line(reply.status), list(headers.items()))
        close = getattr(reply.stream, "close", None)
        if close is not None:
            close()
        return []
    if reply.status in _BODILESS:
        del headers["Content-Type"]
        start_response(status_line(reply.status), list(headers.items()))
        return []
    body = reply.value if isinstance(reply.value, bytes) else json_bytes(reply.value)
    headers["Content-Length"] = str(len(body))
    start_response(status_line(reply.status), list(headers.items()))
    return [] if is_head else [body]


def _with_console_headers(start_response: StartResponse) -> StartResponse:
    """An answer that others give has the console's headers, too."""

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        given = {name.lower() for name, _ in headers}
        added = {**_HEADERS, **_NO_STORE}
        return start_response(
            status, headers + [one for one in added.items() if one[0].lower() not in given], *more
        )

    return start

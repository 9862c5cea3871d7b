"""What each view of the console gets and gives: `Ask` in, a JSON value, a `Reply` or a `Refused` out.

    ROUTES = (ApiRoute("GET", "runs/<run_id>", "look", run),)
    def run(ask: Ask, run_id: str) -> object: ...

Knows WSGI headers and no socket, no Flask. Source: spec console.md 5.2.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from werkzeug.datastructures import EnvironHeaders
from werkzeug.exceptions import RequestEntityTooLarge

from Middleware.api.requests.access import (
    NEEDS_KEY,
    NEEDS_KEY_BESIDE_FILE,
    AccessRules,
    ConsoleWish,
    bearer_of,
    is_loopback,
    same_key,
)
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body, typed_fields
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.key_file import KeyEntry
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.validation import describe_value
from Middleware.services.key_limits import KeyNumbers
from Middleware.services.loaded_models import LoadedModels

# --------------------------------------------------------------------------
# Who may probe an endpoint now, and what the last probe of each showed.


EACH_S = 10.0
AT_ONCE = 4

Key = tuple[str, str]
"""User and endpoint."""


class NotNow(Exception):
    """A probe must wait. `wait_s`: about how long."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s


class Probes:
    """The probes of one server. `clock`: of `time.monotonic()`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._running: set[Key] = set()
        self._begun: dict[Key, float] = {}
        self._last: dict[Key, dict[str, Any]] = {}

    def last(self, key: Key) -> dict[str, Any] | None:
        """What the last probe showed."""
        return self._last.get(key)

    def run(self, key: Key, probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Probe, and keep what it gives. Raises NotNow, and what the probe raises."""
        self._begin(key)
        try:
            shown = probe()
        finally:
            with self._guard:
                self._running.discard(key)
        self._last[key] = shown
        return shown

    def _begin(self, key: Key) -> None:
        with self._guard:
            now = self._clock()
            if key in self._running:
                raise NotNow("this endpoint is already being probed", EACH_S)
            wait = self._begun.get(key, -EACH_S) + EACH_S - now
            if wait > 0:
                raise NotNow(f"this endpoint was probed within the last {EACH_S:g} seconds", wait)
            if len(self._running) >= AT_ONCE:
                raise NotNow(f"{AT_ONCE} endpoints are already being probed", EACH_S)
            self._running.add(key)
            self._begun[key] = now


class Searches:
    """When servers were looked for last. `clock`: of `time.monotonic()`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._next = -math.inf

    def begin(self, spacing_s: float) -> None:
        """A search begins. Raises NotNow when the last one began less than `spacing_s` ago."""
        with self._guard:
            now = self._clock()
            if now < self._next:
                sentence = f"servers were looked for within the last {spacing_s:g} seconds"
                raise NotNow(sentence, self._next - now)
            self._next = now + spacing_s


# --------------------------------------------------------------------------
# Who may see the console, and do what there. Pure rules over header values.


LOOK, ACT, SAVE = "look", "act", "save"
NEEDS = {
    LOOK: "this needs the right to look: a browser on this machine has it, --console-key gives it to"
    " others, and --console view to everyone",
    ACT: (
        "this needs the right to act: a browser on this machine has it, and --console-key gives it to others"
    ),
    SAVE: "this needs the right to save: start with --console edit",
}
"""Right -> what is said to one who has it not."""

NEEDS_ONE_PROCESS = "the console needs one process; gunicorn -w 1 -k gevent serves 1,000 streams"
NEEDS_GIVEN_KEY = (
    "--console edit needs --console-key with several processes, because each would create its own key"
)

Place = Literal["page", "file", "api"]
_PROXY_MARKS = (
    "HTTP_FORWARDED",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_REAL_IP",
    "HTTP_VIA",
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Rules:
    """A console that is on. `mode`: `view` or `edit`. `is_open`: without a key everybody may look.
    `made`: nobody gave the key.
    """

    mode: str
    access: AccessRules
    key: str = field(default="", repr=False)
    is_open: bool = False
    made: bool = False


class RightsRefusal(NamedTuple):
    """`wrong_key`: a key was given, and is not this console's."""

    status: int
    sentence: str
    wrong_key: bool = False


def settle_rules(
    wish: ConsoleWish, access: AccessRules, processes: int, *, has_keys_file: bool = False
) -> Rules | str:
    """The rules of the console; where it is off by itself the sentence that says why, `""` where it is asked
    to be off. Raises RuntimeError for a wish that cannot be had. `has_keys_file`: clients need a key of it.
    """
    if wish.mode == "off":
        return ""
    if access.api_keys and not wish.key and wish.mode != "edit":
        return NEEDS_KEY
    if has_keys_file and not wish.key and wish.mode != "edit":
        return NEEDS_KEY_BESIDE_FILE
    if processes > 1 and wish.mode is None:
        return NEEDS_ONE_PROCESS
    if wish.mode != "edit":
        return Rules("view", access, wish.key, is_open=wish.mode == "view" and not wish.key)
    if processes > 1 and not wish.key:
        raise RuntimeError(NEEDS_GIVEN_KEY)
    return Rules("edit", access, wish.key or _made_key(), made=not wish.key)


def _made_key() -> str:
    import secrets  # most starts make none, and need not wait for it

    return secrets.token_urlsafe(16)


def check(rules: Rules, environ: Mapping[str, Any], place: Place) -> tuple[str, ...] | RightsRefusal:
    """The rights of a request; none where it needs none. Looks at headers only, in the order of 2.4."""
    refusal = _source(rules, environ, place)
    if refusal is not None or place != "api":
        return refusal or ()
    if environ.get("HTTP_X_HEADRACE_CONSOLE") != "1":
        return RightsRefusal(403, "send the header 'X-Headrace-Console: 1' here")
    if not rules.key:
        if is_local(environ):
            return (LOOK, ACT)
        return (LOOK,) if rules.is_open else ()
    given = bearer_of(environ)
    if not given or not same_key(given, rules.key):
        return RightsRefusal(401, "this console needs its key", wrong_key=bool(given))
    return (LOOK, ACT, SAVE) if rules.mode == "edit" else (LOOK, ACT)


def is_local(environ: Mapping[str, Any]) -> bool:
    """Whether a program of this machine asks, and that no proxy says that it asks for somebody else."""
    return is_loopback(environ.get("REMOTE_ADDR", "")) and not any(mark in environ for mark in _PROXY_MARKS)


def _source(rules: Rules, environ: Mapping[str, Any], place: Place) -> RightsRefusal | None:
    """What is wrong with where a request comes from."""
    host = environ.get("HTTP_HOST", "")
    if not rules.access.allows_host(host):
        way = f"allow it with --cors-origin https://{host}"
        return RightsRefusal(
            403, f"host {host!r} is not allowed: this server only answers to local host names; {way}"
        )
    if host and not rules.key and not rules.access.knows_host(host):
        way = f"allow it with --console-key or --cors-origin https://{host}"
        return RightsRefusal(
            403,
            f"host {host!r} is not allowed: without a key the console only answers to local "
            f"host names; {way}",
        )
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and not _allows_origin(rules, origin, host):
        return RightsRefusal(
            403, f"origin {origin!r} is not allowed: only the console's own page may send requests here"
        )
    if not _is_own_fetch(environ, place):
        return RightsRefusal(403, "a page of another site sent this request; only the console's own page may")
    return None


def _allows_origin(rules: Rules, origin: str, host: str) -> bool:
    if rules.key and origin.lower() in rules.access.cors_origins and origin != "*":
        return True
    scheme, _, place = origin.lower().partition("://")
    default = _PORTS.get(scheme)
    if default is None or not place:
        return False
    return _with_port(place, default) == _with_port(host.lower(), default)


def _with_port(place: str, default: int) -> tuple[str, int] | str:
    """`name[:port]` as name and port; a place that has no such form stays itself."""
    try:
        parts = urlsplit(f"//{place}")
        port = parts.port or default
    except ValueError:
        return place
    name = parts.hostname
    return (name, port) if name and parts.netloc == place and "@" not in place else place


def _is_own_fetch(environ: Mapping[str, Any], place: Place) -> bool:
    """What browsers say of who asks (Fetch Metadata). A link from elsewhere may lead to the page."""
    if environ.get("HTTP_SEC_FETCH_SITE", "none") in ("same-origin", "none"):
        return True
    mode, target = environ.get("HTTP_SEC_FETCH_MODE"), environ.get("HTTP_SEC_FETCH_DEST")
    return place == "page" and mode == "navigate" and target == "document"


# --------------------------------------------------------------------------

MOST_BYTES = 1 << 20
"""Of a body."""
MOST_WORDS = 100
"""Of a query."""
NO_FILE = "no such file"
"""The one answer to every path that is none."""

_HALVES = re.compile("[\ud800-\udfff]")


class ViewRefused(Exception):
    """An answer that is no success. `fields` stand beside `error` in its JSON."""

    def __init__(
        self, status: int, sentence: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers, self.fields = dict(headers or {}), fields

    @property
    def value(self) -> JsonObject:
        return {"error": self.sentence, **self.fields}


class Reply(NamedTuple):
    """An answer. `stream`: pieces that are sent as they come, instead of `value`."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    content_type: str = "application/json"
    stream: Iterable[bytes] | None = None


class KeyRow(NamedTuple):
    """One key of the keys file. `seen`: Unix seconds of its last request, None: it sent none."""

    entry: KeyEntry
    numbers: KeyNumbers
    seen: float | None
    expired: bool


@dataclass(frozen=True)
class Hub:
    """What views may know of the server.

    `recorder`, `hour`: the observers of the runs. `gate()`: the `gate` of the state (6.1). `started`: Unix
    seconds. `processes`: how many serve beside this one, itself among them. `stopping()`: the server has
    begun to stop, and streams to readers end. `secrets`: keys of this server, which no answer holds.
    `needs_key()`: every client must bring a key. `history`: the folder of the history of runs, None: there is
    none. `loaded`: what model servers have loaded; `tell_loaded(models)`: who wants to know which models are
    loaded, each as `(endpoint, model)`. `probes`: of endpoints, those that run and the last of each;
    `searches`: for servers. `can_read(path)`: a request to this route can be read again, to be asked once
    more; `question_of(path, body, user)`: what such a request asked, which raises ClientRequestError.
    `has_keys()`: there is a keys file; `keys()`: how many keys it has, and the rows of some, else None.
    """

    recorder: Any
    hour: Any
    mode: str
    gate: Callable[[], JsonObject]
    started: int
    processes: int
    memory_mb: int
    snapshot: Callable[[], ConfigSnapshot]
    served_users: Callable[[], list[str]]
    stopping: Callable[[], bool]
    secrets: tuple[str, ...] = field(default=(), repr=False)
    needs_key: Callable[[], bool] = lambda: False
    history: Path | None = None
    loaded: LoadedModels = field(default_factory=LoadedModels)
    tell_loaded: Callable[[Iterable[tuple[str, str]]], object] = list
    probes: Probes = field(default_factory=Probes)
    searches: Searches = field(default_factory=Searches)
    has_keys: Callable[[], bool] = lambda: False
    keys: Callable[[], tuple[int, list[KeyRow]] | None] = lambda: None
    can_read: Callable[[str], bool] = lambda path: False
    question_of: Callable[[str, bytes, UserSettings], ClientQuestion] = lambda path, body, user: (
        ClientQuestion([])
    )


class Ask:
    """One request of the page. `rights`: what it may do. `query`: the last value of each name, decoded.
    `headers`: names in any case.

    Raises Refused for a query that is too long.
    """

    def __init__(self, hub: Hub, rights: tuple[str, ...], environ: dict[str, Any]) -> None:
        self.hub, self.rights, self.environ = hub, rights, environ
        self.query = dict(_pairs(environ.get("QUERY_STRING", "")))
        self.headers = EnvironHeaders(environ)

    def require_right(self, right: str) -> None:
        """Raises Refused where the reader has not this right."""
        if right not in self.rights:
            raise ViewRefused(403, NEEDS[right], need=right)

    def words(self, *names: str) -> dict[str, str]:
        """The values of the query, `""` for what is not given. Raises Refused for any other name."""
        for name in self.query:
            if name not in names:
                allowed = ", ".join(names) or "none"
                raise ViewRefused(
                    400, f"{describe_value(name)} is not part of this query, allowed: {allowed}"
                )
        return {name: self.query.get(name, "") for name in names}

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number of the query. Raises Refused."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise ViewRefused(
                400, f"{name}: found {describe_value(text)}, allowed: a number from {least} to {most}"
            )
        return int(text)

    def fields(self, **kinds: Any) -> dict[str, Any]:
        """The fields of the JSON body, each named in `kinds` with its type: `str`, `str | None`, `list`...

        One that may be null may also be absent: it is None then. Raises ClientRequestError for unknown
        fields, other types and a body that is no JSON object, Refused for one of over 1 MiB.
        """
        return typed_fields(json_body(self._body()), kinds)

    def no_fields(self) -> None:
        """Of a question without a body: one that is there all the same has no field. Raises as `fields`."""
        body = self._body()
        if body:
            typed_fields(json_body(body), {})

    def several(self, name: str) -> list[str]:
        """Every value of a name that the query may have more than once."""
        pairs = _pairs(self.environ.get("QUERY_STRING", ""))
        return [value for each, value in pairs if each == name]

    def file(self, kind: str, most: int) -> bytes:
        """The body, which is a file of this media type. Raises Refused for another one, and for one of more
        than `most` bytes.
        """
        found = str(self.environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()
        if found != kind:
            raise ViewRefused(415, f"Content-Type: found {describe_value(found)}, allowed: {kind}")
        return self._body(most)

    def _body(self, most: int = MOST_BYTES) -> bytes:
        try:
            return read_body(self.environ, most)
        except RequestEntityTooLarge as error:
            raise ViewRefused(413, f"the body is too large, allowed: at most {most:,} bytes") from error


View = Callable[..., object]
"""(ask, the parts of the path by name) -> a JSON value, or a Reply. Raises Refused and MiddlewareError."""


class ApiRoute(NamedTuple):
    """One route. `rule`: in werkzeug's spelling, below `/console/api/`. `right`: `look`, `act` or `save`."""

    method: str
    rule: str
    right: str
    view: View


def json_bytes(value: object) -> bytes:
    """A value as UTF-8 JSON; half surrogates, which UTF-8 cannot hold, become U+FFFD, and numbers that JSON
    has no form for become null.
    """
    try:
        text = _dumps(value)
    except ValueError:
        text = _dumps(_finite(value))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _HALVES.sub("\ufffd", text).encode("utf-8")


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pairs(text: str) -> list[tuple[str, str]]:
    """WSGI's texts are bytes in Latin-1 (PEP 3333)."""
    raw = text.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        return list(parse_qsl(raw, keep_blank_values=True, errors="replace", max_num_fields=MOST_WORDS))
    except ValueError as error:
        raise ViewRefused(400, f"a query has at most {MOST_WORDS} parts") from error

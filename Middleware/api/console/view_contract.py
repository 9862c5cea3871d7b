"""What each view of the console gets and gives: `Ask` in, a JSON value, a `Reply` or a `Refused` out.

    ROUTES = (ApiRoute("GET", "runs/<run_id>", "look", run),)
    def run(ask: Ask, run_id: str) -> object: ...

Knows WSGI headers and no socket, no Flask. Source: spec console.md 5.2.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from werkzeug.datastructures import EnvironHeaders
from werkzeug.exceptions import RequestEntityTooLarge

from Middleware.api.console.probes import Probes
from Middleware.api.console.rights import NEEDS
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.requests.typed_fields import typed_fields
from Middleware.common.types import JsonObject
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import describe_value

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


@dataclass(frozen=True)
class Hub:
    """What views may know of the server.

    `recorder`, `hour`: the observers of the runs. `gate()`: the `gate` of the state (6.1). `started`: Unix
    seconds. `processes`: how many serve beside this one, itself among them. `stopping()`: the server has
    begun to stop, and streams to readers end. `secrets`: keys of this server, which no answer holds.
    `needs_key`: every client must bring a key. `probes`: of endpoints, those that run and the last of each.
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
    needs_key: bool = False
    probes: Probes = field(default_factory=Probes)


class Ask:
    """One request of the page. `rights`: what it may do. `query`: the last value of each name, decoded.
    `headers`: names in any case.

    Raises Refused for a query that is too long.
    """

    def __init__(self, hub: Hub, rights: tuple[str, ...], environ: dict[str, Any]) -> None:
        self.hub, self.rights, self.environ = hub, rights, environ
        self.query = _query(environ.get("QUERY_STRING", ""))
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
                raise ViewRefused(400, f"{describe_value(name)} is no part of this query, allowed: {allowed}")
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

    def _body(self) -> bytes:
        try:
            return read_body(self.environ, MOST_BYTES)
        except RequestEntityTooLarge as error:
            raise ViewRefused(413, f"the body is too large, allowed: at most {MOST_BYTES:,} bytes") from error


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


def _query(text: str) -> dict[str, str]:
    """WSGI's texts are bytes in Latin-1 (PEP 3333)."""
    raw = text.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        return dict(parse_qsl(raw, keep_blank_values=True, errors="replace", max_num_fields=MOST_WORDS))
    except ValueError as error:
        raise ViewRefused(400, f"a query has at most {MOST_WORDS} parts") from error

"""What a backend's failure is: from a status and a body, or from an object inside a stream, to a
BackendError. Pure.

Never lets a key into a message. Source: spec backends.md 16.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from Middleware.common.errors import KIND_STATUS, BackendError
from Middleware.common.secrets import mask_answer
from Middleware.config.endpoints import EndpointConfig

RETRIED_STATUSES = frozenset((408, 429, 500, 502, 503, 504, 529))
MAX_NATIVE_BYTES = 4096
MAX_MESSAGE = 300

_OVERFLOW = re.compile(
    "context length|context size|context window|exceeds the available context|prompt is too long"
    "|maximum context|too many tokens",
    re.IGNORECASE,
)
_BUSY = re.compile(r"\b(?:loading model|model is loading|server is busy|overloaded)\b", re.IGNORECASE)
_KINDS = {
    400: "bad_request",
    413: "bad_request",
    422: "bad_request",
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
_NAMES_ADDRESS = frozenset((404, 405))
_MAY_OVERFLOW = frozenset((400, 413, 422, 500))
_FAILURE_WORDS = frozenset(("error", "network_error", "function_call_filter", "malformed_function_call"))
_IN_BAND_KINDS = {"overloaded_error": "overloaded", "rate_limit_error": "rate_limited"}


def error_message(body: Any) -> str:
    """The text to show: `error.message`, `error`, `detail.msg`, `detail`, `message`,
    `base_resp.status_msg`, else the body's beginning. What a provider behind OpenRouter said follows it."""
    said = _own_words(body)
    provider, raw = _provider_words(body)
    if raw and raw not in said:
        said = f"{said}: {raw}"
    return f"{said} ({provider})" if provider else said


def _provider_words(body: Any) -> tuple[str, str]:
    """`(provider's name, what it said)` of an error that OpenRouter passes on; empty: it says nothing."""
    error = body.get("error") if isinstance(body, Mapping) else None
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "", ""
    name, raw = metadata.get("provider_name"), metadata.get("raw")
    if isinstance(raw, str):
        raw = _parse_json(raw)
    said = _own_words(raw)[:MAX_MESSAGE] if raw else ""
    return name if isinstance(name, str) else "", said


def _own_words(body: Any) -> str:
    if isinstance(body, Mapping):
        error, detail, base = body.get("error"), body.get("detail"), body.get("base_resp")
        if isinstance(detail, list) and detail:
            detail = detail[0]
        candidates = (
            error.get("message") if isinstance(error, Mapping) else error,
            detail.get("msg") if isinstance(detail, Mapping) else detail,
            body.get("message"),
            base.get("status_msg") if isinstance(base, Mapping) else None,
        )
        for text in candidates:
            if isinstance(text, str) and text.strip():
                return text.strip()
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    return text.strip()[:MAX_MESSAGE]


def says_something(body: Mapping[str, Any]) -> bool:
    """Whether an object that is no answer has words for the user, as a failure without `error` has."""
    return any(body.get(name) for name in ("message", "detail"))


def native_body(body: Any, secrets: Sequence[str] = ()) -> Any:
    """The backend's own error body, at most 4 KiB of it, without the keys."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    clean = mask_answer(text, secrets)
    if len(clean.encode("utf-8", "replace")) > MAX_NATIVE_BYTES:
        return clean.encode("utf-8", "replace")[:MAX_NATIVE_BYTES].decode("utf-8", "ignore")
    return body if clean == text or (isinstance(body, str) and not clean) else _parse_json(clean)


@dataclass(frozen=True, slots=True)
class BackendRefusal:
    """An answer whose status says that the call failed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def status_error(
    endpoint: str, refusal: BackendRefusal, *, secrets: Sequence[str] = (), asked: str = ""
) -> BackendError:
    """The error that the answer is. `asked`: method and URL, shown where the address may be at fault."""
    status = refusal.status
    parsed = _parse_json(refusal.body.decode("utf-8", "replace"))
    message = mask_answer(error_message(parsed), secrets) or f"status {status} without a message"
    kind = _status_kind(status, message)
    if kind == "bad_url":
        message = (
            "the server redirects to another address, which is not followed; put the "
            "final address in the file"
        )
    if asked and status in _NAMES_ADDRESS:
        message = f"{message} ({mask_answer(_shown_address(asked), secrets)})"
    retryable = status in RETRIED_STATUSES and kind != "context_overflow"
    return BackendError(
        endpoint,
        kind,
        message,
        status=status,
        native=native_body(parsed, secrets),
        retryable=retryable,
        retry_after_s=retry_after(refusal.headers.get("Retry-After")),
    )


def in_band_error(endpoint: str, body: Mapping[str, Any], *, secrets: Sequence[str] = ()) -> BackendError:
    """The error that an object with a top-level `error` (status 200) is."""
    message = mask_answer(error_message(body), secrets)
    error = body.get("error")
    kind = _IN_BAND_KINDS.get(str(error.get("type"))) if isinstance(error, Mapping) else None
    if kind is None:
        kind = "context_overflow" if _OVERFLOW.search(message) else "stream_error"
    return BackendError(endpoint, kind, message, status=200, native=native_body(dict(body), secrets))


def unrecognised_answer_error(
    endpoint: EndpointConfig, body: Any, *, secrets: Sequence[str] = ()
) -> BackendError:
    """The error that a readable body is which holds no answer of this kind of backend; in the backend's own
    words."""
    said = mask_answer(error_message(body), secrets)
    message = f"the answer is not what a backend of the type {endpoint.type} sends: {said}"
    native = native_body(body, secrets)
    return BackendError(endpoint.name, "protocol_error", message, status=200, native=native)


def failed_by_word(endpoint: str, word: str | None) -> BackendError | None:
    """The error that an answer without any output is whose finish reason is a failure; None for others."""
    if not word or word.partition(":")[0].strip().lower() not in _FAILURE_WORDS:
        return None
    message = f"the backend ended the answer with the finish reason '{word}'"
    return BackendError(endpoint, "stream_error", message, status=200)


def bad_call(endpoint: str, names: Sequence[str]) -> BackendError:
    """The error that a model's slip is: a whole tool call whose arguments are no JSON object. The model may
    do better when it is asked again."""
    calls = ", ".join(sorted(set(names)))
    message = f"the model called a tool with arguments that are not a JSON object: {calls}"
    return BackendError(endpoint, "protocol_error", message, status=200, retryable=True)


def told_failure(
    endpoint: EndpointConfig, body: Mapping[str, Any], name: str = "", *, secrets: Sequence[str] = ()
) -> BackendError | None:
    """The failure that an object with status 200 tells of; None for any other. `name`: of its event."""
    if name == "error" or body.get("error") or body.get("object") == "error":
        return in_band_error(endpoint.name, body, secrets=secrets)
    return unrecognised_answer_error(endpoint, body, secrets=secrets) if _reports_failure(body) else None


def _reports_failure(body: Mapping[str, Any]) -> bool:
    """Whether a body's `base_resp` (MiniMax) says that the call failed, whatever else stands beside it."""
    base = body.get("base_resp")
    code = base.get("status_code") if isinstance(base, Mapping) else None
    return type(code) is int and code != 0


def error_chunk(error: BackendError) -> dict[str, Any]:
    """The `error` value of the last dict of a stream that fails after output."""
    return {"kind": error.kind, "message": error.message, "status": error.status, "native": error.native}


def told_error(endpoint: str, told: Mapping[str, Any]) -> BackendError:
    """The error that such a value stands for: `error_chunk` the other way round. An unknown kind is
    `stream_error`."""
    kind = told.get("kind")
    message = str(told.get("message") or "the backend reported an error")
    return BackendError(
        endpoint,
        kind if kind in KIND_STATUS else "stream_error",
        message,
        status=told.get("status"),
        native=told.get("native"),
    )


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds that a `Retry-After` header asks for (seconds or an HTTP date); None when it says nothing
    usable."""
    if not value:
        return None
    try:
        seconds = float(value)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(moment.timestamp() - (time.time() if now is None else now), 0.0)


def _status_kind(status: int, message: str) -> str:
    if 300 <= status < 400:
        return "bad_url"
    if status in _MAY_OVERFLOW and _OVERFLOW.search(message):
        return "context_overflow"
    if status in _KINDS:
        return _KINDS[status]
    if status >= 500:
        return "overloaded" if _BUSY.search(message) else "server_error"
    return "backend_error" if status >= 400 else "protocol_error"


def _shown_address(asked: str) -> str:
    """`POST http://host:port/path`: without user, query and fragment."""
    method, _, url = asked.partition(" ")
    parts = urlsplit(url)
    return f"{method} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

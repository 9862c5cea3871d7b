"""What every handler needs of the current Flask request: its key, its life, its body, its model name.

Re-exports `build_response_json` and `sse_format` for code that imports them from here. Source:
frontend-api.md 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from Middleware.api.requests.access import idempotency_key_of
from Middleware.api.requests.key_check import key_of_request, owner_of
from Middleware.api.requests.model_names import parse_model_field, single_user
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.requests.request_life import LIFE, REQUEST_ID, RequestLife
from Middleware.api.wsgi.doors import KNOWN, status_line
from Middleware.api.wsgi.model_addresses import model_of_address, with_model_of_address
from Middleware.common.constants import VERSION
from Middleware.common.request_context import current_request
from Middleware.common.types import JsonObject
from Middleware.config.loader import default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.registry import build_response_json, sse_format
from Middleware.services.answers import compact_json

__all__ = [
    "address_model",
    "body_of_request",
    "build_response_json",
    "current_life",
    "current_request_id",
    "extract_api_key",
    "extract_idempotency_key",
    "get_model_name",
    "health_object",
    "is_private",
    "json_response",
    "life_of",
    "named_by_address",
    "parse_model_field",
    "request_owner",
    "sse_format",
]


def extract_api_key() -> str | None:
    """The client's key, or None. Source: 6."""
    return key_of_request(request.environ)


def request_owner() -> str | None:
    """Whose the client's ids, cancels and stored responses are: its key's, or its key's entry's; None: it has
    no key. Source: keys.md 2.
    """
    return owner_of(request.environ) or extract_api_key()


def extract_idempotency_key() -> str | None:
    """The client's idempotency key, or None. Source: 14."""
    return idempotency_key_of(request.environ)


def get_model_name() -> str:
    """The model name of answers: that of the current request, else the single user."""
    current = current_request()
    return current.model_name if current else single_user(default_snapshot())


def address_model() -> str:
    """The model name of the request's address (`/as/<name>/...`); "": it has none."""
    return model_of_address(request.environ)


def body_of_request() -> JsonObject:
    """The body, with the model of the address as its `model`. Raises ClientRequestError for one that is no
    JSON object.
    """
    return named_by_address(json_body(read_body(request.environ, request.max_content_length)))


def named_by_address(body: JsonObject) -> JsonObject:
    """The body as if the client had sent the model of its address; without one as it is."""
    return with_model_of_address(body, request.environ)


def health_object() -> JsonObject:
    """That the process serves; its version for everybody who may know it. Says nothing of backends. Source:
    operate.md 1.
    """
    is_told = request.environ.get(KNOWN, True)
    return {"status": "ok", **({"version": VERSION} if is_told else {})}


def is_private(user: UserSettings, key: str | None) -> bool:
    """Whether nothing of the request's texts may stand in logs and errors."""
    return bool((key and user.encrypt_using_api_key) or user.redact_log_output)


def current_request_id() -> str:
    """The id that the front door gave; empty when the application is called without it."""
    given: str = request.environ.get(REQUEST_ID, "")
    return given


def current_life() -> RequestLife:
    """The life of this request; one of its own when no gate and no front door made it."""
    return life_of(request.environ)


def life_of(environ: Mapping[str, Any]) -> RequestLife:
    """As `current_life`, of a request whose WSGI environment is at hand."""
    life: RequestLife | None = environ.get(LIFE)
    return life if life is not None else RequestLife(environ.get(REQUEST_ID, ""))


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer as the house writes it: UTF-8, not escaped, order of keys kept."""
    data = compact_json(body).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    said = status if status == 200 else status_line(status)
    return Response(data, said, headers, content_type="application/json")

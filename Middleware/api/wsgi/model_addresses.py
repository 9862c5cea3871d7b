"""Addresses that name the model: `/as/<name>/v1/...` is `/v1/...` with that model, whatever the client sends.

WSGI only: takes the name off the path before anything else looks at it. Whether somebody has the name is said
elsewhere. Source: spec operate.md 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from Middleware.api.wsgi.doors import is_console
from Middleware.common.types import JsonObject
from Middleware.protocols.base import is_under

MODEL_OF_ADDRESS = "headrace.model_of_address"
"""Key of the WSGI environment that holds the model name of the address; absent: it has none."""

_ROOT = "/as/"
_NEVER_BELOW = ("/metrics", "/v1/usage", "/as")
"""What is the server's, not a model's; the console, too."""


def take_model_off(environ: dict[str, Any]) -> None:
    """Cut `/as/<name>` off the request's path, and keep the name. A path that cannot stand behind a name is
    left as it is: it is no route.

    Several slashes at the beginning are one, as for the router: `//v1/models` must not be one path for those
    who look whether a key is needed, and another for those who answer.
    """
    path = str(environ.get("PATH_INFO") or "")
    if path.startswith("//"):
        path = environ["PATH_INFO"] = _with_one_slash(path)
    if not path.startswith(_ROOT):
        return
    segment = _segment(path, environ)
    rest = _with_one_slash(path[len(_ROOT) + len(segment) :])
    bare = rest.rstrip("/")
    if not segment or is_console(bare) or is_under(bare, _NEVER_BELOW):
        return
    environ[MODEL_OF_ADDRESS] = segment.encode("latin-1", "replace").decode("utf-8", "replace")
    environ["PATH_INFO"] = rest


def _with_one_slash(path: str) -> str:
    return "/" + path.lstrip("/")


def _segment(path: str, environ: Mapping[str, Any]) -> str:
    """The name as it stands in the path, which WSGI has decoded. Only the address as it was sent shows
    whether a slash was part of the name (`%2F`).
    """
    sent = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "")
    if "://" in sent and not sent.startswith("/"):  # the request line of a proxy has the whole URL
        sent = "/" + sent.partition("://")[2].partition("/")[2]
    if sent.startswith(_ROOT):
        written = sent[len(_ROOT) :].partition("?")[0].partition("/")[0]
        segment = unquote_to_bytes(written.encode("latin-1", "replace")).decode("latin-1")
        rest = path[len(_ROOT) :]
        if rest == segment or rest.startswith(f"{segment}/"):
            return segment
    return path[len(_ROOT) :].partition("/")[0]


def model_of_address(environ: Mapping[str, Any]) -> str:
    """The name; "": the address has none."""
    return str(environ.get(MODEL_OF_ADDRESS) or "")


def address_of_model(environ: Mapping[str, Any]) -> str:
    """`/as/<name>` as it is written in front of a path; "": the address names none."""
    name = model_of_address(environ)
    return f"{_ROOT}{quote(name, safe=':')}" if name else ""


def with_model_of_address(body: JsonObject, environ: Mapping[str, Any]) -> JsonObject:
    """The body as if the client had sent the name of its address as `model`."""
    name = model_of_address(environ)
    return {**body, "model": name} if name else body

"""A request's body, read once or looked at before. WSGI only; parses nothing.

What a server raises here in its own words is told in ours: a client that left, a body in no proper form.
Source: PEP 3333 (`wsgi.input`), spec frontend-api.md 12.5.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wsgi import get_input_stream

from Middleware.common.errors import ClientRequestError, RequestCancelled, Unsupported

_INPUT = "wsgi.input"


class _Broken:
    """A body whose reading failed: whoever reads it next meets the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, *size: int) -> bytes:
        raise self._error

    readline = read


def peeked(environ: dict[str, Any]) -> bytes:
    """The whole body, which stays there to be read. Empty when it cannot be read: its reader will say why."""
    try:
        body = get_input_stream(environ).read()
    except Exception as error:  # servers have errors of their own here
        environ[_INPUT] = _Broken(error)
        return b""
    environ[_INPUT] = BytesIO(body)
    return body


def read_body(environ: dict[str, Any], most_bytes: int | None = None) -> bytes:
    """The whole body. Raises RequestCancelled when the client leaves in the middle of it, Unsupported for a
    coding, ClientRequestError when it has no proper form.
    """
    coding = environ.get("HTTP_CONTENT_ENCODING", "").strip()
    if coding.lower() not in ("", "identity"):
        raise Unsupported(f"a body with Content-Encoding {coding!r} is not read; send it as it is (identity)")
    try:
        return get_input_stream(environ, max_content_length=most_bytes).read()
    except (ClientDisconnected, OSError) as error:
        raise RequestCancelled("the client left in the middle of its request") from error
    except HTTPException:
        raise
    except Exception as error:  # gunicorn has errors of its own for chunks
        raise ClientRequestError(f"the body cannot be read: {type(error).__name__}") from error

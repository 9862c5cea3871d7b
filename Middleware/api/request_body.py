"""A look at a request's body before the application reads it. WSGI only; parses nothing.

Source: PEP 3333 (`wsgi.input`).
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from werkzeug.wsgi import get_input_stream

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

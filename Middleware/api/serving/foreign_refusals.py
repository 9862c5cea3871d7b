"""What gunicorn itself refuses (a head that it cannot read), told as JSON in our words instead of HTML.

gunicorn hands an application nothing of such a request. Its one function that writes the page is replaced;
the path stands in the frames that raised the error, if the request line had been read. Where there is no
gunicorn there is nothing to do. Source: spec frontend-api.md 12.1.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from Middleware.api.serving.front_door import FrontDoor
from Middleware.api.serving.lingering import drop_all


def refuse_in_our_form(door: FrontDoor) -> bool:
    """From now on `door` answers what this process's gunicorn refuses. False: there is none."""
    util = sys.modules.get("gunicorn.util")
    if util is None:
        return False
    util.write_error = _ReplyWriter(door, util)  # type: ignore[attr-defined]
    return True


class _ReplyWriter:
    """Takes the place of `gunicorn.util.write_error`, which is called while the error is handled."""

    def __init__(self, door: FrontDoor, util: ModuleType) -> None:
        self._door, self._util = door, util

    def __call__(self, connection: Any, status: int, reason: str, message: str) -> None:
        heads: list[str] = []

        def start(line: str, headers: list[tuple[str, str]]) -> None:
            heads.append(f"HTTP/1.1 {line}\r\nConnection: close\r\n")
            heads.extend(f"{name}: {value}\r\n" for name, value in headers)

        environ = _environ_of(sys.exc_info()[1])
        body = b"".join(self._door.refuse(status, message or reason, environ, start))
        self._util.write_nonblock(connection, "".join(heads).encode("latin-1", "replace") + b"\r\n" + body)
        drop_all(connection)


def _environ_of(error: BaseException | None) -> dict[str, Any]:
    """What is known of the request whose reading raised `error`."""
    request = _request_of(error)
    address = getattr(request, "peer_addr", None)
    headers = getattr(request, "headers", None) or ()
    return {
        "REQUEST_METHOD": getattr(request, "method", None) or "",
        "PATH_INFO": getattr(request, "path", None) or "",
        "REMOTE_ADDR": address[0] if isinstance(address, tuple) else "",
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers},
    }


def _request_of(error: BaseException | None) -> Any:
    """gunicorn's request, as far as it was read; None when not even its first line was."""
    trace = None if error is None else error.__traceback__
    while trace is not None:
        for name in ("self", "req"):
            held = trace.tb_frame.f_locals.get(name)
            if hasattr(held, "uri") and isinstance(getattr(held, "path", None), str):
                return held
        trace = trace.tb_next
    return None

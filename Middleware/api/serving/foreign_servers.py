"""An orderly end under a server that is not ours: gunicorn stops its worker with SIGTERM, or, after Ctrl-C,
with SIGINT and SIGQUIT.

What `serving.py` does for waitress is done here around the worker's own handler: unanswered requests are
cancelled at once, and the process waits for nodes after an answer. Knows no server; where the process leaves
SIGTERM alone there is nothing to do. Source: spec frontend-api.md 2.1 and 2.3.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from Middleware.api.front_door import FrontDoor
from Middleware.api.requests.request_body import drop_all
from Middleware.utilities.text_utils import count_of

logger = logging.getLogger(__name__)

REST_S = 28.0
"""How long the process waits for nodes after an answer; gunicorn kills a worker after 30 seconds."""

ONE_STOP_S = 1.0
"""Ctrl-C reaches a worker twice: from the terminal, and from gunicorn's master. That is one wish."""
_SIGNALS = [number for name in ("SIGTERM", "SIGINT", "SIGQUIT") if (number := getattr(signal, name, None))]

AtExit = Callable[[Callable[[], None]], object]


def stop_in_order(door: FrontDoor, at_exit: AtExit = atexit.register) -> bool:
    """From now on SIGTERM also cancels what has no answer yet, and SIGINT and SIGQUIT, which cut every
    stream, do the same as SIGTERM.

    False: the process has no handler of its own, nothing was done.
    """
    theirs = signal.getsignal(signal.SIGTERM)
    if not callable(theirs) or threading.current_thread() is not threading.main_thread():
        return False
    stop = _Stop(door, theirs, at_exit)
    for number in _SIGNALS:
        signal.signal(number, stop)
    return True


class _Stop:
    """The handler. `theirs`: the server's own, for an orderly end."""

    def __init__(self, door: FrontDoor, theirs: Callable[..., Any], at_exit: AtExit) -> None:
        self._door, self.theirs, self._at_exit = door, theirs, at_exit
        self._begun: float | None = None
        self._hurried = False

    def __call__(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
            self._at_exit(self._wait)
            # locks are taken there: never in a signal handler, and not waited for either
            _thread.start_new_thread(self._door.cancel_unanswered, ())
        elif now - self._begun > ONE_STOP_S:
            self._hurried = True
        self.theirs(signal.SIGTERM, frame)

    def _wait(self) -> None:
        """Until nothing runs any more, the time is over, or a second signal comes."""
        end = (self._begun or 0.0) + REST_S
        while self._door.lives:
            if self._hurried or time.monotonic() > end:
                logger.warning(
                    "stopped while %s still had nodes to run", count_of(len(self._door.lives), "request")
                )
                return
            time.sleep(0.02)


# --------------------------------------------------------------------------
# What gunicorn itself refuses (a head that it cannot read), told as JSON in our words instead of HTML.


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
        "RAW_URI": getattr(request, "uri", None) or "",
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

"""An orderly end under a server that is not ours: gunicorn stops its worker with SIGTERM.

What `serving.py` does for waitress is done here around the worker's own handler: unanswered requests are
cancelled at once, and the process waits for nodes after an answer. Knows no server; where the process leaves
SIGTERM alone there is nothing to do. Source: spec frontend-api.md 2.1 and 2.3.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import signal
import threading
import time
from collections.abc import Callable

from Middleware.api.front_door import FrontDoor

logger = logging.getLogger(__name__)

REST_S = 28.0
"""How long the process waits for nodes after an answer; gunicorn kills a worker after 30 seconds."""

AtExit = Callable[[Callable[[], None]], object]


def stop_in_order(door: FrontDoor, at_exit: AtExit = atexit.register) -> bool:
    """From now on SIGTERM also cancels what has no answer yet.

    False: the process has no handler of its own, nothing was done.
    """
    theirs = signal.getsignal(signal.SIGTERM)
    if not callable(theirs) or threading.current_thread() is not threading.main_thread():
        return False
    begun: list[float] = []

    def stop(number: int, frame: object) -> None:
        if not begun:
            begun.append(time.monotonic())
            at_exit(lambda: _wait(door, begun[0] + REST_S))
            # locks are taken there: never in a signal handler, and not waited for either
            _thread.start_new_thread(door.cancel_unanswered, ())
        theirs(number, frame)  # type: ignore[arg-type]

    signal.signal(signal.SIGTERM, stop)
    return True


def _wait(door: FrontDoor, end: float) -> None:
    """Until nothing runs any more, or it is `end` (monotonic seconds)."""
    while door.lives:
        if time.monotonic() > end:
            logger.warning("stopped while %d requests had nodes to run", len(door.lives))
            return
        time.sleep(0.02)

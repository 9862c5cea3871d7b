"""The program, in which what is idle ends after a second and not after a minute: so a test can wait for it.

python -m tests.e2e.quick_idle ARGUMENT...
gunicorn 'tests.e2e.quick_idle:get_application(ARGUMENT, ...)'
"""

from __future__ import annotations

import sys

from Middleware.api.requests import answering
from Middleware.llmapis.wire import idle_connections
from server import get_application, main

__all__ = ["get_application", "main"]

idle_connections.IDLE_S, idle_connections.SWEEP_EVERY_S = 1.0, 0.1
answering._threads._idle_s = 1.0

if __name__ == "__main__":
    sys.exit(main())

"""One log line for each call that leaves the process: node, host, how it ended, bytes, milliseconds.

Never a path, a query, a header, a body, or the name of a tool. Source: spec tools.md 11.1.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """Filled in while the call runs. `status`: of HTTP, of a process, or a word; None: there is no answer."""

    status: int | str | None = None
    length: int = 0


@contextmanager
def log_outside_call(what: str, host: str, caller: str = "") -> Iterator[Outcome]:
    """`what`: `GET`, `curl`, `MCP`. `host`: or the server's name. `caller`: the node; empty: a script."""
    outcome, began = Outcome(), time.monotonic()
    try:
        yield outcome
    finally:
        logger.info(
            "%s%s %s: status %s, %d bytes, %d ms",
            f"{caller}: " if caller else "",
            what,
            host,
            outcome.status,
            outcome.length,
            (time.monotonic() - began) * 1000,
        )

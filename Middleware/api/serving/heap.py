"""Memory of large requests, given back to the system. What is freed, glibc keeps for the next time.

On Linux with glibc only; elsewhere nothing here does anything. Source: mallopt(3), malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

LARGE_BYTES = 1_000_000
"""Of a request's body: with its messages it took several times as much."""
WAIT_S = 0.5
"""From the end of a request to the trim: its thread has let go of it by then, and requests that end together
are paid for once (2 to 10 ms)."""
ARENAS = 2
"""Heaps of the process. glibc would make up to eight for each core, and each keeps what it had."""

_M_ARENA_MAX = -8
_ARENAS_OF_THE_USER = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


Later = Callable[[float, Callable[[], object]], object]


def _later(seconds: float, action: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


class Heap:
    """`trim`: gives back what is free; None: there is no way. `later(seconds, action)`: does it then."""

    def __init__(self, trim: Callable[[], object] | None, later: Later = _later) -> None:
        self._trim, self._later = trim, later
        self._guard = threading.Lock()
        self._waiting = False

    def trim_soon(self) -> None:
        """A large request has ended."""
        with self._guard:
            if self._trim is None or self._waiting:
                return
            self._waiting = True
        self._later(WAIT_S, self._now)

    def _now(self) -> None:
        with self._guard:
            self._waiting = False
        if self._trim is not None:
            self._trim()


def _glibc() -> Any:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None


_LIBRARY = _glibc()


def limit_arenas(library: Any = _LIBRARY) -> None:
    """To be called before threads start. What the user has set stays. `library`: of C; None: it has no
    arenas.
    """
    if library is not None and not any(name in os.environ for name in _ARENAS_OF_THE_USER):
        library.mallopt(_M_ARENA_MAX, ARENAS)


heap = Heap(None if _LIBRARY is None else partial(_LIBRARY.malloc_trim, 0))
"""Of this process."""

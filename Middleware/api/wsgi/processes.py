"""Which other processes this server is one with: none, its gunicorn's workers, or all at one Redis server.

Knows gunicorn's workers by the handler that they set for SIGTERM. Told in docs/scaling.md.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.locking_service import process_lives, process_start
from Middleware.services.shared_state.member import share_by
from Middleware.services.shared_state.redis_store import RedisStore
from Middleware.services.shared_state.sqlite_store import SqliteStore
from Middleware.services.shared_state.store import SharedStore

logger = logging.getLogger(__name__)

REDIS_URL = "HEADRACE_REDIS_URL"


def act_as_one(environ: Mapping[str, str] = os.environ) -> None:
    """From now on this process, and each that is forked from it, shares its state with the others.

    Raises SystemExit, one sentence, for a Redis address that cannot be one.
    """
    url = environ.get(REDIS_URL, "").strip()
    if url:
        _check(url)
        share_by(lambda owner: RedisStore(url, owner))
    else:
        share_by(_among_workers)


def _check(url: str) -> None:
    try:
        store = RedisStore(url, "")
    except ImportError as error:
        raise SystemExit(
            f"{REDIS_URL} is set but the package redis is missing: install the extra `redis`"
            ' (pip install -e ".[redis]")'
        ) from error
    except ValueError as error:
        raise SystemExit(
            f"{REDIS_URL} is not the address of a Redis server; allowed are "
            "redis://HOST:PORT/DB, rediss:// for"
            " TLS, and unix://PATH"
        ) from error
    logger.info("requests, keys, locks and gates are shared through Redis at %s", store.place)


def _among_workers(owner: str) -> SharedStore | None:
    """The store of this worker; None when it is the only one."""
    if worker_count() < 2:
        return None
    facts = launch_facts()
    folder = facts.sqlite_directory or facts.data_root / "SqlLiteDBs"
    _remove_old(folder)
    return SqliteStore(workers_file(folder, os.getppid()), owner)


def worker_count() -> int:
    """How many workers the server has of which this process is one; 1 where there are no workers."""
    handler = signal.getsignal(signal.SIGTERM)
    handler = getattr(handler, "theirs", handler)  # ours stands before the worker's
    settings = getattr(getattr(handler, "__self__", None), "cfg", None)
    count = getattr(settings, "workers", 1)
    return count if isinstance(count, int) else 1


def workers_file(folder: Path, master: int) -> Path:
    """The file of the workers of one master process, which no other process ever had."""
    start = hashlib.sha256(process_start(master).encode()).hexdigest()[:8]
    return folder / f"{_ours()}{master}.{start}.sqlite"


def _ours() -> str:
    return f"workers.{platform.node()}."


def _remove_old(folder: Path) -> None:
    """Files of masters of this machine that are gone."""
    for file in folder.glob(f"{_ours()}*.sqlite*"):
        words = file.name.removeprefix(_ours()).split(".")
        if not words[0].isdigit():
            continue
        master = int(words[0])
        if not process_lives(master) or not file.name.startswith(workers_file(folder, master).name):
            with suppress(OSError):
                file.unlink()


# --------------------------------------------------------------------------
# Memory of large requests, given back to the system. What is freed, glibc keeps for the next time.


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


# --------------------------------------------------------------------------
# What goes through the front door, in numbers: for the routes that tell of the server itself.


TRAFFIC = "headrace.traffic"
"""The key of the WSGI environment that holds the server's Traffic."""


class Traffic:
    """Generation requests since the start.

    `needs_key()`: clients must have a key. `waiting()`: how many stand at the gate; they count as running
    too. `started`: monotonic seconds; None: now.
    """

    def __init__(
        self,
        *,
        needs_key: Callable[[], bool] = lambda: False,
        waiting: Callable[[], int] = lambda: 0,
        started: float | None = None,
    ) -> None:
        self.needs_key, self.waiting = needs_key, waiting
        self.running = self.finished = 0
        self.started = self._ended = time.monotonic() if started is None else started
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(self) -> None:
        with self._lock:
            self.running -= 1
            self.finished += 1
            self._ended = time.monotonic()

    @property
    def uptime_s(self) -> int:
        return int(time.monotonic() - self.started)

    @property
    def idle_s(self) -> int:
        """Seconds since the last one ended; 0 while one runs."""
        return 0 if self.running else int(time.monotonic() - self._ended)

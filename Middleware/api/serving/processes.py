"""Which other processes this server is one with: none, its gunicorn's workers, or all at one Redis server.

Knows gunicorn's workers by the handler that they set for SIGTERM. Told in docs/scaling.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

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
            f"{REDIS_URL} is set, and the package redis is missing: install the extra `redis`"
            ' (pip install -e ".[redis]")'
        ) from error
    except ValueError as error:
        raise SystemExit(
            f"{REDIS_URL} is no address of a Redis server; allowed are redis://HOST:PORT/DB, rediss:// for"
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

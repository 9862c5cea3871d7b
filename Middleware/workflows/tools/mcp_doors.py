"""The way from a thread to the MCP sessions: a loop in a thread of this process, or in a helper process.

The helper is for processes that gevent patched: a loop's child processes do not work there. Made at the first
call, once a process; a forked child makes its own. Source: spec tools.md 5.3.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, launch_facts
from Middleware.common.secrets import mask_secrets
from Middleware.config.endpoints import secrets_in_use
from Middleware.utilities.file_utils import LogFile
from Middleware.workflows.tools.mcp_request import McpRequest, MCPToolCallError

if TYPE_CHECKING:
    from Middleware.workflows.tools.mcp_sessions import Sessions

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# The logs of stdio tool servers: `<log folder>/mcp/<server>.log`, rotated; with several users each has
# its own, in the user's folder.


MAX_BYTES = 1024 * 1024
BACKUPS = 3
FOLDER = "mcp"
FORMAT = "%(asctime)s [%(user)s] %(message)s"


class ServerLogs:
    """One file a server and folder, opened at its first line. Called from any thread."""

    def __init__(self) -> None:
        self._files: dict[Path, LogFile] = {}
        self._guard = threading.Lock()

    def write_line(self, server: str, user: str, line: str) -> None:
        """One line of a server's standard error; the secrets of the server's file are masked in it."""
        facts = launch_facts()
        if facts.log_folder is None:
            logger.debug("MCP server %r says: %s", server, line)
            return
        folder = facts.log_folder / user if len(facts.users) > 1 else facts.log_folder
        record = logging.makeLogRecord({"msg": mask_secrets(line, *secrets_in_use()), "user": user})
        self._file(folder / FOLDER / f"{server}.log").handle(record)

    def close(self) -> None:
        """A further line opens its file again."""
        with self._guard:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _file(self, path: Path) -> LogFile:
        with self._guard:
            if path not in self._files:
                self._files[path] = LogFile(path, max_bytes=MAX_BYTES, backups=BACKUPS)
                self._files[path].setFormatter(logging.Formatter(FORMAT))
            return self._files[path]


@functools.cache
def server_logs() -> ServerLogs:
    """Those of this process."""
    return ServerLogs()


# --------------------------------------------------------------------------

END_S = 10.0
LAST_CALLS_S = 5.0
"""How long an end waits for servers to end; the SDK gives each 4 seconds before it kills it."""
HELPER = "Middleware.workflows.tools.mcp_helper"


class Door(Protocol):
    @property
    def is_open(self) -> bool: ...

    def submit(self, request: McpRequest) -> Future[Any]:
        """What `Sessions.perform` gives; cancelling the future cancels the call."""

    def close(self) -> None:
        """End all sessions and wait for it."""


class ThreadDoor:
    """The loop runs in a thread of this process. Raises MCPToolCallError without the SDK."""

    is_open = True

    def __init__(self) -> None:
        self._sessions = new_sessions(server_logs().write_line)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="MCP sessions", daemon=True)
        self._thread.start()

    def submit(self, request: McpRequest) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(self._sessions.perform(request), self._loop)

    def close(self) -> None:
        ending = asyncio.run_coroutine_threadsafe(self._sessions.aclose(), self._loop)
        try:
            ending.result(END_S)
        except TimeoutError:
            logger.warning("MCP servers did not end within %g seconds", END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._end_calls()
        self._loop.close()

    def _end_calls(self) -> None:
        """Nobody waits for a call whose loop has ended: what still runs is cancelled."""
        running = asyncio.all_tasks(self._loop)
        for task in running:
            task.cancel()
        if running:
            self._loop.run_until_complete(asyncio.wait(running, timeout=LAST_CALLS_S))


class HelperDoor:
    """The loop runs in a process of its own, which ends, with all servers, when this one does.

    One JSON object a line: `{"id", "request"}` or `{"cancel"}` there; `{"id", "result"}`, `{"id", "error"}`,
    `{"said": [server, user, line]}` or `{"level", "log"}` back, and first of all `{"ready"}`.
    """

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, (str(INSTALL_DIRECTORY), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._count = 0
        self._calls: dict[int, Future[Any]] = {}
        self._ended = False
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read_answers, name="MCP helper", daemon=True)
        self._reader.start()

    @property
    def is_open(self) -> bool:
        return not self._ended

    def wait_until_ready(self) -> None:
        """Until the helper has its packages, or has ended."""
        self._ready.wait()

    def submit(self, request: McpRequest) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._count += 1
            number = self._count
            self._calls[number] = future
        future.add_done_callback(lambda done: self._drop_call(number, done))
        self._send(json.dumps({"id": number, "request": json.loads(request.to_json())}))
        return future

    def close(self) -> None:
        with self._lock, contextlib.suppress(OSError):  # a dead helper takes no last bytes
            assert self._process.stdin
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            logger.warning("the MCP helper did not end within %g seconds", END_S)
            self._process.kill()
        self._reader.join(END_S)

    def _drop_call(self, number: int, future: Future[Any]) -> None:
        self._calls.pop(number, None)
        if future.cancelled():
            self._send(json.dumps({"cancel": number}))

    def _send(self, line: str) -> None:
        """A helper that is gone is seen by the reader, which fails all calls."""
        try:
            with self._lock:
                assert self._process.stdin
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError) as error:
            logger.debug("the MCP helper does not accept messages: %s", error)
            self._fail_all()

    def _read_answers(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._take(json.loads(line))
        self._ended = True
        self._ready.set()
        self._fail_all()

    def _take(self, message: dict[str, Any]) -> None:
        if "log" in message:
            logger.log(message["level"], "%s", message["log"])
        elif "ready" in message:
            self._ready.set()
        elif "said" in message:
            server_logs().write_line(*message["said"])
        elif (future := self._calls.get(message["id"])) is not None:
            _settle(future, message)

    def _fail_all(self) -> None:
        for future in list(self._calls.values()):
            _settle(future, {"error": "the MCP helper process has ended"})


def _settle(future: Future[Any], message: dict[str, Any]) -> None:
    try:
        if "error" in message:
            future.set_exception(MCPToolCallError(message["error"]))
        else:
            future.set_result(message["result"])
    except InvalidStateError:
        logger.debug("a call was cancelled while its result arrived")


def new_sessions(say: Callable[[str, str, str], None]) -> Sessions:
    """A pool, with its `say`. Raises MCPToolCallError when the optional package `mcp` is not installed."""
    try:
        from Middleware.workflows.tools.mcp_sessions import Sessions
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("Middleware"):
            raise
        raise MCPToolCallError(
            f"MCP tool calls need the package 'mcp' ('{missing.name}' is missing): "
            f'{sys.executable} -m pip install -e ".[mcp]"'
        ) from missing
    return Sessions(say)


def _is_patched() -> bool:
    """Whether gevent runs this process's threads and processes. Then the sessions live in a process of their
    own: asyncio needs a thread and a selector of the system for its loop, and gevent has put its own in their
    places (gevent's documentation, "gevent.monkey": patch before anything else is imported).
    """
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("subprocess"))


_guard = threading.Lock()
_door: Door | None = None
_owner = 0


def door() -> Door:
    """This process's door, opened if it is not. Raises MCPToolCallError."""
    global _door, _owner
    with _guard:
        if _door is None or _owner != os.getpid() or not _door.is_open:
            _door = HelperDoor() if _is_patched() else ThreadDoor()
            if _owner != os.getpid():
                atexit.register(end_sessions)
            _owner = os.getpid()
        return _door


def door_soon() -> Future[Door]:
    """This process's door, once it is open. Opening it imports packages, or starts a process that does:
    whoever waits need not wait that long. The future raises MCPToolCallError.
    """
    soon: Future[Door] = Future()
    ready = _door
    if ready is not None and _owner == os.getpid() and ready.is_open:
        soon.set_result(ready)
    else:
        threading.Thread(target=_open, args=(soon,), name="MCP door", daemon=True).start()
    return soon


def _open(soon: Future[Door]) -> None:
    """The edge of a thread: what goes wrong is the future's."""
    try:
        opened = door()
        if isinstance(opened, HelperDoor):
            opened.wait_until_ready()
        soon.set_result(opened)
    except InvalidStateError:
        logger.debug("nobody waits for the MCP door any more")
    except BaseException as error:
        with contextlib.suppress(InvalidStateError):
            soon.set_exception(error)


def end_sessions() -> None:
    """End all sessions of this process, and the servers that were started for them. May be said again."""
    global _door
    with _guard:
        ending, _door = (_door if _owner == os.getpid() else None), None
    if ending is not None:
        ending.close()
        server_logs().close()

"""The application behind waitress: bound, announced, and brought to an orderly end by a signal.

Connections: `waitress_channel.py`. Source: spec frontend-api.md 2.3 and 2.4.
"""

from __future__ import annotations

import errno
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from waitress.server import BaseWSGIServer, create_server  # type: ignore[import-untyped]
from waitress.task import ThreadedTaskDispatcher  # type: ignore[import-untyped]

from Middleware.api.api_server import ApiServer
from Middleware.api.front_door import FrontDoor
from Middleware.api.launch_arguments import Launch
from Middleware.api.requests.access import MOST_BODY_BYTES
from Middleware.api.requests.model_names import served_users
from Middleware.api.serving.startup import warm_up
from Middleware.api.serving.waitress_channel import Channel
from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import is_installed, launch_facts
from Middleware.config.endpoints import load_endpoint
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.paths import DEFAULT_WORKFLOW, EXAMPLE, endpoint_file
from Middleware.config.users import UserSettings, load_user
from Middleware.config.workflows import load_workflow
from Middleware.utilities.install_layout import is_shipped, program
from Middleware.utilities.text_utils import count_of

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# What to try first, when the user that is served talks to the built-in demo model. Reads config only.


DEMO_TYPE = "builtInDemo"


def demo_hints(snapshot: ConfigSnapshot, users: list[str], address: str) -> list[str]:
    """Lines for the console: a call to try, and the file and fields that lead to a real server. Else none."""
    for name in users:
        try:
            user = load_user(snapshot, name)
            endpoint = _demo_endpoint(snapshot, user)
        except ConfigError:
            continue
        if endpoint is not None:
            return _lines(name, _way_to(Path(snapshot.root), endpoint_file(user, endpoint)), address)
    return []


def _demo_endpoint(snapshot: ConfigSnapshot, user: UserSettings) -> str | None:
    """The first endpoint of the user's workflow that is the demo model."""
    name = user.custom_workflow if user.custom_workflow_override else DEFAULT_WORKFLOW
    for node in load_workflow(snapshot, user, name).nodes:
        endpoint = node.get("endpointName")
        if not isinstance(endpoint, str) or not endpoint or "{" in endpoint:
            continue
        if load_endpoint(snapshot, user, endpoint).type == DEMO_TYPE:
            return endpoint
    return None


def _lines(model: str, way: list[str], address: str) -> list[str]:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    return [
        "The built-in demo model is answering. Try it from a second terminal:",
        f"  curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\",
        f"       -d '{body}'",
        *way,
        '  "endpoint" (its URL), "apiTypeConfigFileName" (for example "Open-AI-API", "LlamaCppServer" or',
        '  "OllamaApiChat") and "modelNameToSendToAPI" (the model\'s name there). You don\'t '
        "need to restart.",
    ]


def _way_to(root: Path, file: str) -> list[str]:
    """The file to change; what came with a wheel is not for changing."""
    if not is_shipped(root):
        example = file.replace(".json", f"{EXAMPLE}.json")
        if not (root / file).exists() and (root / example).exists():
            return [
                f"To use a real server, copy {root / example}",
                f"to {root / file} and change three fields:",
            ]
        return [f"To use a real server, change three fields of {root / file}:"]
    return [
        f"To use a real server, run {program()} --setup, or create your own files with "
        f"{program()} --init DIR, start the server with them,",
        f"and change three fields of {Path('Public', 'Configs', file)} there:",
    ]


# --------------------------------------------------------------------------

BACKLOG = 1024
MACOS_PORT = 5000
SPARE_THREADS = 16
"""Not for generation requests: lists, cancellations and signs of life are answered however many wait."""
UNFINISHED_S = 60
"""A request that is not complete by then, and a connection that is idle so long, are closed."""
CLEANUP_EVERY_S = 10
CANCEL_S = 5.0
"""How long a stop waits for the requests that it cancelled."""
REST_S = 30.0
"""How long a stop waits for nodes after an answer."""
LAST_WORDS_S = 0.5
"""How long a stop waits for what is on its way to clients."""


def serve(launch: Launch, server: ApiServer) -> int:
    """Serve until SIGTERM or SIGINT; then exit status 0. 1 when the port cannot be bound."""
    try:
        listening = _bind_socket(launch)
    except OSError as error:
        print(
            f"cannot listen on {launch.host}:{launch.port}: {error}{_advice(launch, error)}", file=sys.stderr
        )
        return 1
    waitress, listeners = waitress_for(server.app, listening, launch.threads, door=server.door)
    server.door.most_posts = most_posts(launch.threads)
    if server.console is not None:
        server.console.most_pages = most_pages(launch.threads)
    signals = _Signals()
    _announce(launch, server, listeners[0].effective_port)  # all of it is there when the first answer is
    threading.Thread(target=waitress.run, name="waitress", daemon=True).start()
    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
    signals.wait()
    _stop(server, listeners, signals)
    _end_tool_sessions()
    return 0


def _end_tool_sessions() -> None:
    """Of tool servers, which the warm-up has loaded by now."""
    from Middleware.workflows.tools import mcp_doors

    mcp_doors.end_sessions()


def waitress_for(
    app: Any,
    listening: socket.socket,
    threads: int,
    unfinished_s: int = UNFINISHED_S,
    door: FrontDoor | None = None,
) -> tuple[Any, list[BaseWSGIServer]]:
    """waitress as this house sets it, and its listeners. `unfinished_s`: as `UNFINISHED_S`.

    `door`: says how large a body may be, and answers what waitress itself refuses.
    """
    dispatchers: dict[int, Any] = {}
    waitress = create_server(
        app,
        _dispatcher=started_workers(threads),
        map=dispatchers,
        sockets=[listening],
        threads=threads,
        channel_timeout=unfinished_s,
        cleanup_interval=min(CLEANUP_EVERY_S, unfinished_s),
        connection_limit=4000,
        backlog=BACKLOG,
        channel_request_lookahead=1,
        max_request_body_size=(MOST_BODY_BYTES if door is None else door.most_body_bytes) + 1,
        asyncore_use_poll=True,
        url_scheme="http",
        expose_tracebacks=False,
        clear_untrusted_proxy_headers=False,  # the console sees by them that a proxy stands before it
        ident=None,
    )
    listeners = [item for item in dispatchers.values() if isinstance(item, BaseWSGIServer)]
    for listener in listeners:
        listener.channel_class = Channel
        listener.door = door
    return waitress, listeners


def started_workers(threads: int) -> ThreadedTaskDispatcher:
    """The threads that work on requests, waiting for them."""
    workers = ThreadedTaskDispatcher()
    workers.queue_cv = LatestFirst(workers.lock)
    workers.set_thread_count(threads)
    return workers


class LatestFirst:
    """A condition, as `threading.Condition`, that wakes the thread which has waited for the shortest time.

    Its stack and its part of the heap are known to the processor still. In turn each of some hundred threads
    would be met cold: measured, eight page faults a request until all have had one.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._waiting: list[threading.Lock] = []

    def wait(self) -> None:
        """Until this thread is woken. The lock is held before and after."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)
        self._lock.release()
        try:
            turn.acquire()
        finally:
            self._lock.acquire()

    def notify(self) -> None:
        """Wake one, if any waits. The lock is held."""
        if self._waiting:
            self._waiting.pop().release()

    def notify_all(self) -> None:
        """Wake all. The lock is held."""
        while self._waiting:
            self.notify()


def most_posts(threads: int) -> int:
    """How many generation requests so many threads may hold; where there are few, half of them."""
    return threads - SPARE_THREADS if threads > SPARE_THREADS else max(1, threads // 2)


def most_pages(threads: int) -> int:
    """How many open pages of the console so many threads may hold: half of those that no generation request
    may have.
    """
    return (threads - most_posts(threads) + 1) // 2


def _bind_socket(launch: Launch) -> socket.socket:
    """The listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in launch.host else socket.AF_INET
    return socket.create_server((launch.host, launch.port), family=family, backlog=BACKLOG)


def _advice(launch: Launch, error: OSError) -> str:
    """What to do about a port that cannot be had, behind a semicolon."""
    if error.errno == errno.EADDRINUSE:
        keeper = ""
        if launch.port == MACOS_PORT and sys.platform == "darwin":
            keeper = " (macOS uses 5000 for AirPlay)"
        return f"; choose another port with --port N{keeper}"
    if error.errno == errno.EACCES:
        return "; choose a port of 1024 or above with --port N, which needs no special rights"
    return f"; give --listen an address of this machine, found {launch.host}"


class _Signals:
    """Counts SIGTERM and SIGINT. A handler may run in the middle of `wait`, whose thread is its own: an Event
    would be waited for there by whoever holds its lock, and the server could not be stopped any more.
    """

    def __init__(self) -> None:
        self._count = 0
        self._seen: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: object) -> None:
        self._count += 1
        self._seen.put(number)

    @property
    def is_repeated(self) -> bool:
        return self._count > 1

    def wait(self) -> None:
        """Woken now and then: a signal that the system gave to another thread interrupts no wait."""
        while not self._count:
            with suppress(Empty):
                self._seen.get(timeout=1.0)


def _announce(launch: Launch, server: ApiServer, port: int) -> None:
    facts = launch_facts()
    host = f"[{launch.host}]" if ":" in launch.host else launch.host
    address = f"http://{host}:{port}"
    users = served_users()
    print(
        f"listening on {address} users={','.join(users)} "
        f"concurrency={facts.concurrency}/{facts.concurrency_level}"
        + (f" public={facts.public_directory}" if is_installed() else ""),
        flush=True,
    )
    if launch.host == "127.0.0.1":
        print("only this machine can reach the server; --listen opens it to the network", flush=True)
    near = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(launch.host, host)
    for line in server.console_lines(f"http://{near}:{port}"):
        print(line, flush=True)
    for line in demo_hints(default_snapshot(), users, address):
        print(line, flush=True)


def _stop(server: ApiServer, listeners: list[BaseWSGIServer], signals: _Signals) -> None:
    """No new connections; unanswered requests are cancelled; what runs after an answer may end."""
    logger.info("stopping; %s in progress", count_of(len(server.door.lives), "request"))
    for listener in listeners:
        listener.trigger.pull_trigger(_closing(listener))

    def has_ended(lives: Callable[[], Collection[object]]) -> bool:
        server.door.cancel_unanswered()  # again and again: an open connection may bring another request
        return not lives()

    _wait(lambda: has_ended(server.door.unanswered_requests), CANCEL_S, signals)
    if not _wait(lambda: has_ended(lambda: server.door.lives), REST_S, signals):
        logger.warning("stopped while %s still had nodes to run", count_of(len(server.door.lives), "request"))
    _wait(lambda: not any(map(_is_speaking, listeners)), LAST_WORDS_S, signals)


def _is_speaking(listener: BaseWSGIServer) -> bool:
    """Whether an answer is on its way to a client, such as the end of a stream to the console's page."""
    channels = list(listener.active_channels.values())
    return any(channel.requests or channel.total_outbufs_len for channel in channels)


def _closing(listener: BaseWSGIServer) -> Callable[[], None]:
    def close() -> None:
        listener.del_channel()
        listener.socket.close()

    return close


def _wait(over: Callable[[], bool], limit_s: float, signals: _Signals) -> bool:
    """Until `over()`, the time limit, or a second signal."""
    end = time.monotonic() + limit_s
    while not over():
        if time.monotonic() > end or signals.is_repeated:
            return False
        time.sleep(0.02)
    return True

"""Nodes that leave the process, fifty at once, through a real running Headrace: nobody else waits for them, a hang-up ends
them, and nothing of them is left.
"""

from __future__ import annotations

import http.client
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.e2e.conftest import Gunicorn, Server, write, write_tree
from tests.e2e.processes import HAS_PROC, counts, worker_of
from tests.patience import PATIENCE_S
from tests.workflows.conftest import Site
from tests.workflows.tools.conftest import seen, stdio_file

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl"),
]

MANY = 50
LIMIT_S = PATIENCE_S
SCRIPT = (
    "import urllib.request\n\n\ndef Invoke(url):\n    return urllib.request.urlopen(url).read().decode()\n"
)
KINDS = ["web", "curl", "mcp", "script"]


class Doors:
    """A site whose page `/held` answers its caller's query once it may; it knows who waits and who has left."""

    def __init__(self):
        self.site = Site()
        self.site.pages["/held"] = self._hold
        self.open = threading.Event()
        self._guard = threading.Lock()
        self.waiting = self.left = 0

    def _hold(self, handler):
        with self._guard:
            self.waiting += 1
        handler.close_connection = True
        handler.connection.settimeout(0.05)
        try:
            while not self.open.is_set():
                try:
                    if not handler.connection.recv(1):
                        with self._guard:
                            self.left += 1
                        return
                except TimeoutError:
                    continue
            handler.connection.settimeout(LIMIT_S)
            body = handler.path.partition("?")[2].encode()
            self.site.write(handler, 200, {"Connection": "close"}, body)
        finally:
            with self._guard:
                self.waiting -= 1

    def close(self):
        self.open.set()
        self.site.close()


def until(claim, what):
    """Waits for what must come true."""
    end = time.monotonic() + LIMIT_S
    while not claim():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def users(url, script):
    """`<kind>`: one node that asks the held page; `quick`: a stream that nothing holds."""
    held = f"{url}?{{chat_user_prompt_last_one}}"
    nodes = {
        "web": {"type": "WebFetch", "url": held, "timeout": 60},
        "curl": {"type": "CurlCommand", "args": ["-sS", held], "timeout": 60},
        "mcp": {"type": "MCPToolCall", "server": "tools", "tool": "fetch", "arguments": {"url": held}, "timeout": 60},
        "script": {"type": "PythonModule", "module_path": str(script), "args": [held]},
        "quick": {"type": "StaticResponse", "content": "one two three"},
    }  # fmt: skip
    return {name: {"workflows": {"Chat": [node]}} for name, node in nodes.items()}


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "trace.txt").touch()
    (folder / "ask.py").write_text(SCRIPT)
    with ExitStack() as stack:
        doors = Doors()
        stack.callback(doors.close)
        people = users(doors.site.url("/held"), folder / "ask.py")
        write_tree(folder / "public", people, backend.url)
        write(folder / "public" / "Configs" / "MCPServers" / "tools.json", stdio_file(folder / "trace.txt"))
        served = request.param(folder / "public", people, ("--concurrency", "0"))
        stack.callback(served.stop)
        served.doors, served.trace = doors, folder / "trace.txt"
        yield served


@pytest.fixture
def doors(server):
    """Closed at the beginning; nobody waits."""
    server.doors.open.clear()
    server.doors.left = 0
    yield server.doors
    server.doors.open.set()
    until(lambda: server.doors.waiting == 0, lambda: f"{server.doors.waiting} calls still wait")


def ask(server, user, text="x", **more):
    body = {"model": user, "messages": [{"role": "user", "content": text}], **more}
    status, answer = server.request("POST", "/v1/chat/completions", body, timeout_s=PATIENCE_S)
    assert status == 200, (answer, server.log[-3000:])
    return answer


def said(server, user, text):
    return json.loads(ask(server, user, text))["choices"][0]["message"]["content"]


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_at_once(server, doors, kind):
    """All are outside together; others are served meanwhile; each has its own answer."""
    with ThreadPoolExecutor(MANY) as pool:
        answers = pool.map(lambda number: said(server, kind, f"text{number}"), range(MANY))
        until(lambda: doors.waiting == MANY, lambda: f"{doors.waiting} of {MANY} wait: {server.log[-2000:]}")
        for _ in range(3):
            assert ask(server, "quick", stream=True).endswith(b"data: [DONE]\n\n")
        assert doors.waiting == MANY
        doors.open.set()
        assert list(answers) == [f"text{number}" for number in range(MANY)]


def leave(server, user, doors, count):
    """So many requests that are outside, and are then left by their clients."""
    connections = []
    for number in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        body = {
            "model": user,
            "messages": [{"role": "user", "content": f"text{number}"}],
            "stream": number % 2 == 0,
        }
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        connections.append(connection)
    until(lambda: doors.waiting == count, lambda: f"{doors.waiting} of {count} wait: {server.log[-2000:]}")
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("kind", ["web", "curl", "mcp"])
def test_a_hang_up_ends_the_call(server, doors, kind):
    """The connection is closed, the process ended, the tool call cancelled; streams and whole answers alike."""
    before = server.trace.read_text().splitlines().count("fetch cancelled")
    leave(server, kind, doors, 10)
    if kind == "mcp":
        assert seen(server.trace, "fetch cancelled", before + 10)
    else:
        until(lambda: doors.left == 10, lambda: f"{doors.left} of 10 are closed")


@pytest.mark.skipif(not HAS_PROC, reason="there is no /proc")
def test_nothing_is_left(server, doors):
    """After as many calls and hang-ups again there are no more threads, files and children than before."""

    def round_of_all():
        doors.open.clear()
        for kind in ("web", "curl", "mcp"):
            leave(server, kind, doors, 10)
            until(lambda: doors.waiting == 0, lambda: f"{doors.waiting} calls still wait")
        doors.open.set()
        with ThreadPoolExecutor(20) as pool:
            jobs = [pool.submit(said, server, kind, "x") for kind in KINDS for _ in range(10)]
            assert {job.result() for job in jobs} == {"x"}

    pid = worker_of(server)
    round_of_all()
    before = counts(pid)
    round_of_all()
    room = {"threads": 3, "files": 8, "children": 0, "zombies": 0}
    until(
        lambda: all(counts(pid)[what] <= before[what] + room[what] for what in room),
        lambda: f"{before} became {counts(pid)}",
    )
    assert counts(pid)["zombies"] == 0

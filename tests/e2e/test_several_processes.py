"""Several processes behave as one: two workers of one gunicorn, and two servers at one Redis.

Cancellation, retries, the gates of both levels, a killed process, a Redis that dies (frontend-api.md 13 to 15).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress
from itertools import groupby

import psutil
import pytest
import redis

from tests.e2e.conftest import HOUSE, Gunicorn, Server, write, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S
from tests.redis_server import RedisServer

pytestmark = pytest.mark.e2e

LOCKED = [
    {"type": "WorkflowLock", "workflowLockId": "alone"},
    {
        "type": "Standard",
        "endpointName": "Model",
        "lastMessagesToSendInsteadOfPrompt": 5,
        "returnToUser": True,
    },
]
USERS = {
    "ann": {},
    "narrow": {"endpoints": {"Model": {"maxConcurrentRequests": 1}}},
    "locked": {"workflows": {"Chat": LOCKED}},
    "spread": {},
    "small": {"endpoints": {"Model": {"machine": "desk", "modelNameToSendToAPI": "small"}}},
    "big": {"endpoints": {"Model": {"machine": "desk", "modelNameToSendToAPI": "big"}}},
}


class TwoWorkers(Gunicorn):
    """One port; the system chooses the worker of a connection."""

    workers = 2
    options = ("--keep-alive", f"{PATIENCE_S:g}")
    """A test asks once it knows which worker has accepted; gunicorn ends a connection that is silent for 2 s."""

    def place(self, number):
        """The number of a worker's process, in a fixed order."""
        return sorted(child.pid for child in psutil.Process(self.process.pid).children())[number]


class Preloaded(TwoWorkers):
    """The application was made before the workers were."""

    options = (*TwoWorkers.options, "--preload")


class Workers:
    """Two workers of one gunicorn."""

    kind = TwoWorkers

    def __init__(self, folder, backend_url, arguments):
        public = folder / "Public"
        write_tree(public, USERS, backend_url)
        self.server = self.kind(public, USERS, arguments)
        eventually(lambda: len(psutil.Process(self.server.process.pid).children()) == 2)
        self.pids = [self.server.place(0), self.server.place(1)]

    def connect(self, number):
        """A connection that this worker has accepted."""
        strangers = []
        try:
            while True:
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
                connection.connect()
                ours = connection.sock.getsockname()
                eventually(lambda ours=ours: self._owner(ours) in self.pids)
                if self._owner(ours) == self.pids[number]:
                    return opened(connection)
                strangers.append(connection)
        finally:
            for stranger in strangers:
                stranger.close()

    def _owner(self, address):
        for pid in self.pids:
            found = psutil.Process(pid).net_connections("tcp4")
            if any(wire.raddr and tuple(wire.raddr) == address for wire in found):
                return pid
        return None

    def kill(self, number):
        os.kill(self.pids[number], signal.SIGKILL)

    def waiting(self):
        """How many wait at gates."""
        (file,) = (self.server.public / "SqlLiteDBs").glob("workers.*.sqlite")
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute("SELECT COUNT(*) FROM Places WHERE State = 'waits'").fetchone()[0]

    @property
    def log(self):
        return self.server.log

    def stop(self):
        self.server.stop()


class PreloadedWorkers(Workers):
    kind = Preloaded


class Machines:
    """Two servers with folders of their own, threads in one and gevent in the other, and a Redis between them."""

    def __init__(self, folder, backend_url, arguments):
        self.redis = RedisServer(folder)
        self.servers = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HEADRACE_REDIS_URL", self.redis.url)
            for name, made in (("threads", Server), ("gevent", Gunicorn)):
                write_tree(folder / name, USERS, backend_url)
                self.servers.append(made(folder / name, USERS, arguments))

    def connect(self, number):
        return opened(http.client.HTTPConnection("127.0.0.1", self.servers[number].port, timeout=PATIENCE_S))

    def kill(self, number):
        self.servers[number].process.kill()
        self.servers[number].process.wait()

    def waiting(self):
        with closing(redis.Redis.from_url(self.redis.url)) as client:
            return sum(client.zcard(key) for key in client.scan_iter("headrace:wait:*"))

    @property
    def log(self):
        return "\n".join(server.log for server in self.servers)

    def stop(self):
        for server in self.servers:
            server.stop()
        self.redis.stop()


OPENED = []


def opened(connection):
    """It is closed at the end of the test."""
    OPENED.append(connection)
    return connection


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OPENED:
        hang_up(OPENED.pop())


KINDS = {"workers": Workers, "machines": Machines, "preloaded": PreloadedWorkers}
OPEN = ("--concurrency", "0")
GATED = ("--concurrency", "1")
OUTGOING = ("--concurrency", "1", "--concurrency-level", "endpoint")


@contextmanager
def clusters(backend, tmp_path_factory):
    """`start(kind, arguments)`: started once for all tests that ask for the same; `fresh`: for one test."""
    made = {}

    def start(kind, arguments, fresh=""):
        key = (kind, arguments, fresh)
        if key not in made:
            made[key] = KINDS[kind](tmp_path_factory.mktemp(kind), backend.url, arguments)
        return made[key]

    yield start
    for one in made.values():
        one.stop()


@pytest.fixture(scope="module")
def cluster(backend, tmp_path_factory):
    """`cluster(kind, arguments, fresh)`: as of `clusters`."""
    with clusters(backend, tmp_path_factory) as start:
        yield start


@pytest.fixture(params=["workers", "machines"])
def kind(request):
    return request.param


def eventually(claim):
    end = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.02)
    return True


def ask(connection, mark, *, user="ann", key=None, **more):
    """The request is sent; the answer is the test's to read."""
    body = {"model": user, "messages": [{"role": "user", "content": mark}], **more}
    headers = {"Content-Type": "application/json", **({"X-Idempotency-Key": key} if key else {})}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    connection.wire = connection.sock  # an answer takes the socket away from it
    return connection


def answered(connection):
    with closing(connection), connection.getresponse() as answer:
        return answer.status, answer.read()


def hang_up(connection):
    wire = getattr(connection, "wire", None)
    if wire is not None and wire.fileno() >= 0:
        with suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)
        wire.close()
    connection.close()


def is_free(cluster, mark, **more):
    """A request of either place is served."""
    return all(answered(ask(cluster.connect(n), f"{mark} free {n}", **more))[0] == 200 for n in (0, 1))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("DELETE", "/v1/chat/completions/chatcmpl-{}", None), ("DELETE", "/api/chat", {"request_id": "{}"})],
    ids=["openai", "ollama"],
)
def test_a_cancel_reaches_the_other_process(cluster, kind, backend, method, path, body, number):
    """The stream ends properly there, and the backend is left."""
    both = cluster(kind, OPEN)
    mark = f"cancel-{kind}-{len(path)}-{number}"
    backend.on(mark, Reply(["one "], hangs=True))
    stream = ask(both.connect(number), mark, stream=True)
    response = stream.getresponse()
    call = backend.wait_for_call(mark)
    request_id = response.getheader("X-Request-Id")
    other = both.connect(1 - number)
    told = None if body is None else json.dumps(body).replace("{}", request_id)
    other.request(method, path.replace("{}", request_id), told, {"Content-Type": "application/json"})
    status, said = answered(other)
    assert status == 200 and b"active" not in said
    text = response.read()
    assert b'"finish_reason":"stop"' in text and text.endswith(b"data: [DONE]\n\n")
    assert call.hung_up.wait(PATIENCE_S)
    eventually(lambda: b'"active":false' in _deleted(both, request_id))


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/responses/{}/cancel"), ("DELETE", "/v1/responses/{}")],
    ids=["cancel", "delete"],
)
def test_a_response_is_cancelled_by_the_other_process(cluster, kind, backend, method, path):
    """It is known there while it is made, and not afterwards."""
    both = cluster(kind, OPEN)
    mark = f"response-{kind}-{method}"
    backend.on(mark, Reply(["one "], hangs=True))
    running = both.connect(0)
    asked = {"model": "ann", "input": mark, "stream": True}
    running.request("POST", "/v1/responses", json.dumps(asked), {"Content-Type": "application/json"})
    response = running.getresponse()
    call = backend.wait_for_call(mark)
    path = path.format(f"resp_{response.getheader('X-Request-Id')}")
    assert _status(both, method, path) == 200
    assert call.hung_up.wait(PATIENCE_S) and b"response.completed" in response.read()
    eventually(lambda: _status(both, method, path) == 404)


def _status(both, method, path):
    connection = both.connect(1)
    connection.request(method, path)
    return answered(connection)[0]


def test_an_application_that_was_made_before_its_workers(cluster, backend):
    """Its workers find each other all the same."""
    both = cluster("preloaded", OPEN)
    backend.on("preloaded", Reply(["one "], hangs=True))
    response = ask(both.connect(0), "preloaded", stream=True).getresponse()
    assert b"active" not in _deleted(both, response.getheader("X-Request-Id"))
    assert response.read().endswith(b"data: [DONE]\n\n")


def _deleted(both, request_id, number=1):
    connection = both.connect(number)
    connection.request("DELETE", f"/v1/chat/completions/{request_id}")
    return answered(connection)[1].replace(b" ", b"")


def test_a_retry_replaces_its_orphan_in_the_other_process(cluster, kind, backend):
    """At a limit of one it takes the slot of the request that it replaces."""
    both = cluster(kind, GATED)
    mark = f"orphan-{kind}"
    backend.on(mark, Reply(["one "], hangs=True))
    orphan = ask(both.connect(0), mark, key=f"again-{kind}")
    backend.wait_for_call(mark)
    status, body = answered(ask(both.connect(1), f"second try {kind}", key=f"again-{kind}"))
    assert status == 200 and b"second try" in body
    assert answered(orphan)[0] == 499


@pytest.mark.parametrize(
    ("arguments", "user"),
    [(GATED, "ann"), (OUTGOING, "ann"), (OPEN, "narrow")],
    ids=["requests", "calls", "endpoint"],
)
def test_a_gate_holds_over_both(cluster, kind, backend, arguments, user):
    """The second is served when the first has ended, and not before."""
    both = cluster(kind, arguments)
    first, second = f"first-{kind}-{user}-{len(arguments)}", f"second-{kind}-{user}-{len(arguments)}"
    backend.on(first, Reply(["x"], hangs=True))
    holder = ask(both.connect(0), first, user=user)
    backend.wait_for_call(first)
    waiter = ask(both.connect(1), second, user=user)
    eventually(lambda: both.waiting() == 1)
    assert backend.calls(second) == []
    hang_up(holder)
    assert answered(waiter)[0] == 200 and len(backend.calls(second)) == 1


@pytest.mark.parametrize("arguments", [OPEN, GATED], ids=["calls", "requests"])
def test_models_of_one_machine_go_in_rows_over_both(cluster, kind, backend, arguments):
    """Two names, two models, eight requests in turn: never two models at once, at most three loads."""
    both, go = cluster(kind, arguments), threading.Event()
    mark = f"desk-{kind}-{len(arguments)}-{arguments[1]}"
    backend.on(mark, Reply(["x"], after=go))
    asked = []
    for number in range(8):
        user = ("small", "big")[number % 2]
        asked.append(ask(both.connect(number // 2 % 2), mark, user=user))
        backend.wait_for_call(mark)
        eventually(lambda number=number: len(backend.calls(mark)) + both.waiting() == number + 1)
    assert {call.body["model"] for call in backend.calls(mark)} == {"small"}
    go.set()
    assert [answered(connection)[0] for connection in asked] == [200] * 8
    rows = ["".join(row) for _, row in groupby(call.body["model"][0] for call in backend.calls(mark))]
    assert len(rows) <= 3 and max(map(len, rows)) <= 4
    assert "".join(sorted("".join(rows))) == "bbbbssss"


def test_a_killed_process_keeps_no_model_on_the_machine(cluster, kind, backend):
    """Who waits for another model is served within the lease."""
    both = cluster(kind, OPEN, "killed desk")
    first, second = f"desk killed {kind}", f"desk survivor {kind}"
    backend.on(first, Reply(["x"], hangs=True))
    ask(both.connect(0), first, user="small")
    backend.wait_for_call(first)
    waiter = ask(both.connect(1), second, user="big")
    eventually(lambda: both.waiting() == 1)
    assert backend.calls(second) == []
    both.kill(0)
    assert answered(waiter)[0] == 200 and len(backend.calls(second)) == 1


def test_a_lock_holds_over_both(cluster, kind, backend):
    """Who meets it gets the empty answer of a workflow that stopped."""
    both = cluster(kind, OPEN)
    first, second = f"locked-{kind}", f"refused-{kind}"
    backend.on(first, Reply(["x"], hangs=True))
    holder = ask(both.connect(0), first, user="locked")
    backend.wait_for_call(first)
    assert answered(ask(both.connect(1), second, user="locked"))[0] == 200
    assert backend.calls(second) == []
    hang_up(holder)
    eventually(
        lambda: answered(ask(both.connect(1), second, user="locked"))[0] == 200 and backend.calls(second)
    )


def test_a_killed_process_frees_its_slot_and_its_lock(cluster, kind, backend):
    """The one that waits in the other process is served within the lease."""
    both = cluster(kind, GATED, "killed")
    first, second = f"killed-{kind}", f"survivor-{kind}"
    backend.on(first, Reply(["x"], hangs=True))
    ask(both.connect(0), first, user="locked")
    backend.wait_for_call(first)
    waiter = ask(both.connect(1), second, user="locked")
    both.kill(0)
    assert answered(waiter)[0] == 200 and len(backend.calls(second)) == 1


def test_a_redis_that_dies(cluster, backend):
    """Both go on alone, each with its own limit and one warning; when it is back, empty, they are one again."""
    both = cluster("machines", GATED, "dies")
    for mark in ("before", "alone"):
        backend.on(f"redis {mark}", Reply(["one ", "two "], hangs=True))
    first = ask(both.connect(0), "redis before", stream=True).getresponse()
    before = backend.wait_for_call("redis before")
    both.redis.stop()
    second = ask(both.connect(1), "redis alone", stream=True).getresponse()
    backend.wait_for_call("redis alone")
    eventually(lambda: all("continues alone" in server.log for server in both.servers))
    both.redis.start()
    eventually(lambda: all("works together with the others again" in server.log for server in both.servers))
    assert not before.hung_up.is_set()
    waiter = ask(both.connect(0), "redis waits")
    for number, running in ((1, first), (0, second)):
        assert b"active" not in _deleted(both, running.getheader("X-Request-Id"), number)
        assert running.read().endswith(b"data: [DONE]\n\n")
    assert answered(waiter)[0] == 200
    assert [server.log.count("continues alone") for server in both.servers] == [1, 1]
    assert "Traceback" not in both.log


def test_nothing_is_left_held(cluster, kind):
    """After all of the above either process serves at once."""
    assert is_free(cluster(kind, GATED), f"{kind} gate")
    assert is_free(cluster(kind, OPEN), f"{kind} locks", user="locked")
    assert "continues alone" not in cluster(kind, GATED).log + cluster(kind, OPEN).log


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_behind_the_balancer_that_ships(cluster, backend, tmp_path):
    """Streams pass word by word; a server that is killed is left out, and a request is never sent twice."""
    both = cluster("machines", OPEN, "balanced")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(["nginx", "-c", str(nginx_file(tmp_path, port, both.servers))])
    try:
        eventually(lambda: is_open(port))
        for number in range(4):
            assert answered(ask(balanced(port), f"balanced {number}"))[0] == 200
            assert len(backend.calls(f"balanced {number}")) == 1
        eventually(lambda: all("POST /v1/chat/completions: 200" in server.log for server in both.servers))
        backend.on("through nginx", Reply(["one "], hangs=True))
        first = ask(balanced(port), "through nginx", stream=True).getresponse()
        request_id = first.getheader("X-Request-Id")
        for number in range(2):  # one of them reaches the other server
            connection = balanced(port)
            connection.request("DELETE", f"/v1/chat/completions/{request_id}")
            assert answered(connection)[0] == 200, number
        assert first.read().endswith(b"data: [DONE]\n\n")
        both.kill(0)
        for number in range(3):
            assert answered(ask(balanced(port), f"one left {number}"))[0] == 200
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def balanced(port):
    return opened(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S))


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def nginx_file(folder, port, servers):
    """The file that ships, with the ports of this test."""
    text = (HOUSE / "deploy" / "nginx-cluster.conf").read_text("utf-8")
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    for number, server in enumerate(servers, 1):
        text = text.replace(f"headrace-{number}:5000", f"127.0.0.1:{server.port}")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    start = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\n"
    file = folder / "nginx.conf"
    file.write_text(f"{start}http {{\naccess_log off;\n{folders}\n{text}\n}}\n", "utf-8")
    return file


def test_they_choose_the_same_server_for_a_chat(cluster, backend):
    """Of three, for an endpoint with more addresses (prompt-reuse.md 7): each worker by itself, without a word
    to the other one."""
    places, others = cluster("workers", OPEN), [FakeBackend(), FakeBackend()]
    file = places.server.public / "Configs" / "Endpoints" / "spread" / "Model.json"
    write(file, json.loads(file.read_text("utf-8")) | {"moreEndpoints": [other.url for other in others]})
    servers, chosen = [backend, *others], []
    try:
        for chat in range(20):
            mark = f"to be spread, chat {chat}."
            for worker in (0, 1):
                assert answered(ask(places.connect(worker), mark, user="spread"))[0] == 200
            counts = [len(server.calls(mark)) for server in servers]
            assert sum(counts) == 2
            chosen.append(counts)
    finally:
        for other in others:
            other.close()
    assert sum(2 in counts for counts in chosen) >= 0.95 * len(chosen)
    assert all(any(counts[number] for counts in chosen) for number in range(3))

"""The same promises under every server: heartbeats, hang-ups, cancellation, the gate, an orderly end.

waitress as `server.py` starts it, and gunicorn with gevent workers (frontend-api.md 2, 11, 13, 15).
"""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from Middleware.services.locking_service import LockingService
from tests.e2e.conftest import HOUSE, Gunicorn, GunicornOfTheHouse, Server, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

"""Within this time a hang-up must have reached the backend; the machine may be slow, so tests allow some more."""
USERS = {
    "ann": {
        "workflows": {
            "Chat": [{"title": "Answer", "type": "Standard", "endpointName": "Model", "lastMessagesToSendInsteadOfPrompt": 5}],
        }
    },
    "after": {
        "workflows": {
            "Chat": [
                {"type": "StaticResponse", "content": "done.", "returnToUser": True},
                {"type": "Standard", "endpointName": "Model", "prompt": "afterwards {chat_user_prompt_last_one}"},
            ]
        }
    },
}  # fmt: skip


SERVERS = {"waitress": Server, "gunicorn": Gunicorn, "gunicorn of the house": GunicornOfTheHouse}


@pytest.fixture(scope="module", params=SERVERS)
def start(request, backend, tmp_path_factory):
    """`start(*arguments)` gives a server of this kind."""
    servers = []

    def started(*arguments, before=lambda public: None):
        public = tmp_path_factory.mktemp("public")
        write_tree(public, USERS, backend.url)
        before(public)
        servers.append(SERVERS[request.param](public, USERS, arguments))
        return servers[-1]

    yield started
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def server(start):
    return start("--concurrency", "0")


@pytest.fixture(scope="module")
def gated(start):
    return start("--concurrency", "1")


def ask(mark, *, user="ann"):
    return {"model": user, "messages": [{"role": "user", "content": mark}]}


def post(server, path, body, headers=None):
    """An open connection with the request sent: closing it is the hang-up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request(
        "POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
    )
    connection.wire = connection.sock  # an answer takes the socket away from it
    return connection


def hang_up(connection):
    connection.wire.shutdown(socket.SHUT_RDWR)
    connection.close()


def left_the_backend(call):
    """Whether the backend's connection is closed, which hangs by itself longer than a test waits."""
    return call.hung_up.wait(PATIENCE_S)


def read_until(response, text):
    """The first line that holds `text`: signs of life may come before it at any time."""
    line = response.readline()
    while line and text not in line:
        line = response.readline()
    return line


class TestHeartbeats:
    @pytest.mark.parametrize(
        ("path", "is_beat"),
        [("/v1/chat/completions", lambda unit: unit == b":"), ("/api/chat", lambda unit: b'"content":""' in unit and b'"done":false' in unit)],
        ids=["sse", "lines"],
    )  # fmt: skip
    def test_a_silent_backend(self, server, backend, path, is_beat):
        """One a second, each a valid unit; then the text and one end mark."""
        mark = f"silent-{server.port}-{path.count('v')}"
        backend.on(mark, Reply(["late "], gap_s=0.0))
        backend.on(mark, Reply(["", "late "], gap_s=3.3))
        status, body = server.post(path, {**ask(mark), "stream": True})
        units = [unit for unit in body.split(b"\n\n" if "v1" in path else b"\n") if unit]
        assert status == 200 and sum(map(is_beat, units)) >= 2
        assert b"late" in body
        assert units[-1] == b"data: [DONE]" if "v1" in path else b'"done":true' in units[-1]


class TestHangUps:
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_while_the_backend_reads_the_prompt(self, server, backend, stream):
        """No client, no generation: its connection is closed at once."""
        mark = f"prefill-{server.port}-{stream}"
        backend.on(mark, Reply([], hangs=True))
        connection = post(server, "/v1/chat/completions", {**ask(mark), "stream": stream})
        call = backend.wait_for_call(mark)
        hang_up(connection)
        assert left_the_backend(call)

    def test_in_mid_stream(self, server, backend):
        """The same between two tokens."""
        mark = f"middle-{server.port}"
        backend.on(mark, Reply(["one "] * 3, hangs=True))
        connection = post(server, "/api/chat", {**ask(mark), "stream": True})
        response = connection.getresponse()
        assert read_until(response, b"one")
        hang_up(connection)
        assert left_the_backend(backend.wait_for_call(mark))

    @pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this kernel does not tell")
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    @pytest.mark.parametrize(
        "unread", [b"\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3], ids=["crlf", "more"]
    )
    def test_behind_unread_bytes(self, server, backend, unread, stream):
        """A stray line end, or further requests, stand before the end of the connection."""
        mark = f"unread-{server.port}-{len(unread)}-{stream}"
        backend.on(mark, Reply([], hangs=True))
        connection = post(server, "/v1/chat/completions", {**ask(mark), "stream": stream})
        call = backend.wait_for_call(mark)
        connection.wire.sendall(unread)
        time.sleep(0.2)
        connection.close()
        assert left_the_backend(call)

    def test_while_it_waits_for_its_turn(self, gated, backend):
        """It leaves the queue: no node of it ever runs."""
        first, second = f"first-{gated.port}", f"second-{gated.port}"
        backend.on(first, Reply(["x"], hangs=True))
        holder = post(gated, "/v1/chat/completions", {**ask(first), "stream": False})
        backend.wait_for_call(first)
        waiter = post(gated, "/v1/chat/completions", {**ask(second), "stream": True})
        wait_until(lambda: b"headrace_queue_length 1.0" in gated.request("GET", "/metrics")[1])
        hang_up(waiter)
        wait_until(lambda: b"headrace_queue_length 0.0" in gated.request("GET", "/metrics")[1])
        hang_up(holder)
        status, body = gated.post("/v1/chat/completions", ask("free again"))
        assert status == 200 and b"free again" in body
        assert backend.calls(second) == []

    def test_it_is_no_error(self, server, backend):
        """The log of a server whose clients left holds no traceback."""
        mark = f"quiet-{server.port}"
        backend.on(mark, Reply(["one "], hangs=True))
        connection = post(server, "/v1/chat/completions", {**ask(mark), "stream": True})
        call = backend.wait_for_call(mark)
        hang_up(connection)
        assert call.hung_up.wait(PATIENCE_S)
        assert "Traceback" not in server.log

    def test_after_the_end_mark_nothing_is_cancelled(self, server, backend):
        """That is the normal end."""
        mark = f"rest-{server.port}"
        backend.on(mark, Reply(["a ", "b "], gap_s=0.3))
        status, body = server.post("/v1/chat/completions", {**ask(mark, user="after"), "stream": True})
        call = backend.wait_for_call(mark)
        assert status == 200 and b"done." in body and body.endswith(b"data: [DONE]\n\n")
        assert not call.hung_up.wait(1)


class TestPipelining:
    """A client may send its next request before it has the answer to the one before."""

    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_a_request_behind_an_answer_is_served(self, server, backend, stream):
        """Behind a stream, too, whose last chunk tells its end."""
        marks = [f"pipe-{number}-{server.port}-{stream}" for number in range(2)]
        for mark in marks:
            backend.on(mark, Reply([f"[{mark}]"]))
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"".join(as_bytes({**ask(mark), "stream": stream}) for mark in marks))
            said = b""
            while f"[{marks[1]}]".encode() not in said and (part := connection.recv(65536)):
                said += part
        assert said.count(b"HTTP/1.1 200 OK") == 2 and f"[{marks[0]}]".encode() in said

    @pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this kernel does not tell")
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    @pytest.mark.parametrize("running", [0, 1], ids=["first", "second"])
    def test_a_client_that_leaves(self, server, backend, stream, running):
        """Whichever of the two is being answered."""
        marks = [f"leave-{running}{number}-{server.port}-{stream}" for number in range(2)]
        for number, mark in enumerate(marks):
            backend.on(mark, Reply(["a"], hangs=number >= running))
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"".join(as_bytes({**ask(mark), "stream": stream}) for mark in marks))
            call = backend.wait_for_call(marks[running])
        assert left_the_backend(call)


def as_bytes(body):
    """A POST of a chat, as it goes over the wire."""
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


class TestCancel:
    def test_a_stream_ends_properly(self, server, backend):
        """DELETE by the id of the header: finish chunk and end mark, and the backend is left."""
        mark = f"cancel-{server.port}"
        backend.on(mark, Reply(["one "], hangs=True))
        connection = post(server, "/v1/chat/completions", {**ask(mark), "stream": True})
        response = connection.getresponse()
        status, body = server.request(
            "DELETE", f"/v1/chat/completions/chatcmpl-{response.getheader('X-Request-Id')}"
        )
        assert status == 200
        assert b"active" not in body, server.log[-3000:]
        text = response.read()
        assert b'"finish_reason":"stop"' in text and text.endswith(b"data: [DONE]\n\n")
        assert backend.wait_for_call(mark).hung_up.wait(PATIENCE_S)
        connection.close()

    def test_a_retry_takes_the_place_of_its_orphan(self, gated, backend):
        """At a limit of one the retry does not wait behind the request that it replaces."""
        mark, key = f"orphan-{gated.port}", {"X-Idempotency-Key": "again"}
        backend.on(mark, Reply(["one "], hangs=True))
        orphan = post(gated, "/v1/chat/completions", {**ask(mark), "stream": False}, key)
        backend.wait_for_call(mark)
        retry = post(gated, "/v1/chat/completions", {**ask("second try"), "stream": False}, key)
        assert b"second try" in retry.getresponse().read()
        assert orphan.getresponse().status == 499
        orphan.close()
        retry.close()


def test_lists_do_not_wait_for_the_gate(gated, backend):
    """Nor do other routes."""
    mark = f"busy-{gated.port}"
    backend.on(mark, Reply(["x"], hangs=True))
    holder = post(gated, "/v1/chat/completions", {**ask(mark), "stream": True})
    backend.wait_for_call(mark)
    assert gated.request("GET", "/v1/models")[0] == 200
    assert gated.request("POST", "/api/show", {"model": "ann"})[0] == 200
    hang_up(holder)


def test_waiting_requests_leave_threads_for_others(launch, backend):
    """Of seventeen threads one may hold a generation request: another is refused at once, and the rest is answered."""
    server = launch(USERS, "--threads", "17", "--concurrency", "1")
    mark = f"held-{server.port}"
    backend.on(mark, Reply(["x"], hangs=True))
    holder = post(server, "/v1/chat/completions", {**ask(mark), "stream": False})
    call = backend.wait_for_call(mark)
    late = post(server, "/api/chat", {**ask(mark), "stream": True})
    refused = late.getresponse()
    assert b"busy" in refused.read()
    late.close()
    assert (refused.status, refused.getheader("Retry-After")) == (503, "5")
    assert server.request("GET", "/health")[0] == 200
    assert server.request("DELETE", "/v1/chat/completions/nobody")[0] == 200
    hang_up(holder)
    assert call.hung_up.wait(PATIENCE_S)
    assert _soon_served(server)


def _soon_served(server):
    """The thread is free as soon as the request that was left has ended."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if server.post("/v1/chat/completions", ask("free again"))[0] == 200:
            return True
    return False


class TestShutdown:
    @pytest.fixture
    def own(self, start):
        return start("--concurrency", "0")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "sigint"])
    def test_a_signal_cancels_what_is_unanswered(self, own, backend, number):
        """The stream ends properly; exit status 0."""
        mark = f"stop-{own.port}"
        backend.on(mark, Reply(["one "], hangs=True))
        connection, response = own.open_stream("/v1/chat/completions", ask(mark))
        assert read_until(response, b"role")
        own.process.send_signal(number)
        assert response.read().endswith(b"data: [DONE]\n\n")
        assert own.process.wait(PATIENCE_S) == 0
        connection.close()

    def test_nodes_after_an_answer_may_end(self, own, backend):
        """They have half a minute."""
        mark = f"late-{own.port}"
        backend.on(mark, Reply(["a ", "b ", "c "], gap_s=1.2))
        own.post("/v1/chat/completions", ask(mark, user="after"))
        call = backend.wait_for_call(mark)
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(PATIENCE_S) == 0
        assert not call.hung_up.is_set()

    def test_a_second_signal_ends_the_wait(self, launch, backend):
        """At once, under `server.py`."""
        own = launch(USERS, "--concurrency", "0")
        mark = f"now-{own.port}"
        backend.on(mark, Reply(["a "], hangs=True))
        own.post("/v1/chat/completions", ask(mark, user="after"))
        backend.wait_for_call(mark)
        own.process.send_signal(signal.SIGTERM)
        own.wait_for_log("stopping")
        own.process.send_signal(signal.SIGINT)
        assert own.process.wait(PATIENCE_S) == 0


def leave_behind(public):
    """What a killed server leaves: a lock, a half-written file; and a node with a slip of the pen."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    database = public / "SqlLiteDBs" / "WilmerDb.ann.sqlite"
    LockingService(database, "gone", renew_every_s=None).acquire("nightly", "run-1")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE Instances SET Pid = ?", (gone.pid,))
    half = public / "DiscussionIds" / "d1" / ".memories.json.1.tmp"
    half.parent.mkdir(parents=True)
    half.touch()
    os.utime(half, (0, 0))
    node = {"type": "Standard", "endpointName": "Model", "retrunToUser": True}
    write(public / "Configs" / "Workflows" / "ann" / "Chat.json", [node])


class TestStart:
    def test_its_duties_are_done(self, start):
        """On every server: what a killed one left is gone before the first answer, and slips are told of."""
        server = start("--concurrency", "0", before=leave_behind)
        with closing(sqlite3.connect(server.public / "SqlLiteDBs" / "WilmerDb.ann.sqlite")) as connection:
            assert connection.execute("SELECT * FROM WorkflowLocks").fetchall() == []
        assert list(server.public.rglob(".*.tmp")) == []
        assert server.wait_for_log("did you mean")

    def test_the_ready_line(self, start):
        """Only `server.py` prints one; both answer."""
        server = start("--concurrency", "2")
        assert server.request("GET", "/health")[0] == 200
        if "gunicorn" not in server.log:
            assert (
                f"listening on {server.url} users=ann,after concurrency=2/request" in server.log.splitlines()
            )

    def test_a_port_that_is_taken(self, launch):
        """Exit status 1 and a line that says so."""
        server = launch(USERS)
        taken = subprocess.run(
            [sys.executable, "server.py", "--port", str(server.port)],
            cwd=HOUSE,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        assert taken.returncode == 1 and b"cannot listen" in taken.stderr

    @pytest.mark.parametrize("name", ["run_waitress.py", "run_eventlet.py"])
    def test_the_old_names(self, name):
        """Are the same program."""
        shown = subprocess.run(
            [sys.executable, name, "--help"], cwd=HOUSE, capture_output=True, timeout=PATIENCE_S
        )
        assert shown.returncode == 0 and b"--concurrency-level" in shown.stdout

"""The console's stream of events from a real server, behind waitress and behind gunicorn with gevent."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.e2e.conftest import Gunicorn, Server, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

LOOKS = {"X-Headrace-Console": "1"}
WAIT_S = PATIENCE_S
READERS = 8


class Reader:
    """A raw client of the events, read in a thread of its own. `events`: (name, value); `body`: of a refusal."""

    def __init__(self, server, after=0):
        self._socket = socket.create_connection(("127.0.0.1", server.port), 60)
        head = f"GET /console/api/events?after={after} HTTP/1.1\r\nHost: localhost\r\nX-Headrace-Console: 1\r\n\r\n"
        self._socket.sendall(head.encode())
        self._lines = self._socket.makefile("rb")
        self.status = int(self._lines.readline().split()[1])
        self.headers = {}
        while line := self._lines.readline().strip():
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self.events, self.ended = [], threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self.status == 200:
            self._thread.start()
        else:
            self.body = json.loads(self._lines.read(int(self.headers["content-length"])))

    def _read(self):
        """Lines between the events say how long each piece is."""
        event = ""
        try:
            for line in self._lines:
                name, _, value = line.decode().strip("\r\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    self.events.append((event, json.loads(value)))
        except OSError:  # the server cut the connection
            self.events.append(("cut", None))
        self.ended.set()

    def states(self, run_id=None):
        runs = [value for event, value in list(self.events) if event == "run"]
        return [run["state"] for run in runs if run_id in (None, run["id"])]

    def hang_up(self):
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self.status == 200:
            self._thread.join(WAIT_S)
        self._lines.close()
        self._socket.close()


@pytest.fixture
def read():
    """`read(server)`: a Reader, which hangs up at the end."""
    made = []

    def read(server, after=0):
        made.append(Reader(server, after))
        return made[-1]

    yield read
    for reader in made:
        reader.hang_up()


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gevent"])
def start(request, backend, tmp_path_factory):
    """`start(*arguments)`: a server that is stopped at the end."""
    made = []

    def start(*arguments):
        public = tmp_path_factory.mktemp("public")
        write_tree(public, {"ann": {}}, backend.url)
        made.append(request.param(public, {"ann": {}}, arguments))
        return made[-1]

    yield start
    for server in made:
        server.stop()


@pytest.fixture(scope="module")
def server(start):
    return start()


def until(claim):
    end = time.monotonic() + WAIT_S
    while not claim() and time.monotonic() < end:
        time.sleep(0.02)
    return claim()


def ask(text, stream=True):
    return {"model": "ann", "stream": stream, "messages": [{"role": "user", "content": text}]}


def take_all_places(server, read):
    """Eight readers that are let in: the place of one that has just hung up is still taken for a moment."""
    made = []

    def all_taken():
        if len(made) < READERS:
            made.append(read(server))
        if made[-1].status != 200:
            made.pop()
        return len(made) == READERS

    assert until(all_taken)
    return made


def look(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, f"/console/api/{path}", headers=LOOKS)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_request_as_a_page_sees_it(server, backend, read):
    """It answers, then it is done; what the list says of it is what was told last."""
    backend.on("e-slow", Reply(["one ", "two ", "three ", "four"], gap_s=0.4))
    reader = read(server)
    server.post("/v1/chat/completions", ask("e-slow"))
    assert until(lambda: reader.states()[-1:] == ["done"])
    assert "answering" in reader.states()
    told = [value for event, value in reader.events if event == "run"][-1]
    listed = look(server, "runs")[1]["runs"][0]
    assert told == listed and (told["user"], told["front"]) == ("ann", "OpenAI chat")
    assert reader.headers["content-type"] == "text/event-stream"


def test_a_model_that_thinks(backend, launch, read):
    """The page sees it while it lasts, in the list and in the run itself, and still when it was broken off."""
    thinks = {"Model": {"removeThinking": True, "thinkTagNames": ["think"]}}
    server = launch({"ann": {"endpoints": thinks}})
    backend.on("e-thinks", Reply(["<think>hm", ", let me see"], hangs=True))
    reader = read(server)
    connection, answer = server.open_stream("/v1/chat/completions", ask("e-thinks"))
    run_id = answer.getheader("X-Request-Id")

    def last_parts():
        runs = [value for event, value in list(reader.events) if event == "run"]
        return [(run["state"], run["shape"][-1][0]) for run in runs if run["id"] == run_id and run["shape"]]

    assert until(lambda: last_parts()[-1:] == [("running", "think")])
    shown = look(server, f"runs/{run_id}")[1]
    assert (shown["shape"][-1][0], shown["first_s"]) == ("think", None)
    answer.close()
    connection.close()
    assert until(lambda: last_parts()[-1:] == [("cancelled", "think")])


def test_a_run_that_is_cancelled_from_the_page(server, backend):
    """The backend is let go at once, and the run says who it was."""
    backend.on("e-hangs", Reply(["x"], hangs=True))
    connection, answer = server.open_stream("/v1/chat/completions", ask("e-hangs"))
    run_id = answer.getheader("X-Request-Id")
    assert look(server, f"runs/{run_id}/cancel", "POST") == (200, {"status": "cancelled", "active": True})
    call = backend.calls("e-hangs")[-1]
    assert call.hung_up.wait(WAIT_S)
    assert until(lambda: look(server, f"runs/{run_id}")[1]["state"] == "cancelled")
    assert look(server, f"runs/{run_id}")[1]["cancelled_by"] == "the console"
    answer.close()
    connection.close()


def test_readers_who_hang_up_free_their_places(server, read):
    """The ninth is refused until one of the eight has gone."""
    readers = take_all_places(server, read)
    ninth = read(server)
    readers[0].hang_up()
    later = []
    assert until(lambda: 200 in later or later.append(read(server).status))
    assert (ninth.status, ninth.body) == (503, {"error": "the console is open in 8 places already"})


def test_readers_hold_no_slot(start, backend, read):
    """With one slot and all places taken a request is answered, and a stop waits for no reader."""
    server = start("--concurrency", "1")
    readers = [read(server) for _ in range(READERS)]
    status, _ = server.post("/v1/chat/completions", ask("e-one", stream=False))
    assert status == 200
    assert until(lambda: all("done" in reader.states() for reader in readers))
    server.process.terminate()
    assert all(reader.ended.wait(PATIENCE_S) for reader in readers)
    assert server.process.wait(PATIENCE_S) == 0


def test_private_users_leave_no_text(backend, launch, read):
    """Neither by their key nor by their settings: no word of prompt, answer, title or error in any answer."""
    marker = "zirkonium"
    node = {
        "title": "Answer",
        "type": "Standard",
        "endpointName": "Model",
        "prompt": "{chat_user_prompt_last_one}",
    }
    server = launch({
        "ann": {"user": {"encryptUsingApiKey": True}, "workflows": {"Chat": [node]}},
        "bea": {"user": {"redactLogOutput": True}, "workflows": {"Chat": [node]}},
    })  # fmt: skip
    backend.on(f"{marker}-ok", Reply([f"{marker} ", "answers"]))
    backend.on(f"{marker}-bad", Reply([f"{marker} error"], status=500))
    for user in ("ann", "bea"):
        for kind in ("ok", "bad"):
            for stream in (False, True):
                send(server, user, f"### Task: a title for {marker}-{kind}", stream)
    assert until(lambda: {run["state"] for run in look(server, "runs")[1]["runs"]} == {"done", "failed"})
    runs = look(server, "runs")[1]["runs"]
    answers = [look(server, "runs")[1], look(server, f"runs?text={marker}")[1], look(server, "numbers")[1]]
    answers += [look(server, f"runs/{run['id']}")[1] for run in runs]
    refs = ("asked", "n0.output", "n0.thoughts.0", "n0.c0.body", "n0.c0.raw", "n0.c0.cleaned")
    answers += [look(server, f"runs/{run['id']}/texts/{ref}")[1] for run in runs for ref in refs]
    answers += [
        look(server, f"runs/{run['id']}/nodes/0/calls/0/{end}")[1]
        for run in runs
        for end in ("curl", "cleaning")
    ]
    reader = read(server)
    assert until(lambda: len(reader.states()) == len(runs))
    assert len(runs) == 8 and {run["private"] for run in runs} == {True}
    assert marker not in json.dumps(answers).lower() and marker not in json.dumps(reader.events).lower()


def send(server, user, text, stream):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        body = json.dumps({"model": user, "stream": stream, "messages": [{"role": "user", "content": text}]})
        key = {"Authorization": "Bearer a-key-of-ann"} if user == "ann" else {}
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", **key})
        connection.getresponse().read()
    finally:
        connection.close()

"""The console of real servers: waitress, gunicorn, several workers (console.md 2.1, 4, 7)."""

from __future__ import annotations

import http.client
import json
import re

import pytest

from tests.e2e.conftest import Gunicorn, GunicornOfTheHouse, Server, write_tree
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

SERVERS = {"waitress": Server, "gunicorn": Gunicorn, "gunicorn of the house": GunicornOfTheHouse}
ASKS = {"X-Headrace-Console": "1"}
STATE = "/console/api/state"


class TwoWorkers(Gunicorn):
    workers = 2


@pytest.fixture
def start(backend, tmp_path):
    """`start(kind, *arguments)` gives a server of one user."""
    servers = []

    def started(kind, *arguments):
        public = tmp_path / f"public{len(servers)}"
        write_tree(public, {"ann": {}}, backend.url)
        servers.append(kind(public, {"ann": {}}, arguments))
        return servers[-1]

    yield started
    for server in servers:
        server.stop()


def looked(server, path=STATE, **headers):
    """(status, headers, text) of a look."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={**ASKS, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode("utf-8")
    finally:
        connection.close()


@pytest.mark.parametrize("kind", SERVERS.values(), ids=SERVERS)
class TestEveryServer:
    def test_a_browser_of_this_machine_may_look_and_act(self, start, kind):
        """And one that a proxy speaks for may not: no server takes its header away."""
        server = start(kind)
        status, _, text = looked(server)
        assert (status, json.loads(text)["rights"]) == (200, ["look", "act"])
        for mark in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"):
            status, _, text = looked(server, **{mark: "203.0.113.9"})
            assert (status, json.loads(text)["need"]) == (403, "look"), mark

    def test_a_made_key_is_told_on_the_terminal_alone(self, start, kind):
        """It opens everything, and stands in no file."""
        server = start(kind, "--console", "edit", "--file-logging")
        assert server.wait_for_log("/console/#key=")
        [key] = re.findall(r"^console: \S*/console/#key=(\S+)$", server.log, re.M)
        status, _, text = looked(server, Authorization=f"Bearer {key}")
        assert (status, json.loads(text)["rights"]) == (200, ["look", "act", "save"])
        assert looked(server)[0] == 401
        question = {"model": "ann", "messages": [{"role": "user", "content": "Hi"}]}
        assert server.post("/v1/chat/completions", question)[0] == 200
        files = [file for file in server.public.rglob("*") if file.is_file() and file.name != "server.log"]
        assert any(file.name == "wilmerai.log" for file in files)
        assert not [file for file in files if key.encode() in file.read_bytes()]

    def test_a_part_of_a_path_hides_no_slash(self, start, kind):
        """The address as it came is looked at."""
        status, _, text = looked(start(kind), "/console/api/workflows/Workflows/ann%2FChat.json")
        assert (status, json.loads(text)) == (404, {"error": "no such file"})

    def test_a_browser_at_the_root_is_led_to_the_page(self, start, kind):
        """By an address that no server makes absolute."""
        navigates = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
        status, headers, _ = looked(start(kind), "/", **navigates)
        assert (status, headers["Location"]) == (303, "console/")

    def test_an_open_page_does_not_hold_the_end_up(self, start, kind):
        """Its stream ends when the server begins to stop; gunicorn would wait half a minute for it."""
        server = start(kind)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        connection.request("GET", "/console/api/events?after=0", headers=ASKS)
        stream = connection.getresponse()
        assert stream.status == 200 and stream.readline().startswith(b"id: ")
        server.process.terminate()
        assert b"event: state" in stream.read()
        assert server.process.wait(PATIENCE_S) == 0
        connection.close()

    def test_pages_that_are_open_leave_threads_for_others(self, start, kind):
        """As many as there may be; one more is told so."""
        server = start(kind)
        connections = [
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S) for _ in range(9)
        ]
        for connection in connections:
            connection.request("GET", "/console/api/events?after=0", headers=ASKS)
        answers = [connection.getresponse() for connection in connections]
        assert sorted(answer.status for answer in answers) == [200] * 8 + [503]
        assert looked(server)[0] == 200
        for connection in connections:
            connection.close()


def test_several_workers_have_none_unless_it_is_asked_for(start):
    """Each would show its own part of the runs."""
    server = start(TwoWorkers)
    assert looked(server, "/console/")[0] == 404
    assert server.wait_for_log("the console needs one process; gunicorn -w 1 -k gevent serves 1,000 streams")
    asked = start(TwoWorkers, "--console", "view", "--console-key", "k2345678")
    status, _, text = looked(asked, Authorization="Bearer k2345678")
    assert (status, json.loads(text)["processes"]) == (200, 2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--console-key", "short"), "at least 8 characters"),
        (("--console", "edit"), "needs --console-key with several processes"),
    ],
)
def test_several_workers_that_cannot_start(start, tmp_path, words, why):
    """The server ends and says why: it does not try for ever."""
    with pytest.raises(AssertionError, match="ended with"):
        start(TwoWorkers, *words)
    assert why in (tmp_path / "public0" / "server.log").read_text("utf-8")

"""Tools of real MCP servers through a real running Headrace: waitress with a loop, gunicorn with a helper."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import Gunicorn, Server, write, write_tree
from tests.patience import PATIENCE_S
from tests.workflows.tools.conftest import HttpToolServer, gone, seen, seen_in, started, stdio_file

pytestmark = pytest.mark.e2e

TRANSPORTS = ["stdio", "sse", "streamable_http"]
NAMES = {"stdio": "local", "sse": "events", "streamable_http": "web"}


def node(server, tool, **arguments):
    return [
        {"type": "MCPToolCall", "server": server, "tool": tool, "arguments": arguments, "timeout": PATIENCE_S}
    ]


USERS = {
    f"{name}-{tool}": {"workflows": {"Chat": node(name, tool, **arguments)}}
    for name in NAMES.values()
    for tool, arguments in [
        ("echo", {"text": "{chat_user_prompt_last_one}"}),
        ("slow", {"seconds": 1}),
        ("crash", {}),
        ("pid", {}),
    ]
} | {
    "local-forever": {"workflows": {"Chat": node("local", "slow", seconds=1000)}},
    "discreet": {"user": {"redactLogOutput": True}, "workflows": {"Chat": node("local", "crash")}},
}


@contextmanager
def serving(kind, backend, folder):
    """A Headrace and the tool servers behind HTTP; `trace` is what all tool servers write to."""
    trace, public = folder / "trace.txt", folder / "public"
    trace.touch()
    write_tree(public, USERS, backend.url)
    others = {transport: HttpToolServer(transport.replace("_", "-"), trace) for transport in TRANSPORTS[1:]}
    files = {"stdio": stdio_file(trace)} | {transport: other.file for transport, other in others.items()}
    for transport, file in files.items():
        write(public / "Configs" / "MCPServers" / f"{NAMES[transport]}.json", file)
    server = kind(public, USERS, ("--concurrency", "0", "--file-logging"))
    server.tool_servers, server.trace = others, trace
    try:
        yield server
    finally:
        server.stop()
        for process in others.values():
            process.kill()


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path_factory):
    with serving(request.param, backend, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def mortal(request, backend, tmp_path):
    """One that the test may stop."""
    with serving(request.param, backend, tmp_path) as server:
        yield server


def own(server):
    """Process ids of the tool servers that Headrace started."""
    return set(started(server.trace)) - {other.process.pid for other in server.tool_servers.values()}


def ask(server, user, text="hi"):
    body = {"model": user, "messages": [{"role": "user", "content": text}]}
    status, answer = server.request("POST", "/v1/chat/completions", body, timeout_s=PATIENCE_S)
    return status, json.loads(answer)


def said(server, user, text="hi"):
    status, answer = ask(server, user, text)
    assert status == 200, (answer, server.log)
    return answer["choices"][0]["message"]["content"]


@pytest.mark.parametrize("kind", TRANSPORTS)
class TestUnderLoad:
    def test_fifty_requests_at_once(self, server, kind):
        """Each has its own answer."""
        user = f"{NAMES[kind]}-echo"
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda number: said(server, user, f"text {number}"), range(50)))
        assert answers == [f"text {number}" for number in range(50)]

    def test_fifty_slow_calls_at_once(self, server, kind):
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: said(server, f"{NAMES[kind]}-slow"), range(50)))
        assert answers == ["waited"] * 50


class TestCrash:
    def test_of_a_stdio_server(self, server):
        """The request fails with a reason, the next one is answered."""
        status, answer = ask(server, "local-crash")
        assert status == 500 and "about to crash" in answer["error"]["message"]
        assert said(server, "local-echo", "again") == "again"
        assert "Traceback" not in said(server, "local-echo", "again")

    @pytest.mark.parametrize("kind", TRANSPORTS[1:])
    def test_of_an_http_server(self, server, kind):
        """Restarted between two requests: nobody notices."""
        user = f"{NAMES[kind]}-echo"
        assert said(server, user, "1") == "1"
        server.tool_servers[kind].kill()
        server.tool_servers[kind].start()
        assert said(server, user, "2") == "2"


class TestWords:
    """What a stdio server writes to its standard error."""

    def test_stand_in_its_log(self, server):
        """In the folder of the user whose session it is."""
        ask(server, "local-crash")
        assert seen_in(server.public / "logs" / "local-crash" / "mcp" / "local.log", "about to crash")

    def test_but_not_of_a_private_request(self, server):
        """Nor in any other file, nor in the answer."""
        status, answer = ask(server, "discreet")
        assert status == 500 and "about to crash" not in json.dumps(answer)
        folder = server.public / "logs" / "discreet"
        assert seen_in(folder / "mcp" / "local.log", "[Redacted] from here on")
        texts = [file.read_text() for file in folder.rglob("*.log")]
        assert texts and not any("about to crash" in text for text in texts)


class TestCancel:
    def test_a_hang_up_cancels_the_call(self, server):
        """At the tool server, too; its session goes on for others."""
        before, began = said(server, "local-pid"), server.trace.read_text().count("slow began")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        body = {"model": "local-forever", "messages": [{"role": "user", "content": "x"}], "stream": True}
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        assert seen(server.trace, "slow began", began + 1)
        connection.close()
        assert seen(server.trace, "slow cancelled")
        assert said(server, "local-pid") == before


class TestStop:
    def test_no_server_is_left_behind(self, mortal):
        """Those that Headrace started end with it."""
        said(mortal, "local-pid")
        pids = own(mortal)
        mortal.stop()
        assert pids and gone(pids)

    def test_nor_when_it_is_killed(self, mortal):
        said(mortal, "local-pid")
        mortal.process.kill()
        mortal.process.wait()
        assert own(mortal) and gone(own(mortal))

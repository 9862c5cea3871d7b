"""Tools of real MCP servers through a real running Headrace: waitress with a loop of its own, gunicorn with a helper."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Gunicorn, Server, write, write_tree
from tests.workflows.tools.conftest import HttpToolServer, gone, seen, started, stdio_file

pytestmark = pytest.mark.e2e

TRANSPORTS = ["stdio", "sse", "streamable_http"]
NAMES = {"stdio": "local", "sse": "events", "streamable_http": "web"}


def node(server, tool, **arguments):
    return [{"type": "MCPToolCall", "server": server, "tool": tool, "arguments": arguments, "timeout": 60}]


USERS = {
    f"{name}-{tool}": {"workflows": {"Chat": node(name, tool, **arguments)}}
    for name in NAMES.values()
    for tool, arguments in [
        ("echo", {"text": "{chat_user_prompt_last_one}"}),
        ("slow", {"seconds": 1}),
        ("crash", {}),
        ("pid", {}),
    ]
} | {"local-forever": {"workflows": {"Chat": node("local", "slow", seconds=1000)}}}


@pytest.fixture(params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path, trace):
    public = tmp_path / "public"
    write_tree(public, USERS, backend.url)
    http_servers = {kind: HttpToolServer(kind.replace("_", "-"), trace) for kind in TRANSPORTS[1:]}
    files = {"stdio": stdio_file(trace)} | {kind: started.file for kind, started in http_servers.items()}
    for kind, file in files.items():
        write(public / "Configs" / "MCPServers" / f"{NAMES[kind]}.json", file)
    server = request.param(public, USERS, ("--concurrency", "0"))
    server.tool_servers = http_servers
    yield server
    server.stop()
    for process in http_servers.values():
        process.kill()


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.txt"
    path.touch()
    return path


def ask(server, user, text="hi"):
    body = {"model": user, "messages": [{"role": "user", "content": text}]}
    status, answer = server.request("POST", "/v1/chat/completions", body, timeout_s=100)
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

    def test_fifty_slow_calls_share_one_session(self, server, kind, trace):
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


class TestCancel:
    def test_a_hang_up_cancels_the_call(self, server, trace):
        """At the tool server, too; its session goes on for others."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = {"model": "local-forever", "messages": [{"role": "user", "content": "x"}], "stream": True}
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        assert seen(trace, "slow began")
        connection.close()
        assert seen(trace, "slow cancelled")


class TestStop:
    def test_no_server_is_left_behind(self, server, trace):
        """Those that Headrace started end with it, also while they work."""
        said(server, "local-pid")
        said(server, "local-echo")
        others = {process.process.pid for process in server.tool_servers.values()}
        own = set(started(trace)) - others
        server.stop()
        assert own and gone(own)

    def test_nor_when_it_is_killed(self, server, trace):
        said(server, "local-pid")
        others = {process.process.pid for process in server.tool_servers.values()}
        server.process.kill()
        server.process.wait()
        assert gone(set(started(trace)) - others)

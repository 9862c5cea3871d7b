"""Agents whose client goes, or whose tool takes too long: what they asked ends, and nothing is left. agents.md 11, row 4."""

from __future__ import annotations

import itertools
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.agent_backend import AgentBackend, Step
from tests.e2e.conftest import GunicornOfTheHouse, Server, write, write_tree
from tests.patience import PATIENCE_S, wait_until
from tests.workflows.tools.conftest import stdio_file

ANY = {"type": "object", "properties": {}}
SCRIPT = """
import pathlib, time

def Invoke(began):
    pathlib.Path(began).touch()
    time.sleep(20)
"""
marks = itertools.count()


class SlowPage:
    """A page that never comes."""

    def __init__(self) -> None:
        self.asked, left = threading.Event(), threading.Event()
        self.left = left
        page = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                """Nothing is printed."""

            def do_GET(self) -> None:
                page.asked.set()
                if self.rfile.read(1) == b"":
                    left.set()
                self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Stage:
    """A server, its backend and its tools."""

    def __init__(self, kind: Any, public: Any) -> None:
        self.backend, self.page, self.public = AgentBackend(), SlowPage(), public
        self.trace, self.began = public / "trace.txt", public / "began"
        self.trace.touch()
        (public / "slow.py").write_text(SCRIPT, "utf-8")
        tools: list[Any] = [
            "mcp:tests/slow",
            "mcp:tests/pid",
            {"workflow": "Wait", "name": "wait", "description": "Waits", "parameters": ANY},
            {"python": str(public / "slow.py"), "name": "sleep", "description": "Sleeps", "parameters": ANY},
            {"fetch": {"allowedHosts": ["127.0.0.1"]}},
        ]
        agent = {
            "type": "Agent",
            "endpointName": "Model",
            "lastMessagesToSendInsteadOfPrompt": 20,
            "agentTools": tools,
        }
        wait = {"type": "Standard", "endpointName": "Model", "prompt": "slow child"}
        flows = {"Chat": [agent], "Wait": [wait]}
        users = {
            "ann": {"workflows": flows},
            "bob": {"workflows": {**flows, "Chat": [{**agent, "toolTimeout": 1}]}},
            "eve": {"workflows": {**flows, "Chat": [{**agent, "totalTimeout": 3}]}},
        }
        write_tree(public, users, self.backend.url)
        write(public / "Configs" / "MCPServers" / "tests.json", stdio_file(self.trace))
        self.backend.script("slow child", Step(hangs=True))
        self.server = kind(public, users, ("--concurrency", "0"))
        for user in users:
            wait_until(
                lambda user=user: self._offers_slow(user), self.server.process, said=lambda: self.server.log
            )

    def _offers_slow(self, user: str) -> bool:
        """On a busy machine the MCP server does not start in the time that it has for its list, and is left alone for
        a while."""
        mark, body = self.body(user, Step("ok"))
        self.server.post("/v1/chat/completions", body)
        return any(
            tool["function"]["name"] == "slow" for tool in self.backend.asked(mark)[0].body.get("tools", ())
        )

    def close(self) -> None:
        self.server.stop()
        self.backend.close()
        self.page.close()

    def arguments(self, tool: str) -> dict[str, Any]:
        return {
            "slow": {"seconds": 60},
            "sleep": {"began": str(self.began)},
            "fetch_page": {"url": self.page.url},
        }.get(tool, {})

    def has_begun(self, tool: str) -> bool:
        if tool == "wait":
            return bool(self.backend.asked("slow child"))
        if tool == "sleep":
            return self.began.exists()
        return self.page.asked.is_set() if tool == "fetch_page" else "slow began" in self.trace.read_text()

    def has_ended(self, tool: str) -> bool:
        """Whether what the tool asked of others has ended; a script goes on unheard."""
        if tool == "wait":
            return self.backend.asked("slow child")[-1].hung_up.is_set()
        if tool == "fetch_page":
            return self.page.left.is_set()
        return tool == "sleep" or "slow cancelled" in self.trace.read_text()

    def running(self) -> float:
        """Requests that hold a slot."""
        _, body = self.server.request("GET", "/metrics")
        found = re.search(rb"^headrace_requests_running(?:\{[^}]*\})? ([\d.e+]+)$", body, re.M)
        return float(found[1]) if found else 0.0

    def body(self, user: str, *steps: Step) -> tuple[str, dict[str, Any]]:
        mark = f"mark-{next(marks)}-x"
        self.backend.script(mark, *steps)
        return mark, {"model": user, "messages": [{"role": "user", "content": mark}]}


@pytest.fixture(scope="module", params=[Server, GunicornOfTheHouse], ids=["waitress", "gevent"])
def stage(request, tmp_path_factory):
    made = Stage(request.param, tmp_path_factory.mktemp("public"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def fresh(stage):
    stage.trace.write_text("")
    stage.began.unlink(missing_ok=True)
    stage.page.asked.clear()
    stage.page.left.clear()
    stage.backend._asked.clear()


def wait_for(what: Any, stage: Any) -> None:
    wait_until(what, stage.server.process, said=lambda: stage.server.log)


class TestTheClientGoes:
    def test_while_the_model_is_asked(self, stage):
        """Its call ends."""
        mark, body = stage.body("ann", Step(hangs=True))
        connection, _ = stage.server.open_stream("/v1/chat/completions", body)
        asked = stage.backend.wait_for(mark)
        connection.close()
        assert asked.hung_up.wait(PATIENCE_S)
        wait_for(lambda: stage.running() == 0, stage)

    @pytest.mark.parametrize("tool", ["wait", "slow", "sleep", "fetch_page"])
    def test_while_a_tool_runs(self, stage, tool):
        """What it asked of others ends, and the run with it; the model is not asked again."""
        mark, body = stage.body("ann", Step("Looking.", [(tool, stage.arguments(tool))]), Step("never"))
        connection, _ = stage.server.open_stream("/v1/chat/completions", body)
        wait_for(lambda: stage.has_begun(tool), stage)
        connection.close()
        wait_for(lambda: stage.has_ended(tool), stage)
        wait_for(lambda: stage.running() == 0, stage)
        assert len(stage.backend.asked(mark)) == 1

    def test_the_session_of_the_server_lives(self, stage):
        """The same process answers the next agent."""
        pids = []
        for _ in range(2):
            mark, body = stage.body("ann", Step(calls=[("pid", {})]), Step("ok"))
            assert stage.server.post("/v1/chat/completions", body)[0] == 200
            pids.append(stage.backend.asked(mark)[-1].results)
            self.test_while_a_tool_runs(stage, "slow")
        assert pids[0] == pids[1] and pids[0][0].isdecimal()


@pytest.mark.parametrize("tool", ["wait", "slow", "sleep", "fetch_page"])
class TestATimeOut:
    def test_of_one_call(self, stage, tool):
        """The model reads it, what the tool asked ends, and the agent goes on."""
        mark, body = stage.body("bob", Step(calls=[(tool, stage.arguments(tool))]), Step("late"))
        status, data = stage.server.post("/v1/chat/completions", body)
        assert status == 200 and b"late" in data, data
        [result] = stage.backend.asked(mark)[1].results
        assert result == "error: timed out after 1 seconds"
        wait_for(lambda: stage.has_ended(tool), stage)

    def test_of_the_whole_node(self, stage, tool):
        """Calls that still run are given up, and the model has to answer."""
        stage.server.post("/v1/chat/completions", stage.body("eve", Step("ok"))[1])  # the tool server starts
        mark, body = stage.body("eve", Step(calls=[(tool, stage.arguments(tool))]), Step("late"))
        status, data = stage.server.post("/v1/chat/completions", body)
        assert status == 200 and b"late" in data, data
        last = stage.backend.asked(mark)[1]
        assert last.results[0].startswith("error: out of time\n\nAnswer now")
        assert last.choice == "none"
        wait_for(lambda: stage.has_ended(tool), stage)

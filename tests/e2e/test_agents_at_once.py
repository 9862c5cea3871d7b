"""Fifty agents at once leave nothing behind: no thread, no process, no file, and for a short while the connections to the
model server alone, which are never more than there were agents.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.e2e.agent_backend import AgentBackend, Step
from tests.e2e.conftest import GunicornOfTheHouse, Server, write, write_tree
from tests.e2e.processes import HAS_PROC, counts, files_by_kind, sockets_to, worker_of
from tests.patience import wait_until
from tests.workflows.tools.conftest import stdio_file

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not HAS_PROC, reason="there is no /proc")]

AGENTS = 50
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
AGENT = {
    "type": "Agent",
    "endpointName": "Model",
    "lastMessagesToSendInsteadOfPrompt": 20,
    "agentTools": [
        {"workflow": "Read", "name": "read", "description": "Reads", "parameters": PARAMETERS},
        "mcp:tests/echo",
    ],
}
USERS = {"ann": {"workflows": {"Chat": [AGENT], "Read": [{"type": "StaticResponse", "content": "the text"}]}}}
STEPS = [
    Step("Looking. ", [("read", {"text": "a"}), ("echo", {"text": "b"})]),
    Step("Again. ", [("read", {"text": "c"})]),
    Step("It says so."),
]


class QuickServer(Server):
    program = ("-m", "tests.e2e.quick_idle")


class QuickGunicorn(GunicornOfTheHouse):
    module = "tests.e2e.quick_idle"


class Stage:
    """A server, its backend, and what its process holds."""

    def __init__(self, kind, public):
        self.backend = AgentBackend()
        write_tree(public, USERS, self.backend.url)
        (trace := public / "trace.txt").touch()
        write(public / "Configs" / "MCPServers" / "tests.json", stdio_file(trace))
        self.server = kind(public, USERS, ("--concurrency", "0"))
        self.marks = itertools.count()

    def close(self):
        self.server.stop()
        self.backend.close()

    def ask(self, number=0):
        """One agent, streamed or whole. The status, and how often the model was asked."""
        mark = f"mark-{next(self.marks)}-x"
        self.backend.script(mark, *STEPS)
        body = {"model": "ann", "messages": [{"role": "user", "content": mark}], "stream": number % 2 == 0}
        status, _ = self.server.post("/v1/chat/completions", body)
        return status, len(self.backend.asked(mark))

    def ask_many(self):
        """All agents at once. What each of them got, and the most connections to the backend that were seen."""
        seen = []
        with ThreadPoolExecutor(AGENTS) as clients:
            jobs = [clients.submit(self.ask, number) for number in range(AGENTS)]

            def is_over():
                seen.append(self.connections())
                return all(job.done() for job in jobs)

            wait_until(is_over, self.server.process, lambda: self.server.log)
        return [job.result() for job in jobs], max(seen)

    def connections(self):
        """To the backend."""
        return sockets_to(worker_of(self.server), urlsplit(self.backend.url).port)

    def held(self):
        pid = worker_of(self.server)
        return {**counts(pid), **files_by_kind(pid)}

    def idle(self):
        """What it holds once it holds no connection to the backend any more."""
        wait_until(lambda: self.connections() == 0, self.server.process, lambda: str(self.held()))
        return self.held()


@pytest.fixture(params=[QuickServer, QuickGunicorn], ids=["waitress", "gevent"])
def stage(request, tmp_path):
    made = Stage(request.param, tmp_path)
    yield made
    made.close()


def test_fifty_agents_leave_nothing(stage):
    """Afterwards the process holds what it held after a single one, however often that is done."""
    assert stage.ask() == (200, len(STEPS))
    before = stage.idle()
    for _ in range(2):
        answers, most = stage.ask_many()
        assert answers == [(200, len(STEPS))] * AGENTS
        assert 0 < most <= AGENTS
        wait_until(
            lambda: all(count <= before.get(what, 0) for what, count in stage.idle().items()),
            stage.server.process,
            lambda: f"{before} became {stage.held()}",
        )

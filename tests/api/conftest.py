"""A config tree, an application in front of a scripted engine, and clients of it."""

from __future__ import annotations

import json
from dataclasses import fields
from types import SimpleNamespace

import pytest

from Middleware.api import workflow_gateway
from Middleware.api.api_server import ApiServer
from Middleware.api.app import _App
from Middleware.api.requests.access import AccessRules, ConsoleWish, ServerRules
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts


def chunk(token="", finish=None, **more):
    return {"token": token, "finish_reason": finish, **more}


class FakeEngine:
    """Stands where the engine is loaded. `answer`: batches, or a function of the call that gives or raises them."""

    def __init__(self):
        self.answer = [[chunk("Hel")], [chunk("lo.")], [chunk("", "stop")]]
        self.calls = []

    def manager(self, user, request):
        plain = self._plain(user, request)
        return SimpleNamespace(
            user=user, request=request, open_run=self._named(user, request), open_plain_run=plain
        )

    def _plain(self, user, request):
        return lambda endpoint, question: self._open(user, request, question, {"endpoint": endpoint})

    def _named(self, user, request):
        return lambda name, question, **call: self._open(user, request, question, {**call, "name": name})

    def open_answer_run(self, manager, question):
        return self._open(manager.user, manager.request, question, {})

    def _open(self, user, request, question, call):
        asked = {field.name: getattr(question, field.name) for field in fields(question)}
        known = SimpleNamespace(user=user, request=request, **asked, **call)
        self.calls.append(known)
        return iter(self.answer(known) if callable(self.answer) else list(self.answer))

    @property
    def last(self):
        return self.calls[-1]


@pytest.fixture
def engine(monkeypatch):
    fake = FakeEngine()
    monkeypatch.setattr(workflow_gateway, "_engine", lambda: fake)
    return fake


@pytest.fixture
def facts(tmp_path):
    """`facts(**launch)` sets the launch facts on the test's tree; they are put back afterwards."""
    before = launch_facts()
    configs = tmp_path / "Configs"
    configs.mkdir(exist_ok=True)

    def change(**launch):
        given = {"users": ("mira",), "concurrency": 0, "started_at": 1759990000, **launch}
        made = LaunchFacts(public_directory=tmp_path, config_directory=configs, **given)
        set_launch_facts(made)
        return made

    change()
    yield change
    set_launch_facts(before)


@pytest.fixture
def configs(facts, tmp_path):
    """`configs(path, content)` writes a config file; user `mira` and her shared workflow `novel` are there."""
    root = tmp_path / "Configs"

    def write(path, content):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")

    write("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Main"})
    write("Workflows/_shared/novel/_DefaultWorkflow.json", [])
    write.root = root
    return write


@pytest.fixture
def serve(configs, engine):
    """`serve(access=..., max_queue=..., console=...)` gives the application of an `ApiServer` made with these rules."""

    def start(*, access=None, max_queue=0, console=None):
        app = _App("test", static_folder=None)
        server = ApiServer(app, ServerRules(access or AccessRules(), max_queue, console or ConsoleWish()))
        app.door, app.server = server.door, server
        return app

    return start


@pytest.fixture
def client(serve):
    return serve().test_client()


def sse(body):
    """The payloads of an SSE body: objects, `[DONE]`, and `:` for heartbeats."""
    units = [unit for unit in body.split("\n\n") if unit]
    return [u if u == ":" else u[6:] if u[6:] == "[DONE]" else json.loads(u[6:]) for u in units]


def lines(body):
    return [json.loads(line) for line in body.splitlines()]


@pytest.fixture
def read_sse():
    return sse


@pytest.fixture
def read_lines():
    return lines

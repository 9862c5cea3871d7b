"""A real server process with a config tree of its own, in front of a fake backend."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fake_backend import FakeBackend
from tests.patience import PATIENCE_S, wait_until

HOUSE = Path(__file__).resolve().parents[2]
USER = {
    "customWorkflowOverride": True,
    "customWorkflow": "Chat",
    "chatPromptTemplateName": "_chatonly",
    "connectTimeoutInSeconds": 2,
}
ENDPOINT = {
    "apiTypeConfigFileName": "Open-AI-API",
    "modelNameToSendToAPI": "fake",
    "promptTemplate": "_chatonly",
    "maxContextTokenSize": 8192,
}
NODE = {
    "title": "Answer",
    "type": "Standard",
    "endpointName": "Model",
    "lastMessagesToSendInsteadOfPrompt": 20,
}
TOOLS_AND_THOUGHTS = {
    "ann": {"workflows": {"Chat": [{**NODE, "allowTools": True}]}},
    "eve": {
        "endpoints": {
            "Model": {"removeThinking": True, "thinkTagNames": ["think"], "reasoningOutput": "field"}
        }
    },
}
"""Two users: `ann`'s model may call tools, `eve`'s thinks."""


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def write_tree(public: Path, users: Mapping[str, Mapping[str, Any]], backend_url: str) -> None:
    """`users`: name -> `{"user": settings, "endpoints": {name: file}, "workflows": {name: nodes}}`, each over a default.

    `"presets"`: `<type>/<name>` -> file.
    """
    configs = public / "Configs"
    configs.mkdir(parents=True)
    for folder in ("ApiTypes", "PromptTemplates"):
        (configs / folder).symlink_to(HOUSE / "Public" / "Configs" / folder)
    for user, parts in users.items():
        settings = {**USER, "endpointConfigsSubDirectory": user, **parts.get("user", {})}
        write(configs / "Users" / f"{user}.json", settings)
        for name, endpoint in {"Model": {}, **parts.get("endpoints", {})}.items():
            write(
                configs / "Endpoints" / user / f"{name}.json",
                {"endpoint": backend_url, **ENDPOINT, **endpoint},
            )
        for name, preset in parts.get("presets", {}).items():
            write(configs / "Presets" / f"{name}.json", preset)
        for name, nodes in {"Chat": [NODE], **parts.get("workflows", {})}.items():
            write(configs / "Workflows" / user / f"{name}.json", nodes)


class Server:
    """`python server.py`, started and awaited; ended by `stop`. `program`: what is called in its place."""

    program: tuple[str, ...] = ("server.py",)

    def __init__(self, public: Path, users: Mapping[str, Any], arguments: tuple[str, ...]) -> None:
        self.public = public
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = public / "server.log"
        words = [part for user in users for part in ("--User", user)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *self.program,
                    "--PublicDirectory",
                    str(public),
                    "--port",
                    str(self.port),
                    *words,
                    *arguments,
                ],
                cwd=HOUSE,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._wait_until_ready()

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def wait_for_log(self, text: str) -> bool:
        """Whether the log says so, or will."""
        return bool(wait_until(lambda: text in self.log, said=lambda: self.log))

    def request(
        self, method: str, path: str, body: Any = None, *, timeout_s: float = PATIENCE_S
    ) -> tuple[int, bytes]:
        """Status and body of one request, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> tuple[int, bytes]:
        return self.request("POST", path, body)

    def open_stream(
        self, path: str, body: Any
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A stream to be read, or left, by the test: closing the connection is the hang-up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(
            "POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"}
        )
        return connection, connection.getresponse()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait_until_ready(self) -> None:
        """As long as the process lives: how long a start takes is no test's business."""
        try:
            wait_until(self._answers, self.process, lambda: self.log)
        except AssertionError:
            self.stop()
            raise

    def _answers(self) -> bool:
        try:
            self.request("GET", "/v1/models")
        except OSError:
            return False
        return True


def free_port() -> int:
    """Below the ports that the system gives to clients: one of those may be taken again before the server binds."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


class Gunicorn(Server):
    """The same application behind gunicorn with gevent workers, of which there is one. `module` has it."""

    module = "server"
    workers = 1
    options: tuple[str, ...] = ()

    worker = "gevent"

    def __init__(self, public, users, arguments):
        self.public = public
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = public / "server.log"
        words = [
            "--PublicDirectory",
            str(public),
            *[w for user in users for w in ("--User", user)],
            *arguments,
        ]
        call = f"{self.module}:get_application({', '.join(map(repr, words))})"
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "-k",
            self.worker,
            "-w",
            str(self.workers),
            *self.options,
            "--timeout",  # a busy machine may not let a worker say in time that it lives
            f"{PATIENCE_S:g}",
            "-b",
            f"127.0.0.1:{self.port}",
            call,
        ]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=HOUSE, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        self._wait_until_ready()


class GunicornOfTheHouse(Gunicorn):
    """With our own class of worker."""

    worker = "Middleware.api.serving.gevent_worker.Worker"


@pytest.fixture(scope="module")
def backend() -> Iterator[FakeBackend]:
    """One for the tests of a file: a test finds its calls by a mark in its prompts, which another file may use too."""
    fake = FakeBackend()
    yield fake
    fake.close()


@pytest.fixture(scope="module")
def launch(backend: FakeBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`launch(users, *arguments) -> Server`; all are stopped at the end of the module."""
    servers: list[Server] = []

    def start(users: Mapping[str, Mapping[str, Any]], *arguments: str) -> Server:
        public = tmp_path_factory.mktemp("public")
        write_tree(public, users, backend.url)
        servers.append(Server(public, users, arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()

"""The house behind the application: real front ends, the real engine, config files on disk; the model answers by script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from flask import Flask

from Middleware.api.api_server import ApiServer
from Middleware.api.requests.access import ConsoleWish, ServerRules
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.workflows.checks.config_check import checked_tree
from tests.e2e.answers import ROUTES
from tests.workflows.conftest import House

REPLY = {
    "choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


def body_saying(text, usage=REPLY["usage"]):
    message = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {**REPLY, "choices": [message], "usage": usage}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def stream_saying(*tokens, usage=REPLY["usage"]):
    chunks = [{"choices": [{"delta": {"content": token}, "finish_reason": None}]} for token in tokens]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})
    events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return 200, {"Content-Type": "text/event-stream"}, [*events, b"data: [DONE]\n\n"]


class Recorder:
    """Keeps runs, and what it was told: `what`, or `what title`."""

    def __init__(self, keeps_text=True):
        self.keeps_text = keeps_text
        self.runs, self.told = [], []
        self.spoke, self.ended, self.settled = threading.Event(), threading.Event(), threading.Event()

    def note_change(self, run, what, node):
        if what == "arrived":
            self.runs.append(run)
        self.told.append(f"{what} {node.title}" if node else what)
        if what == "first_text":
            self.spoke.set()
        if what == "ended":
            self.ended.set()
        if what == "settled":
            self.settled.set()

    @property
    def run(self):
        [run] = self.runs
        return run

    @property
    def calls(self):
        return [call for node in self.run.nodes for call in node.calls]


class Served:
    """`served.text(model)` asks as a client would; the user's file is `house.user`."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.app = Flask("served", static_folder=None)
        ApiServer(self.app, ServerRules(console=ConsoleWish("off")))  # whoever keeps texts is a test's own
        checked_tree(house.root)
        house.user["customWorkflow"] = "Main"

    def users(self, names: tuple[str, ...]) -> None:
        """Whom the command line named; nobody: the pointer's user."""
        set_launch_facts(replace(launch_facts(), users=names))

    def save_user(self, name: str = "ana", **fields: Any) -> None:
        self.house.write(f"Users/{name}", {**self.house.user, **fields})

    def ask(
        self, model: str = "ana", text: str = "hi", route: str = "openai-chat", stream: bool = False
    ) -> Any:
        """Status and body of one request."""
        shape = ROUTES[route]
        reply = self.app.test_client().post(shape.path, json=shape.ask(model, text, stream=stream))
        body = reply.get_data()
        reply.close()  # as a server does: now the request has ended
        return reply.status_code, body

    def text(
        self, model: str = "ana", text: str = "hi", route: str = "openai-chat", stream: bool = False
    ) -> str:
        """The text of an answer that must come."""
        status, body = self.ask(model, text, route, stream)
        assert status == 200, body
        return ROUTES[route].text(body, stream=stream)

    def every_text(self, model: str = "ana", text: str = "hi") -> dict[tuple[str, bool], str]:
        """The text by every route, whole and streamed."""
        return {
            (route, stream): self.text(model, text, route, stream)
            for route, stream in product(ROUTES, (False, True))
        }

    def model_name(self, route: str = "openai-chat") -> str:
        """The name that answers carry."""
        name: str = json.loads(self.ask(route=route)[1])["model"]
        return name


@pytest.fixture
def served(house: House) -> Iterator[Served]:
    set_launch_facts(replace(launch_facts(), concurrency=0))
    yield Served(house)


@pytest.fixture
def big(house, site):
    """`big(**fields)` writes the endpoint `big`, a real backend that says Hello."""
    path = "/v1/chat/completions"
    site.pages[path] = lambda handler: answer_of_model(site, handler)
    site.text = ["Hello"]
    fields = {"streamPropertyName": "stream", "maxNewTokensPropertyName": "max_tokens"}
    house.write("ApiTypes/Real", {"type": "openAIChatCompletion", "presetType": "any", **fields})

    def write(name="big", **fields):
        house.endpoint(name, **{"endpoint": site.url("").rstrip("/"), "apiTypeConfigFileName": "Real", **fields})  # fmt: skip

    write()
    return write


def answer_of_model(site, handler, usage=REPLY["usage"]):
    asked = json.loads(site.seen[-1].body)
    status, headers, body = (
        stream_saying(*site.text, usage=usage)
        if asked.get("stream")
        else body_saying("".join(site.text), usage)
    )
    data = b"".join(body) if isinstance(body, list) else body
    handler.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(data))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def observe(served, recorder):
    served.app.wsgi_app.observers.observe(recorder)
    return recorder

"""The house behind the application: real front ends, the real engine, config files on disk; the model answers by script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from flask import Flask

from Middleware.api.api_server import ApiServer
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.workflows.managers.config_check import checked_tree
from tests.e2e.answers import ROUTES
from tests.workflows.conftest import House


class Served:
    """`served.text(model)` asks as a client would; the user's file is `house.user`."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.app = Flask("served", static_folder=None)
        ApiServer(self.app)
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

"""A house as people live in it: five users, thirty workflow files, three hundred runs, fourteen requests that wait.

Source: spec workbench.md 16.15; 11, row 13.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser.conftest import Client, asking
from tests.e2e.conftest import NODE, Server, write, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply

USERS = ("mira", "jo", "rex", "kim", "lea")
PRIVATE = "lea"
SHARED = ("novel", "cut", "quick", "notes", "code")
GATE = 3
WAITING = 14
RUNS = 300


class Asked(NamedTuple):
    """One request of the house. `state`, `short`: of its row."""

    name: str
    text: str
    state: str
    short: str = ""


class House(NamedTuple):
    """`asked`: what was asked before anything waited, oldest first."""

    server: Server
    asked: list[Asked]


def make_house(public: Path, backend: FakeBackend) -> House:
    """All its runs have ended. The backend holds what begins with `Wait for me` until `let_go` is set."""
    backend.on("say nothing", Reply([""]))
    backend.on("break it", Reply(status=500))
    write_tree(public, {name: _user(name) for name in USERS}, backend.url)
    for name in SHARED:
        write(public / "Configs" / "Workflows" / "_shared" / name / "_DefaultWorkflow.json", [NODE])
    server = Server(public, USERS, ("--concurrency", str(GATE)))
    asked = [_ask(number) for number in range(RUNS)]
    with ThreadPoolExecutor(GATE) as pool:
        for one in [pool.submit(_send, server, each) for each in asked]:
            one.result()
    return House(server, asked)


def _user(name: str) -> Mapping[str, Any]:
    settings = {"allowSharedWorkflows": True, **({"redactLogOutput": True} if name == PRIVATE else {})}
    return {"user": settings, "workflows": {f"Part{number}": [NODE] for number in range(1, 5)}}


def _ask(number: int) -> Asked:
    user = USERS[number % len(USERS)]
    name = user if number % 3 else f"{user}:{SHARED[number % len(SHARED)]}"
    if number % 20 == 7:
        return Asked(name, f"{number}: please say nothing", "trouble", "empty")
    if number % 20 == 13:
        return Asked(name, f"{number}: please break it", "failed")
    return Asked(name, f"{number}: Hello there", "done")


def _send(server: Server, one: Asked) -> None:
    server.post("/v1/chat/completions", {**asking(one.text), "model": one.name})


class Line:
    """Three runs that hold the slots, and fourteen behind them."""

    def __init__(self, house: House, backend: FakeBackend) -> None:
        self.let_go = threading.Event()
        backend.on("Wait for me", Reply(["one", " two"], rest_after=self.let_go))
        server = house.server
        self.holders = [Client(server, asking(f"Wait for me, {name}", model=name)) for name in USERS[:GATE]]
        self.waiting = [USERS[number % len(USERS)] for number in range(WAITING)]
        self._server = server
        self._clients: list[Client] = []

    def join(self) -> int:
        """The next of the fourteen comes; the three must have their slots. How many have come."""
        name = self.waiting[len(self._clients)]
        self._clients.append(Client(self._server, asking(f"Wait for me too, {name}", model=name)))
        return len(self._clients)

    def end(self) -> None:
        self.let_go.set()
        for client in [*self.holders, *self._clients]:
            client.wait()

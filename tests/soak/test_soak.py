"""Mixed load for a while: right answers, broken ones, clients that leave. Nothing is lost, doubled, mixed or left over.

`SOAK_SECONDS` says how long each server is tried (20 without it; 600 in the nightly run). Not part of `./check`.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from tests.e2e.answers import ROUTES, Route
from tests.e2e.conftest import Gunicorn, Server, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
CLIENTS = 24
SLOTS = 12
LONG = 300
CLEANING = {
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
    "trimBeginningAndEndLineBreaks": True,
}
DIES, HANGS, FAILS, SLOW = "backend-dies", "backend-hangs", "backend-fails", "backend-is-slow"


@dataclass
class Tally:
    """What the clients saw. `faults`: sentences about answers that were not right."""

    right: int = 0
    left: int = 0
    broken: int = 0
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, fault: str = "") -> None:
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)
            if fault:
                self.faults.append(fault)


class Client(threading.Thread):
    """Asks one thing after the other until the end; `name` is in each of its words, so that a foreign one shows."""

    def __init__(self, number: int, server: Server, tally: Tally, end: float) -> None:
        super().__init__(daemon=True)
        self._server, self._tally, self._end = server, tally, end
        self._choose = random.Random(number)
        self._number, self._asked = number, 0

    def run(self) -> None:
        while time.monotonic() < self._end:
            self._asked += 1
            mark = f"c{self._number}n{self._asked}"
            route = ROUTES[self._choose.choice(sorted(ROUTES))]
            how = self._choose.choices(("right", "leave", DIES, HANGS, FAILS), (70, 15, 5, 5, 5))[0]
            try:
                getattr(
                    self, "_right" if how == "right" else "_leave" if how in ("leave", HANGS) else "_broken"
                )(route, mark, how)
            except OSError as error:
                self._tally.count("broken", f"{mark} {how} at {route.path}: {error!r}")

    def _words(self, mark: str) -> str:
        return " ".join(f"{mark}w{number}" for number in range(self._choose.choice((3, 30, LONG))))

    def _right(self, route: Route, mark: str, how: str) -> None:
        words, stream = self._words(mark), self._choose.random() < 0.7
        status, body = self._server.post(route.path, route.ask("soak", words, stream=stream))
        told = route.text(body, stream=stream) if status == 200 else f"status {status}: {body[:200]!r}"
        self._tally.count("right", "" if told == words else f"{mark} at {route.path}: {told[:300]!r}")

    def _leave(self, route: Route, mark: str, how: str) -> None:
        """Read a little, or nothing, and go."""
        text = f"{HANGS if how == HANGS else SLOW} {mark}"
        connection, answer = self._opened(route, text)
        if self._choose.random() < 0.7:
            answer.read1(self._choose.choice((1, 50)))
        connection.close()
        self._tally.count("left")

    def _opened(self, route: Route, text: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        return self._server.open_stream(route.path, route.ask("soak", text, stream=True))

    def _broken(self, route: Route, mark: str, how: str) -> None:
        """The answer ends as the protocol says: with a status, or an error in the stream; no foreign word is in it."""
        stream = self._choose.random() < 0.7
        status, body = self._server.post(route.path, route.ask("soak", f"{how} {mark}", stream=stream))
        told = status >= 400 or (stream and any(map(route.failed, route.units(body))))
        self._tally.count("broken", "" if told else f"{mark} {how} at {route.path}: {status} {body[:300]!r}")


@dataclass(frozen=True)
class Held:
    """What the process holds when it is at rest."""

    threads: int
    files: int
    megabytes: float


def held_by(server: Server) -> Held:
    """What the server's processes hold now."""
    root = psutil.Process(server.process.pid)
    family = [root, *root.children(recursive=True)]
    return Held(
        sum(one.num_threads() for one in family),
        sum(one.num_fds() for one in family),
        sum(one.memory_info().rss for one in family) / 2**20,
    )


def settled(server: Server) -> Held:
    """What they hold when it no longer changes, at the latest after 45 s: threads that idle end by themselves."""
    end, same = time.monotonic() + 45, 0
    held = held_by(server)
    while time.monotonic() < end and same < 20:
        time.sleep(0.5)
        now = held_by(server)
        same = same + 1 if (now.threads, now.files) == (held.threads, held.files) else 0
        held = now
    return held


def load(server: Server, seconds: float) -> Tally:
    tally, end = Tally(), time.monotonic() + seconds
    clients = [Client(number, server, tally, end) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(seconds + 120)
        assert not client.is_alive(), "a client still waits for its answer"
    return tally


@pytest.fixture(params=[Server, Gunicorn], ids=["waitress", "gevent"])
def server(request: Any, backend: FakeBackend, tmp_path: Any) -> Any:
    backend.on(DIES, Reply(["one ", "two ", "three "], dies_after=2))
    backend.on(HANGS, Reply(["and ", "then "], hangs=True))
    backend.on(FAILS, Reply(status=500))
    backend.on(SLOW, Reply(["word "] * 200, gap_s=0.05))
    write_tree(tmp_path / "Public", {"soak": {"endpoints": {"Model": CLEANING}}}, backend.url)
    made = request.param(tmp_path / "Public", ["soak"], ("--concurrency", str(SLOTS)))
    yield made
    made.stop()


def test_soak(server: Server, backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """Every completed answer is whole and its own; what was held is given back; every slot is free."""
    load(server, min(5.0, SECONDS))
    before = settled(server)
    tally = load(server, SECONDS)
    after = settled(server)
    with capsys.disabled():
        print(
            f"\n{server.__class__.__name__}: {tally.right} right, {tally.left} left, {tally.broken} broken; {before} -> {after}"
        )
    assert tally.faults == []
    assert tally.right > SECONDS
    assert after.threads <= before.threads + 2
    assert after.files <= before.files + SLOTS  # connections to the backend that are kept
    assert after.megabytes <= before.megabytes * 1.5 + 40
    all_at_once(server, backend)


def all_at_once(server: Server, backend: FakeBackend) -> None:
    """As many requests as there are slots are let in together: none is held by a request that has gone."""
    route, mark = ROUTES["openai-chat"], f"{SLOW} slots-{server.port}"
    open_ones = [
        server.open_stream(route.path, route.ask("soak", f"{mark}-{number}.", stream=True))
        for number in range(SLOTS)
    ]
    for number in range(SLOTS):
        assert backend.wait_for_call(f"{mark}-{number}.")
    for connection, _ in open_ones:
        connection.close()
    assert json.loads(server.request("GET", "/health")[1])["status"] == "ok"

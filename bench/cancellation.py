"""How long a request outlives its client: phases x protocols x ways x servers.

    python -m bench.cancellation [--rounds 5] [--phases queued,prefill,mid-stream]

Real servers in front of a backend that hangs. Printed: a table of the median and the worst time, milliseconds
from the end of the client's connection to the moment in which the backend sees its caller hang up. Of a
request that waits for a slot (`queued`): until `/metrics` says that nobody waits; asking takes some of it.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.answers import ROUTES, Route
from tests.e2e.conftest import Gunicorn, Server, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply

PREFILL, MIDDLE = "prefill-phase", "middle-phase"
QUEUED = "queued"
PHASES = {QUEUED: PREFILL, "prefill": PREFILL, "mid-stream": MIDDLE}
WAYS = ("hang-up", "whole, hang-up")
SERVERS = {"waitress": Server, "gevent": Gunicorn}
_numbers = itertools.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--phases", default=",".join(PHASES))
    given = parser.parse_args()
    phases = given.phases.split(",")
    backend = FakeBackend()
    backend.on(PREFILL, Reply([], hangs=True))
    backend.on(MIDDLE, Reply(["one ", "two "], hangs=True))
    print("| server | route | phase | way | median ms | worst ms |\n|---|---|---|---|---|---|")
    for server_name, kind in SERVERS.items():
        for gated in (True, False):
            with running(kind, backend, slots=int(gated)) as server:
                for case in itertools.product(ROUTES.items(), phases, WAYS):
                    (route_name, route), phase, way = case
                    if (phase == QUEUED) is not gated or (way.startswith("whole") and phase == "mid-stream"):
                        continue
                    measured = left_after if gated else closed_after
                    times = [
                        measured(server, backend, route, PHASES[phase], way) for _ in range(given.rounds)
                    ]
                    row = f"{statistics.median(times):.0f} | {max(times):.0f}"
                    print(f"| {server_name} | {route_name} | {phase} | {way} | {row} |", flush=True)
    backend.close()


@contextmanager
def running(kind: type[Server], backend: FakeBackend, slots: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        public = Path(folder) / "Public"
        write_tree(public, {"ann": {}}, backend.url)
        server = kind(public, ["ann"], ("--concurrency", str(slots)))
        try:
            yield server
        finally:
            server.stop()


def closed_after(server: Server, backend: FakeBackend, route: Route, mark: str, way: str) -> float:
    """Milliseconds from the client's leaving to the hang-up that the backend sees."""
    text = f"{mark} number-{next(_numbers)}."
    connection = asked(server, route, text, way)
    call = backend.wait_for_call(text)
    time.sleep(0.3)  # two tokens have gone by where there are any
    left = time.monotonic()
    connection.close()
    if not call.hung_up.wait(20):
        raise SystemExit(f"{route.path} {mark} {way}: the backend was never left")
    return (time.monotonic() - left) * 1000


def left_after(server: Server, backend: FakeBackend, route: Route, mark: str, way: str) -> float:
    """Milliseconds from the leaving of a client that waits for the only slot to the end of its waiting."""
    text = f"{mark} number-{next(_numbers)}."
    holder = asked(server, route, text, "hang-up")
    backend.wait_for_call(text)
    waiter = asked(server, route, f"{text} and another", way)
    until(server, "headrace_queue_length", 1)
    time.sleep(0.3)
    left = time.monotonic()
    waiter.close()
    until(server, "headrace_queue_length", 0)
    took = (time.monotonic() - left) * 1000
    holder.close()
    until(server, "headrace_requests_running", 0)
    if len(backend.calls(text)) != 1:
        raise SystemExit(f"{route.path} {way}: the backend was asked for a client that had left")
    return took


def asked(server: Server, route: Route, text: str, way: str) -> http.client.HTTPConnection:
    """The connection of a client that has asked and waits."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = json.dumps(route.ask("ann", text, stream=not way.startswith("whole")))
    connection.request("POST", route.path, body, {"Content-Type": "application/json"})
    return connection


def until(server: Server, name: str, value: int) -> None:
    """Wait until `/metrics` says so."""
    end = time.monotonic() + 20
    while f"\n{name} {value}.0\n".encode() not in server.request("GET", "/metrics")[1]:
        if time.monotonic() > end:
            raise SystemExit(f"{name} never was {value}")


if __name__ == "__main__":
    main()

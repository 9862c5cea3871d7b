"""How long a backend's socket stays open after the client has gone: phases x protocols x ways x servers.

    python -m bench.cancellation [--rounds 5]

Real servers in front of a backend that hangs. Printed: a table of the median and the worst time, milliseconds
from the end of the client's connection to the moment in which the backend sees its caller hang up.
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
PHASES = {"prefill": PREFILL, "mid-stream": MIDDLE}
SERVERS = {"waitress": Server, "gevent": Gunicorn}
_numbers = itertools.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    backend = FakeBackend()
    backend.on(PREFILL, Reply([], hangs=True))
    backend.on(MIDDLE, Reply(["one ", "two "], hangs=True))
    print("| server | route | phase | way | median ms | worst ms |\n|---|---|---|---|---|---|")
    for server_name, kind in SERVERS.items():
        with running(kind, backend) as server:
            for (route_name, route), (phase, mark), way in itertools.product(
                ROUTES.items(), PHASES.items(), ("hang-up", "whole, hang-up")
            ):
                if way.startswith("whole") and phase == "mid-stream":
                    continue
                times = [closed_after(server, backend, route, mark, way) for _ in range(rounds)]
                row = f"{statistics.median(times):.0f} | {max(times):.0f}"
                print(f"| {server_name} | {route_name} | {phase} | {way} | {row} |", flush=True)
    backend.close()


@contextmanager
def running(kind: type[Server], backend: FakeBackend) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        public = Path(folder) / "Public"
        write_tree(public, {"ann": {}}, backend.url)
        server = kind(public, ["ann"], ("--concurrency", "0"))
        try:
            yield server
        finally:
            server.stop()


def closed_after(server: Server, backend: FakeBackend, route: Route, mark: str, way: str) -> float:
    """Milliseconds from the client's leaving to the hang-up that the backend sees."""
    text = f"{mark} number-{next(_numbers)}."
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = json.dumps(route.ask("ann", text, stream=not way.startswith("whole")))
    connection.request("POST", route.path, body, {"Content-Type": "application/json"})
    call = backend.wait_for_call(text)
    time.sleep(0.3)  # two tokens have gone by where there are any
    left = time.monotonic()
    connection.close()
    if not call.hung_up.wait(20):
        raise SystemExit(f"{route.path} {mark} {way}: the backend was never left")
    return (time.monotonic() - left) * 1000


if __name__ == "__main__":
    main()

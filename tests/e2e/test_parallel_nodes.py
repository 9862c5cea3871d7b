"""Ten nodes of one `parallelGroup`, over real sockets: all are asked before any has answered, and all are left as one."""

from __future__ import annotations

import time

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

MEMBER = {"type": "Standard", "endpointName": "Model", "parallelGroup": "ten"}
NODES = [
    *({**MEMBER, "prompt": f"{{chat_user_prompt_last_one}} member-{number}"} for number in range(10)),
    {"type": "StringConcatenator", "strings": [f"{{agent{number}Output}}" for number in range(1, 11)]},
]


@pytest.fixture(scope="module")
def server(launch):
    return launch({"ann": {"user": {"maxParallelNodes": 10}, "workflows": {"Chat": NODES}}})


def calls_of(backend, mark, count):
    """The calls, once there are so many."""
    end = time.monotonic() + 20
    while len(backend.calls(mark)) < count:
        assert time.monotonic() < end, f"{len(backend.calls(mark))} calls of {count}"
        time.sleep(0.01)
    return backend.calls(mark)


def test_ten_seconds_of_work_take_one(server, backend):
    """Each member's model needs a second; one after the other it would be ten."""
    for number in range(10):
        backend.on(f"second member-{number}", Reply([f"{number}"], gap_s=1.0))
    route = ROUTES["openai-chat"]
    begun = time.monotonic()
    status, body = server.post(route.path, route.ask("ann", "second", stream=False))
    assert (status, route.text(body, stream=False)) == (200, "0123456789")
    assert time.monotonic() - begun < 5


def test_a_client_that_leaves_takes_all_ten_along(server, backend):
    """None of them has said a word yet; each connection is closed."""
    backend.on("leaving", Reply([], hangs=True))
    route = ROUTES["openai-chat"]
    connection, answer = server.open_stream(route.path, route.ask("ann", "leaving", stream=True))
    calls = calls_of(backend, "leaving", 10)
    assert not any(call.hung_up.is_set() for call in calls)
    answer.close()
    connection.close()
    assert all(call.hung_up.wait(5) for call in calls)

"""Ten nodes of one `parallelGroup`, over real sockets: all are asked before any has answered, and all are left as one."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

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
    wait_until(
        lambda: len(backend.calls(mark)) >= count, said=lambda: f"{len(backend.calls(mark))} of {count}"
    )
    return backend.calls(mark)


def test_ten_members_work_at_the_same_time(server, backend):
    """No model answers before all ten are asked; one after the other they would wait for ever."""
    all_are_asked = threading.Event()
    for number in range(10):
        backend.on(f"second member-{number}", Reply([f"{number}"], after=all_are_asked))
    route, answers = ROUTES["openai-chat"], []
    asking = threading.Thread(
        target=lambda: answers.append(server.post(route.path, route.ask("ann", "second", stream=False)))
    )
    asking.start()
    calls_of(backend, "second", 10)
    all_are_asked.set()
    asking.join(PATIENCE_S)
    [(status, body)] = answers
    assert (status, route.text(body, stream=False)) == (200, "0123456789")


def test_a_client_that_leaves_takes_all_ten_along(server, backend):
    """None of them has said a word yet; each connection is closed."""
    backend.on("leaving", Reply([], hangs=True))
    route = ROUTES["openai-chat"]
    connection, answer = server.open_stream(route.path, route.ask("ann", "leaving", stream=True))
    calls = calls_of(backend, "leaving", 10)
    assert not any(call.hung_up.is_set() for call in calls)
    answer.close()
    connection.close()
    assert all(call.hung_up.wait(PATIENCE_S) for call in calls)

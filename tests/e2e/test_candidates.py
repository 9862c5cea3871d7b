"""Candidates over real sockets: streamed and whole, a client that leaves, a backend that dies."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.conftest import Server
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

ROUTE = ROUTES["openai-chat"]
NODE = {"type": "Candidates", "endpointName": "Model", "is_responder": True}


def user(**fields):
    return {"user": {"maxParallelNodes": 6}, "workflows": {"Chat": [{**NODE, **fields}]}}


USERS = {
    "judge": user(judgePrompt="judging [Candidates]", candidates=3),
    "merge": user(choose="merge", mergePrompt="merging [Question] [Candidates]"),
    "vote": user(choose="vote", candidates=5),
    "all": user(choose="all", candidates=2),
}


@pytest.fixture(scope="module")
def server(launch) -> Server:
    return launch(USERS, "--concurrency", "0")


def ask(server, name, say, *, stream=False):
    status, body = server.post(ROUTE.path, ROUTE.ask(name, say, stream=stream))
    return status, ROUTE.text(body, stream=stream) if status == 200 else body


def calls_of(backend, mark, count):
    """The calls, once there are so many."""
    wait_until(
        lambda: len(backend.calls(mark)) >= count, said=lambda: f"{len(backend.calls(mark))} of {count}"
    )
    return backend.calls(mark)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestAnswers:
    def test_equal_answers_need_no_judge(self, server, backend, stream):
        """The backend echoes."""
        say = f"equal {stream} one"
        status, text = ask(server, "judge", say, stream=stream)
        assert (status, text.strip()) == (200, say)
        assert len(backend.calls(say)) == 3

    def test_all_of_them(self, server, backend, stream):
        """Though they are equal."""
        say = f"all of {stream}"
        backend.on(say, Reply(["x"]))
        assert ask(server, "all", say, stream=stream) == (200, "[1]\nx\n\n[2]\nx")

    def test_a_backend_that_dies(self, server, backend, stream):
        """In the middle of each answer: the client gets the error, as from a Standard node."""
        say = f"dying {stream}"
        backend.on(say, Reply(["one", "two"], dies_after=1))
        status, body = server.post(ROUTE.path, ROUTE.ask("judge", say, stream=stream))
        assert status == 502 or b"error" in body


@pytest.mark.parametrize("name", ["judge", "vote", "merge", "all"])
def test_a_client_that_leaves_takes_all_along(server, backend, name):
    """None has said a word yet; each connection is closed."""
    say = f"leaving {name}"
    backend.on(say, Reply([], hangs=True))
    count = 5 if name == "vote" else 2 if name == "all" else 3
    connection, answer = server.open_stream(ROUTE.path, ROUTE.ask(name, say, stream=True))
    calls = calls_of(backend, say, count)
    answer.close()
    connection.close()
    assert all(call.hung_up.wait(PATIENCE_S) for call in calls)


def test_two_users_at_once(server, backend):
    """Each gets its own."""
    answers: dict[str, str] = {}

    def ask_one(name):
        answers[name] = ask(server, name, f"mine is {name}")[1].strip()

    threads = [threading.Thread(target=ask_one, args=(name,)) for name in ("judge", "vote", "merge")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers == {name: f"mine is {name}" for name in ("judge", "vote", "merge")}

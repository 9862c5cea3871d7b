"""Candidates over real sockets, on both servers: streamed and whole, a client that leaves, a backend that dies."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.conftest import GunicornOfTheHouse, Server, write_tree
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


@pytest.fixture(scope="module", params=[Server, GunicornOfTheHouse], ids=["waitress", "gevent"])
def server(request, backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("public")
    write_tree(public, USERS, backend.url)
    made = request.param(public, USERS, ("--concurrency", "0"))
    yield made
    made.stop()


NUMBERS = count(1)


def unheard(text):
    """What nobody has asked yet: a test finds its calls by it."""
    return f"{text} number{next(NUMBERS)}."


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
        say = unheard("equal")
        status, text = ask(server, "judge", say, stream=stream)
        assert (status, text.strip()) == (200, say)
        assert len(backend.calls(say)) == 3

    def test_all_of_them(self, server, backend, stream):
        """Though they are equal."""
        say = unheard("all of")
        backend.on(say, Reply(["x"]))
        assert ask(server, "all", say, stream=stream) == (200, "[1]\nx\n\n[2]\nx")

    def test_a_backend_that_dies(self, server, backend, stream):
        """In the middle of each answer: the client gets the error, as from a Standard node."""
        say = unheard("dying")
        backend.on(say, Reply(["one", "two"], dies_after=1))
        status, body = server.post(ROUTE.path, ROUTE.ask("judge", say, stream=stream))
        assert status == 502 or b"error" in body


class Different(tuple[str, ...]):
    """Chunks that are other ones each time."""

    numbers = count(1)

    def __iter__(self):
        return iter([f"answer {next(self.numbers)}"])


@pytest.mark.parametrize(("name", "mark"), [("judge", "judging"), ("merge", "merging")])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestSecondCall:
    def test_it_sees_the_answers(self, server, backend, name, mark, stream):
        """Which differ, so that somebody has to judge or merge."""
        say = unheard("seen")
        backend.on(f"{mark} {say}" if name == "merge" else f"{mark} [1]\nanswer", Reply(["2"]))
        backend.on(say, Reply(Different(("x",))))
        status, text = ask(server, name, say, stream=stream)
        [call] = [call for call in backend.calls(mark) if "[3]\nanswer" in call.text][-1:]
        second = call.text.partition("[2]\n")[2].partition("\n")[0]
        assert (status, text) == (200, second if name == "judge" else "2")

    def test_a_client_that_leaves(self, server, backend, name, mark, stream):
        """Whoever judges or merges is left as well."""
        say = unheard("second")
        backend.on(f"{mark} {say}", Reply([], hangs=True))
        backend.on(say, Reply(Different(("x",))))
        before = len(backend.calls(mark))
        if name == "judge":
            backend.on("judging [1]\nanswer", Reply([], hangs=True))
        connection, answer = server.open_stream(ROUTE.path, ROUTE.ask(name, say, stream=True))
        call = calls_of(backend, mark, before + 1)[-1]
        answer.close()
        connection.close()
        assert call.hung_up.wait(PATIENCE_S)
        backend.on("judging [1]\nanswer", Reply(["2"]))


@pytest.mark.parametrize("name", ["judge", "vote", "merge", "all"])
def test_a_client_that_leaves_takes_all_along(server, backend, name):
    """None has said a word yet; each connection is closed."""
    say = unheard("leaving")
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
    says = {name: unheard(f"mine is {name}") for name in ("judge", "vote", "merge")}

    def ask_one(name):
        answers[name] = ask(server, name, says[name])[1].strip()

    threads = [threading.Thread(target=ask_one, args=(name,)) for name in says]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers == says

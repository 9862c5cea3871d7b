"""Prompts that a model's server reads before it is asked, as its own end of the wire sees them: when they come, what is
in them, and that they never stand in anybody's way (prompt-reuse.md 6)."""

from __future__ import annotations

import json
import threading

import pytest

from tests.e2e.conftest import Gunicorn, Server, write_tree
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

READER = {
    "title": "Answer",
    "type": "Standard",
    "endpointName": "Model",
    "systemPrompt": "{chat_system_prompt}",
    "latePrompt": "LATE {agent1Output}",
    "lastMessagesToSendInsteadOfPrompt": 4,
    "steadyWindow": True,
    "returnToUser": True,
}
NOTES = {
    "title": "Notes",
    "type": "Standard",
    "endpointName": "Model",
    "prompt": "NOTES {chat_user_prompt_last_one}",
}
BEFORE = {"title": "Before", "type": "StaticResponse", "content": "(noted)"}
USERS = {
    "end": {"workflows": {"Chat": [BEFORE, {**READER, "readAhead": "end"}, NOTES]}},
    "off": {"workflows": {"Chat": [BEFORE, READER, NOTES]}},
}


class TwoWorkers(Gunicorn):
    workers = 2


SERVERS = {"waitress": Server, "gevent": Gunicorn, "two-processes": TwoWorkers}


@pytest.fixture(scope="module", params=SERVERS)
def server(request, backend, tmp_path_factory):
    public = tmp_path_factory.mktemp("public")
    write_tree(public, USERS, backend.url)
    started = SERVERS[request.param](public, USERS, ("--concurrency", "1"))
    yield started
    started.stop()


def say(mark, *texts):
    """A chat of the user's texts and the answers in between, with a card that holds `mark`."""
    turns = [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(texts)]
    return [{"role": "system", "content": f"You are Mara {mark}."}, *turns]


def ask(server, user, messages, **more):
    status, body = server.post("/v1/chat/completions", {"model": user, "messages": messages, **more})
    assert status == 200, body
    return json.loads(body)


def is_reading(call):
    return call.body.get("max_tokens") == 1


def readings(backend, mark):
    return [call for call in backend.calls(mark) if is_reading(call)]


class TestEnd:
    def test_the_next_turns_prompt_is_read_when_the_run_has_ended(self, backend, server):
        """Behind the last node, whole, with one token to make: the card, the window and the answer; nothing late."""
        mark = f"m{server.port}"
        backend.on(f"hello {mark}", Reply(("A tale.",)))
        backend.on(f"NOTES tell {mark}", Reply(("noted",)))
        backend.on(mark, Reply(("A tale.",)))
        answer = ask(server, "end", say(mark, f"tell {mark}"))
        [reading] = wait_until(lambda: readings(backend, f"Mara {mark}"))
        everything = [*backend.calls(f"Mara {mark}"), *backend.calls(f"NOTES tell {mark}")]
        assert len(everything) == 3
        assert reading.body["messages"] == [
            {"role": "system", "content": f"You are Mara {mark}."},
            {"role": "user", "content": f"tell {mark}"},
            {"role": "assistant", "content": "A tale."},
        ]
        assert not reading.streams
        order = [call for call in backend.calls(mark) if call in everything]
        assert order[-1] is reading
        assert order[0].body["messages"][-1]["content"] == f"tell {mark}\n\nLATE (noted)"
        assert answer["choices"][0]["message"]["content"] == "A tale."

    def test_a_stream_is_followed_by_it_too(self, backend, server):
        """The client has its end mark before anything is read."""
        mark = f"s{server.port}"
        backend.on(mark, Reply(("A ", "tale.")))
        connection, response = server.open_stream(
            "/v1/chat/completions", {"model": "end", "messages": say(mark, f"tell {mark}")}
        )
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()
        [reading] = wait_until(lambda: readings(backend, f"Mara {mark}"))
        assert reading.body["messages"][-1] == {"role": "assistant", "content": "A tale."}

    def test_where_nobody_asks_nothing_is_read(self, backend, server):
        """The run of another chat, which comes after it, shows that nothing more came."""
        mark = f"o{server.port}"
        ask(server, "off", say(mark, f"tell {mark}"))
        ask(server, "off", say(f"later {mark}", f"tell later {mark}"))
        wait_until(lambda: backend.calls(f"NOTES tell later {mark}"))
        assert readings(backend, mark) == []


class TestGivingWay:
    @pytest.mark.parametrize("server", ["waitress", "gevent"], indirect=True)
    def test_a_call_of_any_chat_ends_it(self, backend, server):
        """Its connection is closed, and neither the slot at the front nor the server has been held for it."""
        mark = f"g{server.port}"
        backend.on(f"other {mark}", Reply(("Yes.",)))
        backend.on(f"NOTES tell {mark}", Reply(("noted",)))
        backend.on(f"ends here {mark}", Reply(hangs=True))
        backend.on(mark, Reply((f"It ends here {mark}",)))
        ask(server, "end", say(mark, f"tell {mark}"))
        [reading] = wait_until(lambda: readings(backend, f"ends here {mark}"))
        assert not reading.hung_up.is_set()
        other = ask(server, "off", say(f"other {mark}", "Well?"))
        assert other["choices"][0]["message"]["content"] == "Yes."
        assert reading.hung_up.wait(PATIENCE_S)

    @pytest.mark.parametrize("kind", ["waitress", "gevent"])
    def test_a_stop_ends_it(self, backend, tmp_path, kind):
        """Nobody waits for it."""
        write_tree(tmp_path / "public", USERS, backend.url)
        server = SERVERS[kind](tmp_path / "public", USERS, ())
        mark = f"t{server.port}"
        try:
            backend.on(f"NOTES tell {mark}", Reply(("noted",)))
            backend.on(f"ends here {mark}", Reply(hangs=True))
            backend.on(mark, Reply((f"It ends here {mark}",)))
            ask(server, "end", say(mark, f"tell {mark}"))
            [reading] = wait_until(lambda: readings(backend, f"ends here {mark}"))
            server.process.terminate()
            assert reading.hung_up.wait(PATIENCE_S)
            server.process.wait(PATIENCE_S)
        finally:
            server.stop()


class TestStart:
    def test_this_turns_prompt_is_read_while_another_server_works(self, backend, tmp_path):
        """It has come before the other server has answered."""
        other = FakeBackend()
        first = {"title": "Draft", "type": "Standard", "endpointName": "Other", "prompt": "DRAFT"}
        nodes = [first, {**READER, "readAhead": "start"}]
        users = {"start": {"endpoints": {"Other": {"endpoint": other.url}}, "workflows": {"Chat": nodes}}}
        write_tree(tmp_path / "public", users, backend.url)
        server = Server(tmp_path / "public", users, ())
        mark = f"b{server.port}"
        try:
            may_draft, has_read = threading.Event(), threading.Event()
            other.on("DRAFT", Reply(("a draft",), after=may_draft))
            backend.on("LATE a draft", Reply(("A tale.",)))
            backend.on(mark, Reply(("x",), after=has_read))
            answers = []
            asking = threading.Thread(
                target=lambda: answers.append(ask(server, "start", say(mark, "tell"))), daemon=True
            )
            asking.start()
            [reading] = wait_until(lambda: readings(backend, mark))
            assert reading.body["messages"][-1] == {"role": "user", "content": "tell"}
            may_draft.set()
            has_read.set()
            asking.join(PATIENCE_S)
            assert [call.body["messages"][-1]["content"] for call in backend.calls(mark)] == [
                "tell",
                "tell\n\nLATE a draft",
            ]
            assert answers[0]["choices"][0]["message"]["content"] == "A tale."
        finally:
            server.stop()
            other.close()

"""Three model servers behind one endpoint: chats stay, one server is killed, nobody sees it.

Source: prompt-reuse.md 7, and row 7 of its section 10.
"""

from __future__ import annotations

import json
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import NODE
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

CHATS, TURNS, KILLED_AFTER = 30, 10, 5
SYSTEM = {"role": "system", "content": "One card for all chats. " * 60}


@pytest.fixture(scope="module")
def three():
    """The model servers."""
    made = [FakeBackend() for _ in range(3)]
    yield made
    for one in made:
        if not one.is_killed:
            one.close()


@pytest.fixture(scope="module")
def server(launch, three):
    first, *more = [one.url for one in three]
    endpoint = {"endpoint": first, "moreEndpoints": more}
    node = {**NODE, "systemPrompt": "{chat_system_prompt}"}
    return launch({"ann": {"endpoints": {"Model": endpoint}, "workflows": {"Chat": [node]}}})


class Chat:
    """One conversation of a client."""

    def __init__(self, number):
        self.number, self.messages = number, [SYSTEM]
        self.homes = []

    def mark(self, turn):
        return f"Chat {self.number}, turn {turn}."

    def ask(self, server, turn):
        """One turn: streamed and whole in turn. The answer's text."""
        self.messages.append({"role": "user", "content": f"{self.mark(turn)} {'More words. ' * 30}"})
        body = {"model": "ann", "messages": self.messages, "stream": turn % 2 == 1}
        status, answer = server.post("/v1/chat/completions", body)
        assert status == 200, answer
        text = text_of(answer.decode())
        self.messages.append({"role": "assistant", "content": text})
        return text


def text_of(body):
    """Of a whole answer, or of a stream, which must have ended well."""
    if not body.startswith("data:"):
        return json.loads(body)["choices"][0]["message"]["content"]
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert all("error" not in chunk for chunk in chunks)
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])


def asked(three, mark):
    """Numbers of the servers that were asked."""
    return [number for number, one in enumerate(three) if one.calls(mark)]


def test_chats_stay_and_an_outage_is_not_seen(server, three):
    """30 chats of 10 turns. After five of them one server is killed, while it owes an answer."""
    chats = [Chat(number) for number in range(CHATS)]
    for turn in range(KILLED_AFTER):
        for chat in chats:
            assert chat.mark(turn) in chat.ask(server, turn)
            chat.homes += asked(three, chat.mark(turn))
    assert all(len(chat.homes) == KILLED_AFTER and len(set(chat.homes)) == 1 for chat in chats)
    assert {chat.homes[0] for chat in chats} == {0, 1, 2}

    victim = chats[0].homes[0]
    kill_while_it_is_asked(server, three[victim], chats[0])
    others = chats[1:]
    for turn in range(KILLED_AFTER, TURNS):
        for chat in others:
            assert chat.mark(turn) in chat.ask(server, turn)
            chat.homes += [number for number in asked(three, chat.mark(turn)) if number != victim]
    for chat in others:
        after = chat.homes[KILLED_AFTER:]
        assert len(after) == TURNS - KILLED_AFTER and len(set(after)) == 1
        assert chat.homes[0] == victim or set(after) == {chat.homes[0]}


def kill_while_it_is_asked(server, victim, chat):
    """The client gets its answer all the same."""
    gone, answers = threading.Event(), []
    mark = chat.mark(KILLED_AFTER)
    victim.on(mark, Reply(after=gone))
    client = threading.Thread(target=lambda: answers.append(chat.ask(server, KILLED_AFTER)))
    client.start()
    victim.wait_for_call(mark)
    victim.kill()
    gone.set()
    client.join(PATIENCE_S)
    assert len(answers) == 1 and mark in answers[0]


def test_each_address_has_its_numbers(server, three):
    """As many calls as were made; those of the one that was killed failed at last."""

    def numbers():
        families = text_string_to_metric_families(server.request("GET", "/metrics")[1].decode())
        samples = [s for family in families for s in family.samples]
        found = {}
        for sample in samples:
            if sample.name == "headrace_address_calls_total":
                place = sample.labels["address"], sample.labels["outcome"] == "stop"
                found[place] = found.get(place, 0) + sample.value
        return found

    def well():
        return sum(value for (_, is_well), value in numbers().items() if is_well)

    expected = (CHATS - 1) * TURNS + KILLED_AFTER + 1
    assert wait_until(lambda: well() >= expected)
    told = numbers()
    assert well() == expected
    assert {url for url, is_well in told if is_well} == {one.url for one in three}
    assert {url for url, is_well in told if not is_well} == {one.url for one in three if one.is_killed}

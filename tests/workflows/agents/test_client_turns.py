"""Loops that wait for their client's tool: kept for an hour, 64 MiB of them, found by the end of a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.workflows.agents.client_turns import (
    KEPT_FOR_S,
    KeptLoop,
    KeptLoops,
    LoopPlace,
    question_of,
    resume_loop,
)
from Middleware.workflows.agents.tool_calls import Repeats

PLACE = LoopPlace("ana", "Workflows/ana/Main.json", 1)
USER = {"role": "user", "content": "hi"}
ASIDE = {"role": "user", "content": "something else"}


def asking(*ids: str) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def loop(*ids: str, text: str = "") -> KeptLoop:
    turns = [{"role": "assistant", "content": text}, asking(*ids)]
    return KeptLoop(turns, frozenset(ids), dict.fromkeys(ids, "f"), 1, 0, Repeats())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


class TestKept:
    def test_for_an_hour(self, clock):
        """Then the model knows what the client sends."""
        kept = KeptLoops(clock)
        kept.keep(PLACE, ["a", "b"], loop("a", "b"))
        clock.now = KEPT_FOR_S - 1
        assert kept.find(PLACE, ["x", "b"]) is not None
        clock.now = KEPT_FOR_S
        assert kept.find(PLACE, ["a", "b"]) is None

    @pytest.mark.parametrize("other", [{"owner": "key bob"}, {"question": question_of([ASIDE])}])
    def test_for_its_own_chat(self, clock, other):
        """Some models count their calls, so ids are the same in two chats."""
        kept = KeptLoops(clock)
        place = PLACE._replace(owner="key ann", question=question_of([USER, asking("a")]))
        kept.keep(place, ["a"], loop("a"))
        assert kept.find(place, ["a"]) is not None
        assert kept.find(place._replace(**other), ["a"]) is None

    def test_what_is_over_is_let_go(self, clock):
        """With the next one that is kept, however much room there is."""
        kept = KeptLoops(clock)
        kept.keep(PLACE, ["a"], loop("a"))
        clock.now = KEPT_FOR_S
        kept.keep(PLACE, ["b"], loop("b"))
        assert list(kept._kept) == [(PLACE, "b")]

    def test_of_one_node_of_one_user(self, clock):
        """The same id elsewhere is another one."""
        kept = KeptLoops(clock)
        kept.keep(PLACE, ["a"], loop("a"))
        for place in (PLACE._replace(user="bob"), PLACE._replace(workflow="W"), PLACE._replace(node=2)):
            assert kept.find(place, ["a"]) is None

    def test_the_oldest_give_way(self, clock):
        """By their size; one that is too big is not kept at all."""
        kept = KeptLoops(clock, most_bytes=25_000)
        for name in "abc":
            kept.keep(PLACE, [name], loop(name, text="x" * 10_000))
        assert [kept.find(PLACE, [name]) is not None for name in "abc"] == [False, True, True]
        kept.keep(PLACE, ["d"], loop("d", text="x" * 30_000))
        assert kept._kept == {} and kept._bytes == 0

    def test_what_is_found_may_be_gone_on_with(self, clock):
        """A client that asks twice finds the same twice."""
        kept = KeptLoops(clock)
        kept.keep(PLACE, ["a"], loop("a"))
        first = kept.find(PLACE, ["a"])
        assert first is not None
        first.turns.append(USER)
        first.repeats.note("f", {}, "r")
        second = kept.find(PLACE, ["a"])
        assert second is not None and len(second.turns) == 2
        second.repeats.note("f", {}, "r")
        assert second.repeats.refusal("f", {}) is None


CONVERSATIONS = [
    ("the-result-came", [USER, asking("q"), result("q")], 1),
    ("older-turns-stay", [USER, asking("o"), result("o"), USER, asking("q"), result("q")], 4),
    ("a-prefill-stays", [USER, {"role": "assistant", "content": "Sure."}, asking("q"), result("q")], 2),
    ("earlier-calls-of-the-loop", [USER, asking("p"), result("p"), asking("q"), result("q")], 1),
    ("calls-that-are-not-known", [USER, asking("x"), result("x"), asking("q"), result("q")], 3),
    ("a-filler-behind", [USER, asking("q"), result("q"), {"role": "assistant", "content": "Assistant:"}], 1),
    ("no-result", [USER, asking("q")], None),
    ("another-question", [USER, asking("q"), result("q"), USER], None),
    ("another-call", [USER, asking("z"), result("z")], None),
    ("nothing", [], None),
]


@pytest.mark.parametrize(
    ("messages", "before"), [c[1:] for c in CONVERSATIONS], ids=[c[0] for c in CONVERSATIONS]
)
def test_which_conversation_goes_on(messages, before):
    """With results of calls that a loop ended with; what its turns hold already is left out."""
    kept = loop("p", "q")
    resumed = resume_loop(messages, lambda ids: kept if {"p", "q"} & set(ids) else None)
    if before is None:
        assert resumed is None
    else:
        assert resumed is not None
        assert (resumed.messages, resumed.answers) == (messages[:before], [result("q")])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([USER], [USER, asking("a"), result("a")], True),
        ([USER], [ASIDE, USER, asking("a")], True),
        ([USER], [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], True),
        ([USER], [USER, ASIDE], False),
        ([], [asking("a")], True),
        ([{"role": "user", "content": "\ud83d"}], [USER], False),
    ],
    ids=["before-and-behind-a-call", "other-things-before", "another-form", "another-question", "none", "half-a-letter"],
)  # fmt: skip
def test_what_question_a_call_belongs_to(one, other, same):
    assert (question_of(one) == question_of(other)) is same

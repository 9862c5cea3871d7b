"""Liveness machinery and repeated calls in a conversation (frontend-api.md 9.1, 9.2)."""

from __future__ import annotations

import copy

import pytest

from Middleware.utilities.tool_traffic import collapse_repeats, is_machinery, without_machinery

LIVENESS = {"toolName": "ping", "arguments": {"a": 1}}
BARE = {"toolName": "ping", "arguments": {}}


def call(name="tide", arguments="{}", given="c1"):
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": given, **made} if given else made


def turn(*calls, content=""):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(content="ok", given=None):
    made = {"role": "tool", "content": content}
    return {**made, "tool_call_id": given} if given else made


USER = {"role": "user", "content": "Hi"}
FILLER = {"role": "assistant", "content": "Assistant:"}
ALIVE = call("anything", "{}", "wilmer_liveness_1")

MACHINERY = [
    ("by-id", ALIVE, LIVENESS, True),
    ("by-marker", call(arguments='{"note": "[Wilmer] go on"}'), LIVENESS, True),
    ("by-marker-in-object", call(arguments={"note": "[Wilmer]"}), LIVENESS, True),
    ("by-equality", call("ping", '{"a": 1}'), LIVENESS, True),
    ("by-equality-object", call("ping", {"a": 1}), LIVENESS, True),
    ("other-arguments", call("ping", "{}"), LIVENESS, False),
    ("other-name", call("pong", '{"a": 1}'), LIVENESS, False),
    ("missing-arguments", call("ping", None), BARE, True),
    ("empty-arguments", call("ping", " "), BARE, True),
    ("broken-arguments", call("ping", "{"), BARE, False),
    ("malformed", "ping", BARE, False),
    ("without-function", {"id": "wilmer_liveness_1"}, BARE, False),
]


@pytest.mark.parametrize(
    ("given", "liveness", "expected"), [c[1:] for c in MACHINERY], ids=[c[0] for c in MACHINERY]
)
def test_what_is_machinery(given, liveness, expected):
    """By id, by marker, or equal to the configured call; what is malformed is genuine."""
    assert is_machinery(given, liveness) is expected


CLEANED = [
    ("removed-with-its-result", [USER, turn(ALIVE), result(given="wilmer_liveness_1"), USER], [USER, USER]),
    ("result-by-position", [USER, turn(ALIVE), result(), result("more"), USER], [USER, result("more"), USER]),
    ("filler-content-goes", [turn(ALIVE, content="Assistant:"), USER], [USER]),
    ("content-stays", [turn(ALIVE, content="Hello"), USER], [{"role": "assistant", "content": "Hello"}, USER]),
    ("genuine-calls-stay", [turn(call(), ALIVE), result(given="c1"), USER], [turn(call()), result(given="c1"), USER]),
    ("trailing-machinery-is-seen-once", [USER, turn(ALIVE), result(given="wilmer_liveness_1")],
     [USER, turn(ALIVE), result(given="wilmer_liveness_1")]),
    ("trailing-before-fillers", [turn(ALIVE), result(), FILLER], [turn(ALIVE), result(), FILLER]),
    ("older-machinery-goes-anyway", [turn(ALIVE), result(), USER, turn(ALIVE)], [USER, turn(ALIVE)]),
    ("genuine-trailing", [turn(ALIVE), result(), turn(call()), result(given="c1")], [turn(call()), result(given="c1")]),
    ("malformed-stays", [{**USER, "tool_calls": "x"}, turn("x"), USER], [{**USER, "tool_calls": "x"}, turn("x"), USER]),
    ("empty", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), [c[1:] for c in CLEANED], ids=[c[0] for c in CLEANED])
def test_without_machinery(messages, expected):
    """Removed everywhere but in a trailing exchange; the list is not changed."""
    before = copy.deepcopy(messages)
    assert without_machinery(messages, LIVENESS) == expected
    assert messages == before


def exchange(content="5 m", arguments="{}"):
    return [turn(call(arguments=arguments)), result(content, "c1")]


class TestCollapse:
    def test_three_of_a_kind_become_one(self):
        """Its result says how often, after an empty line."""
        made = collapse_repeats([USER, *exchange(), *exchange("5  m\n"), *exchange(), USER])
        assert made[:2] == [USER, exchange()[0]] and made[3:] == [USER]
        assert made[2]["content"].startswith("5 m\n\n[Wilmer note:") and "3 times" in made[2]["content"]

    @pytest.mark.parametrize(
        "messages",
        [
            exchange() * 2,
            [*exchange(), *exchange("6 m"), *exchange()],
            [*exchange(), *exchange(arguments='{"a": 1}'), *exchange()],
            [turn(call(), call("u")), result(), result()] * 3,
            [turn(call()), result(), result()] * 3,
            [turn("x"), result()] * 3,
            [USER] * 3,
            [turn(call())],
        ],
        ids=["two", "results", "arguments", "two-calls", "two-results", "malformed", "no-calls", "no-result"],
    )
    def test_what_is_left_alone(self, messages):
        """Fewer, different, or more than one call a turn."""
        assert collapse_repeats(messages) == messages

    def test_spelling_of_arguments_does_not_count(self):
        """Two texts of one object are equal."""
        spelled = [*exchange(arguments='{"a":1,"b":2}'), *exchange(arguments='{"b": 2, "a": 1}')] * 2
        assert len(collapse_repeats(spelled)) == 2

"""Signed thinking blocks are kept for an hour, for their endpoint and call."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.claude_messages import (
    KEPT_FOR_S,
    MOST_CALLS,
    ThinkingOwner,
    ThinkingReplay,
)
from tests.clock import Clock

OWNER = ThinkingOwner("key ann", "shared", "e")
BLOCK = {"type": "thinking", "thinking": "hm", "signature": "s"}


def test_kept_for_each_call():
    """A turn may hold several calls."""
    replay = ThinkingReplay()
    replay.keep(OWNER, [("a", "{}"), ("b", "")], [BLOCK])
    assert replay.of(OWNER, "a", {}) == replay.of(OWNER, "b", {}) == [BLOCK]


def test_not_for_others():
    """A signature is good where it was made, and no key sees what another was told: some models count their
    calls, so ids are the same in two chats.
    """
    replay = ThinkingReplay()
    replay.keep(OWNER, [("a", "{}")], [BLOCK])
    others = [OWNER._replace(endpoint="f"), OWNER._replace(user="bob"), OWNER._replace(asker="key bob")]
    assert [replay.of(other, "a", {}) for other in others] == [[], [], []]
    assert replay.of(OWNER, "z", {}) == []


def test_two_chats_whose_server_counts_its_calls():
    """Each gets its own, and one that has none gets none."""
    replay, other = ThinkingReplay(), {**BLOCK, "thinking": "so"}
    replay.keep(OWNER, [("call_0", '{"path": "a"}')], [BLOCK])
    replay.keep(OWNER, [("call_0", '{"path": "b"}')], [other])
    found = [replay.of(OWNER, "call_0", {"path": path}) for path in "abc"]
    assert found == [[BLOCK], [other], []]


@pytest.mark.parametrize(
    ("came", "back"),
    [
        ('{"a":1.0,"b":"\\u00e9"}', '{ "b": "\u00e9", "a": 1 }'),
        ('{"a": [1.5, null]}', {"a": [1.5, None]}),
        ("", "{}"),
        (None, {}),
        ("{" * 5000, "[" * 5000),
    ],
)
def test_a_call_that_comes_back_written_in_another_way(came, back):
    """Clients read the arguments and write them anew; what is no object counts as none."""
    replay = ThinkingReplay()
    replay.keep(OWNER, [("a", came)], [BLOCK])
    assert replay.of(OWNER, "a", back) == [BLOCK]


def test_nothing_to_keep():
    """An answer without thoughts."""
    replay = ThinkingReplay()
    replay.keep(OWNER, [("a", "{}")], [])
    assert replay.of(OWNER, "a", {}) == []


def test_answers_without_thoughts_push_out_none_that_had_some():
    """Most calls of most chats have none."""
    replay = ThinkingReplay()
    replay.keep(OWNER, [("a", "{}")], [BLOCK])
    replay.keep(OWNER, [(str(number), "{}") for number in range(MOST_CALLS)], [])
    assert replay.of(OWNER, "a", {}) == [BLOCK]


def test_for_an_hour():
    """Then they are forgotten, also in memory."""
    clock = Clock()
    replay = ThinkingReplay(clock)
    replay.keep(OWNER, [("a", "{}")], [BLOCK])
    clock.now = KEPT_FOR_S - 1
    assert replay.of(OWNER, "a", {}) == [BLOCK]
    clock.now = KEPT_FOR_S
    assert replay.of(OWNER, "a", {}) == []
    replay.keep(OWNER, [("b", "{}")], [BLOCK])
    assert len(replay._kept) == 1


def test_the_oldest_goes_when_there_are_too_many():
    """Memory is bounded."""
    replay = ThinkingReplay()
    replay.keep(OWNER, [(str(number), "{}") for number in range(MOST_CALLS + 1)], [BLOCK])
    assert replay.of(OWNER, "0", {}) == []
    assert replay.of(OWNER, str(MOST_CALLS), {}) == [BLOCK]

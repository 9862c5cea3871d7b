"""Signed thinking blocks are kept for an hour, for their endpoint and call."""

from __future__ import annotations

from Middleware.llmapis.dialects.claude_messages import KEPT_FOR_S, MOST_CALLS, ThinkingReplay
from tests.clock import Clock

BLOCK = {"type": "thinking", "thinking": "hm", "signature": "s"}


def test_kept_for_each_call():
    """A turn may hold several calls."""
    replay = ThinkingReplay()
    replay.keep("e", ["a", "b"], [BLOCK])
    assert replay.of("e", "a") == replay.of("e", "b") == [BLOCK]


def test_not_for_others():
    """A signature is good where it was made."""
    replay = ThinkingReplay()
    replay.keep("e", ["a"], [BLOCK])
    assert replay.of("f", "a") == replay.of("e", "z") == []


def test_nothing_to_keep():
    """An answer without thoughts."""
    replay = ThinkingReplay()
    replay.keep("e", ["a"], [])
    assert replay.of("e", "a") == []


def test_answers_without_thoughts_push_out_none_that_had_some():
    """Most calls of most chats have none."""
    replay = ThinkingReplay()
    replay.keep("e", ["a"], [BLOCK])
    replay.keep("e", [str(number) for number in range(MOST_CALLS)], [])
    assert replay.of("e", "a") == [BLOCK]


def test_for_an_hour():
    """Then they are forgotten, also in memory."""
    clock = Clock()
    replay = ThinkingReplay(clock)
    replay.keep("e", ["a"], [BLOCK])
    clock.now = KEPT_FOR_S - 1
    assert replay.of("e", "a") == [BLOCK]
    clock.now = KEPT_FOR_S
    assert replay.of("e", "a") == []
    replay.keep("e", ["b"], [BLOCK])
    assert len(replay._kept) == 1


def test_the_oldest_goes_when_there_are_too_many():
    """Memory is bounded."""
    replay = ThinkingReplay()
    replay.keep("e", [str(number) for number in range(MOST_CALLS + 1)], [BLOCK])
    assert replay.of("e", "0") == []
    assert replay.of("e", str(MOST_CALLS)) == [BLOCK]

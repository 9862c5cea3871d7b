"""How messages are cut into chunks. Source: spec memory.md 5."""

from __future__ import annotations

import pytest

from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.memory.chunking import (
    _rising,
    chunk_hash,
    chunk_messages,
    chunk_text,
    tokens_of,
    without_system,
)
from tests.workflows.memory.conftest import talk


class TestCutting:
    """From the newest backwards, up to 80 % of the size, never inside a message."""

    def test_chunks_are_filled_from_the_newest(self):
        """Two tokens each, 4.8 allowed: the remainder is the oldest."""
        assert [len(chunk) for chunk in chunk_messages(talk(5), 6)] == [1, 2, 2]
        assert [m for chunk in chunk_messages(talk(5), 6) for m in chunk] == talk(5)

    @pytest.mark.parametrize(("size", "chunks"), [(5, 1), (4.9, 2)])
    def test_the_edge_of_80_percent(self, size, chunks):
        """Four tokens fit into 80 % of five."""
        assert len(chunk_messages(talk(2), size)) == chunks

    def test_a_message_that_is_too_long_is_a_chunk_of_its_own(self):
        long = {"role": "user", "content": "x" * 500}
        assert chunk_messages([*talk(1), long, *talk(1)], 10) == [talk(1), [long], talk(1)]

    def test_no_messages_are_no_chunks(self):
        assert chunk_messages([], 10) == []

    def test_the_text_and_the_hash_of_a_chunk(self):
        """Contents without roles; the last message names it."""
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]
        assert chunk_text(messages) == "a\n"
        assert chunk_hash(messages) == message_hash({"content": ""})

    def test_tokens_are_those_of_the_joined_text_with_braces_at_their_length(self):
        assert tokens_of(talk(3)) == 8
        assert tokens_of([{"role": "user", "content": "{}"}]) == 11

    def test_system_messages_are_left_out(self):
        assert without_system([{"role": "system", "content": "s"}, *talk(1)]) == talk(1)


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        ([], []),
        ([5], [5]),
        ([1, 2, 3], [1, 2, 3]),
        ([3, 2, 1], [1]),
        ([0, 9, 1, 2], [0, 1, 2]),
        ([4, 5, 0, 1, 2], [0, 1, 2]),
        ([2, 7, 3, 8, 4, 1, 5], [2, 3, 4, 5]),
    ],
)
def test_the_longest_row_that_rises(seconds, kept):
    """The most pairs of which both numbers rise, each the one before the next."""
    assert _rising(list(enumerate(seconds))) == [(seconds.index(each), each) for each in kept]

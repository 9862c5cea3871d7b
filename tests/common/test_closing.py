"""Ending an iterator before its end."""

from __future__ import annotations

from Middleware.common.types import close_batches


def test_what_can_be_closed_is():
    """So that whoever makes the batches gives back what it holds."""
    ends = []

    def batches():
        try:
            yield []
        finally:
            ends.append("ended")

    stream = batches()
    next(stream)
    close_batches(stream)
    assert ends == ["ended"]


def test_a_plain_iterator_needs_nothing():
    """It goes on where it was."""
    stream = iter([[], []])
    close_batches(stream)
    assert list(stream) == [[], []]

"""What a stdio server writes to its standard error: what is kept of it, and what is told."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from Middleware.workflows.tools import mcp_connection as mcp_pipe
from Middleware.workflows.tools.mcp_connection import LAST_WORDS, SHOWN, StandardError
from tests.patience import PATIENCE_S


@pytest.fixture
def said():
    return []


@pytest.fixture
def errors(said):
    return StandardError(("sesame-0815",), said.append)


def test_a_line_is_told_and_kept(errors, said):
    errors.hear("disk is full")
    assert said == ["disk is full"] and errors.last_words() == "\n  disk is full"


def test_only_the_last_lines_are_kept(errors, said):
    for number in range(50):
        errors.hear(f"line {number}")
    assert len(said) == 50
    assert errors.last_words().split("\n  ")[1:] == [
        f"line {number}" for number in range(50 - LAST_WORDS, 50)
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("key sesame-0815 is bad", "key *** is bad"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer ***"),
        ("\x1b[31mred\x1b[0m \x1b[2Kx", "red x"),
        ("a\x00b\x07c\x1b]0;title\x07\u2028d", "a\ufffdb\ufffdc\ufffd]0;title\ufffd\ufffdd"),
        ("tab\tstays", "tab\tstays"),
        ("x" * 3 * SHOWN, "x" * SHOWN),
        ("x" * (SHOWN - 5) + "sesame-0815", "x" * (SHOWN - 5) + "***"),
    ],
    ids=["secret", "bearer", "colours", "control", "tab", "long", "at-the-cut"],
)
def test_what_a_line_may_show(errors, said, line, shown):
    """No secret, not even half of one at the cut; nothing that a terminal obeys."""
    errors.hear(line)
    assert said == [shown]


class TestPrivateRequests:
    """From the first one on any line may quote it: the session is shared."""

    def test_nothing_is_told_any_more(self, errors, said):
        errors.hear("ready")
        errors.hide()
        errors.hide()
        errors.hear("got: my private words")
        assert said == ["ready", "[Redacted] from here on, because the session serves a private request"]
        assert errors.last_words() == "\n  ready"

    def test_what_we_know_ourselves_still_is(self, errors):
        errors.hide()
        errors.note("it sent too much")
        assert errors.last_words() == "\n  it sent too much"


def test_the_last_words_of_a_server_that_ended_are_waited_for(errors):
    def speak():
        errors.hear("about to crash")
        errors.silent.set()

    thread = threading.Thread(target=speak)

    async def ask():
        asking = asyncio.create_task(errors.all_words())
        await asyncio.sleep(0)
        thread.start()
        return await asking

    assert asyncio.run(ask()) == "\n  about to crash"
    thread.join()


def test_of_a_line_without_end_only_the_beginning_is_handed_on(monkeypatch):
    """A cut in the middle of a secret would show both halves."""
    monkeypatch.setattr(mcp_pipe, "LONGEST_LINE", 10)
    heard, silent = [], threading.Event()
    with mcp_pipe.error_pipe(heard.append, "test", silent) as end:
        os.write(end.fileno(), b"one\n\n0123456789abcdefghijklmnop\ntwo\r\nlast")
    assert silent.wait(PATIENCE_S)
    assert heard == ["one", "0123456789", "two", "last"]

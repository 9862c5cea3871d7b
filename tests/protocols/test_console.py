"""The console's own requests (console.md 9.9)."""

from __future__ import annotations

from Middleware.protocols.console import PROTOCOL
from Middleware.protocols.registry import ErrorReply
from tests.protocols.streams import chunk, framer

BATCHES = [[chunk("Hel")], [chunk("lo.", thinking="hm")], [chunk("", "stop")]]


def test_answers_are_those_of_openai():
    """Unit for unit."""
    ours, theirs = framer("console"), framer("openaichatcompletion")
    for batch in BATCHES:
        assert ours.units(batch) == theirs.units(batch)
    assert ours.end() == theirs.end() == ["data: [DONE]\n\n"]


def test_a_failure_is_one_sentence():
    """As on every route of the console."""
    assert PROTOCOL.error_body(ErrorReply(404, "no such file")) == {"error": "no such file"}

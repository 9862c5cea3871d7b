"""Findings at their places in the text that the page shows."""

from __future__ import annotations

import pytest

from Middleware.api.console.workflow_files import problems
from Middleware.config.validation import ERROR, WARNING, Finding

FILE = "Workflows/mira/Main.json"


def told(text, pointer, message="wrong", file=FILE):
    """(line, column, end line, end column, node, message) of one finding of a text."""
    (one,) = problems([Finding(file, pointer, ERROR, message)], file, text)
    return tuple(one[key] for key in ("line", "column", "end_line", "end_column", "node", "message"))


class TestProblems:
    def test_its_shape(self):
        """Keys in the order of spec 9.2; findings of other files are none of its own."""
        findings = [
            Finding("Users/a.json", "", ERROR, "x"),
            Finding(FILE, "/nodes/0/prompt", WARNING, "said"),
        ]
        (one,) = problems(findings, FILE, '{"nodes": [\n  {"prompt": "p"}]}')
        assert list(one.items()) == [
            *(("line", 2), ("column", 14), ("end_line", 2), ("end_column", 17)),
            *(("pointer", "/nodes/0/prompt"), ("node", 1), ("level", "warning"), ("message", "said")),
        ]

    @pytest.mark.parametrize(
        ("text", "pointer", "place"),
        [
            ('{"nodes": [\n {"a": 1}]}', "/nodes/0/prompt", (2, 2, 2, 3, 1)),
            ('[{"a": 1},\n {"b": [2,\n3]}]', "/1/b", (2, 8, 2, 9, 2)),
            ('[{"a": 1},\n {"b": 2}]', "/nodes/1/b", (2, 8, 2, 9, 2)),
            ('{"a": 1}', "", (1, 1, 1, 2, None)),
            ('{"a": 1,\n "b" 2}', "", (2, 6, 2, 7, None)),
            ("", "", (1, 1, 1, 2, None)),
        ],
        ids=["missing", "list", "list-as-nodes", "whole", "no-json", "empty"],
    )
    def test_where_a_finding_stands(self, text, pointer, place):
        """At the value, of an object or a list at its bracket, of a missing field at that of its object; of a broken
        text at the sign.
        """
        assert told(text, pointer)[:5] == place

    def test_places_are_those_of_the_masked_text(self):
        """What stands behind a long key stands further left on the page."""
        text = '{"apiKey": "sk-1234567890abcdef", "b": 1, "auth": {\n"a": 1}, "c": 2}'
        assert told(text, "/b")[:4] == (1, 24, 1, 25)
        assert told(text, "/c")[:4] == (1, 47, 1, 48)

    def test_words_quote_no_secret(self):
        """Neither a short one that was found, nor a long one anywhere, nor a password in an address."""
        text = '{"apiKey": "ab", "token": "sk-1234567890abcdef"}'
        assert told(text, "/apiKey", 'found "ab", allowed: ab or c')[5] == 'found "***", allowed: ab or c'
        assert told(text, "/x", "is sk-1234567890abcdef and http://u:pw@h")[5] == "is *** and http://u:***@h"

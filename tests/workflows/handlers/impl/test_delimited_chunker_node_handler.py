"""DelimitedChunker: the first or last pieces of a text."""

from __future__ import annotations

import pytest

WHOLE = {"content": "a|b|c|", "delimiter": "|", "mode": "tail", "count": 2}

FAULTS = [
    ("nothing", {}, "No content specified"),
    ("null-content", {**WHOLE, "content": None}, "No content specified"),
    ("no-delimiter", {"content": ""}, "No delimiter specified"),
    ("no-mode", {"content": "a", "delimiter": "|", "count": "x"}, "No mode specified"),
    ("no-count", {"content": "a", "delimiter": "|", "mode": "x"}, "No count specified"),
    ("text-count", {**WHOLE, "mode": "x", "count": "2"}, "Invalid count: must be an integer, got str"),
    ("bool-count", {**WHOLE, "count": True}, "Invalid count: must be an integer, got bool"),
    ("float-count", {**WHOLE, "count": 2.0}, "Invalid count: must be an integer, got float"),
    ("zero", {**WHOLE, "mode": "x", "count": 0}, "Invalid count: must be >= 1, got 0"),
    ("negative", {**WHOLE, "count": -3}, "Invalid count: must be >= 1, got -3"),
    ("mode", {**WHOLE, "mode": "Head"}, "Invalid mode: must be 'head' or 'tail', got 'Head'"),
    ("number-as-mode", {**WHOLE, "mode": 5}, "Invalid mode: must be 'head' or 'tail', got '5'"),
    ("empty-delimiter", {**WHOLE, "delimiter": ""}, "Invalid delimiter: must resolve to a non-empty string"),
    (
        "delimiter-filled-empty",
        {**WHOLE, "delimiter": "{no}"},
        "Invalid delimiter: must resolve to a non-empty string",
    ),
]
OUTPUTS = [
    ("tail", {}, "c|"),
    ("head", {"mode": "head"}, "a|b"),
    ("all", {"count": 4}, "a|b|c|"),
    ("more-than-all", {"count": 99, "mode": "head"}, "a|b|c|"),
    ("delimiter-not-there", {"delimiter": "#"}, "a|b|c|"),
    ("long-delimiter", {"content": "{log}", "delimiter": "{line}", "count": 1}, "c"),
    ("empty-content", {"content": "", "delimiter": "{no}"}, ""),
    ("content-filled-empty", {"content": "{no}"}, ""),
]


@pytest.mark.parametrize(("fields", "output"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_wrong_field_is_told_in_the_output(bench, fields, output):
    """The first one in the order of the table; to validation all of them are advice."""
    bench.engine.values = {"no": ""}
    assert bench("DelimitedChunker", **fields) == output
    assert bench.findings("DelimitedChunker", **fields)[0] == []


@pytest.mark.parametrize(("fields", "output"), [o[1:] for o in OUTPUTS], ids=[o[0] for o in OUTPUTS])
def test_output(bench, fields, output):
    """Pieces joined again with the delimiter."""
    bench.engine.values = {"log": "a\n---\nb\n---\nc", "line": "\n---\n", "no": ""}
    assert bench("DelimitedChunker", **{**WHOLE, **fields}) == output


def test_the_two_schemas(bench):
    """Types are errors, the rest is advice."""
    assert bench.findings("DelimitedChunker", **WHOLE) == ([], [])
    assert bench.findings("DelimitedChunker", content=3, delimiter="", mode="x", count=0) == (
        ["/content"],
        ["/count", "/delimiter", "/mode"],
    )

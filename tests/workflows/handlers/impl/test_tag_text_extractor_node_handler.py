"""TagTextExtractor: the text between two tags."""

from __future__ import annotations

import pytest

SITUATIONS = [
    ("one-pair", "x <a> y\nz </a> w", "y\nz"),
    ("only-the-first-pair-counts", "<a></a><a>y</a>", ""),
    ("blank-first-pair", "<a> \n </a><a>y</a>", ""),
    ("up-to-the-first-end", "<a>1<a>2</a>3</a>", "1<a>2"),
    ("case-counts", "<A>y</A>", ""),
    ("no-attributes", "<a b='c'>y</a>", ""),
    ("unclosed", "<a>y", ""),
    ("end-before-start", "</a>x<a>y", ""),
    ("closed-later", "</a>x<a>y</a>", "y"),
    ("absent", "nothing", ""),
]


@pytest.mark.parametrize(("text", "found"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
def test_output(bench, text, found):
    """What was found, else the default text."""
    bench.engine.values = {"agent1Output": text, "tag": "a", "ask": "Ask."}
    fields = {"tagToExtractFrom": "{agent1Output}", "fieldToExtract": "{tag}"}
    assert bench("TagTextExtractor", **fields) == found
    assert bench("TagTextExtractor", **fields, defaultText="{ask}") == (found or "Ask.")
    assert bench("TagTextExtractor", **fields, defaultText=None) == found


def test_a_tag_may_hold_any_characters(bench):
    """It is matched literally."""
    assert bench("TagTextExtractor", tagToExtractFrom="<a.*+b>x</a.*+b>", fieldToExtract="a.*+b") == "x"


@pytest.mark.parametrize(
    "fields",
    [
        {"fieldToExtract": "a"},
        {"tagToExtractFrom": "<a>x</a>"},
        {"tagToExtractFrom": "", "fieldToExtract": "a"},
    ],
    ids=["no-text", "no-tag", "empty-text"],
)
def test_without_its_fields_even_the_default_text_is_not_used(bench, fields):
    """Which is advice, not an error."""
    assert bench("TagTextExtractor", **fields, defaultText="d") == ""
    must, should = bench.findings("TagTextExtractor", **fields)
    assert must == [] and should != []

"""Think blocks of any look, removed as the text comes."""

from __future__ import annotations

import pytest

from Middleware.cleaning.block_remover import BlockRemover, BlockRule
from Middleware.cleaning.head_strip import literal_tag
from Middleware.cleaning.stage import Findings


def remover(findings, *, opening="[", **more):
    rule = {"keep": False, "once": True, "opening_width": len(opening or ""), **more}
    return BlockRemover(
        BlockRule(literal_tag(opening) if opening else None, literal_tag("]]"), **rule), findings
    )


def run(stage, text):
    return [*map(stage.feed, text), stage.finish()]


SITUATIONS = [  # id, options of the rule, text, what comes out, completed thoughts
    ("one block", {}, "a[b]]c[d]]", "ac[d]]", ["b"]),
    ("many blocks", {"once": False}, "a[b]]c[d]]e", "ace", ["b", "d"]),
    ("begins inside", {"opening": None}, "a]]b]]", "b]]", ["a"]),
    ("too late", {"last_start": 1}, "aa[b]]", "aa[b]]", []),
    ("too late behind half a tag", {"opening": "<<", "last_start": 4}, "abc<a<<b]]", "abc<a<<b]]", []),
    ("in time behind half a tag", {"opening": "<<", "last_start": 5}, "abc<a<<b]]", "abc<a", ["b"]),
    ("just in time", {"last_start": 2}, "aa[b]]", "aa", ["b"]),
    ("unclosed is dropped", {}, "a[b]", "a", []),
    ("unclosed is kept", {"keep": True}, "a[b]", "a[b]", []),
    ("half an end inside", {}, "[a]b]]c", "c", ["a]b"]),
    ("a tag in code", {"code_is_text": True}, "`a [b]]` c", "`a [b]]` c", []),
    ("code that is a tag alone", {"code_is_text": True}, "`[` a[b]]c", "`[` ac", ["b"]),
    ("a tag in a fence", {"code_is_text": True}, "```\n[b]]\n```\n[c]]", "```\n[b]]\n```\n", ["c"]),
]


@pytest.mark.parametrize(
    ("options", "text", "expected", "thoughts"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
@pytest.mark.parametrize("cut", [list, lambda text: [text]], ids=["characters", "whole"])
def test_blocks(options, text, expected, thoughts, cut):
    findings = Findings()

    assert "".join(run(remover(findings, **options), cut(text))) == expected
    assert findings.completed == thoughts


def test_is_done_when_no_block_can_come_any_more():
    """After the one block, or when the text has grown past the last place where a tag counts."""
    findings = Findings()
    closed, late = remover(findings), remover(findings, last_start=3)

    closed.feed("[a]]")
    late.feed("abcd")

    assert closed.done and late.done


def test_a_tail_past_the_last_place_is_not_held():
    stage = remover(Findings(), opening="<<", last_start=3)

    assert (stage.feed("abcd<"), stage.done) == ("abcd<", True)


def test_live_thoughts_are_fresh_as_they_come():
    findings = Findings(live=True)
    stage = remover(findings)

    stage.feed("[a")
    first = list(findings.fresh)
    stage.feed("b]")

    assert (first, findings.fresh) == (["a"], ["a", "b"])


def test_a_text_that_began_inside_and_never_came_is_not_worth_a_warning():
    findings = Findings()

    assert run(remover(findings, opening=None), "") == [""]
    assert findings.warnings == []

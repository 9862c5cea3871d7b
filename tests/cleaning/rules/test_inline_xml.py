"""XML elements in the answer."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner, strip_inline_xml_tags
from Middleware.cleaning.rules.inline_xml import STRIP


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


SITUATIONS = [  # id, value of stripInlineXmlTags, answer, what the user sees
    ("off", False, "a <b>c</b>", "a <b>c</b>"),
    ("on", True, "a <b>c</b>\n\nd <e/> f", "a d f"),
    ("object alone is on", {}, "a<b/>c", "a c"),
    ("list", {"tags": ["b"]}, "a<b/>c<d/>", "a c<d/>"),
    ("bare name", {"tags": "b"}, "a<b/>c<d/>", "a c<d/>"),
    ("no usable tags", {"tags": 5}, "a<b/>c", "a c"),
    ("empty list", {"tags": []}, "a<b/>  c", "a<b/> c"),
    ("null is absent", {"tags": None, "collapseWhitespace": None}, "a<b/>  c", "a c"),
    ("keeps white space", {"collapseWhitespace": False}, "a\n\n<b>c</b>\n- d", "a\n\n\n- d"),
    ("a seam becomes a space", {"collapseWhitespace": False}, "a<b/><c/>d", "a d"),
    ("no space at the ends", {"collapseWhitespace": False}, "<b/>a<b/>", "a"),
    ("a tag over a removed element", True, "a <b <c>d</c>/>e", "a e"),
]


@pytest.mark.parametrize(
    ("value", "text", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_inline_xml(value, text, expected):
    assert clean(text, {"stripInlineXmlTags": value}) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), "a b"), (("*", False), " a b\n"), ((["x"],), "a<c>d</c>b"), (("c", False), " a b\n")],
)
def test_alone_on_a_whole_text(arguments, expected):
    assert strip_inline_xml_tags(" a<c>d</c>b\n", *arguments) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "a"), ("<c/>a", "a"), (" <c/>a", " a"), ("a<c/>", "a"), ("a<c/> b", "a b"), ("a<c/>b", "a b")],
)
def test_alone_a_gap_is_a_space_between_two_texts(text, expected):
    """Nowhere else is one added."""
    assert strip_inline_xml_tags(text, "*", collapse_whitespace=False) == expected


def test_alone_none_is_empty():
    assert strip_inline_xml_tags(None) == ""


def test_an_element_is_held_and_nothing_else():
    cleaner = ResponseCleaner({"stripInlineXmlTags": True}, {})

    assert [cleaner.feed(text) for text in ("a ", "b <c>", "d</c", "> e")] == ["a", " b", "", " e"]


def test_it_is_off_unless_a_file_asks():
    """Editors and pages say so."""
    assert STRIP.default is False

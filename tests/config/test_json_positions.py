"""Where keys and values stand in a JSON text as people write it."""

from __future__ import annotations

import json
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.config.json_positions import count_values, parse, positions
from Middleware.config.validation import json_pointer

TEXT = """{ // {"nodes": 1}
  "size": 4, "a/b": {"~": [1, {"x": null}]},
  "nodes": [
    {"title": "One", "prompt": "say \\"}\\" /* no */"},
    {"agentName" /* : */ : "Two", "flag": true,},
  ]
}
"""

WORDS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ['//"', "/*", "*/", ",]", "\\", "0"]
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
BLANKS = st.lists(
    st.sampled_from(["", " ", "\n", "\t", "\r\n", '// ] } "\n', '/* , { " */', "/**/"]),
    min_size=1,
    max_size=9,
)


def written(value, blanks):
    """A document as text: a blank or comment between all tokens, a comma before each closing bracket."""
    if isinstance(value, dict):
        members = [f"{json.dumps(key)}{next(blanks)}:{written(item, blanks)}" for key, item in value.items()]
    elif isinstance(value, list):
        members = [written(item, blanks) for item in value]
    else:
        return next(blanks) + json.dumps(value, ensure_ascii=False) + next(blanks)
    first, last = "{}" if isinstance(value, dict) else "[]"
    inside = next(blanks).join(f"{member},{next(blanks)}" for member in members)
    return f"{next(blanks)}{first}{inside}{next(blanks)}{last}{next(blanks)}"


def items_of(value, pointer=""):
    """(pointer, value) of a document and of everything in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield pointer, value
    for key, item in pairs:
        yield from items_of(item, pointer + json_pointer([key]))


@pytest.mark.parametrize(
    ("pointer", "value", "key"),
    [
        ("/size", "4", '"size"'),
        ("/a~1b/~0/1/x", "null", '"x"'),
        ("/a~1b/~0/0", "1", None),
        ("/nodes/0/prompt", '"say \\"}\\" /* no */"', '"prompt"'),
        ("/nodes/1/agentName", '"Two"', '"agentName"'),
        ("/nodes/1", '{"agentName" /* : */ : "Two", "flag": true,}', None),
        ("/nodes/1/none/deeper", "{", None),
        ("/nodes/2", "[", None),
        ("/size/deeper", "4", None),
        ("", TEXT.strip(), None),
    ],
)
def test_key_and_value_of_a_pointer(pointer, value, key):
    """A missing value is at the opening bracket of what should hold it."""
    found = positions(TEXT)
    start, end = found.value(pointer)
    assert TEXT[start:end] == value
    span = found.key(pointer)
    assert (TEXT[slice(*span)] if span else None) == key


@settings(max_examples=200)
@given(DOCUMENTS, BLANKS)
def test_every_value_is_found_where_it_stands(document, blanks):
    """Cut out of the text by its span, each value reads as what the pointer leads to, and each key too."""
    text = written(document, cycle(blanks))
    found = positions(text)
    assert parse(text.encode(), "") == document
    assert [place.pointer for place in found.places] == [pointer for pointer, _ in items_of(document)]
    for pointer, value in items_of(document):
        assert parse(text[slice(*found.value(pointer))].encode(), "") == value
        key = found.key(pointer)
        assert key is None or pointer.endswith(json_pointer([json.loads(text[slice(*key)])]))


@settings(max_examples=300)
@given(st.text(st.sampled_from('{}[],:"\\/* \n\ufeffa1'), max_size=60), st.text(max_size=8))
def test_any_text_has_a_map(text, pointer):
    """What is no JSON raises nothing, and no place lies outside of the text."""
    found = positions(text)
    assert all(0 <= place.start <= place.end <= len(text) for place in found.places)
    start, end = found.value(pointer)
    assert 0 <= start <= end <= len(text)


def test_of_a_text_that_is_no_json_what_can_be_recognised():
    """A comma, quotes and brackets that were forgotten: someone is writing."""
    text = '{"a": 1 "b": {c: [true false'
    found = positions(text)
    assert [(p.pointer, text[p.start : p.end]) for p in found.places[1:]] == [
        ("/a", "1"),
        ("/b", "{c: [true false"),
        ("/b/c", "[true false"),
        ("/b/c/0", "true"),
        ("/b/c/1", "false"),
    ]


def test_behind_the_end_of_the_first_value_nothing_is():
    """Whatever stands there."""
    text = '{"a": [1]} {"b": 2}'
    found = positions(text)
    assert [place.pointer for place in found.places] == ["", "/a", "/a/0"]
    assert text[slice(*found.value("/b"))] == "{"


def test_a_comma_begins_the_next_value():
    """Also where the one before it is missing."""
    text = '{"a", "b": [1,,3]}'
    found = positions(text)
    assert [(place.pointer, text[place.start : place.end]) for place in found.places[1:]] == [
        ("/b", "[1,,3]"),
        ("/b/0", "1"),
        ("/b/2", "3"),
    ]


def test_of_a_key_that_stands_twice_the_last_counts():
    """The earlier value has its place too, marked: it may be a secret."""
    text = '{"a": {"x": 1}, "a": {"y": 2}, "\\u0061": 3, "b": 4}'
    found = positions(text)
    assert found.find("/a/x") is None
    assert text[slice(*found.value("/a"))] == "3"
    assert list(found.twice()) == ["/a", "/a"]
    assert [(p.pointer, p.hidden) for p in found.places if p.key and p.parent is found.places[0]] == [
        ("/a", True),
        ("/a", True),
        ("/a", False),
        ("/b", False),
    ]


@pytest.mark.parametrize(
    ("text", "most", "count"), [("[1, [2], 3]", 99, 5), ("[1, 2, 3]", 4, 4), ("[1, 2, 3]", 3, 3), ("[1] [2]", 99, 2), ("", 1, 0)]
)  # fmt: skip
def test_values_are_counted_so_far(text, most, count):
    """One that holds others is one; behind the end of the first nothing is."""
    assert count_values(text, most) == count


@pytest.mark.parametrize(("index", "found"), [("1", "8"), ("000000001", "8"), ("0000000001", "[")])
def test_the_digits_of_an_index(index, found):
    """More than nine are none: nobody makes a number of a million digits."""
    text = "[7, 8]"
    assert text[slice(*positions(text).value(f"/{index}"))] == found


@pytest.mark.parametrize(
    ("offset", "line", "column"), [(0, 1, 1), (3, 1, 4), (4, 2, 1), (5, 2, 2), (6, 3, 1)]
)  # fmt: skip
def test_lines_and_columns_count_from_one(offset, line, column):
    assert positions("[1,\n2\n]").line_column(offset) == (line, column)


@pytest.mark.parametrize("text", ["[1]", "{}", '{"' + "9" * 5000 + '": 1}'])
def test_a_key_of_thousands_of_digits_is_no_index(text):
    """Python reads no such number."""
    assert (positions(text).find("/" + "9" * 5000) is not None) is ("9" in text)


def test_a_byte_order_mark_is_passed_over():
    assert positions("\ufeff[7]").value("/0") == (2, 3)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "[" + "{}," * 300_000 + "]",
        '{"a":1,' * 140_000,
        "{" + '"a":1,' * 170_000 + "}",
        '"\\"' * 330_000,
        "/*" * 500_000,
        '["' + "x" * 1_000_000 + '"]',
        "," * 1_000_000,
    ],
    ids=["deep", "wide", "deep-objects", "one-key", "open-texts", "comments", "long-text", "commas"],
)
def test_a_megabyte_of_anything_is_read(text):
    """No text makes it walk twice: a quadratic reader would be at it for hours."""
    assert positions(text).line_column(0) == (1, 1)


@pytest.mark.parametrize("number", [0.5, -1e-3, 1e300, 12])
def test_numbers_are_what_they_say(number):
    """Fractions, too; only what is too large for one is refused."""
    assert parse(json.dumps({"a": [number]}).encode(), "") == {"a": [number]}

"""JSON as people write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.common.errors import ConfigError
from Middleware.config.tolerant_json import parse

FORGIVEN = [
    ("plain", b'{"a": 1}', {"a": 1}),
    ("byte-order-mark", b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ("line-comment", b'// head\n{"a": 1} // tail', {"a": 1}),
    ("block-comment", b'{/* one\n two */"a": 1}', {"a": 1}),
    ("comment-marks-in-text", b'{"a": "http://x /* y */", } // z', {"a": "http://x /* y */"}),
    ("escaped-quote-before-marks", b'{"a": "\\" // x",}', {"a": '" // x'}),
    ("trailing-commas", b'{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
    ("comma-then-comment", b"[1, // one\n /* none */ ]", [1]),
    ("comma-in-text", b'[",]", ",}",]', [",]", ",}"]),
    ("whole-character-in-two-escapes", b'["\\ud83d\\ude00"]', ["\U0001f600"]),
    ("hundred-levels", b"[" * 99 + b"[]" + b"]" * 99, json.loads("[" * 99 + "[]" + "]" * 99)),
    ("empty-list", b"[ /* nothing */ ]", []),
]

BROKEN = [
    ("no-value", b'{\n  "a": }\n', "line 2, column 8"),
    ("behind-a-comment", b'{ /* x */ "a": }', "line 1, column 16"),
    ("not-utf8", b'{\n"a": "\xff"}', "line 2: not UTF-8"),
    ("empty-file", b"", "line 1, column 1"),
    ("open-text", b'{"a": "x', "line 1, column 7"),
    ("two-commas", b"[1,,]", "line 1, column 4"),
    ("comma-alone", b"[,]", "column 2"),
    ("deep", b"[" * 200_000, "nested too deeply"),
    (
        "deeper-than-anything-means",
        b'{"a":' * 101 + b"1" + b"}" * 101,
        "nested too deeply: more than 100 levels",
    ),
    ("digits-without-end", b'{"a": ' + b"1" * 5000 + b"}", "too many digits"),
    ("digits-without-end-with-comment", b"// x\n[" + b"1" * 5000 + b"]", "too many digits"),
    ("not-a-number", b'{"a": NaN}', "NaN is no number"),
    ("infinity", b'{"a": -Infinity,}', "-Infinity is no number"),
    ("too-large", b'{"a": 1e999}', "the number 1e999 is too large"),
    ("half-a-character", b'{"a": "x\\ud83d"}', "\\ud83d is only half of a character"),
    ("half-a-character-as-key", b'{"\\uDE00": 1} // x', "\\ude00 is only half of a character"),
    ("deep-with-comment", b"//\n" + b"[" * 200_000, "nested too deeply"),
    ("html", b"<html>", "line 1, column 1"),
]


@pytest.mark.parametrize(("raw", "value"), [c[1:] for c in FORGIVEN], ids=[c[0] for c in FORGIVEN])
def test_what_is_forgiven(raw, value):
    """Marks, comments and trailing commas change nothing of the value."""
    assert parse(raw, "x.json") == value


@pytest.mark.parametrize(("raw", "said"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_what_is_not_json_is_an_error_with_its_place(raw, said):
    """File, line and column are those of the text as written."""
    with pytest.raises(ConfigError) as caught:
        parse(raw, "Users/x.json")
    assert said in str(caught.value)
    assert caught.value.file == "Users/x.json"


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_comments_around_any_value_are_forgiven(value):
    """Whatever the texts hold, they come out as they went in."""
    import json

    raw = f"// before\n/**/{json.dumps(value, ensure_ascii=False)} /* after"
    assert parse(raw.encode("utf-8", "surrogatepass"), "x") == value

"""JSON as people write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.common.errors import ConfigError
from Middleware.config.json_positions import parse

FORGIVEN = [
    ("plain", b'{"a": 1}', {"a": 1}),
    ("byte-order-mark", b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ("line-comment", b'// head\n{"a": 1} // tail', {"a": 1}),
    ("block-comment", b'{/* one\n two */"a": 1}', {"a": 1}),
    ("comment-marks-in-text", b'{"a": "http://x /* y */", } // z', {"a": "http://x /* y */"}),
    ("escaped-quote-before-marks", b'{"a": "\\" // x",}', {"a": '" // x'}),
    ("trailing-commas", b'{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
    ("comma-then-comment", b"[1, // one\n /* none */ ]", [1]),
    ("blanks-before-a-comma", b'{"a": [1 \n , ] \t,\n}', {"a": [1]}),
    ("comment-before-a-comma", b"[1 /* one */ ,\n]", [1]),
    ("comma-in-text", b'[",]", ",}",]', [",]", ",}"]),
    ("whole-character-in-two-escapes", b'["\\ud83d\\ude00"]', ["\U0001f600"]),
    ("hundred-levels", b"[" * 99 + b"[]" + b"]" * 99, json.loads("[" * 99 + "[]" + "]" * 99)),
    ("empty-list", b"[ /* nothing */ ]", []),
]

BROKEN = [
    ("no-value", b'{\n  "a": }\n', ".json:2:8: "),
    ("behind-a-comment", b'{ /* x */ "a": }', ".json:1:16: "),
    ("not-utf8", b'{\n"a": "\xff"}', ".json:2:7: not UTF-8"),
    ("empty-file", b"", ".json:1:1: "),
    ("open-text", b'{"a": "x', ".json:1:7: "),
    ("two-commas", b"[1,,]", ".json:1:4: "),
    ("comma-alone", b"[,]", ".json:1:2: "),
    ("comma-behind-blanks", b"[ \n , ]", ".json:2:2: "),
    ("comma-in-an-object", b"{ , }", ".json:1:3: "),
    ("comma-behind-a-comma", b"[1 , , ]", ".json:1:6: "),
    ("comma-behind-a-name", b'{"a": ,}', ".json:1:7: "),
    ("comma-in-front-of-all", b" , ]", ".json:1:2: "),
    ("deep", b"[" * 200_000, "nested too deeply"),
    (
        "deeper-than-anything-means",
        b'{"a":' * 101 + b"1" + b"}" * 101,
        "nested too deeply: more than 100 levels",
    ),
    ("digits-without-end", b'{"a": ' + b"1" * 5000 + b"}", "too many digits"),
    ("digits-without-end-with-comment", b"// x\n[" + b"1" * 5000 + b"]", "too many digits"),
    ("not-a-number", b'{"a": NaN}', "NaN is not a number"),
    ("infinity", b'{"a": -Infinity,}', "-Infinity is not a number"),
    ("too-large", b'{"a": 1e999}', "the number 1e999 is too large"),
    ("half-a-character", b'{"a": "x\\ud83d"}', "\\ud83d is only half of a character"),
    ("half-a-character-as-key", b'{"\\uDE00": 1} // x', "\\ude00 is only half of a character"),
    ("deep-with-comment", b"//\n" + b"[" * 200_000, "nested too deeply"),
    ("html", b"<html>", ".json:1:1: "),
    ("place-of-half-a-character", b'{\n "a": "x\\ud83d"}', ".json:2:9: "),
    ("place-of-digits-without-end", b'{\n "a": ' + b"1" * 5000 + b"}", ".json:2:7: "),
    ("place-of-no-number", b'{\n "a": NaN}', ".json:2:7: "),
    ("place-of-a-number-that-is-too-large", b'{\n "a": 1e999}', ".json:2:7: "),
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


@settings(max_examples=100)
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


HINTS = [
    ("single-quotes", b"{'a': 1}", "double quotes, not single ones"),
    ("curly-quotes", "{“a”: 1}".encode(), "straight double quotes"),
    ("no-quotes", b'{title: "x"}', 'names need double quotes: "title":'),
    ("quote-in-a-text", b'{"a": "say "x" now"}', r'write a " inside a string as \\"'),
    ("quote-at-the-end-of-a-text", b'{"a": "title: "x""}', r'write a " inside a string as \\"'),
    ("no-comma-at-a-line-end", b'{"a": "x"\n "b": 1}', "a comma is missing before this"),
    ("no-comma-between-objects", b'[{"a": 1} {"b": 1}]', "a comma is missing before this"),
    ("no-comma-in-a-line", b'{"a": 1 2}', "not JSON: a comma is missing before this$"),
    ("no-comma-before-a-word", b'{"a": 1 b}', "not JSON: a comma is missing before this$"),
    ("no-value", b'{"a": }', "not JSON: a value is missing here$"),
    ("no-name", b"{1: 2}", "not JSON: a name in double quotes is missing here$"),
    ("no-colon", b'{"a" 1}', "not JSON: a colon is missing before this$"),
    ("python-true", b'{"a": True}', "in JSON, write true instead of True"),
    ("python-false", b'{"a": False}', "in JSON, write false instead of False"),
    ("true-in-capitals", b'{"a": TRUE}', "in JSON, write true instead of TRUE"),
    ("null-in-capitals", b'{"a": Null}', "in JSON, write null instead of Null"),
    ("javascript-undefined", b'{"a": undefined}', "in JSON, write null instead of undefined"),
    ("python-none", b'{"a": None}', "in JSON, write null instead of None"),
    ("empty", b" \n", "the file is empty"),
    (
        "open-list",
        b'[{"a": 1}\n',
        r"not JSON: the file ends here; a closing \] or \} is missing",
    ),
    ("open-object", b'{"a": 1, // b\n', "the file ends here"),
    ("value-missing-at-the-end", b'{"a":', "the file ends here"),
    (
        "line-end-in-a-text",
        b'{"a": "x\ny"}',
        r'not JSON: a string must end with " on the line where it begins;',
    ),
    ("open-text", b'{"a": "x', r'not JSON: the closing " of this string is missing'),
    ("backslash", b'{"a": "C:\\Dir"}', r"not JSON: write a backslash in a string as \\\\"),
    ("backslash-u", b'{"a": "C:\\users"}', r"write a backslash in a string as"),
    ("more-behind", b"[1]\nx", r"not JSON: the file must contain one value, which ended before this"),
    ("utf-16", '{"a": 1}'.encode("utf-16"), "UTF-16"),
    ("utf-16-without-mark", '{"a": 1}'.encode("utf-16-be"), "UTF-16"),
]


@pytest.mark.parametrize(("raw", "said"), [c[1:] for c in HINTS], ids=[c[0] for c in HINTS])
def test_the_usual_slips_get_a_hint(raw, said):
    with pytest.raises(ConfigError, match=said):
        parse(raw, "Users/x.json")


EXCERPTS = [
    ("tab", b'{\n\t"a": }', '\n     "a": }\n          ^'),
    ("secret", b'{"apiKey": "sk-1", x}', '\n    {"apiKey": "****", x}\n                       ^'),
    ("long-line", b'{"a": "' + b"x" * 200 + b'" y}', "\n    " + "x" * 58 + '" y}\n    ' + " " * 60 + "^"),
    ("crlf", b'{"a": ]\r\n}', '\n    {"a": ]\n          ^'),
    ("nothing", b"", ""),
    ("number", b'{"a": "NaN", "b": NaN}', '\n    {"a": "NaN", "b": NaN}\n                      ^'),
    ("latin-1", b'{"a": "\xfc"}', '\n    {"a": "\ufffd"}\n           ^'),
]


def test_another_empty_file_is_told_what_an_object_is():
    with pytest.raises(ConfigError, match=r"the file is empty; the smallest object is \{\}"):
        parse(b" ", "Users/ana.json")


def test_an_empty_workflow_is_told_what_a_workflow_is():
    with pytest.raises(
        ConfigError, match=r'the file is empty; the smallest workflow is \[\{"type": "Standard"'
    ):
        parse(b"", "Workflows/ana/Main.json")


@pytest.mark.parametrize(("raw", "excerpt"), [c[1:] for c in EXCERPTS], ids=[c[0] for c in EXCERPTS])
def test_the_line_is_shown_with_a_caret(raw, excerpt):
    """Cut when it is long, without secrets."""
    with pytest.raises(ConfigError) as caught:
        parse(raw, "Users/x.json")
    assert caught.value.excerpt == excerpt
    assert caught.value.fresh_copy().excerpt == excerpt

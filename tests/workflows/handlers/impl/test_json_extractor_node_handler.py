"""JsonExtractor: one field of an object."""

from __future__ import annotations

import pytest

SITUATIONS = [
    ("text", '{"route": "left"}', "left"),
    ("empty-text", '{"route": ""}', ""),
    ("fence", '```\n{"route": "a"}\n```', "a"),
    ("json-fence", ' ```json\n{"route": "a"}```\n', "a"),
    ("upper-fence", '```JSON {"route": "a"} ```', "a"),
    ("mixed-case-fence", '```Json\n{"route": "a"}\n```', ""),
    ("other-fence", '```python\n{"route": "a"}\n```', ""),
    ("text-around-the-fence", 'Here: ```json\n{"route": "a"}\n```', ""),
    ("open-fence", '```json\n{"route": "a"}', ""),
    ("object", '{"route": {"a": [1, "ü"], "b": true}}', '{"a": [1, "\\u00fc"], "b": true}'),
    ("list", '{"route": [1, 2]}', "[1, 2]"),
    ("true", '{"route": true}', "True"),
    ("false", '{"route": false}', "False"),
    ("integer", '{"route": 7}', "7"),
    ("number", '{"route": 1.50}', "1.5"),
    ("null", '{"route": null}', ""),
    ("missing", '{"Route": "x"}', ""),
    ("not-an-object", '["route"]', ""),
    ("not-json", "route: left", ""),
    ("raw-line-end", '{"route": "one\ntwo", "n": 1}', "one\ntwo"),
    ("raw-tab", '{"route": "one\ttwo"}', "one\ttwo"),
    ("comma-before-a-bracket", '{"route": ["a",], "n": 1,}', '["a"]'),
    ("slips-in-a-fence", '```json\n{"route": "one\ntwo",}\n```', "one\ntwo"),
    ("two-objects", '{"route": "a",} {"route": "b"}', ""),
    ("too-deep-with-a-slip", '{"route": "one\ntwo", "n": ' + "[" * 100_000, ""),
    ("too-deep", "[" * 100_000, ""),
    ("endless-number", '{"route": ' + "9" * 5000 + "}", ""),
]


@pytest.mark.parametrize(("text", "output"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
def test_output(bench, text, output):
    """The value as text, or nothing."""
    bench.engine.values = {"agent1Output": text, "key": "route"}
    assert bench("JsonExtractor", jsonToExtractFrom="{agent1Output}", fieldToExtract="{key}") == output


def test_there_are_no_dotted_paths(bench):
    """A key is taken as it is."""
    text = '{"a": {"b": 1}, "a.b": 2}'
    assert bench("JsonExtractor", jsonToExtractFrom=text, fieldToExtract="a.b") == "2"


@pytest.mark.parametrize(
    "fields",
    [
        {"fieldToExtract": "a"},
        {"jsonToExtractFrom": '{"a": 1}'},
        {"jsonToExtractFrom": "", "fieldToExtract": "a"},
        {"jsonToExtractFrom": '{"": 1}', "fieldToExtract": ""},
    ],
    ids=["no-text", "no-field", "empty-text", "empty-field"],
)
def test_without_its_fields_the_output_is_empty(bench, fields):
    """Which is advice, not an error."""
    assert bench("JsonExtractor", **fields) == ""
    must, should = bench.findings("JsonExtractor", **fields)
    assert must == [] and should != []

"""A model without tools of its own is told of them in words, and calls them by a JSON object in its reply."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.json_mode import (
    JsonReply,
    JsonReplyReader,
    describe_tools,
    reply_schema,
    result_turn,
    results_prompt,
)

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [
    AgentTool("read_file", "Read a file.\nAll of it.", PATH, "mcp"),
    AgentTool("now", "", {"type": "object", "properties": {"zone": {"$ref": "#/$defs/z"}}}, "script"),
]


class TestDescription:
    def test_each_tool_is_told_with_its_schema(self) -> None:
        told = describe_tools(TOOLS)
        call = '{"tool": "read_file", "arguments": {"path": "<path>"}}'
        read = f"read_file, schema of its arguments: {json.dumps(PATH)}\nRead a file.\nAll of it.\nTo use it: {call}"
        schema = json.dumps(TOOLS[1].parameters)
        now = f'now, schema of its arguments: {schema}\nTo use it: {{"tool": "now", "arguments": {{}}}}'
        assert f"{read}\n\n{now}\n\n" in told
        assert '{"tool": "NAME", "arguments": {...}}' in told
        assert told.endswith("answer in plain words.")

    def test_the_call_that_shows_how_has_what_is_needed_alone(self) -> None:
        """A value of each kind, a text as its name; a schema that is none breaks nothing."""
        kinds = {
            "i": "integer",
            "b": "boolean",
            "l": "array",
            "o": "object",
            "t": "string",
            "two": ["string", "null"],
        }
        schema = {
            "properties": {n: {"type": k} for n, k in {**kinds, "more": "string"}.items()},
            "required": [*kinds, "x"],
        }
        told = describe_tools([AgentTool("all", "", schema, "mcp")])
        arguments = {"i": 1, "b": True, "l": [], "o": {}, "t": "<t>", "two": "<two>"}
        assert f"To use it: {json.dumps({'tool': 'all', 'arguments': arguments})}\n" in told
        assert 'To use it: {"tool": "odd", "arguments": {}}' in describe_tools(
            [AgentTool("odd", "", {"properties": {"p": True}, "required": ["p"]}, "mcp")]
        )

    def test_a_model_that_is_held_to_a_schema_says_when_it_needs_none(self) -> None:
        """It cannot answer in words."""
        assert describe_tools(TOOLS, bound=True).endswith('reply with {"tool": null}.')

    def test_braces_of_a_tool_stay(self) -> None:
        assert "{agent1Output}" in describe_tools([AgentTool("a", "{agent1Output} {0}", {}, "mcp")])

    def test_without_tools_there_is_nothing_to_tell(self) -> None:
        assert describe_tools([]) == ""


class TestSchema:
    @pytest.mark.parametrize(
        ("reply", "fits"),
        [
            ({"tool": None}, True),
            ({"tool": "read_file", "arguments": {"path": "a"}}, True),
            ({"tool": "now", "arguments": {"anything": 1}}, True),
            ({"tool": "read_file", "arguments": {}}, False),
            ({"tool": "read_file"}, False),
            ({"tool": "search", "arguments": {}}, False),
            ({"tool": None, "arguments": {}}, False),
            ("words", False),
        ],
    )
    def test_a_step_is_a_call_of_one_tool_or_of_none(self, reply: object, fits: bool) -> None:
        """A schema with `$ref` counts as an object."""
        assert jsonschema.Draft202012Validator(reply_schema(TOOLS)).is_valid(reply) is fits


class TestResults:
    def test_the_last_prompt_has_each_result_once_and_then_the_question(self) -> None:
        told = results_prompt([("a", "x"), ("b", "y"), ("a", "x")], "Why?")
        assert told == "Result of a:\nx\n\nResult of b:\ny\n\nWhy?"
        assert result_turn("a", "x") == "Result of a:\nx"

    def test_without_results_it_is_the_question(self) -> None:
        assert results_prompt([], "Why?") == "Why?"


def read(text: str, sizes: Iterator[int] | None = None) -> tuple[str, tuple[str, object] | None, bool]:
    reader, shown, start = JsonReplyReader(), [], 0
    while start < len(text):
        length = next(sizes) if sizes else len(text)
        shown.append(reader.feed(text[start : start + length]))
        start += length
    reply: JsonReply = reader.finish()
    call = None if reply.call is None else (reply.call.name, json.loads(reply.call.arguments))
    return "".join(shown) + reply.rest, call, reply.is_null


A = ("x", {"a": 1})
CALL = '{"tool": "x", "arguments": {"a": 1}}'
REPLIES = [
    ("bare", CALL, ("", A, False)),
    ("words-around", f"Let me look. {CALL} Thanks.", ("Let me look. ", A, False)),
    ("fence", f"Sure:\n```json\n{CALL}\n```\nThere.", ("Sure:\n", A, False)),
    ("bare-fence", f"```\n{CALL}\n```", ("", A, False)),
    ("tolerant", "{'tool': 'x', 'arguments': {'a': 1,},}", ("", A, False)),
    ("first-of-two", CALL + '\n{"tool": "y", "arguments": {}}', ("", A, False)),
    ("other-keys", '{"tool": "x", "a": 1}', ("", A, False)),
    ("arguments-as-text", '{"tool": "x", "arguments": "{\\"a\\": 1}"}', ("", A, False)),
    ("arguments-null", '{"tool": "x", "arguments": null}', ("", ("x", {}), False)),
    ("nested", '{"tool": {"name": "x", "arguments": {"a": 1}}}', ("", A, False)),
    ("null", '{"tool": null}', ("", None, True)),
    ("empty", 'No need. {"tool": ""}', ("No need. ", None, True)),
    ("none", '{"tool": "None", "arguments": {}}', ("", None, True)),
    ("word-null", '{"tool": "null"}', ("", None, True)),
    ("answer", "It says alpha.", ("It says alpha.", None, False)),
    ("braces", 'Use {x} or {"toolbox": 1}.', ('Use {x} or {"toolbox": 1}.', None, False)),
    ("code", "```py\nprint({})\n```", ("```py\nprint({})\n```", None, False)),
    ("thought", f"<think>{CALL}</think>No.", (f"<think>{CALL}</think>No.", None, False)),
    ("behind-a-thought", f"<think>hm</think>{CALL}", ("<think>hm</think>", A, False)),
    ("nothing", "", ("", None, False)),
    ("half", '{"to', ('{"to', None, False)),
]


@pytest.mark.parametrize(("text", "meaning"), [r[1:] for r in REPLIES], ids=[r[0] for r in REPLIES])
def test_a_reply_means(text: str, meaning: object) -> None:
    """The same, however it is cut."""
    rng = random.Random(3)
    assert read(text) == meaning
    assert read(text, iter([1] * len(text))) == meaning
    for _ in range(20):
        assert read(text, iter([rng.randint(1, 9) for _ in text])) == meaning


def test_an_object_whose_key_comes_later_is_a_call_all_the_same() -> None:
    """It was on its way to the user before that could be known."""
    text = '{"arguments": {"a": 1}, "tool": "x"}'
    assert read(text) == read(text, iter([3] * len(text))) == (text, A, False)


def test_a_call_that_breaks_off_has_broken_arguments() -> None:
    reader = JsonReplyReader()
    assert reader.feed('{"tool": "write", "arguments": {"text": "abc') == ""
    reply = reader.finish()
    assert reply.call is not None and reply.call.name == "write"
    assert not reply.call.arguments.endswith("}")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Hello { ", "{ "),
        ("{x", ""),
        ('a {"to', '{"to'),
        ('a {"top', ""),
        ("a ```json\n", "```json\n"),
        ("a ```py\nprint", ""),
        ("`code` ", ""),
        ("a ``", "``"),
    ],
)
def test_only_what_may_become_a_call_is_held(text: str, held: str) -> None:
    reader = JsonReplyReader()
    assert "".join(map(reader.feed, text)) == text[: len(text) - len(held)]


PIECES = ('{"tool": "x"', '"arguments":', '"tool":', ",", "}", "{", "\n", "```", "json", "x", " ", '"', "`", "'tool'",
          '{"tool": null}', "<think>", "</think>", "null", ":", '{"a":')  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=14), st.lists(st.integers(1, 7), min_size=200, max_size=200)
)
def test_no_text_is_lost_or_made_up(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces)
    reader = JsonReplyReader()
    shown = reader.feed(text)
    whole = reader.finish()
    assert text.startswith(shown + whole.rest)
    assert whole.call or whole.is_null or shown + whole.rest == text
    cut, start, said = JsonReplyReader(), 0, ""
    for size in sizes:
        said += cut.feed(text[start : start + size])
        start += size
    end = cut.finish()
    assert (said + end.rest, end.call, end.is_null) == (shown + whole.rest, whole.call, whole.is_null)

"""Calls that a model wrote as text are read, and whatever else it wrote is text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.workflows.agents import text_calls
from Middleware.workflows.agents.text_calls import TextCall, TextCallReader

NAMES = ("read_file", "write")
CALL = '{"name": "read_file", "arguments": {"path": "a"}}'


def value_of(arguments: str) -> Any:
    """What the text of arguments says; of a call that breaks off the text itself."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def read(text: str, pieces: Iterator[int] | None = None) -> tuple[str, list[tuple[str, Any]] | None]:
    """What is shown of a text, and its calls, however it is cut."""
    reader, shown, start = TextCallReader(NAMES), [], 0
    for length in pieces or iter([max(1, len(text))] * 2):
        shown.append(reader.feed(text[start : start + length]))
        start += length
        if start >= len(text):
            break
    rest, calls = reader.finish()
    found = None if calls is None else [(c.name, value_of(c.arguments)) for c in calls]
    return "".join(shown) + rest, found


ONE = [("read_file", {"path": "a"})]
CALLS = [
    ("tool_call", f"<tool_call>{CALL}</tool_call>", "", ONE),
    ("no-end-mark", f"Look.\n<tool_call>\n{CALL}\n", "Look.\n", ONE),
    ("half-an-end-mark", f"<tool_call>{CALL}</tool_c", "", ONE),
    ("two", f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", "", ONE * 2),
    ("parameters", '<tool_call>{"parameters": {"a": 1}, "name": "write"}', "", [("write", {"a": 1})]),
    ("none", '<tool_call>{"name": "write"}</tool_call>', "", [("write", {})]),
    ("arguments-as-text", '<tool_call>{"name": "write", "arguments": "{\\"a\\": 1}"}', "", [("write", {"a": 1})]),
    ("line-ends-in-texts", '<tool_call>{"name": "write", "arguments": {"a": "x\ny"}}', "", [("write", {"a": "x\ny"})]),
    ("function", "<function=write><parameter=a>1</parameter></function>", "", [("write", {"a": "1"})]),
    (
        "function-in-lines",
        "Now:\n<tool_call>\n<function=write>\n<parameter=a>\nx\ny\n</parameter>\n<parameter=b>\n</parameter>\n"
        "</function>\n</tool_call>",
        "Now:\n",
        [("write", {"a": "x\ny", "b": ""})],
    ),
    ("function-open", "<function=write>\n<parameter=a>\nx\n</parameter>\n", "", [("write", {"a": "x"})]),
    ("parameter-open", "<function=write><parameter=a>x</function>", "", [("write", {"a": "x"})]),
    ("list", f"ok\n[TOOL_CALLS] [{CALL}, {CALL}]", "ok\n", ONE * 2),
    ("whole-text", f" {CALL}\n", " ", ONE),
    ("whole-fence", f"```json\n{CALL}\n```\n", "", ONE),
    ("whole-typed", '{"type": "function", "name": "write", "parameters": {"a": 1}}', "", [("write", {"a": 1})]),
    ("behind-a-thought", f"<think>hm</think>{CALL}", "<think>hm</think>", ONE),
    ("behind-a-thought-without-start", f"hm\n</think>\n\n<tool_call>{CALL}", "hm\n</think>\n\n", ONE),
    ("other-case", '<tool_call>{"name": "functions.Write", "arguments": {}}', "", [("functions.Write", {})]),
    ("a-broken-one-before", f'<tool_call>{{"name": "write" oops\n<tool_call>{CALL}', None, ONE),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown", "calls"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_calls_are_made_of(text: str, shown: str | None, calls: list[object]) -> None:
    """The calls are not shown; what stands before them is."""
    said, found = read(text)
    assert found == calls
    assert said == shown if shown is not None else text.startswith(said)


TEXTS = {
    "words": "I will read the file.",
    "mark-within-a-line": f"Say <tool_call>{CALL}</tool_call>",
    "words-behind": f"<tool_call>{CALL}</tool_call> Done.",
    "other-tool": '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
    "other-function": "<function=search><parameter=q>x</parameter></function>",
    "no-json": "<tool_call>read_file a</tool_call>",
    "list-of-texts": '[TOOL_CALLS] ["read_file"]',
    "whole-text-without-arguments": '{"name": "read_file"}',
    "whole-text-with-more": '{"name": "read_file", "arguments": {}, "size": 3}',
    "json-answer": '{"result": [1, 2], "name": "read_file"}',
    "words-before-the-object": f"Here: {CALL}",
    "in-a-thought": f"<think>\n<tool_call>{CALL}</tool_call>\n</think>",
    "in-an-open-thought": f"<think>\n<tool_call>{CALL}</tool_call>",
    "before-the-end-of-a-thought": f"\n<tool_call>{CALL}\n</think>No.",
    "markup": "<div>\n<tool>\n[1] and\n{ \n",
    "half-a-mark": "a\n<tool_ca",
    "nothing": "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_anything_else_is_text(text: str) -> None:
    assert read(text) == (text, None)


@pytest.mark.parametrize("text", [*(c[1] for c in CALLS), *TEXTS.values()])
def test_cutting_changes_nothing(text: str) -> None:
    """The same text and calls come out however the backend cuts it."""
    rng = random.Random(7)
    whole = read(text)
    assert read(text, iter([1] * (len(text) + 1))) == whole
    for _ in range(20):
        assert read(text, iter([rng.randint(1, 9) for _ in range(len(text) + 1)])) == whole


PIECES = ("<tool_call>", "</tool_call>", CALL, '{"name": "write"', '"arguments":', ",", "}", "{", "[", "]", "\n", "x", '"',
          "<function=write>", "<parameter=a>", "</parameter>", "</function>", "[TOOL_CALLS]", "<think>", "</think>",
          "```", "json", " ", "<", "\\", ":", "1")  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=14), st.lists(st.integers(1, 7), min_size=200, max_size=200)
)
def test_no_text_is_lost_or_made_up(pieces: list[str], sizes: list[int]) -> None:
    """Law: cut or not, the same; without calls all of the text is shown, with calls its beginning."""
    text = "".join(pieces)
    shown, calls = read(text)
    assert text.startswith(shown) and (calls or shown == text)
    assert read(text, iter([*sizes, len(text) + 1])) == (shown, calls)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Hello", ""),
        ("a\n<", "<"),
        ("a\n<tool_call", "<tool_call"),
        ("a\n<tools", ""),
        ("a <tool_call>", ""),
        ('<tool_call>{"name": "sea', '<tool_call>{"name": "sea'),
        ('<tool_call>{"name": "search"', ""),
        ('{"result": ', ""),
        ("```python\nprint", ""),
        (f"<tool_call>{CALL}</tool_call>.", ""),
    ],
)
def test_text_is_held_only_while_it_may_become_calls(text: str, held: str) -> None:
    reader = TextCallReader(NAMES)
    assert "".join(map(reader.feed, text)) == text.removesuffix(held) if held else text


def test_a_call_that_breaks_off_is_a_call_with_broken_arguments() -> None:
    """So the model hears that it was cut off, and nobody sees its markup."""
    reader = TextCallReader(NAMES)
    assert reader.feed('Ok.\n<tool_call>{"name": "write", "arguments": {"text": "abc') == "Ok.\n"
    assert reader.finish() == ("", [TextCall("write", '{"name": "write", "arguments": {"text": "abc')])


@pytest.mark.parametrize(
    "text",
    [
        "<div>\n" * 20_000,
        '<tool_call>{"name":"write","arguments":{"a":"\n' * 2000,
        "<function=write>\n<parameter=a>\n" * 2000 + "</parameter>x",
        "\n" * 100_000,
        "</think>" * 10_000,
        "[" * 50_000,
        '<tool_call>{"name":"write","arguments":' + '{"a":' * 20_000,
    ],
    ids=["tags", "texts", "functions", "lines", "thoughts", "lists", "deep"],
)
def test_each_character_is_looked_at_a_bounded_number_of_times(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However hostile the text: counted, not timed."""
    taken = 0
    take = text_calls._Candidate.take

    def count(self: text_calls._Candidate, part: str, start: int) -> int:
        nonlocal taken
        length = take(self, part, start)
        taken += length
        return length

    monkeypatch.setattr(text_calls._Candidate, "take", count)
    reader = TextCallReader(NAMES)
    shown = "".join(reader.feed(text[start : start + 7]) for start in range(0, len(text), 7))
    rest, calls = reader.finish()
    assert taken <= 10 * len(text)
    assert calls or shown + rest == text

"""A demanded call in a reply is found wherever a model put it, and only when it is the only one."""

from __future__ import annotations

import json

import pytest

from Middleware.workflows.dispatch.llm_dispatch import call_of, demand_of

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "hear")]
DEMAND = demand_of(TOOLS, "required")
GOOD = '{"name": "look", "arguments": {"a": "ö"}}'
HEAR = '{"name": "hear", "arguments": {}}'

FOUND = {
    "alone": f" {GOOD}\n",
    "json-fence": f"```json\n{GOOD}\n```",
    "plain-fence": f"Sure:\n```\n{GOOD}\n```\nDone.",
    "between-words": f"I call {GOOD} now.",
    "tags": f"<tool_call>\n{GOOD}\n</tool_call>",
    "in-a-list": f"[{GOOD}]",
    "arguments-as-text": json.dumps({"name": "look", "arguments": '{"a": "ö"}'}),
    "behind-thoughts": f"<think>Maybe {HEAR}?</think>{GOOD}",
    "behind-another-object": f'{{"plan": 1}} {GOOD}',
    "twice-the-same": f"{GOOD} as said: {GOOD}",
    "a-fence-before-words": f"Not {HEAR} but\n```json\n{GOOD}\n```",
    "more-keys": '{"id": 1, "name": "look", "arguments": {"a": "ö"}}',
}


@pytest.mark.parametrize("reply", FOUND.values(), ids=FOUND)
def test_the_one_call_is_found(reply):
    """In a fence, in words, in a list; what is around it is dropped."""
    answer = call_of(reply, DEMAND)
    [call] = answer["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"a": "ö"}'}
    assert (answer["content"], answer["finish_reason"]) == ("", "tool_calls")


def test_a_line_end_in_a_string_is_written_as_json():
    """Clients read the arguments as strict JSON."""
    reply = '{"name": "look", "arguments": {"a": "b\nc"}}'
    [call] = call_of(reply, DEMAND)["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": "b\nc"}


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_blank_arguments_as_text_are_an_empty_object(arguments):
    """As in a native call."""
    reply = json.dumps({"name": "look", "arguments": arguments})
    assert call_of(reply, DEMAND)["tool_calls"][0]["function"]["arguments"] == "{}"


NONE = {
    "words": "I cannot.",
    "another-name": '{"name": "x", "arguments": {}}',
    "no-arguments": '{"name": "look"}',
    "arguments-of-another-kind": '{"name": "look", "arguments": [1]}',
    "broken-arguments-as-text": json.dumps({"name": "look", "arguments": '{"a": '}),
    "no-json-number": '{"name": "look", "arguments": {"a": NaN}}',
    "two-calls": f"{GOOD} or {HEAR}",
    "two-calls-of-one-tool": f'{GOOD} or {{"name": "look", "arguments": {{}}}}',
    "only-thought-of": f"<think>{GOOD}",
    "cut": GOOD[:-2],
    "brackets": "[" * 100_000,
}


@pytest.mark.parametrize("reply", NONE.values(), ids=NONE)
def test_what_is_not_the_one_call_is_none(reply):
    """Nobody guesses which of two is meant, or what is missing."""
    assert call_of(reply, DEMAND) is None

"""Calls and results belong together by id, whatever a client knows of ids."""

from __future__ import annotations

import copy

import pytest

from Middleware.llmapis.dialects.tool_turns import linked, openai_calls


def caller(*calls):
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def call(name, call_id=None, arguments="{}"):
    given = {"id": call_id} if call_id else {}
    return {**given, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, **more):
    return {"role": "tool", "content": text, **more}


def ids_of(messages):
    return [message["tool_call_id"] for message in messages if "tool_call_id" in message]


CASES = {
    "by-id": ([call("a", "1"), call("b", "2")], [{"tool_call_id": "2"}, {"tool_call_id": "1"}], ["2", "1"]),
    "by-name": ([call("a", "1"), call("b", "2")], [{"name": "b"}, {"name": "a"}], ["2", "1"]),
    "by-place": ([call("a"), call("b")], [{}, {}], ["toolcall_1_0", "toolcall_1_1"]),
    "a-client-that-knows-ids": ([call("a", "1")], [{}], []),
    "same-name-twice": ([call("a", "1"), call("a", "2")], [{"name": "a"}, {"name": "a"}], ["1", "2"]),
    "unknown-name": ([call("a", "1")], [{"name": "x"}], ["1"]),
    "made-ids": ([call("a"), call("b")], [{"name": "b"}, {}], ["toolcall_1_1", "toolcall_1_0"]),
    "an-id-and-a-name": (
        [call("a", "1"), call("a", "2")],
        [{"tool_call_id": "1"}, {"name": "a"}],
        ["1", "2"],
    ),
    "unknown-id": ([call("a", "1")], [{"tool_call_id": "9"}], ["9"]),
    "more-results-than-calls": ([call("a")], [{}, {}], ["toolcall_1_0"]),
    "no-object": (["odd", call("a")], [{}], ["toolcall_1_1"]),
}


@pytest.mark.parametrize(("calls", "results", "ids"), CASES.values(), ids=CASES)
def test_results_find_their_calls(calls, results, ids):
    """Each call is answered once; the caller's messages stay as they are."""
    messages = [{"role": "user", "content": "q"}, caller(*calls)]
    messages += [result("r", **given) for given in results]
    before = copy.deepcopy(messages)
    assert ids_of(linked(messages)) == ids
    assert messages == before


def test_only_the_newest_calls_are_open():
    """A result belongs to the turn before it."""
    messages = [caller(call("a", "1")), caller(call("a", "2")), result("r", name="a")]
    assert ids_of(linked(messages)) == ["2"]


OPENAI = [
    (call("a", "1", '{"x": 1}'), call("a", "1", '{"x": 1}')),
    (
        {"id": "1", "function": {"index": 0, "name": "a", "arguments": {"x": "ö"}}},
        call("a", "1", '{"x": "ö"}'),
    ),
    ({"id": "1", "function": {"name": "a"}}, call("a", "1", "{}")),
    ({"id": "1", "function": None}, call("", "1", "{}")),
]


@pytest.mark.parametrize(("given", "sent"), OPENAI, ids=["regular", "ollama", "no-arguments", "no-function"])
def test_openai_form(given, sent):
    """`type`, and arguments as text."""
    assert openai_calls([caller(given, "odd")])[0]["tool_calls"] == [sent]

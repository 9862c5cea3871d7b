"""How an agent's model is asked, and what of its text may be a call. Source: spec agents.md 3."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from Middleware.workflows.agents.calling import JsonCalling, NativeCalling
from Middleware.workflows.agents.step_reader import NativeWords, PlainWords

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
OWN = {"startThinkTag": "[t]", "endThinkTag": "[/t]"}


@pytest.fixture
def calling():
    """A model with these tools, whose endpoint file has these fields."""

    def make(*tools, **raw):
        made = NativeCalling.__new__(NativeCalling)
        made._prompt = SimpleNamespace(endpoint=SimpleNamespace(raw=raw))
        made._tools = [SimpleNamespace(name=name) for name in tools]
        return made

    return make


@pytest.mark.parametrize("kind", [NativeCalling, JsonCalling])
@pytest.mark.parametrize("images", [{}, {"images": ["AAAA"]}], ids=["text", "picture"])
def test_a_clients_result_keeps_its_pictures(kind, images):
    """In the turn that the model gets."""
    answer = {"role": "tool", "tool_call_id": "c1", "content": "seen", **images}
    turn = kind.__new__(kind).client_result("look", answer).turn
    assert ("seen" in turn["content"], turn.get("images")) == (True, images.get("images"))


def test_without_tools_all_of_it_is_text(calling):
    assert isinstance(calling().words(), PlainWords)
    assert isinstance(calling("f").words(), NativeWords)


@pytest.mark.parametrize(
    ("thought", "raw", "is_call"),
    [
        ("<think>\n", {}, False),
        ("<think>\n", OWN, False),
        ("<think>\n", {"startThinkTag": "<think>", "endThinkTag": "</think>"}, False),
        ("[t]\n", OWN, False),
        ("[t]\n", {}, True),
        ("[t]\n", {"startThinkTag": "[t]"}, True),
        ("[t]\n", {"endThinkTag": "[/t]"}, True),
    ],
)
def test_a_call_within_a_thought_is_none(calling, thought, raw, is_call):
    """Behind the usual tag, or that of the endpoint, if it names both of its own."""
    words = calling("f", **raw).words()
    words.feed(thought + CALL)
    assert bool(words.finish().calls) is is_call

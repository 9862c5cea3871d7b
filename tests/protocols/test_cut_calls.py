"""In every protocol: a tool call that was cut is never told as a finished one. Agents run what they are given."""

from __future__ import annotations

import json
import re

import pytest

from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts
from tests.protocols.streams import chunk, collected

CUT = {"index": 1, "id": "b", "type": "function", "function": {"name": "erase", "arguments": '{"path": "a.t'}}
BEFORE = {"index": 1, "id": "b", "type": "function", "function": {"name": "erase", "arguments": ""}}
WHOLE = {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
FINISHED = re.compile(r'"(?:finish_reason|stop_reason)": ?"(?:tool_calls|tool_use)"|"status": ?"completed"')


def streamed(api_type, batches):
    framer = WIRE_FORMATS[api_type].framer(AnswerFacts("R", "mira"))
    units = [unit for batch in batches for unit in framer.units(batch)]
    return "".join([*units, *framer.end()])


def whole(api_type, batches):
    return json.dumps(WIRE_FORMATS[api_type].whole(collected(batches), AnswerFacts("R", "mira")))


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("cut", [CUT, BEFORE], ids=["inside", "before-its-arguments"])
@pytest.mark.parametrize("said", [streamed, whole])
@pytest.mark.parametrize("api_type", WIRE_FORMATS)
def test_the_reason_says_that_the_answer_was_cut(api_type, said, cut, reason):
    """`tool_calls` and its like would have the call run."""
    text = said(api_type, [[chunk(tool_calls=[cut])], [chunk("", reason)]])
    assert not FINISHED.search(text)


@pytest.mark.parametrize("cut", [CUT, BEFORE], ids=["inside", "before-its-arguments"])
@pytest.mark.parametrize("api_type", WIRE_FORMATS)
def test_a_whole_answer_leaves_the_cut_call_out(api_type, cut):
    """Those before it are whole, and stay where the protocol has a place for them."""
    text = whole(api_type, [[chunk("Well. ")], [chunk(tool_calls=[WHOLE, cut])], [chunk("", "length")]])
    assert "erase" not in text
    assert ("look" in text) == (WIRE_FORMATS[api_type].is_chat)


@pytest.mark.parametrize("cut", [CUT, BEFORE], ids=["inside", "before-its-arguments"])
def test_a_stream_of_objects_leaves_it_out_too(cut):
    """Ollama's calls have no fragments."""
    text = streamed("ollamaapichat", [[chunk(tool_calls=[WHOLE, cut])], [chunk("", "length")]])
    assert "erase" not in text and "look" in text and '"done_reason":"length"' in text


@pytest.mark.parametrize("cut", [CUT, BEFORE], ids=["inside", "before-its-arguments"])
def test_fragments_that_were_sent_stand_as_they_are(cut):
    """OpenAI's chat: the reason says the rest, and nothing is added to them."""
    text = streamed("openaichatcompletion", [[chunk(tool_calls=[cut])], [chunk("", "length")]])
    assert '"finish_reason":"length"' in text and "{}" not in text.replace('"delta":{}', "")

"""Chunks to frame, framers, and what units say."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from Middleware.protocols.registry import WIRE_FORMATS, AnswerCollector, AnswerFacts, encode_unit

CALL = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "tide", "arguments": ""}}
STEPS = [
    {"number": 1, "of": 2, "title": "Recall", "depth": 0},
    {"number": 1, "of": 3, "title": "Search", "depth": 1},
]
SUM = {"prompt_tokens": 107, "completion_tokens": 23, "calls": 2}
REST = {"index": 0, "function": {"arguments": '{"port":"Brest"}'}}
WHOLE_CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}}

pieces = st.builds(
    lambda token, more: {"token": token, "finish_reason": None, **more},
    st.text(max_size=8),
    st.sampled_from([{}, {"thinking": "hm"}, {"tool_calls": [WHOLE_CALL]}]),
)
endings = st.builds(
    lambda reason: [{"token": "", "finish_reason": reason, "usage": {"prompt_tokens": 1}}],
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "odd"]),
)
streams = st.builds(
    lambda batches, end: [*batches, end], st.lists(st.lists(pieces, max_size=4), max_size=5), endings
)
"""The batches of a whole answer."""


def chunk(token="", finish=None, **more):
    return {"token": token, "finish_reason": finish, **more}


def framer(api_type, **facts):
    return WIRE_FORMATS[api_type].framer(AnswerFacts("R", "mira", created=1760000000, **facts))


def collected(batches):
    """The whole answer that batches make."""
    collector = AnswerCollector()
    for batch in batches:
        collector.add(batch)
    return collector.answer()


def both_forms(wire, facts, batches):
    """`(units of the stream, body of the whole answer)`."""
    one = wire.framer(facts)
    units = [encode_unit(unit).decode() for batch in batches for unit in one.units(batch)]
    return units, wire.whole(collected(batches), facts)


def payloads(units):
    """The JSON of units, and `[DONE]` as it is."""
    datas = [unit.removeprefix("data: ").strip() for unit in units]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]

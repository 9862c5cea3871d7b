"""Chunks to frame, framers, and what units say."""

from __future__ import annotations

import json

from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts

CALL = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "tide", "arguments": ""}}
STEPS = [
    {"number": 1, "of": 2, "title": "Recall", "depth": 0},
    {"number": 1, "of": 3, "title": "Search", "depth": 1},
]
SUM = {"prompt_tokens": 107, "completion_tokens": 23, "calls": 2}
REST = {"index": 0, "function": {"arguments": '{"port":"Brest"}'}}


def chunk(token="", finish=None, **more):
    return {"token": token, "finish_reason": finish, **more}


def framer(api_type, **facts):
    return WIRE_FORMATS[api_type].framer(AnswerFacts("R", "mira", created=1760000000, **facts))


def payloads(units):
    """The JSON of units, and `[DONE]` as it is."""
    datas = [unit.removeprefix("data: ").strip() for unit in units]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]

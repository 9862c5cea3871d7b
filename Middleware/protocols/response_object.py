"""The response object of the Responses protocol and its items. Pure.

Knows no stream and no HTTP: `responses.py` frames what is made here. Source: spec more-fronts.md 3.5.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.services.answers import (
    AnswerFacts,
    WholeAnswer,
    cache_numbers,
    usage_numbers,
    whole_openai_calls,
)

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reason -> why a response is incomplete."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value))


def _is_object(value: Any) -> bool:
    """An object that can be written as JSON: a body may hold numbers that cannot (`1e999`)."""
    if not isinstance(value, dict):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _is_choice(value: Any) -> bool:
    return _is_text(value) or _is_object(value)


_ECHOED: dict[str, tuple[Callable[[Any], bool], Any]] = {
    "instructions": (_is_text, None),
    "max_output_tokens": (_is_count, None),
    "max_tool_calls": (_is_count, None),
    "parallel_tool_calls": (_is_flag, True),
    "previous_response_id": (_is_text, None),
    "prompt_cache_key": (_is_text, None),
    "safety_identifier": (_is_text, None),
    "store": (_is_flag, True),
    "temperature": (_is_number, None),
    "tool_choice": (_is_choice, "auto"),
    "top_p": (_is_number, None),
    "truncation": (_is_text, "disabled"),
    "user": (_is_text, None),
    "metadata": (_is_object, {}),
}
"""Field of the request that its response repeats -> (claims that the type fits, what stands there else)."""


def echo_of(body: JsonObject) -> JsonObject:
    """What a response repeats of its request, with the defaults where the request says nothing that fits."""
    echo = {name: _fitting(body, name, fits, default) for name, (fits, default) in _ECHOED.items()}
    reasoning, text = _object_of(body, "reasoning"), _object_of(body, "text")
    echo["reasoning"] = {name: _fitting(reasoning, name, _is_text, None) for name in ("effort", "summary")}
    echo["text"] = {
        "format": _fitting(text, "format", _is_object, {"type": "text"}),
        "verbosity": _fitting(text, "verbosity", _is_text, "medium"),
    }
    tools = body.get("tools")
    echo["tools"] = [
        tool
        for tool in (tools if isinstance(tools, list) else ())
        if _is_object(tool) and tool.get("type") == "function"
    ]
    return echo


def _fitting(holder: JsonObject, name: str, fits: Callable[[Any], bool], default: Any) -> Any:
    value = holder.get(name)
    return value if fits(value) else default


def _object_of(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def response_object(
    facts: AnswerFacts, status: str, output: list[JsonObject], ending: JsonObject | None = None
) -> JsonObject:
    """A response. `ending`: `usage`, `error` and `incomplete_details`, where they are not null."""
    echo, ended = facts.echo or echo_of({}), ending or {}
    values = {
        "id": f"resp_{facts.request_id}",
        "object": "response",
        "created_at": facts.created,
        "status": status,
        "background": False,
        "completed_at": int(time.time()) if status == "completed" else None,
        "error": ended.get("error"),
        "incomplete_details": ended.get("incomplete_details"),
        "model": facts.model,
        "output": output,
        "service_tier": "default",
        "top_logprobs": 0,
        "usage": ended.get("usage"),
        **echo,
    }
    return {name: values[name] for name in _ORDER}


_ORDER = (
    "id",
    "object",
    "created_at",
    "status",
    "background",
    "completed_at",
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "output",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
    "metadata",
)


def ending_of(finish_reason: str) -> tuple[str, JsonObject]:
    """(status, what the object says of it) of an answer that ended."""
    if (why := _INCOMPLETE.get(finish_reason)) is None:
        return "completed", {}
    return "incomplete", {"incomplete_details": {"reason": why}}


def usage_object(answer: WholeAnswer) -> JsonObject:
    """The numbers of an answer; the details are 0 where the backend did not say."""
    told, reported = usage_numbers(answer.usage, answer.text + answer.thinking), answer.usage or {}
    cache, thought = cache_numbers(reported), reported.get("reasoning_tokens")
    return {
        "input_tokens": told["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": cache.get("cached_tokens", 0),
            "cache_write_tokens": cache.get("cache_write_tokens", 0),
        },
        "output_tokens": told["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": thought if _is_count(thought) else 0},
        "total_tokens": told["total_tokens"],
    }


def whole_response(answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
    """The body of a whole answer: thoughts, text, calls."""
    status, ending = ending_of(answer.finish_reason)
    calls = whole_openai_calls(answer.tool_calls)
    output: list[JsonObject] = []
    if answer.thinking:
        output.append(reasoning_item(_id("rs", facts, output), [summary_part(answer.thinking)]))
    if answer.text or not calls:
        output.append(message_item(_id("msg", facts, output), status, [text_part(answer.text)]))
    for call in calls:
        output.append(call_item(_id("fc", facts, output), status, call["id"], call["function"]))
    return response_object(facts, status, output, {**ending, "usage": usage_object(answer)})


def _id(prefix: str, facts: AnswerFacts, output: list[JsonObject]) -> str:
    return f"{prefix}_{facts.request_id}_{len(output)}"


def text_part(text: str) -> JsonObject:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def summary_part(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}


def message_item(item_id: str, status: str, parts: list[JsonObject]) -> JsonObject:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": parts}


def reasoning_item(item_id: str, parts: list[JsonObject]) -> JsonObject:
    """Thoughts as a summary: that is what clients show."""
    return {"id": item_id, "type": "reasoning", "summary": parts}


def call_item(item_id: str, status: str, call_id: str, function: JsonObject) -> JsonObject:
    """`function`: `{"name": text, "arguments": text}`."""
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": function["name"],
        "arguments": function["arguments"],
    }

"""llama.cpp's own `/completion`: one text in, one text out, whole or as nameless events.

Neither thoughts nor tool calls have a place in it. Source: spec more-fronts.md 5.2 and 5.4.
"""

from __future__ import annotations

from json.encoder import encode_basestring

from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    EVENT_STREAM,
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    TextFramer,
    WholeAnswer,
    WireFormat,
    sse,
)
from Middleware.services.answers import compact_json, usage_numbers

NOT_SERVED = ("/slots", "/infill", "/embedding", "/detokenize", "/apply-template", "/lora-adapters")


def error_object(reply: ErrorReply) -> JsonObject:
    """The body of an error, and the last unit of a stream that failed (5.4)."""
    return {"error": {"code": reply.status, "message": reply.message, "type": reply.kind}}


def whole_body(answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
    """The JSON of a whole answer (5.2)."""
    return _last(answer, facts, answer.text)


def _last(answer: WholeAnswer, facts: AnswerFacts, content: str) -> JsonObject:
    """The object that ends an answer. `content`: what of its text has not been sent."""
    usage = usage_numbers(answer.usage, answer.text + answer.thinking)
    return {
        "index": 0,
        "content": content,
        "tokens": [],
        "id_slot": 0,
        "stop": True,
        "model": facts.model,
        "tokens_predicted": usage["completion_tokens"],
        "tokens_evaluated": usage["prompt_tokens"],
        "generation_settings": {},
        "prompt": "",
        "has_new_line": "\n" in answer.text,
        "truncated": False,
        "stop_type": "limit" if answer.finish_reason == "length" else "eos",
        "stopping_word": "",
        "tokens_cached": 0,
        "timings": _timings(answer, facts, usage),
    }


def _timings(answer: WholeAnswer, facts: AnswerFacts, usage: JsonObject) -> JsonObject:
    """Milliseconds, never 0: clients divide by them."""
    numbers = answer.pace.metrics(facts, usage, answer.usage)
    prompt_ms, predicted_ms = numbers["prompt_eval_duration"] / 1e6, numbers["eval_duration"] / 1e6
    return {
        "prompt_n": usage["prompt_tokens"],
        "prompt_ms": prompt_ms,
        "predicted_n": usage["completion_tokens"],
        "predicted_ms": predicted_ms,
        "predicted_per_second": usage["completion_tokens"] * 1e3 / predicted_ms,
    }


class LlamaCppFramer(TextFramer):
    """`{"index", "content", "tokens", "stop"}`; the last object has `stop: true` and the numbers."""

    def text_unit(self, text: str) -> str:
        return sse(f'{{"index":0,"content":{encode_basestring(text)},"tokens":[],"stop":false}}')

    def finish_units(self, finish_reason: str) -> list[str]:
        return [sse(compact_json(_last(self.answer(finish_reason), self.facts, "")))]

    def error(self, reply: ErrorReply) -> list[str]:
        return [sse(compact_json(error_object(reply)))]


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "llamacpp",
        error_object,
        {"llamacppcompletion": WireFormat(LlamaCppFramer, whole_body, sse, EVENT_STREAM, front="llama.cpp")},
        roots=("/completion", "/props", "/tokenize", *NOT_SERVED),
        unsupported=NOT_SERVED,
    )
)

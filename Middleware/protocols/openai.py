"""The OpenAI protocol: chat completions, text completions, the model list.

Source: spec frontend-api.md 10.2, 10.3, 11.2, 11.3 and 12.1.
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
    Framer,
    WireFormat,
    sse,
)
from Middleware.protocols.patterns import MARK, halves
from Middleware.services.answers import client_finish_reason, compact_json, openai_usage_object, step_line
from Middleware.services.response_builder_service import ResponseBuilderService

_builder = ResponseBuilderService()


def error_object(reply: ErrorReply) -> JsonObject:
    """The body of an error (12.1)."""
    told = {"message": reply.message, "type": reply.kind, "param": reply.param, "code": reply.code}
    return {"error": told}


class _OpenAIFramer(Framer):
    """What the two OpenAI streams share: SSE and its end mark."""

    def heartbeat(self) -> str:
        return ":\n\n"

    def end(self) -> list[str]:
        return [sse("[DONE]")]

    def error(self, reply: ErrorReply) -> list[str]:
        """Without `choices`: with them the AI SDK takes the unit for a chunk, and the error is lost."""
        return [sse(compact_json(error_object(reply))), *self.end()]


class OpenAIChatFramer(_OpenAIFramer):
    """`chat.completion.chunk` units: role first, then deltas."""

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._head, self._tail = halves(
            sse(compact_json(_builder.build_openai_chat_completion_chunk(MARK, None, facts)))
        )
        self._called = False

    def text_unit(self, text: str) -> str:
        return f"{self._head}{encode_basestring(text)}{self._tail}"

    def thinking_unit(self, thinking: str) -> str:
        return self._delta_unit({"reasoning_content": thinking})

    def _delta_unit(self, delta: JsonObject, finish_reason: str | None = None) -> str:
        return sse(
            compact_json(_builder.build_openai_chat_completion_chunk(delta, finish_reason, self.facts))
        )

    def _opening(self, *, with_text: bool) -> list[str]:
        if self.started:
            return []
        self.started = True
        return [self._delta_unit({"role": "assistant", "content": "" if with_text else None})]

    def progress_units(self, steps: list[JsonObject]) -> list[str]:
        if self.facts.progress != "status":
            return super().progress_units(steps)
        return [
            sse(compact_json(_builder.build_openai_status_chunk(step_line(step), self.facts)))
            for step in steps
        ]

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        self._called = True
        return [*self._opening(with_text=False), self._delta_unit({"tool_calls": calls})]

    def finish_units(self, finish_reason: str) -> list[str]:
        reason = client_finish_reason(finish_reason, self._called and not self.is_cut_off)
        units = [*self._opening(with_text=True), self._delta_unit({}, reason)]
        if self.facts.include_usage:
            usage = openai_usage_object(self._usage, self._written_text())
            units.append(sse(compact_json(_builder.build_openai_usage_chunk(usage, self.facts, chat=True))))
        return units


class OpenAITextFramer(_OpenAIFramer):
    """`text_completion` units. Neither tool calls nor reasoning are sent."""

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._head, self._tail = halves(
            sse(compact_json(_builder.build_openai_completion_chunk(MARK, None, facts)))
        )

    def text_unit(self, text: str) -> str:
        return f"{self._head}{encode_basestring(text)}{self._tail}"

    def thinking_unit(self, thinking: str) -> str:
        return ""

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        return []

    def finish_units(self, finish_reason: str) -> list[str]:
        reason = client_finish_reason(finish_reason, False)
        units = [sse(compact_json(_builder.build_openai_completion_chunk("", reason, self.facts)))]
        if self.facts.include_usage:
            usage = openai_usage_object(self._usage, self._written_text())
            units.append(sse(compact_json(_builder.build_openai_usage_chunk(usage, self.facts, chat=False))))
        return units


def _openai_chat_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    delta: JsonObject = {"content": token} if token else {}
    if calls:
        delta["tool_calls"] = calls
    return _builder.build_openai_chat_completion_chunk(delta, finish, facts)


def _openai_text_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    return _builder.build_openai_completion_chunk(token, finish, facts)


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "openai",
        error_object,
        {
            "openaichatcompletion": WireFormat(
                OpenAIChatFramer,
                _builder.build_openai_chat_completion_response,
                sse,
                EVENT_STREAM,
                _openai_chat_chunk,
                is_chat=True,
                gets_liveness_call=True,
                shows_progress=("reasoning", "status"),
                front="OpenAI chat",
            ),
            "openaicompletion": WireFormat(
                OpenAITextFramer,
                _builder.build_openai_completion_response,
                sse,
                EVENT_STREAM,
                _openai_text_chunk,
                front="OpenAI text",
            ),
        },
        roots=("/v1", "/chat/completions", "/completions", "/models"),
        id_prefixes=("chatcmpl-", "cmpl-"),
        model_list=_builder.build_openai_models_response,
        model_entry=_builder.build_openai_model,
        unsupported=(
            "/v1/audio",
            "/v1/images",
            "/v1/files",
        ),
    )
)

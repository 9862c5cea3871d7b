"""The Ollama protocol: chat, generate, and what its clients ask before.

Source: spec frontend-api.md 10.4, 11.4 and 12.1.
"""

from __future__ import annotations

from abc import abstractmethod
from json.encoder import encode_basestring

from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    Framer,
    WireFormat,
    ndjson,
)
from Middleware.protocols.patterns import MARK, halves
from Middleware.services.answers import ToolCallCollector, client_finish_reason, compact_json, ollama_calls
from Middleware.services.response_builder_service import ResponseBuilderService, ollama_time

MIMETYPE = "application/x-ndjson"
PAUSE_S = 0.005
"""Its clients read one write as one object: two writes back to back would reach them together (11.1)."""

_TIME_MARK = "\x01time\x01"
_builder = ResponseBuilderService()


def error_line(reply: ErrorReply) -> JsonObject:
    """The body of an error, and the last object of a stream that failed."""
    return {"error": reply.message}


class _OllamaFramer(Framer):
    """What the two Ollama streams share: one object a line, the last one says `done`."""

    chat: bool

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._calls = ToolCallCollector()
        pattern = self._chunk(MARK).copy()
        pattern["created_at"] = _TIME_MARK
        before, rest = ndjson(compact_json(pattern)).split(encode_basestring(_TIME_MARK))
        self._head, (self._middle, self._tail) = before, halves(rest)

    @abstractmethod
    def _chunk(self, text: str) -> JsonObject: ...

    def text_unit(self, text: str) -> str:
        return f'{self._head}"{ollama_time()}"{self._middle}{encode_basestring(text)}{self._tail}'

    def heartbeat(self) -> str:
        return self.text_unit("")

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        self._calls.add(calls)
        return []

    def finish_units(self, finish_reason: str) -> list[str]:
        answer = self.answer(client_finish_reason(finish_reason, False))
        done = ndjson(compact_json(_builder.build_ollama_done_chunk(answer, self.facts, chat=self.chat)))
        calls = ollama_calls(self._calls.complete(finish_reason)) if self.chat and not self.is_cut_off else []
        if not calls:
            return [done]
        message = {"content": "", "tool_calls": calls}
        return [ndjson(compact_json(_builder.build_ollama_chat_chunk(message, self.facts))), done]

    def end(self) -> list[str]:
        return []

    def error(self, reply: ErrorReply) -> list[str]:
        return [ndjson(compact_json(error_line(reply)))]


class OllamaChatFramer(_OllamaFramer):
    chat = True

    def _chunk(self, text: str) -> JsonObject:
        return _builder.build_ollama_chat_chunk(text, self.facts)

    def thinking_unit(self, thinking: str) -> str:
        message = {"content": "", "thinking": thinking}
        return ndjson(compact_json(_builder.build_ollama_chat_chunk(message, self.facts)))


class OllamaGenerateFramer(_OllamaFramer):
    chat = False

    def _chunk(self, text: str) -> JsonObject:
        return _builder.build_ollama_generate_chunk(text, self.facts)

    def thinking_unit(self, thinking: str) -> str:
        return ndjson(compact_json(_builder.build_ollama_generate_chunk("", self.facts, thinking=thinking)))


def _ollama_chat_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    message: JsonObject = {"content": token, **({"tool_calls": ollama_calls(calls)} if calls else {})}
    return _end_chunk(_builder.build_ollama_chat_chunk(message, facts), finish)


def _ollama_generate_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    return _end_chunk(_builder.build_ollama_generate_chunk(token, facts), finish)


def _end_chunk(chunk: JsonObject, finish: str | None) -> JsonObject:
    return chunk if finish is None else {**chunk, "done": True, "done_reason": finish}


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "ollama",
        error_line,
        {
            "ollamaapichat": WireFormat(
                OllamaChatFramer,
                _builder.build_ollama_chat_response,
                ndjson,
                MIMETYPE,
                _ollama_chat_chunk,
                PAUSE_S,
                is_chat=True,
                gets_liveness_call=True,
                shows_progress=("reasoning",),
                front="Ollama chat",
            ),
            "ollamagenerate": WireFormat(
                OllamaGenerateFramer,
                _builder.build_ollama_generate_response,
                ndjson,
                MIMETYPE,
                _ollama_generate_chunk,
                PAUSE_S,
                shows_progress=("reasoning",),
                front="Ollama generate",
            ),
        },
        roots=("/api",),
        id_prefixes=("gen-",),
        unsupported=(
            "/api/pull",
            "/api/push",
            "/api/create",
            "/api/copy",
            "/api/delete",
            "/api/blobs",
        ),
    )
)

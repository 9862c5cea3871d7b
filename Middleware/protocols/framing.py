"""Batches of a run -> the units of a stream, one framer per stream and protocol.

The parts of a unit that do not change in a stream are made once; per batch only the text is escaped. The text
of one batch is one unit; everything else (tool calls, finish, numbers) is a unit of its own. Never writes,
never waits. Source: spec frontend-api.md 11.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from json.encoder import encode_basestring
from typing import Any

from Middleware.common.types import Batch, JsonObject
from Middleware.services.answers import (
    AnswerFacts,
    Pace,
    ToolCallCollector,
    WholeAnswer,
    client_finish_reason,
    compact_json,
    ollama_calls,
    usage_numbers,
)
from Middleware.services.response_builder_service import ResponseBuilderService, ollama_time

_MARK = "\x01text\x01"
_TIME_MARK = "\x01time\x01"
_builder = ResponseBuilderService()


def encoded(unit: str) -> bytes:
    """UTF-8. Two halves of a surrogate pair become one character, a lone half U+FFFD."""
    try:
        return unit.encode()
    except UnicodeEncodeError:
        return unit.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def error_object(
    message: str, kind: str, param: str | None = None, code: str | int | None = None
) -> JsonObject:
    """The body of an error in the OpenAI protocol (12.1)."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Framer(ABC):
    """One stream.

    `finished`: the finish chunk went by; `failed`: the error dict of a chunk that ended the stream.
    """

    def __init__(self, facts: AnswerFacts) -> None:
        self.facts = facts
        self.finished = False
        self.failed: JsonObject | None = None
        self.pace = Pace()
        self.started = False
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._usage: JsonObject | None = None

    def units(self, batch: Batch) -> list[str]:
        """The units of one batch, in order, each for one write.

        What stands behind the finish chunk is not sent.
        """
        if not batch:
            return []
        self.pace.mark()
        for chunk in batch:
            if len(chunk) != 2 or chunk["finish_reason"] is not None:
                return self._mixed_units(batch)
        text = batch[0]["token"] if len(batch) == 1 else "".join([chunk["token"] for chunk in batch])
        if not text:
            return []
        self._texts.append(text)
        if self.started:
            return [self.text_unit(text)]
        return [*self._opening(with_text=True), self.text_unit(text)]

    def _mixed_units(self, batch: Batch) -> list[str]:
        """A batch in which not all is text. Neighbours of one kind are joined."""
        units: list[str] = []
        text: list[str] = []
        thoughts: list[str] = []
        for chunk in batch:
            if thinking := chunk.get("thinking"):
                self._flush_text(text, units)
                thoughts.append(thinking)
            if chunk["token"]:
                self._flush_thoughts(thoughts, units)
                text.append(chunk["token"])
            if calls := chunk.get("tool_calls"):
                self._flush_thoughts(thoughts, units)
                self._flush_text(text, units)
                units += self._tool_call_units(calls)
            self._usage = chunk.get("usage") or self._usage
            if chunk["finish_reason"] is not None:
                self._flush_thoughts(thoughts, units)
                self._flush_text(text, units)
                self.finished = True
                self.failed = chunk.get("error")
                if self.failed is None:
                    units += self.finish_units(chunk["finish_reason"])
                return units
        self._flush_thoughts(thoughts, units)
        self._flush_text(text, units)
        return units

    def _said(self) -> str:
        """All that went by: thoughts are output of the model too."""
        return "".join([*self._thoughts, *self._texts])

    def _flush_text(self, pending: list[str], units: list[str]) -> None:
        if pending:
            text = "".join(pending)
            pending.clear()
            self._texts.append(text)
            units += [*self._opening(with_text=True), self.text_unit(text)]

    def _flush_thoughts(self, pending: list[str], units: list[str]) -> None:
        if pending:
            thinking = "".join(pending)
            self._thoughts.append(thinking)
            pending.clear()
            if unit := self.thinking_unit(thinking):
                units += [*self._opening(with_text=True), unit]

    @property
    def output_tokens(self) -> int:
        """As the client is told them, for what was sent so far."""
        return usage_numbers(self._usage, self._said())["completion_tokens"]

    def _opening(self, *, with_text: bool) -> list[str]:
        """Units before the first output. None but in protocols that open a stream."""
        self.started = True
        return []

    def answer(self, finish_reason: str) -> WholeAnswer:
        """What was sent so far, with the numbers as reported."""
        return WholeAnswer(
            "".join(self._texts),
            "".join(self._thoughts),
            finish_reason=finish_reason,
            usage=self._usage,
            pace=self.pace,
        )

    @abstractmethod
    def text_unit(self, text: str) -> str: ...

    @abstractmethod
    def thinking_unit(self, thinking: str) -> str:
        """Empty text: the protocol has no place for it."""

    @abstractmethod
    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]: ...

    @abstractmethod
    def finish_units(self, finish_reason: str) -> list[str]:
        """The units that end the answer, the end mark not among them."""

    @abstractmethod
    def heartbeat(self) -> str: ...

    @abstractmethod
    def end(self) -> list[str]:
        """The end mark, when it is a unit of its own."""

    @abstractmethod
    def error(self, message: str, kind: str, param: str | None = None, code: Any = None) -> list[str]:
        """The units that end a stream that failed, the end mark among them."""


class _OpenAIFramer(Framer):
    """What the two OpenAI streams share: SSE and its end mark."""

    def heartbeat(self) -> str:
        return ":\n\n"

    def end(self) -> list[str]:
        return [sse("[DONE]")]

    def error(self, message: str, kind: str, param: str | None = None, code: Any = None) -> list[str]:
        told = {**error_object(message, kind, param, code), "choices": []}  # clients read choices[0] of each
        return [sse(compact_json(told)), *self.end()]


class OpenAIChatFramer(_OpenAIFramer):
    """`chat.completion.chunk` units: role first, then deltas."""

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._head, self._tail = _halves(
            sse(compact_json(_builder.build_openai_chat_completion_chunk(_MARK, None, facts)))
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

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        self._called = True
        return [*self._opening(with_text=False), self._delta_unit({"tool_calls": calls})]

    def finish_units(self, finish_reason: str) -> list[str]:
        reason = client_finish_reason(finish_reason, self._called)
        units = [*self._opening(with_text=True), self._delta_unit({}, reason)]
        if self.facts.include_usage:
            usage = usage_numbers(self._usage, self._said())
            units.append(sse(compact_json(_builder.build_openai_usage_chunk(usage, self.facts, chat=True))))
        return units


class OpenAITextFramer(_OpenAIFramer):
    """`text_completion` units. Neither tool calls nor reasoning are sent."""

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._head, self._tail = _halves(
            sse(compact_json(_builder.build_openai_completion_chunk(_MARK, None, facts)))
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
            usage = usage_numbers(self._usage, self._said())
            units.append(sse(compact_json(_builder.build_openai_usage_chunk(usage, self.facts, chat=False))))
        return units


class _OllamaFramer(Framer):
    """What the two Ollama streams share: one object a line, the last one says `done`."""

    chat: bool

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._calls = ToolCallCollector()
        pattern = self._chunk(_MARK).copy()
        pattern["created_at"] = _TIME_MARK
        before, rest = ndjson(compact_json(pattern)).split(encode_basestring(_TIME_MARK), 1)
        self._head, (self._middle, self._tail) = before, _halves(rest)

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
        if not (self.chat and self._calls):
            return [done]
        calls = {"content": "", "tool_calls": ollama_calls(self._calls.complete())}
        return [ndjson(compact_json(_builder.build_ollama_chat_chunk(calls, self.facts))), done]

    def end(self) -> list[str]:
        return []

    def error(self, message: str, kind: str, param: str | None = None, code: Any = None) -> list[str]:
        return [ndjson(compact_json({"error": message}))]


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


def sse(data: str) -> str:
    r"""One Server-Sent Event, `data: <data>\n\n`. Source: WHATWG HTML, 9.2.6."""
    return f"data: {data}\n\n"


def ndjson(data: str) -> str:
    return f"{data}\n"


def _halves(unit: str) -> tuple[str, str]:
    """What stands before and after the marked text."""
    before, _, after = unit.partition(encode_basestring(_MARK))
    return before, after

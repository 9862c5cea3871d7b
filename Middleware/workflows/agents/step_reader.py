"""One call of a model, read as it comes: what may leave at once, and what the call came to.

Whole answers go the same way as streams, as one chunk. Constant work for each chunk. Source: spec agents.md 3
and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from Middleware.common.costs import Cost
from Middleware.common.types import Batch, Chunk, JsonObject
from Middleware.services.answers import CUTTING_REASONS, ToolCallCollector, is_cut_call
from Middleware.workflows.agents.json_mode import JsonReplyReader
from Middleware.workflows.agents.text_calls import TextCall, TextCallReader


@dataclass(frozen=True, slots=True)
class WordsEnd:
    """What the text of a step came to. `rest`: what was held and may be shown now. `calls`: those that were
    written as text. `is_null`: the model said that it wants no tool."""

    rest: str = ""
    calls: tuple[TextCall, ...] = ()
    is_null: bool = False


class Words(Protocol):
    """Reads the text of a step; any cut of it gives the same."""

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        ...

    def finish(self) -> WordsEnd: ...


class PlainWords:
    """All of it is text."""

    def feed(self, text: str) -> str:
        return text

    def finish(self) -> WordsEnd:
        return WordsEnd()


class NativeWords:
    """Text of a model with native tools, which may hold calls that its server has not read."""

    def __init__(self, reader: TextCallReader) -> None:
        self._reader = reader

    def feed(self, text: str) -> str:
        return self._reader.feed(text)

    def finish(self) -> WordsEnd:
        rest, calls = self._reader.finish()
        return WordsEnd(rest, tuple(calls or ()))


class JsonWords:
    """Text of a model that calls tools by JSON objects."""

    def __init__(self, reader: JsonReplyReader) -> None:
        self._reader = reader

    def feed(self, text: str) -> str:
        return self._reader.feed(text)

    def finish(self) -> WordsEnd:
        reply = self._reader.finish()
        calls = () if reply.call is None else (reply.call,)
        return WordsEnd(reply.rest, calls, reply.is_null)


_TOLD = ("model", "native_finish_reason", "truncated")


@dataclass(slots=True)
class StepAnswer:
    """What one call of a model came to.

    `text`: as the model wrote it, without calls in it; `came`: with them. `calls`: native ones, in OpenAI's
    form, with what stands beside them; `cut`: the ids of those that the end of the answer cut;
    `text_calls`: written as text. `beside`: thoughts in the fields they came in. `finish_reason`: None: it
    was cancelled. `facts`: what the finish chunk says besides.
    """

    text: str = ""
    came: str = ""
    thinking: str = ""
    calls: list[JsonObject] = field(default_factory=list)
    cut: frozenset[str] = frozenset()
    text_calls: tuple[TextCall, ...] = ()
    is_null: bool = False
    beside: JsonObject | None = None
    finish_reason: str | None = None
    usage: JsonObject | None = None
    cost: Cost | None = None
    facts: JsonObject = field(default_factory=dict)


class StepReader:
    """`take` each batch, then `finish`; then `answer`."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._came: list[str] = []
        self._shown: list[str] = []
        self._thoughts: list[str] = []
        self._calls = ToolCallCollector(with_extras=True)
        self._cut: list[JsonObject] = []
        self.answer = StepAnswer()

    def take(self, batch: Batch) -> Batch:
        """What of a batch leaves at once: text and thoughts, and an error, which ends the answer."""
        out: Batch = []
        run: list[str] = []
        for chunk in batch:
            if len(chunk) == 2 and chunk["finish_reason"] is None:
                run.append(chunk["token"])
            else:
                self._take_mixed(chunk, run, out)
        self._flush(run, out)
        return out

    def _take_mixed(self, chunk: Chunk, run: list[str], out: Batch) -> None:
        if thinking := chunk.get("thinking"):
            self._flush(run, out)
            self._thoughts.append(thinking)
            out.append({"token": "", "finish_reason": None, "thinking": thinking})
        if chunk["token"]:
            run.append(chunk["token"])
        answer = self.answer
        self._calls.add(chunk.get("tool_calls") or ())
        self._cut += chunk.get("cut_calls") or ()
        answer.beside = chunk.get("beside") or answer.beside
        answer.usage = chunk.get("usage") or answer.usage
        answer.cost = chunk.get("cost") or answer.cost
        answer.finish_reason = chunk["finish_reason"] or answer.finish_reason
        answer.facts |= {name: chunk[name] for name in _TOLD if name in chunk}  # type: ignore[literal-required]
        if "error" in chunk:
            self._flush(run, out)
            out.append(chunk)

    def _flush(self, run: list[str], out: Batch) -> None:
        if not run:
            return
        text = run[0] if len(run) == 1 else "".join(run)
        run.clear()
        self._came.append(text)
        self._show(self._words.feed(text), out)

    def _show(self, text: str, out: Batch) -> None:
        if text:
            self._shown.append(text)
            out.append({"token": text, "finish_reason": None})

    def finish(self) -> Batch:
        """The answer is over: the text that was held and is none of its calls. A model that calls natively
        has written no calls."""
        out: Batch = []
        answer = self.answer
        answer.calls = [*self._calls.complete(), *self._cut]
        end = self._words.finish()
        came = "".join(self._came)
        if answer.calls:
            self._show(came[len("".join(self._shown)) :], out)
        else:
            self._show(end.rest, out)
            answer.text_calls, answer.is_null = end.calls, end.is_null
        if answer.finish_reason in CUTTING_REASONS:
            known = {call["id"] for call in self._cut}
            answer.cut = frozenset(
                call["id"] for call in answer.calls if call["id"] in known or is_cut_call(call)
            )
        answer.came, answer.text = came, "".join(self._shown)
        answer.thinking = "".join(self._thoughts)
        return out


def one_batch(result: Any, batch: Batch) -> Batch:
    """A whole answer as the one batch of a stream. `batch`: the same, as `whole_batch` has it."""
    facts = result if isinstance(result, dict) else getattr(result, "__dict__", {})
    for name in ("beside", "cut_calls"):
        if facts.get(name):
            batch[-1][name] = facts[name]
    return batch

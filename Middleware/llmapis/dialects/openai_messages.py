"""Text, reasoning, refusal and calls of an OpenAI delta or message, in every dialect that is spoken. Pure.

Source: spec backends.md 9.1, 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.llmapis.dialects.event_mapping import finish_fields, text_of, whole_tool_calls
from Middleware.llmapis.llm_text import LlmText, Pieces, pieces_of
from Middleware.services.answers import finished_calls


def tool_calls_of(message: Mapping[str, Any]) -> list[JsonObject]:
    """The calls of a delta or message; an old `function_call` counts as the call with index 0."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    old = message.get("function_call")
    return [{"index": 0, "function": old}] if isinstance(old, dict) and old else []


def read_message(message: Mapping[str, Any], thoughts: GoogleThoughts | None = None) -> tuple[str, str, bool]:
    """`(text, reasoning, refused)` of a delta or a whole message, in any dialect. `thoughts`: of a stream in
    which flagged content has begun (`thoughts_in`)."""
    content = message.get("content")
    thinking = reasoning_of(message)
    if isinstance(content, list):
        token, extra = _split_parts(content)
        thinking += extra
    else:
        token = content if isinstance(content, str) else ""
    if thoughts is not None:
        token, extra = thoughts.feed(token, flagged=_is_thought(message))
        thinking += extra
    elif token and _is_thought(message):
        token, extra = _split_flagged(token)
        thinking += extra
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not token:
        return refusal, thinking, True
    return token, thinking, False


def pieces_in(message: Mapping[str, Any]) -> Pieces | None:
    """The order of text and thoughts in a whole message's content array; None: thoughts come first, or it is
    no array."""
    content = message.get("content")
    if not isinstance(content, list) or _is_thought(message):
        return None
    return pieces_of([(reasoning_of(message), ""), *(_split_parts([part])[::-1] for part in content)])


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning that stands in a field of its own; the first name that has any is used."""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    details = message.get("reasoning_details")
    if isinstance(details, list) and (text := _text_of_details(details)):
        return text
    value = message.get("thinking")
    return value if isinstance(value, str) else ""


def _text_of_details(details: list[Any]) -> str:
    """OpenRouter's `reasoning_details`: texts and summaries; encrypted details give nothing."""
    texts = (
        part.get("text") or part.get("summary")
        for part in details
        if isinstance(part, dict) and part.get("type") != "reasoning.encrypted"
    )
    return "".join(text for text in texts if isinstance(text, str))


def _split_parts(parts: list[Any]) -> tuple[str, str]:
    """Mistral's content array: `(text, thinking)`."""
    token, thinking = "", ""
    for part in parts:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            thoughts = part.get("thinking")
            thinking += thoughts if isinstance(thoughts, str) else _split_parts(thoughts or [])[0]
        elif isinstance(part.get("text"), str):
            token += part["text"]
    return token, thinking


# --------------------------------------------------------------------------
# Google's route: thoughts stand in the content, between marks, and a flag is beside them. Pure.


def _is_thought(message: Mapping[str, Any]) -> bool:
    """Gemini's flag on a message, or a chunk, whose content begins with reasoning."""
    extra = message.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and google.get("thought") is True


_OPEN, _CLOSE = "<thought>", "</thought>"
_THOUGHT, _BEHIND, _ANSWER = "in a thought", "right behind one", "in the answer"


class GoogleThoughts:
    """One stream from its first flagged content on. `feed` and `rest` give `(text, thinking)`; of a mark that
    is not whole yet, the beginning is held.

    A flagged text is thought up to `</thought>` and answer behind it. In a stream that mark is the first that
    comes without the flag, before the answer. `is_over`: no flagged content is at hand any more.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._flagged = True  # the content that came last
        self._place = _THOUGHT
        self._held = ""

    def feed(self, content: str, *, flagged: bool) -> tuple[str, str]:
        """What this content decides; an empty one says nothing."""
        if not content:
            return "", ""
        return self._feed_flagged(content) if flagged else self._feed_unflagged(content)

    def rest(self) -> tuple[str, str]:
        """What was held: half a mark belongs to what it stands in."""
        held, self._held = self._held, ""
        return ("", held) if self._flagged and self._place == _THOUGHT else (held, "")

    def _feed_flagged(self, content: str) -> tuple[str, str]:
        text = thinking = ""
        if not self._flagged:
            text, self._held = self._held, ""
            self._flagged, self._place = True, _THOUGHT
        buffer, self._held = self._held + content, ""
        while buffer and self._place != _ANSWER:
            if self._place == _THOUGHT:
                thought, mark, buffer = buffer.partition(_CLOSE)
                end = len(thought) if mark else _half_mark(thought)
                self._held = thought[end:]
                thinking += thought[:end].replace(_OPEN, "")
                self._place = _BEHIND if mark else _THOUGHT
            elif buffer.startswith(_OPEN):
                buffer, self._place = buffer[len(_OPEN) :], _THOUGHT
            elif _OPEN.startswith(buffer):
                buffer, self._held = "", buffer
            else:
                self._place = _ANSWER
        return text + buffer, thinking

    def _feed_unflagged(self, content: str) -> tuple[str, str]:
        held, self._held = self._held, ""
        text, thinking = held + content, ""
        if self._place == _THOUGHT:
            if self._flagged and not (text.startswith(_CLOSE) or _CLOSE.startswith(text)):
                text, thinking = content, held
            self._flagged = False
            if text != _CLOSE and _CLOSE.startswith(text):
                self._held = text
                return "", thinking
            text = text.removeprefix(_CLOSE)
        self.is_over = True
        return text, thinking


def _half_mark(thought: str) -> int:
    """Where the beginning of a mark stands at the end; the length where none does."""
    at = thought.rfind("<", max(0, len(thought) - len(_CLOSE) + 1))
    is_half = at >= 0 and (_CLOSE.startswith(thought[at:]) or _OPEN.startswith(thought[at:]))
    return at if is_half else len(thought)


def _split_flagged(content: str) -> tuple[str, str]:
    """`(text, thinking)` of a flagged message that is whole."""
    thoughts = GoogleThoughts()
    parts = (thoughts.feed(content, flagged=True), thoughts.rest())
    text, thinking = ("".join(part) for part in zip(*parts, strict=True))
    return text, thinking


def thoughts_in(delta: Mapping[str, Any], held: GoogleThoughts | None) -> GoogleThoughts | None:
    """What reads the content of this delta of a stream; None: there is no flag, and none has come before it
    whose thought may still be open. `held`: what read the delta before it."""
    if held is not None and not held.is_over:
        return held
    return GoogleThoughts() if _is_thought(delta) else None


# --------------------------------------------------------------------------
# The two forms of a whole answer: a text that knows how it ended, or a dict with tool calls. Pure.


def answer_form(
    content: str,
    *,
    thinking: str = "",
    tool_calls: Any = None,
    finish: Any = None,
    facts: JsonObject | None = None,
) -> LlmText | JsonObject:
    """The result for a whole body. `finish`: the backend's word; null = `stop`, or `tool_calls` with calls.

    `facts`: `usage`, `model`, `refusal`, `native_finish_reason`, `cut_call`, `cut_calls`, `beside`, `pieces`,
    as far as they are known. Of calls that the end of the answer cut none may be left: then the text knows it
    (`cut_call`).
    """
    told = {key: value for key, value in (facts or {}).items() if value}
    if not text_of(told.get("model")):
        told.pop("model", None)
    ending = finish_fields(finish)
    native = told.pop("native_finish_reason", None) or ending.get("native_finish_reason")
    calls = whole_tool_calls(tool_calls) if isinstance(tool_calls, list) else []
    reason = ending["finish_reason"] or ("tool_calls" if calls else "stop")
    called = told.pop("cut_call", False) or bool(calls)
    came, calls = calls, finished_calls(calls, reason)
    if cut := [call for call in came if call not in calls]:
        told["cut_calls"] = [*cut, *told.get("cut_calls", ())]
    if native and native != reason:
        told["native_finish_reason"] = native
    if not calls:
        return LlmText(content, finish_reason=reason, thinking=thinking, cut_call=called, **told)
    if thinking:
        told["thinking"] = thinking
    return {"content": content, "tool_calls": calls, "finish_reason": reason, **told}

"""Texts of a call as the conventions have them: lists of messages with parts, as JSON. Pure.

Pictures are left out. A text that is not there whole, or that is no JSON, is one part. Source: spec
workbench.md 8; OpenTelemetry's JSON schemas of `gen_ai.input.messages` and `gen_ai.output.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from Middleware.api.console.recorder import Cut, cut_middle
from Middleware.api.console.run_texts import Secrets
from Middleware.api.traces import conventions as words
from Middleware.common.types import JsonObject
from Middleware.services.kept_bodies import HEAD_BYTES
from Middleware.services.run_trace import json_text
from Middleware.utilities.model_json import object_of

Mask = Callable[[str | Cut], str]
"""A text without secrets. One that is not there whole says how much is left out."""

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_SYSTEM = ("system", "developer")


@dataclass(slots=True)
class CallTexts:
    """References to the texts of a call, or of the whole run. `body`: as it was sent, of a long one its ends,
    between which `left_out` bytes stood. `answer`: any value that is shown as its text, None: there is none.
    `finish`: empty: unknown. `is_tool`: a tool was called, no model.
    """

    body: bytes = field(default=b"", repr=False)
    left_out: int = 0
    answer: Any = field(default=None, repr=False)
    thoughts: tuple[Any, ...] = field(default=(), repr=False)
    finish: str = ""
    is_tool: bool = False

    @property
    def size(self) -> int:
        """Roughly, in bytes."""
        held = (self.answer, *self.thoughts)
        return len(self.body) + sum(len(one) for one in held if isinstance(one, str | Cut))


def text_attributes(texts: CallTexts, mask: Mask) -> dict[str, str]:
    """The attributes that hold them; what is not there has none."""
    if texts.is_tool:
        return _of_tool(texts, mask)
    told = {}
    system, messages = _read_body(texts, mask)
    if system:
        told[words.SYSTEM_INSTRUCTIONS] = json_text(system)
    if messages:
        told[words.INPUT_MESSAGES] = json_text(messages)
    parts = [_text("reasoning", mask(_shown(thought))) for thought in texts.thoughts if thought]
    parts += _answer_parts(texts.answer, mask)
    if parts:
        message: JsonObject = {"role": "assistant", "parts": parts}
        if texts.finish:
            message["finish_reason"] = texts.finish
        told[words.OUTPUT_MESSAGES] = json_text([message])
    return told


def _of_tool(texts: CallTexts, mask: Mask) -> dict[str, str]:
    told = {}
    if texts.body:
        told[words.TOOL_ARGUMENTS] = mask(_body_text(texts))
    if texts.answer is not None:
        told[words.TOOL_RESULT] = mask(_shown(texts.answer))
    return told


def _shown(value: Any) -> str | Cut:
    if isinstance(value, Cut):
        return value
    return cut_middle(
        value if type(value) is str else str(value) if isinstance(value, str) else json_text(value)
    )


def _answer_parts(answer: Any, mask: Mask) -> list[JsonObject]:
    """A text, or a text with calls of tools."""
    if isinstance(answer, dict) and isinstance(answer.get("tool_calls"), list):
        said = answer.get("content")
        first = [_text("text", mask(_shown(said)))] if isinstance(said, str) and said else []
        return [*first, *_calls(answer["tool_calls"], mask)]
    return [] if answer is None or answer == "" else [_text("text", mask(_shown(answer)))]


def mask_of_run(secrets: Iterable[str], hidden: Iterable[str]) -> Mask:
    """`secrets`: those of the run; `hidden`: those of the server."""
    known = Secrets(None, (*secrets, *hidden))

    def mask(text: str | Cut) -> str:
        if isinstance(text, str):
            return known.out_of(text)
        shown = known.out_of_cut(text)
        return (
            f"{shown.head}\n... ({shown.left_out} left out) ...\n{shown.tail}"
            if shown.left_out
            else shown.head
        )

    return mask


# --------------------------------------------------------------------------
# The body of a request, in whatever protocol it is.


def _body_text(texts: CallTexts) -> str | Cut:
    head, tail = texts.body[:HEAD_BYTES], texts.body[HEAD_BYTES:]
    if not texts.left_out:
        return texts.body.decode("utf-8", "replace")
    return Cut(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), texts.left_out)


def _read_body(texts: CallTexts, mask: Mask) -> tuple[list[JsonObject], list[JsonObject]]:
    """The parts of its system prompt, and its messages."""
    if not texts.body:
        return [], []
    shown = _body_text(texts)
    body = object_of(shown) if isinstance(shown, str) else None
    if body is None:
        return [], [_message("user", [_text("text", mask(shown))])]
    system = list(_parts(body.get("system") or body.get("instructions"), mask))
    for key in ("messages", "input"):
        if isinstance(body.get(key), list) and body[key]:
            return system, [made for one in body[key] for made in _messages(one, mask)]
    asked = body.get("prompt") or body.get("input")
    return system, [_message("user", list(_parts(asked, mask)))] if asked else []


def _messages(one: Any, mask: Mask) -> Iterator[JsonObject]:
    """What one entry of a list of messages is; an entry that is a text is the user's."""
    if not isinstance(one, dict):
        yield _message("user", list(_parts(one, mask)))
        return
    role = one.get("role")
    role = role if isinstance(role, str) and role in _ROLES else "user"
    if role == "tool" or one.get("type") == "function_call_output":
        identity = one.get("tool_call_id") or one.get("call_id") or one.get("tool_name")
        result = one.get("content") if "content" in one else one.get("output")
        yield _message("tool", [_result(identity, result, mask)])
        return
    parts = [
        _text("reasoning", mask(_shown(one[key])))
        for key in ("reasoning_content", "thinking")
        if one.get(key)
    ]
    parts += _parts(one.get("content"), mask)
    parts += [_picture(None)] * len(one["images"]) if isinstance(one.get("images"), list) else []
    parts += _calls(one.get("tool_calls"), mask)
    yield _message("system" if role in _SYSTEM else role, parts)


def _parts(content: Any, mask: Mask) -> Iterator[JsonObject]:
    if isinstance(content, str):
        yield _text("text", mask(_shown(content)))
    elif isinstance(content, list):
        for one in content:
            yield _part(one, mask)
    elif content is not None:
        yield _text("text", mask(_shown(json_text(content))))


def _part(one: Any, mask: Mask) -> JsonObject:
    if not isinstance(one, dict):
        return _text("text", mask(_shown(one)))
    kind = one.get("type")
    if kind in ("image_url", "image", "input_image"):
        return _picture(one.get("image_url") or one.get("source"))
    if kind == "tool_use":
        return _call(one.get("id"), one.get("name"), one.get("input"), mask)
    if kind == "tool_result":
        return _result(one.get("tool_use_id"), one.get("content"), mask)
    if kind == "thinking":
        return _text("reasoning", mask(_shown(one.get("thinking") or "")))
    said = one.get("text")
    return _text("text", mask(_shown(said if isinstance(said, str) else json_text(one))))


def _picture(source: Any) -> JsonObject:
    """One of another host has its address; what is in the body itself is left out."""
    place = source.get("url") if isinstance(source, dict) else source
    is_place = isinstance(place, str) and place.startswith(("http://", "https://"))
    return {"type": "uri", "modality": "image", "uri": place if is_place else "data:,left-out"}


def _calls(calls: Any, mask: Mask) -> list[JsonObject]:
    made = []
    for call in calls if isinstance(calls, list) else ():
        told = call.get("function") if isinstance(call, dict) else None
        if isinstance(told, dict):
            made.append(_call(call.get("id"), told.get("name"), told.get("arguments"), mask))
    return made


def _call(identity: Any, name: Any, arguments: Any, mask: Mask) -> JsonObject:
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    return {"type": "tool_call", "id": _name(identity), "name": _name(name), "arguments": mask(_shown(text))}


def _result(identity: Any, result: Any, mask: Mask) -> JsonObject:
    text = result if isinstance(result, str) else json_text(result)
    return {"type": "tool_call_response", "id": _name(identity), "response": mask(_shown(text))}


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _text(kind: str, content: str) -> JsonObject:
    return {"type": kind, "content": content}


def _message(role: str, parts: list[JsonObject]) -> JsonObject:
    return {"role": role, "parts": parts}

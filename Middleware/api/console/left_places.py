"""Where a prompt left the one before, with the words around it and the placeholder that gave them. Pure.

Looked up in the texts that runs left, when somebody looks: the trace itself knows numbers alone. Source: spec
prompt-reuse.md 3.2.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from Middleware.api.console.run_texts import Secrets
from Middleware.common.types import JsonObject
from Middleware.llmapis.call.sent_prompt import prompt_parts
from Middleware.services.held_prompts import BLOCK_CHARS, MOST_PROMPTS
from Middleware.services.kept_bodies import HEAD_BYTES
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.workflows.variables.format_text import FilledText, Found, Origin, fill_pieces

# --------------------------------------------------------------------------
# The prompts that a run left, as far as they are kept.


Parts = list[tuple[str, str]]
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+("?)|[\[\]{}]', re.DOTALL)
_ENDINGS = ("", ":null", "null")
_LONGEST_MARK = 6
"""Of an escape or a word of JSON that a cut may have halved."""


def kept_parts(call: CallTrace) -> Parts:
    """The prompt as `(role, text)`; of a long body its beginning. Nothing where no text is kept."""
    if not call.body:
        return []
    if not call.body_left_out:
        payload = _payload_of(call.body.decode("utf-8", "replace"))
    else:
        payload = _payload_of_head(call.body[:HEAD_BYTES].decode("utf-8", "ignore"))
    return prompt_parts(payload)


def _payload_of(text: str) -> Mapping[str, Any]:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def _payload_of_head(head: str) -> Mapping[str, Any]:
    """The payload that begins so, as far as it goes: what is open is closed."""
    for cut in range(_LONGEST_MARK + 1):
        text = head[: len(head) - cut]
        for ending in _ENDINGS:
            if payload := _payload_of(_close_json(text, ending)):
                return payload
    return {}


def _close_json(head: str, ending: str) -> str:
    closers: list[str] = []
    in_text = False
    for token in _JSON_TOKEN.finditer(head):
        in_text = token[0][0] == '"' and not token[1]
        if token[0] in ("{", "["):
            closers.append("}" if token[0] == "{" else "]")
        elif token[0] in ("}", "]"):
            del closers[-1:]
    told = f'{head}"' if in_text else head.rstrip(", \n")
    return told + ending + "".join(reversed(closers))


class _Earlier(NamedTuple):
    """A prompt that was sent before to the same server."""

    run: RunTrace
    node: NodeTrace
    parts: Parts


def _earlier(runs: Iterable[RunTrace], call: CallTrace) -> Iterator[_Earlier]:
    """The last that were sent to the same server before this one, the newest first."""
    before = (
        (other.sent, run, node, other)
        for run in runs
        for node in list(run.nodes)
        for other in list(node.calls)
        if other.kind == "model" and other.sent and other.sent < call.sent and _server(other) == _server(call)
    )
    for _, run, node, other in heapq.nlargest(MOST_PROMPTS, before, key=lambda one: one[0]):
        if parts := kept_parts(other):
            yield _Earlier(run, node, parts)


def _server(call: CallTrace) -> tuple[str, str]:
    return call.url, call.model


# --------------------------------------------------------------------------
# Where two prompts part.


WORDS_BEFORE = WORDS_AFTER = 5
MOST_DIFFERING = 10
_WINDOW_CHARS = 2000
_WINDOW_WORDS = 60
_LONGEST_WORD = 60
_WORD = re.compile(r"\s*\S{1,60}\s*")


class LeftPlace(NamedTuple):
    """Where a prompt leaves the one before. `message` counts from 1, tools are 0. `is_exact`: the one before
    is still kept, so `character` is the first that differs; else it is known to 256. `before`, `differs`,
    `after`: the words around it; `was`: what stood in place of `differs`, empty where the one before ended.
    `placeholder`: the one that gave the text there, "": none is known to."""

    message: int
    character: int
    is_exact: bool
    before: str
    differs: str
    after: str
    was: str
    placeholder: str


def left_place(
    runs: Iterable[RunTrace], run: RunTrace, node: NodeTrace, call: CallTrace, hidden: Iterable[str] = ()
) -> LeftPlace | None:
    """The place with its words; without words where a secret stands near. None: it leaves none, or its text
    is not kept. `hidden`: more secrets than those of the runs."""
    parts = kept_parts(call)
    about = _place_in(parts, call)
    if about is None:
        return None
    index, character = about
    best = max(_earlier(runs, call), key=lambda one: _common(one.parts, parts), default=None)
    exact = _common(best.parts, parts) if best is not None else (-1, 0)
    is_exact = exact[0] == index and 0 <= exact[1] - character < BLOCK_CHARS
    character = exact[1] if is_exact else character
    old = best.parts[index][1] if is_exact and best is not None and index < len(best.parts) else ""
    role, text = parts[index]
    number = index + (parts[0][0] != "tools")
    holds_secret = _is_secret(Secrets(run, hidden), text, character)
    if best is not None:
        holds_secret = holds_secret or _is_secret(Secrets(best.run, hidden), old, character)
    words = ("",) * 4 if holds_secret else _words_around(text, old, character, marks=is_exact)
    earlier = best.node if is_exact and best is not None else None
    placeholder = _placeholder(node, earlier, _Spot(role, number, text, character, is_exact))
    return LeftPlace(number, character, is_exact, *words, placeholder)


def left_placeholder(
    runs: Callable[[], Iterable[RunTrace]], run: RunTrace, node: NodeTrace, call: CallTrace
) -> str:
    """The placeholder at that place, "": none is known."""
    found = left_place(runs(), run, node, call)
    return found.placeholder if found is not None else ""


def _is_secret(secrets: Secrets, text: str, character: int) -> bool:
    near = text[max(0, character - _WINDOW_CHARS) : character + _WINDOW_CHARS]
    return secrets.out_of(near) != near


def _place_in(parts: Parts, call: CallTrace) -> tuple[int, int] | None:
    """The index of the message in `parts`, and the character, as the trace knows them."""
    leaves = call.leaves
    if leaves is None or not parts:
        return None
    if len(parts) == 1 and parts[0][0] == "prompt":  # told as system and prompt when it was compared
        return (0, call.shared_chars) if call.shared_chars <= len(parts[0][1]) else None
    index = leaves.message - (parts[0][0] != "tools")
    return (index, leaves.character) if 0 <= index < len(parts) else None


def _common(one: Parts, other: Parts) -> tuple[int, int]:
    """How far they are the same: whole messages, and characters of the next one."""
    for index, ((role, text), (other_role, other_text)) in enumerate(zip(one, other, strict=False)):
        if role != other_role:
            return index, 0
        if text != other_text:
            return index, _common_chars(text, other_text)
    return min(len(one), len(other)), 0


def _common_chars(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _words_around(text: str, old: str, character: int, *, marks: bool) -> tuple[str, str, str, str]:
    """`(before, differs, after, was)`. Not `marks`: nothing is known to differ."""
    start = character
    while start and character - start < _LONGEST_WORD and not text[start - 1].isspace():
        start -= 1
    lead = _WORD.findall(text[max(0, start - _WINDOW_CHARS) : start])
    before = "".join(lead[-WORDS_BEFORE:])
    new_words = _WORD.findall(text[start : start + _WINDOW_CHARS])[:_WINDOW_WORDS]
    if not marks:
        return before, "", "".join(new_words[:WORDS_AFTER]), ""
    old_words = _WORD.findall(old[start : start + _WINDOW_CHARS])[:_WINDOW_WORDS]
    old_end, end = _meeting(old_words, new_words)
    after = "".join(new_words[end : end + WORDS_AFTER])
    return before, _shortened(new_words[:end]), after, _shortened(old_words[:old_end])


def _shortened(words: Sequence[str]) -> str:
    return "".join(words[:MOST_DIFFERING]) + ("…" if len(words) > MOST_DIFFERING else "")


def _meeting(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Where two texts that part go on together: so many words of each differ."""
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    for block in blocks:
        if block.size > 1 or (block.size and block.b + block.size == len(new)):
            return block.a, block.b
    return len(old), len(new)


# --------------------------------------------------------------------------
# Which placeholder gave the text at a place.


class _Name(str):
    """The value of every variable: its own name, also by index and key."""

    def __getitem__(self, key: Any) -> _Name:
        return self


class _AnyNames:
    def find(self, name: str) -> Found:
        return Found(_Name(f"{{{name}}}"), live=False, origin=Origin.RUN)


class _Spot(NamedTuple):
    """A place in a message."""

    role: str
    number: int
    text: str
    character: int
    is_exact: bool


def _fields_of(spot: _Spot) -> tuple[tuple[str, bool], ...]:
    """The fields of a node that may have given its text, and whether they gave all of it."""
    if spot.role in ("system", "developer"):
        return (("systemPrompt" if spot.number == 1 else "latePrompt", True),)
    if spot.role == "user":
        return (("prompt", True), ("latePrompt", False))
    names = ("systemPrompt", "prompt", "latePrompt") if spot.role == "prompt" else ()
    return tuple((name, False) for name in names)


def _placeholder(node: NodeTrace, earlier: NodeTrace | None, spot: _Spot) -> str:
    """`{name}`, "" for none. `earlier`: the node of the prompt before, None: it is not known. A field that a
    parent filled says nothing: its placeholders are gone."""
    if node.fields.get("jinja2"):
        return ""
    end = spot.character if spot.is_exact else min(spot.character + BLOCK_CHARS, len(spot.text))
    for name, whole in _fields_of(spot):
        template = node.fields.get(name)
        if isinstance(template, str) and not isinstance(template, FilledText) and "{" in template:
            same = earlier is not None and earlier.fields.get(name) == template
            span = (spot.character, end)
            if found := placeholder_at(template, spot.text, span, whole=whole, same=same):
                return found
    return ""


def placeholder_at(template: str, text: str, span: tuple[int, int], *, whole: bool, same: bool) -> str:
    """The placeholder of `template` that gave `text` from `span[0]` to `span[1]`, "" where that is not sure.

    What stands between the placeholders is looked for from the front and from the back; what lies between
    the last place where one may end and the first where the next may begin was given by the placeholder,
    wherever else its own text repeats them. `whole`: `text` is the template filled, else it may go on around
    it. `same`: the other prompt was made of this template, too: where its literals begin nothing can differ.
    """
    names, literals = _template_pieces(template)
    firsts, lasts = _bounds(text, literals, whole)
    if not firsts:
        return ""
    for at, name in enumerate(names):
        first, last = lasts[at][1], firsts[at + 1][0]
        may_touch = same or last == len(text)
        if name and first <= span[0] and (span[1] <= last if may_touch else span[1] < last):
            return name
    return ""


def _template_pieces(template: str) -> tuple[list[str], list[str]]:
    """The placeholders in their order, and the literals around them, one more. Where two placeholders touch
    nobody knows which is which: they are one without a name."""
    names: list[str] = []
    literals = [""]
    for piece in fill_pieces(template, _AnyNames(), second_pass=False).pieces:
        if piece.origin is Origin.AUTHORED:
            literals[-1] += piece.text
        elif names and not literals[-1]:
            names[-1] = ""
        else:
            names.append(piece.text.strip())
            literals.append("")
    literals[0] = literals[0].lstrip()
    literals[-1] = literals[-1].rstrip()
    return names, literals


def _bounds(
    text: str, literals: Sequence[str], whole: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Start and end of each literal where it may stand first, and where last; nothing where they do not
    stand in `text`."""
    firsts: list[tuple[int, int]] = []
    lasts: list[tuple[int, int]] = []
    at = 0
    for literal in literals:
        at = text.find(literal, at)
        if at < 0:
            return [], []
        firsts.append((at, at + len(literal)))
        at += len(literal)
    end = len(text)
    for literal in reversed(literals):
        end = text.rfind(literal, 0, end)
        lasts.insert(0, (end, end + len(literal)))
    if not literals[0]:
        lasts[0] = (0, 0) if whole else (len(text), len(text))
    if not literals[-1]:
        firsts[-1] = (len(text), len(text)) if whole else (0, 0)
    return firsts, lasts


def left_json(place: LeftPlace) -> JsonObject:
    """`{"message", "character", "exact", "before", "differs", "after", "was", "placeholder"}`."""
    return {
        "message": place.message,
        "character": place.character,
        "exact": place.is_exact,
        "before": place.before,
        "differs": place.differs,
        "after": place.after,
        "was": place.was,
        "placeholder": place.placeholder or None,
    }

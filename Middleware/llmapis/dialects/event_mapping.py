"""What every backend says in its own way, made one: finish reasons, usage, tool-call deltas. Pure.

Source: spec backends.md 10, frontend-api.md 11.3.
"""

from __future__ import annotations

import json
import logging
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from Middleware.utilities.model_json import object_of
from Middleware.utilities.sensitive_logging_utils import loggable_text

logger = logging.getLogger(__name__)

JsonObject = dict[str, Any]

MAX_COUNT = 2**53
MAX_INDEX = 1000

_NO_REASON = frozenset(("", "null", "none"))
_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "sensitive": "content_filter",  # GLM
    # Google's, of its own API and of its OpenAI route alike. Source: ai.google.dev/api, FinishReason.
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "image_safety": "content_filter",
}


def standard_finish(word: Any) -> str | None:
    """A backend's finish word in the standard's words; None for null, `"null"`, `"none"`, `""` and non-texts.

    A word that is not known ends the answer all the same: `stop`. Behind a colon stands why
    (`content_filter: PROHIBITED_CONTENT`).
    """
    if not isinstance(word, str):
        return None
    known = _FINISH.get(word)
    if known is not None:
        return known
    folded = word.strip().lower()
    return None if folded in _NO_REASON else _FINISH.get(folded.partition(":")[0].rstrip(), "stop")


def finish_fields(word: Any) -> JsonObject:
    """`{"finish_reason", "native_finish_reason"?}` for a backend's word; the second if they differ."""
    reason = standard_finish(word)
    if reason is None or reason == word:
        return {"finish_reason": reason}
    return {"finish_reason": reason, "native_finish_reason": word}


def text_of(value: Any) -> str:
    """A field that should be text: `""` when it is anything else."""
    return value if isinstance(value, str) else ""


def new_call_id() -> str:
    """`call_` and 24 hex digits."""
    return f"call_{uuid.uuid4().hex[:24]}"


def arguments_text(arguments: Any) -> str:
    """Tool-call arguments as JSON text: a text as it is, null `""`, anything else encoded."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def whole_arguments(arguments: Any) -> str:
    """The arguments of a whole call as JSON text: a tool without arguments is called with `{}`."""
    text = arguments_text(arguments)
    return text if text.strip() else "{}"


def arguments_object(arguments: Any) -> JsonObject:
    """The arguments of a call in a history as an object, for an API that takes no text: blank ones are `{}`;
    what is no object stands in `value`, warned of."""
    text = whole_arguments(arguments)
    value = object_of(text)
    if value is not None:
        return value
    logger.warning(
        "the arguments of a tool call in the conversation are not a JSON object; "
        'they are sent as {"value": ...}: %s',
        loggable_text(text[:100]),
    )
    return {"value": text}


def usage_of(prompt: Any, completion: Any, total: Any = None) -> JsonObject | None:
    """The standard usage object; None when neither count is a number.

    A count that was not told is left out: unknown is not 0, and is estimated where it is needed.
    """
    told = {**known_count("prompt_tokens", prompt), **known_count("completion_tokens", completion)}
    if not told:
        return None
    if len(told) == 2:
        told["total_tokens"] = sum(told.values())
    return {**told, **known_count("total_tokens", total)}


_PROMPT_NAMES = ("prompt_tokens", "input_tokens")
_COMPLETION_NAMES = ("completion_tokens", "output_tokens")
_DEEPSEEK_HELD = "prompt_cache_hit_tokens"


def openai_usage(usage: Any) -> JsonObject | None:
    """The standard usage of an OpenAI `usage` object, with reasoning and cache counts; None: not usable.

    Two spellings, of chat completions and of Responses, and DeepSeek's word for what it held. Source:
    prompt-reuse.md 3.1.
    """
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _name_in(usage, _PROMPT_NAMES), _name_in(usage, _COMPLETION_NAMES)
    standard = usage_of(usage.get(prompt), usage.get(completion), usage.get("total_tokens"))
    if standard is None:
        return None
    read, written = _object_under(usage, f"{prompt}_details"), _object_under(usage, f"{completion}_details")
    held = read.get("cached_tokens")
    return {
        **standard,
        **known_count("reasoning_tokens", written.get("reasoning_tokens")),
        **known_count("cached_tokens", usage.get(_DEEPSEEK_HELD) if held is None else held),
        **known_count("cache_write_tokens", read.get("cache_write_tokens")),
    }


def _name_in(holder: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of the names that holds something; else the first of all."""
    return next((name for name in names if holder.get(name) is not None), names[0])


def _object_under(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = holder.get(key)
    return inner if isinstance(inner, Mapping) else {}


def known_count(name: str, value: Any) -> JsonObject:
    """`{name: count}`; empty where the backend did not say: unknown is not 0."""
    count = count_of(value)
    return {} if count is None else {name: count}


MILLISECOND_NS = 1_000_000


def durations(prompt: Any, completion: Any, unit_ns: int = 1) -> JsonObject:
    """The backend's own times as `prompt_duration_ns`, `completion_duration_ns`, as far as it told them."""
    told = (("prompt_duration_ns", prompt), ("completion_duration_ns", completion))
    return {
        name: int(value * unit_ns)
        for name, value in told
        if type(value) in (int, float) and 0 < value < MAX_COUNT
    }


def count_of(value: Any) -> int | None:
    """A number of tokens; None for what cannot be one (negative, not finite, beyond all sense, no number)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < MAX_COUNT else None


class ToolCallDeltas:
    """Makes the tool-call deltas of one stream regular.

    Every delta has `index`; the first of a call has `id`, `type` and `function.arguments`, which is text.
    A new `id` under an index that is taken begins a new call with the next free index; so does, where no ids
    are given, another name behind arguments, or the same name and another object behind whole ones. An id
    that comes after its call has begun is not another one.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._index_of: dict[int, int] = {}
        self._id_made: set[int] = set()
        self._arguments: dict[int, list[str]] = {}
        self._named_again: dict[int, str] = {}
        self._last = -1

    def add(self, calls: Any) -> list[JsonObject]:
        """The deltas of one chunk, as new objects; `[]` when `calls` holds none."""
        if not isinstance(calls, list):
            return []
        return [self._delta(call) for call in calls if isinstance(call, Mapping)]

    def unfinished_calls(self) -> tuple[list[int], list[str]]:
        """`(blank, cut)` of the calls so far: indexes of those without arguments, names of those whose
        arguments are no whole JSON object."""
        texts = {index: "".join(self._arguments.get(index, ())) for index in self._ids}
        blank = [index for index, text in texts.items() if not text.strip()]
        cut = [index for index, text in texts.items() if text.strip() and object_of(text) is None]
        return blank, [self._names.get(index, "") for index in cut]

    def _delta(self, call: Mapping[str, Any]) -> JsonObject:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, text = text_of(function.get("name")) or None, arguments_text(function.get("arguments"))
        wire_index, call_id = _wire_index(call.get("index")), _call_id(call.get("id"))
        if name is None and wire_index is not None and self._named_again and _begins_object(text):
            name = self._named_again.get(self._index_of.get(wire_index, -1))
        index, is_new = self._place(wire_index, call_id, name, text)
        delta: JsonObject = {"index": index}
        if is_new:
            delta["id"] = self._ids[index]
            delta["type"] = "function"
        delta.update((key, value) for key, value in call.items() if key not in _OWN_KEYS)
        told: JsonObject = {}
        if name is not None and self._names.get(index) != name:
            self._names[index] = told["name"] = name
        if is_new or "arguments" in function:
            told["arguments"] = text
            if text:
                self._arguments.setdefault(index, []).append(text)
        delta["function"] = told
        return delta

    def _place(
        self, wire_index: int | None, call_id: str | None, name: str | None, text: str
    ) -> tuple[int, bool]:
        """The index of the call that a fragment belongs to, and whether the fragment begins it."""
        index = self._last if wire_index is None else self._index_of.get(wire_index, -1)
        if index < 0:
            begins = True
        elif call_id is None:
            begins = name is not None and (wire_index is None or self._is_another(index, name, text))
        elif self._ids[index] == call_id or (index in self._id_made and name is None):
            begins = False
        else:
            known = next((at for at, taken in self._ids.items() if taken == call_id), None)
            begins, index = known is None, index if known is None else known
        if begins:
            index = self._new_index(wire_index)
            self._ids[index] = call_id or new_call_id()
            if call_id is None:
                self._id_made.add(index)
        if wire_index is not None:
            self._index_of[wire_index] = index
        self._last = index
        return index, begins

    def _is_another(self, index: int, name: str, text: str) -> bool:
        """Whether a fragment without an id is of another call: another name, behind arguments, or the same
        name and the beginning of an object, behind a whole one, which nothing can go on with. Some servers
        write the name into every fragment, so without an object the next fragment tells."""
        pieces = self._arguments.get(index)
        if pieces is None or self._names.get(index, name) != name:
            return pieces is not None
        begins = _begins_object(text)
        if (text.strip() and not begins) or not pieces[-1].rstrip().endswith("}"):
            return False
        if object_of("".join(pieces)) is None:
            return False
        if not begins:
            self._named_again[index] = name
        return begins

    def _new_index(self, wire_index: int | None) -> int:
        if wire_index is not None and 0 <= wire_index <= MAX_INDEX and wire_index not in self._ids:
            return wire_index
        return max(self._ids, default=-1) + 1


def _wire_index(value: Any) -> int | None:
    """The index that a backend gave to a fragment (texts and fractions occur); None for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 5:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _begins_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _call_id(value: Any) -> str | None:
    """The id that a backend gave to a call (numbers occur); None when it gave none."""
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else None


_OWN_KEYS = frozenset(("index", "id", "type", "function"))


def whole_tool_calls(calls: Iterable[Any]) -> list[JsonObject]:
    """Complete calls, as in a whole answer: as the first deltas, without `index`, always with a name."""
    deltas = ToolCallDeltas().add(
        [{**call, "index": at} for at, call in enumerate(calls) if isinstance(call, Mapping)]
    )
    for delta in deltas:
        del delta["index"]
        delta["function"].setdefault("name", "")
    return deltas


# --------------------------------------------------------------------------
# JSON as backends write it: raw control characters in texts; `NaN`, `Infinity` and what no float can
# hold, which are read as null.


_BOM = "\ufeff"


def _finite(digits: str) -> float | None:
    number = float(digits)
    return None if math.isinf(number) else number


DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_float=_finite)


def decode_json(text: str) -> Any:
    """The value of a whole JSON text. Raises ValueError, RecursionError."""
    return DECODER.decode(text.removeprefix(_BOM))

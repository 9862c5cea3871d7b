"""What a model's call of a tool means, what of a result it gets, and when a call only repeats itself.

Pure: calls nothing, logs nothing. Source: spec agents.md 1, 3.5, 3.6 and 3.9.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from Middleware.utilities.model_json import object_of, strict_loads
from Middleware.utilities.text_utils import estimate_message_tokens, estimate_tokens
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.argument_check import Breach, argument_breaches, sentence_of_breach
from Middleware.workflows.agents.entries import fitting_name

QUOTED = 200
"""So many characters of what is wrong, or of an old result, a sentence repeats."""
NAMES_TOLD = 20
FAULTS_TOLD = 5
MOST_REPAIRS = 20
NO_ROOM = "(result left out: no room)"


# --------------------------------------------------------------------------
# Reading a call.


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call that can be made. `name`, `arguments_text`: as they go into the assistant's turn."""

    tool: AgentTool
    arguments: dict[str, Any]
    name: str
    arguments_text: str


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that is not made. `sentence`: its result, with `error: ` in front."""

    sentence: str
    name: str
    arguments_text: str


def read_call(
    tools: Sequence[AgentTool], name: str, arguments: str, *, cut_off_at: int | None = None
) -> ReadCall | RefusedCall:
    """The call that a model means. `arguments`: JSON text as the model wrote it; blank: none.

    `cut_off_at`: the limit in tokens, for the last call of an answer whose finish reason is `length`; None
    for any other call. Calls of the client's tools are not looked at: their arguments are the client's.
    """
    tool = find_tool(tools, name)
    found, text = _object_in(arguments)
    if cut_off_at is not None and (found is None or not arguments.strip()):
        said = f"error: the call was cut off at {cut_off_at} tokens; write less at once"
        return RefusedCall(said, tool.name if tool else fitting_name(name), text)
    if tool is None:
        known = ", ".join(each.name for each in tools[:NAMES_TOLD]) or "none"
        said = f'error: there is no tool "{name[:QUOTED]}"; tools: {known}'
        return RefusedCall(said, fitting_name(name), text)
    if tool.call is None:
        return ReadCall(tool, found or {}, tool.name, arguments)
    if found is None:
        said = f"error: arguments of {tool.name}: no JSON object: {arguments.strip()[:QUOTED]}"
        return RefusedCall(said, tool.name, text)
    fitting, breaches = _repaired(found, tool.parameters)
    if breaches:
        faults = dict.fromkeys(sentence_of_breach(breach) for breach in breaches)
        said = f"error: arguments of {tool.name}: {'; '.join(list(faults)[:FAULTS_TOLD])}"
        return RefusedCall(said, tool.name, text)
    return ReadCall(tool, fitting, tool.name, text)


def find_tool(tools: Sequence[AgentTool], name: str) -> AgentTool | None:
    """The tool that a name means: by itself, or but for case, a leading `functions.` or `<server>.`."""
    named = {tool.name: tool for tool in tools}
    if name in named:
        return named[name]
    bare = name.strip().casefold()
    for wanted in (bare, bare.removeprefix("functions.")):
        if fitting := [tool for tool in tools if wanted in _other_names(tool)]:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _other_names(tool: AgentTool) -> Iterable[str]:
    """What else a tool may be called, in lower case."""
    names = [tool.name]
    if tool.server:
        own = tool.place.removeprefix(f"{tool.server}: ")
        names += [f"{tool.server}.{tool.name}", f"{tool.server}.{own}"]
    return [name.casefold() for name in names]


def _object_in(arguments: str) -> tuple[dict[str, Any] | None, str]:
    """The object that a text is, and the text for the turn, which is that of an object in any case."""
    if not arguments.strip():
        return {}, "{}"
    if (found := object_of(arguments)) is not None:
        return found, arguments
    try:
        value = strict_loads(arguments)
    except (ValueError, RecursionError):
        return None, "{}"
    if value is None:
        return {}, "{}"
    if isinstance(value, str) and (found := object_of(value)) is not None:
        return found, value
    return None, "{}"


def _repaired(arguments: dict[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[Breach]]:
    """The arguments as they fit, and what still does not: a text whose JSON fits is read so, null for what
    may be missing is left out.
    """
    breaches = argument_breaches(arguments, schema)
    for breach in breaches[:MOST_REPAIRS]:
        changed = _repair(arguments, breach)
        if changed is not None and len(left := argument_breaches(changed, schema)) < len(breaches):
            arguments, breaches = changed, left
    return arguments, breaches


def _repair(arguments: dict[str, Any], breach: Breach) -> dict[str, Any] | None:
    """The arguments with one value read another way; None: there is no other way."""
    if not breach.path:
        return None
    *way, last = breach.path
    changed = deepcopy(arguments)
    holder: Any = changed
    for step in way:
        holder = holder[step]
    if holder[last] is None and isinstance(holder, dict):
        del holder[last]
        return changed
    if not isinstance(holder[last], str):
        return None
    try:
        holder[last] = strict_loads(holder[last])
    except (ValueError, RecursionError):
        return None
    return changed


# --------------------------------------------------------------------------
# What the model gets of a result.

_LEAST_TOKENS_A_CHARACTER = 1.1 / 3.5
"""No text is estimated lower (`estimate_tokens`): of a huge one only a part has to be looked at."""


def cut_result(text: str, max_tokens: int) -> str:
    """`text`, or its first three quarters and last quarter when its estimate is over `max_tokens`."""
    if not _is_longer(text, max_tokens):
        return text
    head = _fitting(text, max_tokens * 3 // 4)
    tail = _fitting(text, max_tokens - max_tokens * 3 // 4, from_end=True)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - tail :]}"


def _is_longer(text: str, tokens: int) -> bool:
    return len(text) * _LEAST_TOKENS_A_CHARACTER >= tokens + 2 or estimate_tokens(text) > tokens


def _fitting(text: str, tokens: int, *, from_end: bool = False) -> int:
    """How many characters of the beginning (the end) are worth at most so many tokens."""
    low, high = 0, min(len(text), int((tokens + 2) / _LEAST_TOKENS_A_CHARACTER))
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if from_end else text[:middle]
        low, high = (low, middle - 1) if estimate_tokens(part) > tokens else (middle, high)
    return low


def fit_results(steps: Sequence[Sequence[str]], other_tokens: int, budget: int) -> list[list[str]] | None:
    """The results of all steps, oldest first, so that they fit the window; None: they do as they are.

    Those of the oldest steps are left out until a quarter of `budget` is free, never those of the newest; if
    those alone are too big they share what is left. `other_tokens`: estimate of the prompt without results.
    """
    costs = [[estimate_message_tokens(result) for result in step] for step in steps]
    total = other_tokens + sum(map(sum, costs))
    if total <= budget or not steps:
        return None
    fitted = [list(step) for step in steps]
    placeholder = estimate_message_tokens(NO_ROOM)
    for index, step in enumerate(fitted[:-1]):
        if total <= budget * 3 // 4:
            break
        total -= sum(cost - placeholder for cost in costs[index] if cost > placeholder)
        fitted[index] = [
            NO_ROOM if cost > placeholder else result for result, cost in zip(step, costs[index], strict=True)
        ]
    if total > budget:
        shares = _shares(costs[-1], budget - (total - sum(costs[-1])))
        fitted[-1] = [cut_result(result, share) for result, share in zip(fitted[-1], shares, strict=True)]
    return fitted


def _shares(costs: Sequence[int], room: int) -> list[int]:
    """What each may take of the room: what it needs, or as much as every other that needs more."""
    shares = [0] * len(costs)
    left = max(0, room)
    by_need = sorted(range(len(costs)), key=costs.__getitem__)
    for position, index in enumerate(by_need):
        shares[index] = min(costs[index], left // (len(costs) - position))
        left -= shares[index]
    return shares


# --------------------------------------------------------------------------
# Repeats.


@dataclass(slots=True)
class _Making:
    number: int
    result: str
    digest: bytes


class Repeats:
    """The calls that a loop has made. Not for several threads at once."""

    def __init__(self) -> None:
        self._makings: dict[str, tuple[_Making | None, _Making]] = {}
        self._count = 0
        self._newest_first = 0
        """Number of the newest call that had not been made before."""

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """The result that stands for a call which would only repeat itself; None: it may be made.

        Its last two makings gave the same result, and since the first of them no other call was new.
        """
        before, last = self._makings.get(_key(name, arguments), (None, None))
        if before is None or last is None or before.digest != last.digest:
            return None
        if self._newest_first > before.number:
            return None
        return f"error: this call was made twice with the same result: {last.result}"

    def note(self, name: str, arguments: Mapping[str, Any], result: str) -> None:
        """A call was made and gave `result` (failures too); in the order of the calls."""
        self._count += 1
        key = _key(name, arguments)
        digest = hashlib.sha256(result.encode("utf-8", "surrogatepass")).digest()
        making = _Making(self._count, result[:QUOTED], digest)
        if key not in self._makings:
            self._newest_first = self._count
        self._makings[key] = (self._makings[key][1] if key in self._makings else None, making)


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([name, arguments], sort_keys=True, ensure_ascii=True)
